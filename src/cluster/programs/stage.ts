import { createHash, randomBytes } from 'node:crypto';
import { pipeline, type Readable, Transform } from 'node:stream';
import * as tar from 'tar-stream';
import type { Places } from '../../chain/layout.ts';
import { filesOf, type StagedFile } from '../../chain/task.ts';
import type { Experiment } from '../../experiment/experiment.ts';
import { type Code, TreeListing } from '../../repo/code.ts';
import type { AnswerTable } from '../answers.ts';
import type { Login } from '../login.ts';
import { RUNTIME } from '../runtime.ts';
import { call, FRAME_ANSWERS, type Program, runChecked } from '../shell.ts';

/** The batch script of every job. */
export const JOB_SCRIPT = [
  '#!/bin/bash\n',
  RUNTIME.trust,
  RUNTIME.lock,
  RUNTIME.layout,
  RUNTIME['job-name'],
  RUNTIME.ledger,
  RUNTIME.checkpoints,
  RUNTIME.journal,
  RUNTIME.job,
].join('');

const ANSWERS = { ...FRAME_ANSWERS, damaged: [] } as const satisfies AnswerTable;

export const STAGE: Program<typeof ANSWERS> = { parts: ['layout', 'stage'], answers: ANSWERS };

/**
 * Streams the commit's code into `code/{commit}`.
 * @param onProgress called with the number of bytes sent so far
 * @param replace moves a copy that is there aside
 */
export async function stageCode(
  login: Login,
  places: Places,
  code: Code,
  onProgress: (sent: number) => void,
  { replace = false }: { readonly replace?: boolean } = {},
): Promise<void> {
  let sent = 0;
  const counted = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      sent += chunk.length;
      onProgress(sent);
      done(null, chunk);
    },
  });
  // pipeline ends both when one of them ends early. Otherwise git would wait for ever for a reader.
  pipeline(code.open(), counted, () => {});
  await runChecked(login, STAGE, {
    purpose: 'staging the code',
    calls: [call('stage_code', places.workdir, code.name, code.digest, nonce(), String(replace))],
    data: counted,
    deadlineSeconds: 3600,
  });
}

/**
 * Stages configs and run script in `experiments/{EXPERIMENT_ID}`, with a copy of the code.
 * @returns `damaged` when the staged code was changed or purged since it was sent
 */
export async function stageExperiment(login: Login, places: Places, experiment: Experiment, code: Code): Promise<'staged' | 'damaged'> {
  const files = filesOf(experiment, places.savePath);
  const answers = await runChecked(login, STAGE, {
    purpose: 'staging the experiment',
    calls: [call('stage_experiment', places.workdir, code.name, code.digest, experiment.id, digestOf(files), nonce(), places.savePath)],
    data: packed(files),
    deadlineSeconds: 1800,
  });
  return answers.has('damaged') ? 'damaged' : 'staged';
}

/** SHA-256 of the listing of these files. The cluster computes the same from the files that arrived. */
export function digestOf(files: readonly StagedFile[]): string {
  const listing = new TreeListing();
  for (const { path, content } of files) listing.addFile(path, createHash('sha256').update(content).digest('hex'), false);
  return listing.digest();
}

function packed(files: readonly StagedFile[]): Readable {
  const pack = tar.pack();
  for (const { path, content } of files) pack.entry({ name: path, mode: 0o644, mtime: new Date(0) }, content);
  pack.finalize();
  return pack as unknown as Readable;
}

function nonce(): string {
  return randomBytes(8).toString('hex');
}
