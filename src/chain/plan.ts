import type { Experiment } from '../experiment/experiment.ts';
import { formatJobName, launchPrefix } from './job-name.ts';
import { experimentFiles, type Places } from './layout.ts';

/** One sbatch call. */
export interface Submission {
  /** Position in the chain, from 1, counted on over launches. */
  readonly jobNumber: number;
  /** undefined for an array over all cells. */
  readonly cell: number | undefined;
  /** Index of the submission whose job it waits for; `tail` for the last jobs of the chain that is in the queue. */
  readonly after: number | 'tail' | undefined;
  /** The job name, by which squeue and sacct find the job. */
  readonly tag: string;
  /** Variables that go into sbatch's environment, and from there into the job. */
  readonly environment: Readonly<Record<string, string>>;
  /** sbatch's arguments, without --parsable and the script. `@` in --dependency stands for the job that it waits for. */
  readonly arguments: readonly string[];
}

/** The sbatch calls of one launch. */
export interface Plan {
  readonly launch: number;
  /** What the names of all its jobs start with. */
  readonly tag: string;
  readonly submissions: readonly Submission[];
}

/** A job of a chain that is in the queue. */
export interface QueuedJob {
  /** Position in the chain, from 1. */
  readonly jobNumber: number;
  /** undefined for an array over all cells. */
  readonly cell: number | undefined;
  /** Slurm's id. */
  readonly jobId: string;
  /** Ids of the jobs that it waits for. */
  readonly after: readonly string[];
  /** Slurm's state, as far as the submission saw it. */
  readonly state: string;
}

/** What tells one launch of an experiment from another. */
export interface LaunchName {
  /** Counts from 1 over the life of the experiment. */
  readonly launch: number;
  /** Number of its first job in the chain, from 1. */
  readonly firstJob: number;
  /** Lowercase hex that no other launch has. */
  readonly nonce: string;
}

const FIRST_LAUNCH: LaunchName = { launch: 1, firstJob: 1, nonce: '0' };

/**
 * The chain as sbatch calls: N arrays of M tasks. Each array waits for the one before with afterany, because a job that hits
 * its time limit counts as failed and must not break the chain. All jobs are held until the whole chain is on record.
 *
 * With `scope: cell` the first job is one array, and each later job is one array of a single task for each cell. It waits for
 * that cell's task alone, so a slow cell delays no other cell. That takes 1 + M × (N - 1) calls.
 * @param behindTail the first job waits for the end of the chain that is in the queue; with `scope: cell` each cell for its own
 */
export function planOf(experiment: Experiment, places: Places, name: LaunchName = FIRST_LAUNCH, behindTail = false): Plan {
  const { settings, cells } = experiment;
  const { firstJob } = name;
  const array = arrayOf(cells.length, settings.maxConcurrentJobs);
  const submissions: Submission[] = [];
  const add = (jobNumber: number, indexes: string, after: Submission['after'], cell: number | undefined) =>
    submissions.push(submissionOf({ experiment, places, name, jobNumber, array: indexes, after, cell }));
  for (let jobNumber = firstJob; jobNumber < firstJob + settings.chain.nJobs; jobNumber += 1) {
    const isFirst = jobNumber === firstJob;
    if (settings.chain.scope === 'array' || (isFirst && !behindTail)) {
      add(jobNumber, array, isFirst ? (behindTail ? 'tail' : undefined) : submissions.length - 1, undefined);
      continue;
    }
    const firstOfPrevious = submissions.length - cells.length;
    for (const { number } of cells) {
      // The first job of a new chain is one array over all cells, so every cell waits for that one.
      const after = isFirst ? 'tail' : jobNumber === firstJob + 1 && !behindTail ? 0 : firstOfPrevious + number;
      add(jobNumber, String(number), after, number);
    }
  }
  return { launch: name.launch, tag: launchPrefix(experiment.id, name.launch, name.nonce), submissions };
}

function submissionOf({
  experiment,
  places,
  name,
  jobNumber,
  array,
  after,
  cell,
}: {
  readonly experiment: Experiment;
  readonly places: Places;
  readonly name: LaunchName;
  readonly jobNumber: number;
  readonly array: string;
  readonly after: Submission['after'];
  readonly cell: number | undefined;
}): Submission {
  const { settings } = experiment;
  const { chain } = settings;
  const files = experimentFiles(places.workdir, experiment.id);
  const tag = formatJobName({ experimentId: experiment.id, launch: name.launch, nonce: name.nonce, jobNumber, cell });
  const dependency = cell === undefined ? 'afterany:@' : `afterany:@_${cell}`;
  return {
    jobNumber,
    cell,
    after,
    tag,
    environment: {
      EXPERIMENT_ID: experiment.id,
      EXPERIMENT_DIR: files.directory,
      EXPERIMENT_COMMIT: experiment.commit,
      CHAIN_STEP: String(jobNumber),
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
      // sbatch replaces patterns that start with %, so a % in the path is doubled (sbatch(1), FILENAME PATTERN).
      `--output=${files.logs.replaceAll('%', '%%')}/${jobNumber}_%A_%a.out`,
      '--open-mode=append',
      `--chdir=${files.code}`,
      ...(chain.warnBefore > 0 ? [`--signal=B:${chain.warnSignal}@${chain.warnBefore}`] : []),
      '--export=ALL',
      '--hold',
      ...(after === undefined ? [] : [`--dependency=${dependency}`]),
      `--array=${array}`,
    ],
  };
}

/** `0-7%4`: cells 0 to 7, four at a time. */
function arrayOf(cells: number, atATime: number | undefined): string {
  const throttle = atATime !== undefined && atATime < cells ? `%${atATime}` : '';
  return `0-${cells - 1}${throttle}`;
}

/** The experiment's own sbatch options. The job name is ours, because we find jobs by it. */
function resourceArguments(experiment: Experiment): string[] {
  return [...experiment.settings.slurm]
    .filter(([name]) => name !== 'job-name')
    .map(([name, value]) => (value === true ? `--${name}` : `--${name}=${value}`));
}

/** The options of the whole array, for `sbatch --test-only` before anything is staged. */
export function testArguments(experiment: Experiment): string[] {
  return [...resourceArguments(experiment), `--array=${arrayOf(experiment.cells.length, experiment.settings.maxConcurrentJobs)}`];
}
