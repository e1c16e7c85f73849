import { gpuHours } from '../chain/cost.ts';
import type { Launcher, Manifest } from '../chain/manifest.ts';
import { experimentDirectory, type Plan } from '../chain/plan.ts';
import type { Credentials } from '../cluster/connection.ts';
import type { Experiment } from '../experiment/experiment.ts';
import type { Code } from '../repo/code.ts';
import type { Repo } from '../repo/git.ts';
import { count } from '../report/markdown.ts';
import type { Report } from '../report/report.ts';

/** What every command gets: an experiment, who asks, and what it takes to reach its cluster. */
export interface Order {
  readonly repo: Repo;
  readonly experiment: Experiment;
  readonly launcher: Launcher;
  /** undefined where no key was given. */
  readonly credentials: Credentials | undefined;
  /** NAME=value for the jobs that nobody else may read. */
  readonly secrets: ReadonlyMap<string, string>;
  /** Says what is going on, one line at a time. */
  readonly progress: (line: string) => void;
  /** Aborted when the runner wants us to stop. */
  readonly signal: AbortSignal;
}

/** What a report says of an experiment whatever the command was. */
export function reportBasis(manifest: Manifest): Omit<Report, 'command' | 'state' | 'notes' | 'jobs' | 'commands' | 'submissions'> {
  const [first] = manifest.launches;
  const steps = Math.max(0, ...manifest.launches.flatMap((launch) => launch.steps));
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
    jobCount: steps,
    gpuHours: gpuHours(new Map(manifest.slurm), manifest.cells.length, steps),
    places: { experiment: experimentDirectory({ workdir: manifest.workdir, savePath: '' }, manifest.id), checkpoints: manifest.save },
    wandb: manifest.wandb ?? undefined,
    launcher: {
      actor: first?.actor ?? '',
      runUrl: first?.runUrl ?? '',
      repository: manifest.repository,
      at: first?.at ?? '',
      pullRequest: first?.pullRequest,
    },
    later: manifest.launches.slice(1),
    pullRequests: manifest.pullRequests,
  };
}

/** The exact calls, for a report. */
export function submissionsOf(plan: Plan): Report['submissions'] {
  return plan.submissions.map(({ jobNumber, cell, environment, arguments: args }) => ({ jobNumber, cell, environment, arguments: args }));
}

/** What a person should know about the code that goes to the cluster. */
export function notesOnCode(code: Code): string[] {
  const some = (paths: readonly string[]) => `${paths.slice(0, 3).join(', ')}${paths.length > 3 ? ', …' : ''}`;
  return [
    ...(code.submodules.length > 0
      ? [
          `${count(code.submodules.length, 'submodule')} of the commit (${some(code.submodules)}) will be empty on the cluster: git archive does not hold them.`,
        ]
      : []),
    ...(code.lfsPointers.length > 0
      ? [
          `${count(code.lfsPointers.length, 'file')} of the commit (${some(code.lfsPointers)}) are Git LFS pointers, not their content. Fetch such data in setup: or keep it on the cluster.`,
        ]
      : []),
  ];
}

/** What a person should know about settings: those without effect, and those that change what the report promises. */
export function notesOnSettings(experiment: Experiment, secrets: ReadonlyMap<string, string>): string[] {
  const { slurm, env, chain } = experiment.settings;
  const mode = secrets.get('WANDB_MODE') ?? env.get('WANDB_MODE');
  return [
    ...(slurm.has('job-name')
      ? ['slurm.job-name is not used: a job is named after its experiment, launch and step, and is found by that name.']
      : []),
    ...(experiment.cells.some((cell) => cell.nSteps === undefined)
      ? ['n_steps is not set, so a step knows that training is complete only from a file COMPLETE in its CHECKPOINT_DIR.']
      : []),
    ...(mode === 'offline'
      ? [
          `W&B is offline: every step leaves a folder offline-run-*-${experiment.id}-{cell} of its own, ${experiment.cells.length} × ${chain.nJobs} in all, and the run is whole once they are synced in the order they were made: wandb sync wandb/offline-run-*`,
        ]
      : []),
  ];
}
