import type { Code } from '../experiment/code.ts';
import type { Experiment } from '../experiment/experiment.ts';
import type { Places, Plan } from './plan.ts';

/** Who asked for a launch, and from where. */
export interface Launcher {
  readonly actor: string;
  /** Address of the workflow run; empty where there is none. */
  readonly runUrl: string;
  /** `owner/name` */
  readonly repository: string;
  readonly pullRequest: number | undefined;
  /** ISO 8601, UTC. */
  readonly at: string;
}

/** One request that put steps in the queue. */
export interface LaunchRecord extends Launcher {
  readonly launch: number;
  readonly steps: readonly number[];
  readonly slurm: string;
  /** Names of SBATCH_* variables the account had set. */
  readonly sbatchVariables: readonly string[];
  readonly jobScript: string;
  /** sbatch's exact arguments, one list per submission. */
  readonly sbatch: readonly (readonly string[])[];
}

/** The record of what was launched; in the experiment's directory and beside the checkpoints. */
export interface Manifest {
  readonly version: 1;
  readonly id: string;
  readonly name: string;
  readonly commit: string;
  readonly path: string;
  readonly overrides: readonly string[];
  readonly cluster: string;
  readonly workdir: string;
  readonly save: string;
  readonly code: {
    readonly name: string;
    readonly digest: string;
    readonly submodules: readonly string[];
    readonly lfsPointers: readonly string[];
  };
  readonly cells: readonly { readonly cell: number; readonly choices: Readonly<Record<string, string>>; readonly nSteps: number | null }[];
  readonly launches: readonly LaunchRecord[];
}

/** The manifest with one more launch in it. */
export function manifestOf(
  experiment: Experiment,
  code: Code,
  places: Places,
  plan: Plan,
  launch: Pick<LaunchRecord, keyof Launcher | 'slurm' | 'sbatchVariables' | 'jobScript'>,
  earlier: readonly LaunchRecord[],
): Manifest {
  return {
    version: 1,
    id: experiment.id,
    name: experiment.name,
    commit: experiment.commit,
    path: experiment.path,
    overrides: experiment.overrides.map((override) => `${override.path}=${override.value}`),
    cluster: experiment.cluster?.name ?? '',
    workdir: places.workdir,
    save: `${places.save}/${experiment.id}`,
    code: { name: code.name, digest: code.digest, submodules: code.submodules, lfsPointers: code.lfsPointers },
    cells: experiment.cells.map((cell) => ({
      cell: cell.number,
      choices: Object.fromEntries(cell.choices),
      nSteps: cell.nSteps ?? null,
    })),
    launches: [
      ...earlier,
      {
        ...launch,
        launch: plan.launch,
        steps: [...new Set(plan.submissions.map((submission) => submission.step))],
        sbatch: plan.submissions.map((submission) => submission.arguments),
      },
    ],
  };
}

/** The launches an earlier manifest names; none when the text is not a manifest of this experiment. */
export function launchesIn(text: string | undefined, id: string): readonly LaunchRecord[] {
  const manifest = parsed(text);
  return manifest?.id === id && Array.isArray(manifest.launches) ? manifest.launches : [];
}

/** The experiment file an earlier manifest names. */
export function pathIn(text: string | undefined): string | undefined {
  return parsed(text)?.path;
}

function parsed(text: string | undefined): Partial<Manifest> | undefined {
  if (text === undefined) return undefined;
  try {
    const value = JSON.parse(text) as Partial<Manifest>;
    return value.version === 1 ? value : undefined;
  } catch {
    return undefined;
  }
}
