import type { Experiment } from '../experiment/experiment.ts';

/** One sbatch call. */
export interface Submission {
  /** 1-based step of the chain, counted on over launches. */
  readonly jobNumber: number;
  /** undefined: one array over all cells. */
  readonly cell: number | undefined;
  /** Index of the submission whose job it waits for; tail: the last jobs of the chain that is there. */
  readonly after: number | 'tail' | undefined;
  /** Job name and lookup key. */
  readonly tag: string;
  /** What sbatch's environment carries into the job beside the account's own. */
  readonly environment: Readonly<Record<string, string>>;
  /** sbatch's arguments but for --parsable and the script; `@` in --dependency stands for what it waits for. */
  readonly arguments: readonly string[];
}

/** What a launch is going to submit. */
export interface Plan {
  readonly launch: number;
  /** What every tag of the launch begins with. */
  readonly tag: string;
  readonly submissions: readonly Submission[];
}

/** Where things are on the cluster, expanded. */
export interface Places {
  readonly workdir: string;
  /** `{save.path}`, without the EXPERIMENT_ID. */
  readonly savePath: string;
}

export function experimentDirectory(places: Places, id: string): string {
  return `${places.workdir}/experiments/${id}`;
}

/** What tells one launch from another. */
export interface LaunchName {
  /** Counts from 1 over the life of the experiment. */
  readonly launch: number;
  /** The step it starts at, from 1. */
  readonly firstJob: number;
  /** Letters and digits nobody else has, so that a launch never takes the jobs of another for its own. */
  readonly nonce: string;
}

const NEW: LaunchName = { launch: 1, firstJob: 1, nonce: '0' };

/**
 * The chain as sbatch calls: N arrays of M tasks, each behind the one before with afterany, because a job that reached its
 * time limit counts as failed and must not break the chain; all of them held until the whole chain is on record.
 *
 * In `cell` scope the first step is one array and each later step is one array of a single task for each cell, behind that
 * cell's task alone, so that a slow cell holds back nobody: 1 + M × (N - 1) calls.
 * @param behindTail the first step waits for the end of the chain that is there, each cell for its own in `cell` scope
 */
export function planOf(experiment: Experiment, places: Places, name: LaunchName = NEW, behindTail = false): Plan {
  const { settings, cells } = experiment;
  const { firstJob } = name;
  const all = arrayOf(cells.length, settings.maxConcurrentJobs);
  const submissions: Submission[] = [];
  for (let step = firstJob; step < firstJob + settings.chain.nJobs; step += 1) {
    const first = step === firstJob;
    if (settings.chain.scope === 'array' || (first && !behindTail)) {
      const after = first ? (behindTail ? 'tail' : undefined) : submissions.length - 1;
      submissions.push(submissionOf(experiment, places, name, step, all, after, undefined));
      continue;
    }
    const before = submissions.length - cells.length;
    for (const { number } of cells) {
      // The step before is one array when it is the first of a new chain.
      const after = first ? 'tail' : step === firstJob + 1 && !behindTail ? 0 : before + number;
      submissions.push(submissionOf(experiment, places, name, step, String(number), after, number));
    }
  }
  return { launch: name.launch, tag: launchTag(experiment.id, name), submissions };
}

/** Jobs are found by their name: it starts with the id, so that one look finds all of an experiment. */
function launchTag(id: string, { launch, nonce }: LaunchName): string {
  return `${id}.l${launch}-${nonce}`;
}

function submissionOf(
  experiment: Experiment,
  places: Places,
  name: LaunchName,
  step: number,
  array: string,
  after: Submission['after'],
  cell: number | undefined,
): Submission {
  const { settings } = experiment;
  const { chain } = settings;
  const directory = experimentDirectory(places, experiment.id);
  const tag = `${launchTag(experiment.id, name)}.s${step}${cell === undefined ? '' : `.c${cell}`}`;
  const dependency = cell === undefined ? 'afterany:@' : `afterany:@_${cell}`;
  return {
    jobNumber: step,
    cell,
    after,
    tag,
    environment: {
      EXPERIMENT_ID: experiment.id,
      EXPERIMENT_DIR: directory,
      EXPERIMENT_COMMIT: experiment.commit,
      CHAIN_STEP: String(step),
      CHAIN_LENGTH: String(name.firstJob - 1 + chain.nJobs),
      CHAIN_LAUNCH: String(name.launch),
      CHAIN_STOP_AFTER: String(chain.stopAfterFailures),
      CHAIN_CANCEL_WHEN_DONE: String(chain.cancelWhenDone),
      CHAIN_WARN_SIGNAL: chain.warnBefore > 0 ? chain.warnSignal : '',
    },
    arguments: [
      ...resourceArguments(experiment),
      `--job-name=${tag}`,
      ...(settings.slurm.has('comment') ? [] : [`--comment=${tag}`]),
      // A % in the path is doubled, because sbatch replaces patterns in it (sbatch(1), FILENAME PATTERN).
      `--output=${directory.replaceAll('%', '%%')}/logs/${step}_%A_%a.out`,
      '--open-mode=append',
      `--chdir=${directory}/code`,
      ...(chain.warnBefore > 0 ? [`--signal=B:${chain.warnSignal}@${chain.warnBefore}`] : []),
      '--export=ALL',
      '--hold',
      ...(after === undefined ? [] : [`--dependency=${dependency}`]),
      `--array=${array}`,
    ],
  };
}

/** `0-7%4`. */
function arrayOf(cells: number, atATime: number | undefined): string {
  const throttle = atATime !== undefined && atATime < cells ? `%${atATime}` : '';
  return `0-${cells - 1}${throttle}`;
}

/** The experiment's own options, as they also go to `sbatch --test-only`. The jobs' name is the launcher's. */
export function resourceArguments(experiment: Experiment): string[] {
  return [...experiment.settings.slurm]
    .filter(([name]) => name !== 'job-name')
    .map(([name, value]) => (value === true ? `--${name}` : `--${name}=${value}`));
}

/** The options of the whole array, for `sbatch --test-only` before anything is staged. */
export function testArguments(experiment: Experiment): string[] {
  return [...resourceArguments(experiment), `--array=${arrayOf(experiment.cells.length, experiment.settings.maxConcurrentJobs)}`];
}
