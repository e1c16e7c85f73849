import { Problem } from '../../base/problem.ts';
import type { Places } from '../../chain/layout.ts';
import type { Login } from '../../cluster/login.ts';
import { stageCode, stageExperiment } from '../../cluster/programs/stage.ts';
import type { Experiment } from '../../experiment/experiment.ts';
import type { Code } from '../../repo/code.ts';
import { shortId } from '../../repo/commit-id.ts';

/**
 * Makes sure that code and experiment are on the cluster, verified.
 * @param codeStaged whether the code is there already
 * @throws Problem when the copy of the code keeps changing
 */
export async function ensureStaged(
  login: Login,
  {
    places,
    experiment,
    code,
    codeStaged,
  }: {
    readonly places: Places;
    readonly experiment: Experiment;
    readonly code: Code;
    readonly codeStaged: boolean;
  },
  progress: (line: string) => void,
): Promise<void> {
  if (!codeStaged) {
    progress(`sending the code of ${shortId(experiment.commit)}: ${code.files} files, ${megabytes(code.bytes)}`);
    await stageCode(login, places, code, uploadProgress(code.bytes, progress));
  }
  progress(`staging ${experiment.id}`);
  if ((await stageExperiment(login, places, experiment, code)) === 'staged') return;
  progress('the code on the cluster was changed or purged since it was staged; sending it again, and keeping the old copy aside');
  await stageCode(login, places, code, uploadProgress(code.bytes, progress), { replace: true });
  if ((await stageExperiment(login, places, experiment, code)) === 'damaged') {
    throw new Problem(
      `the code on ${login.cluster.name} keeps changing under ${places.workdir}/code. Find out what writes to it, and launch again. Nothing was submitted`,
    );
  }
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Reports an upload at every tenth of it that is a megabyte or more. */
export function uploadProgress(total: number, progress: (line: string) => void): (sent: number) => void {
  const stride = Math.max(total / 10, 1e6);
  let next = stride;
  return (sent) => {
    if (sent < next || sent >= total) return;
    progress(`sent ${megabytes(sent)} of ${megabytes(total)}`);
    next = sent + stride;
  };
}
