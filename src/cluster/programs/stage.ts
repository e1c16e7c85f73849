import { createHash, randomBytes } from 'node:crypto';
import { pipeline, type Readable, Transform } from 'node:stream';
import * as tar from 'tar-stream';
import type { Places } from '../../chain/plan.ts';
import { filesOf, type StagedFile } from '../../chain/task.ts';
import type { Experiment } from '../../experiment/experiment.ts';
import type { Cluster } from '../../experiment/repo-config.ts';
import { type Code, TreeListing } from '../../repo/code.ts';
import type { Connection } from '../connection.ts';
import { RUNTIME } from '../runtime.ts';
import { call, runChecked } from '../shell.ts';

/** The batch script as it is staged. */
export const JOB_SCRIPT = ['#!/bin/bash\n', RUNTIME.lock, RUNTIME.checkpoints, RUNTIME.journal, RUNTIME.job].join('');

/**
 * Streams the commit's code into `code/{commit}`.
 * @param onProgress bytes sent so far
 * @param replace puts a copy that is there aside
 */
export async function stageCode(
  connection: Connection,
  cluster: Cluster,
  places: Places,
  code: Code,
  onProgress: (sent: number) => void,
  replace = false,
): Promise<void> {
  let sent = 0;
  const counted = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      sent += chunk.length;
      onProgress(sent);
      done(null, chunk);
    },
  });
  // Ends both when either ends early, or git would wait for ever for somebody to read on.
  pipeline(code.open(), counted, () => {});
  await runChecked(connection, {
    purpose: 'staging the code',
    parts: ['stage'],
    prelude: cluster.prelude,
    calls: [call('stage_code', places.workdir, code.name, code.digest, nonce(), String(replace))],
    data: counted,
    deadlineSeconds: 3600,
  });
}

/**
 * Puts configs and run script into `experiments/{EXPERIMENT_ID}` with a copy of the code.
 * @returns damaged when the staged code is no longer what was sent
 */
export async function stageExperiment(
  connection: Connection,
  cluster: Cluster,
  places: Places,
  experiment: Experiment,
  code: Code,
): Promise<'staged' | 'damaged'> {
  const files = filesOf(experiment, places.savePath);
  const answers = await runChecked(connection, {
    purpose: 'staging the experiment',
    parts: ['stage'],
    prelude: cluster.prelude,
    calls: [call('stage_experiment', places.workdir, code.name, code.digest, experiment.id, digestOf(files), nonce(), places.savePath)],
    data: packed(files),
    deadlineSeconds: 1800,
  });
  return answers.some((answer) => answer.key === 'damaged') ? 'damaged' : 'staged';
}

/** SHA-256 of the listing of these files; the cluster computes the same from what arrived. */
export function digestOf(files: readonly StagedFile[]): string {
  const listing = new TreeListing();
  for (const file of files) {
    listing.addFile(file.path, createHash('sha256').update(file.content).digest('hex'), file.executable === true);
  }
  return listing.digest();
}

function packed(files: readonly StagedFile[]): Readable {
  const pack = tar.pack();
  for (const file of files) pack.entry({ name: file.path, mode: file.executable ? 0o755 : 0o644, mtime: new Date(0) }, file.content);
  pack.finalize();
  return pack as unknown as Readable;
}

function nonce(): string {
  return randomBytes(8).toString('hex');
}
