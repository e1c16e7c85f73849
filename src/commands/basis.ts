import { greatest } from '../base/numbers.ts';
import { count, some } from '../base/text.ts';
import { gpuHours } from '../chain/cost.ts';
import { experimentFiles } from '../chain/layout.ts';
import type { Manifest } from '../chain/manifest.ts';
import type { Plan } from '../chain/plan.ts';
import type { Experiment } from '../experiment/experiment.ts';
import type { Code } from '../repo/code.ts';
import type { Report } from '../report/report.ts';

/** What every report says about an experiment, whatever the command. */
export function reportBasis(manifest: Manifest): Omit<Report, 'command' | 'state' | 'notes' | 'jobs' | 'commands' | 'submissions'> {
  const [first] = manifest.launches;
  const jobCount = greatest(manifest.launches.flatMap((launch) => launch.steps));
  return {
    id: manifest.id,
    name: manifest.name,
    commit: manifest.commit,
    subject: manifest.subject,
    path: manifest.path,
    overrides: [...manifest.overrides, ...manifest.chain],
    cluster: manifest.cluster || undefined,
    slurm: manifest.slurm,
    cells: manifest.cells.map(({ cell, choices, nSteps }) => ({ number: cell, choices, nSteps: nSteps ?? undefined })),
    jobCount,
    gpuHours: gpuHours(new Map(manifest.slurm), manifest.cells.length, jobCount),
    places: { experiment: experimentFiles(manifest.workdir, manifest.id).directory, checkpoints: manifest.save },
    wandb: manifest.wandb ?? undefined,
    launcher: {
      actor: first?.actor ?? '',
      runUrl: first?.runUrl ?? '',
      repository: manifest.repository,
      at: first?.at ?? '',
      pullRequest: first?.pullRequest,
    },
    later: manifest.launches.slice(1).map(({ actor, runUrl, at, command, steps }) => ({ actor, runUrl, at, command, jobNumbers: steps })),
    pullRequests: manifest.pullRequests,
  };
}

/** The exact sbatch calls. */
export function submissionsOf(plan: Plan): Report['submissions'] {
  return plan.submissions.map(({ jobNumber, cell, environment, arguments: args }) => ({ jobNumber, cell, environment, arguments: args }));
}

/** What a person should know about the code that goes to the cluster. */
export function notesOnCode(code: Code): string[] {
  const { submodules, lfsPointers } = code;
  return [
    ...(submodules.length > 0
      ? [
          `${count(submodules.length, 'submodule')} of the commit (${some(submodules, 3)}) will be empty on the cluster, because git archive leaves submodules out.`,
        ]
      : []),
    ...(lfsPointers.length > 0
      ? [
          `${count(lfsPointers.length, 'file')} of the commit (${some(lfsPointers, 3)}) ${lfsPointers.length === 1 ? 'is a Git LFS pointer' : 'are Git LFS pointers'} without the content. Fetch such data in setup, or keep it on the cluster.`,
        ]
      : []),
  ];
}

/** What a person should know about settings: likely typos, settings without effect, and those that change what the report promises. */
export function notesOnSettings(experiment: Experiment, secrets: ReadonlyMap<string, string>): string[] {
  const { slurm, env, chain } = experiment.settings;
  const mode = secrets.get('WANDB_MODE') ?? env.get('WANDB_MODE');
  return [
    ...experiment.warnings,
    ...(slurm.has('job-name')
      ? ['slurm.job-name has no effect: a job is named after its experiment, launch and number, because it is found by that name.']
      : []),
    ...(experiment.cells.some((cell) => cell.nSteps === undefined)
      ? ['n_steps is not set, so training counts as complete only when there is a file COMPLETE in CHECKPOINT_DIR.']
      : []),
    ...(mode === 'offline'
      ? [
          `W&B is offline: every task leaves a folder offline-run-*-${experiment.id}-{cell}, ${experiment.cells.length} × ${chain.nJobs} in all. Sync them in the order in which they were made: wandb sync wandb/offline-run-*`,
        ]
      : []),
  ];
}
