import { greatest } from '../base/numbers.ts';
import { secondsOfTime } from './cost.ts';
import type { JournalLine, StartLine } from './journal.ts';
import { logName } from './layout.ts';
import type { Manifest } from './manifest.ts';
import type { SlurmRows } from './slurm-rows.ts';
import { type Cancellation, isAlive, isFailure, isUnderWay, rowsOfArray, type TaskState, taskState } from './state.ts';

/** A job of the chain that was released, according to the ledger. */
export interface ReleasedJob {
  readonly jobNumber: number;
  /** undefined for an array over all cells. */
  readonly cell: number | undefined;
  readonly jobId: string;
  /** Ids of the jobs that it waits for. */
  readonly after: readonly string[];
  /** Its job name. */
  readonly tag: string;
}

export interface JobStatus extends Omit<ReleasedJob, 'tag'> {
  /** How many tasks are in which state. Of tasks that run, node and start are left out. */
  readonly tasks: readonly { readonly state: TaskState; readonly count: number }[];
  readonly alive: boolean;
}

export interface CellStatus {
  readonly number: number;
  /** Name of the newest complete checkpoint. */
  readonly newest: string | undefined;
  /** Training steps. */
  readonly stepsDone: number;
  readonly nSteps: number | undefined;
  readonly complete: boolean;
  /** The task that says most about the cell: the one that runs, else the one that failed, else the next or the last one. */
  readonly current: { readonly jobNumber: number; readonly state: TaskState } | undefined;
  /** `current` failed, and after it the stop rule ended the later jobs. */
  readonly stoppedLater: boolean;
  readonly failed: boolean;
  /** Name of the log to read: of the last task that failed, else of the last one that ran. */
  readonly log: string | undefined;
  /** Seconds of training that are left at the pace of the last task; undefined without a pace. */
  readonly secondsLeft: number | undefined;
  /** How many more jobs it needs at that pace than are in the queue; undefined without a pace or a time limit. */
  readonly jobsShort: number | undefined;
}

/** What a chain is doing. Plain JSON. */
export interface ChainStatus {
  /**
   * running: a task runs. waiting: the next one waits. complete: every cell is complete. ended: nothing is in the queue, and
   * training is not complete. failed: ended, and the last task of a cell failed. unknown: squeue did not answer.
   */
  readonly state: 'running' | 'waiting' | 'complete' | 'ended' | 'failed' | 'unknown';
  /** Numbers of the first and the last job that run; undefined when none does. */
  readonly running: { readonly first: number; readonly last: number } | undefined;
  /** The task that comes next, when none runs. */
  readonly next: { readonly jobNumber: number; readonly state: TaskState } | undefined;
  /** Seconds since 1970, by the cluster's clock. */
  readonly at: number;
  readonly jobs: readonly JobStatus[];
  readonly cells: readonly CellStatus[];
  /** The number of the last job that was queued. */
  readonly lastJob: number;
  /** The number of the last job that was asked for; more than `lastJob` when Slurm had no room. */
  readonly wantedJobs: number;
  /** How many more jobs the slowest cell needs, as far as that can be told. */
  readonly extendBy: number;
}

/** How far a cell is, by what is in its directory. */
export interface CellOnDisk {
  readonly newest: string | undefined;
  readonly newestStep: number | undefined;
  /** When the newest checkpoint was written. Seconds since 1970. */
  readonly savedAt: number | undefined;
  /** There is a file COMPLETE. */
  readonly completeFile: boolean;
}

export interface StatusSource {
  readonly manifest: Manifest;
  readonly jobs: readonly ReleasedJob[];
  /** What the ledger says about cancelled jobs `<id>` and tasks `<id>_<cell>`. */
  readonly cancelled: ReadonlyMap<string, Cancellation>;
  readonly journals: ReadonlyMap<number, readonly JournalLine[]>;
  readonly cells: ReadonlyMap<number, CellOnDisk>;
  readonly slurm: SlurmRows;
  /** Seconds since 1970, by the cluster's clock. */
  readonly now: number;
}

/** One task of a cell. */
interface CellTask {
  readonly job: ReleasedJob;
  readonly state: TaskState;
  /** Does the journal know it? */
  readonly ran: boolean;
}

/** Combines what ledger, queue, accounting, journals and checkpoints say. Pure. */
export function statusOf(source: StatusSource): ChainStatus {
  const { manifest, slurm } = source;
  const numbers = manifest.cells.map((cell) => cell.cell);
  const { jobs, tasksByCell } = tasksOf(source, numbers);
  const tasks = [...tasksByCell.values()].flat();
  const anyAlive = tasks.some(({ state }) => isAlive(state));
  const cells = manifest.cells.map(({ cell, nSteps }) =>
    cellStatus(source, cell, nSteps ?? undefined, tasksByCell.get(cell) ?? [], anyAlive),
  );
  const underWay = tasks.filter(({ state }) => isUnderWay(state)).map(({ job }) => job.jobNumber);
  const [next] = tasks.filter(({ state }) => isAlive(state)).sort((a, b) => a.job.jobNumber - b.job.jobNumber);
  const lastJob = greatest(jobs.map((job) => job.jobNumber));
  const state = (): ChainStatus['state'] => {
    if (cells.length > 0 && cells.every((cell) => cell.complete)) return 'complete';
    if (underWay.length > 0) return 'running';
    if (next !== undefined) return 'waiting';
    if (slurm.queue === undefined) return 'unknown';
    return cells.some((cell) => cell.failed) ? 'failed' : 'ended';
  };
  return {
    state: state(),
    running:
      underWay.length === 0
        ? undefined
        : {
            first: -greatest(
              underWay.map((number) => -number),
              Number.NEGATIVE_INFINITY,
            ),
            last: greatest(underWay),
          },
    next: underWay.length > 0 || next === undefined ? undefined : { jobNumber: next.job.jobNumber, state: next.state },
    at: source.now,
    jobs,
    cells,
    lastJob,
    wantedJobs: greatest(
      manifest.launches.flatMap((launch) => launch.steps),
      lastJob,
    ),
    extendBy: greatest(cells.map((cell) => cell.jobsShort ?? 0)),
  };
}

function tasksOf(
  source: StatusSource,
  numbers: readonly number[],
): { readonly jobs: readonly JobStatus[]; readonly tasksByCell: ReadonlyMap<number, readonly CellTask[]> } {
  const tasksByCell = new Map<number, CellTask[]>(numbers.map((number) => [number, []]));
  const journals = new Map(
    numbers.map((number) => [number, Map.groupBy(source.journals.get(number) ?? [], (line) => line.jobId)] as const),
  );
  const jobs = source.jobs
    .toSorted((a, b) => a.jobNumber - b.jobNumber || (a.cell ?? 0) - (b.cell ?? 0))
    .map((job): JobStatus => {
      const rows = rowsOfArray(source.slurm, job.jobId, job.tag);
      const counts = new Map<string, { state: TaskState; count: number }>();
      let alive = false;
      for (const number of job.cell === undefined ? numbers : [job.cell]) {
        const journal = journals.get(number)?.get(job.jobId) ?? [];
        const cancelled = source.cancelled.get(job.jobId) ?? source.cancelled.get(`${job.jobId}_${number}`);
        const state = taskState(rows, number, journal, cancelled);
        tasksByCell.get(number)?.push({ job, state, ran: journal.length > 0 });
        const counted: TaskState = state.kind === 'running' ? { kind: 'running', node: '', since: undefined } : state;
        const key = JSON.stringify(counted);
        counts.set(key, { state: counted, count: (counts.get(key)?.count ?? 0) + 1 });
        alive ||= isAlive(state);
      }
      const { tag: _, ...rest } = job;
      return { ...rest, tasks: [...counts.values()], alive };
    });
  return { jobs, tasksByCell };
}

/** @param anyAlive whether any task of the chain is still to come */
function cellStatus(
  source: StatusSource,
  number: number,
  nSteps: number | undefined,
  tasks: readonly CellTask[],
  anyAlive: boolean,
): CellStatus {
  const { manifest, now } = source;
  const onDisk = source.cells.get(number);
  const stepsDone = onDisk?.newestStep === undefined ? 0 : onDisk.newestStep + manifest.checkpoints.offset;
  const complete = onDisk?.completeFile === true || (nSteps !== undefined && stepsDone >= nSteps);
  const begun = tasks.filter(({ state }) => !isAlive(state) || isUnderWay(state));
  // Once a cell is complete, later tasks only find that there is nothing to do.
  const last =
    begun.findLast(({ state, ran }) => (ran || isFailure(state)) && state.kind !== 'nothing-to-do') ??
    (complete ? undefined : begun.at(-1));
  const running = begun.find(({ state }) => isAlive(state));
  const next = tasks.find(({ state }) => isAlive(state));
  const failed = !complete && last !== undefined && isFailure(last.state);
  // A task that the stop rule ended is only the consequence. The cause is in the log of the task that failed before it.
  const cause = begun.findLast(({ state }) => isFailure(state) && state.kind !== 'stopped') ?? last;
  const current = running ?? (failed ? (cause ?? last) : (next ?? last));
  const pace = stepsPerSecond(source, number, tasks);
  // A cell that was taken out of a chain that goes on has no time left to wait for.
  const takenOut = anyAlive && next === undefined;
  const secondsLeft =
    nSteps === undefined || pace === undefined || complete || takenOut ? undefined : Math.max(0, nSteps - stepsDone) / pace;
  return {
    number,
    newest: onDisk?.newest,
    stepsDone,
    nSteps,
    complete,
    current: current && { jobNumber: current.job.jobNumber, state: current.state },
    stoppedLater: failed && last !== current && last?.state.kind === 'stopped',
    failed,
    log: cause && logName(cause.job.jobNumber, cause.job.jobId, number),
    secondsLeft,
    jobsShort: secondsLeft === undefined ? undefined : jobsShort(manifest, secondsLeft, tasks, now),
  };
}

/**
 * Training steps per second, over the task that runs and the last one that saved something. A task that has just resumed
 * says little by itself, because loading took most of its time.
 */
function stepsPerSecond({ cells, manifest, journals, now }: StatusSource, number: number, tasks: readonly CellTask[]): number | undefined {
  const journal = journals.get(number) ?? [];
  const onDisk = cells.get(number);
  const { offset } = manifest.checkpoints;
  const firstStep = (start: StartLine | undefined) =>
    start?.resumeStep === undefined || start.resumeStep < 0 ? 0 : start.resumeStep + offset;
  let sum = { gained: 0, seconds: 0 };
  const last = journal.at(-1);
  if (last?.event === 'start' && tasks.some(({ state }) => state.kind === 'running')) {
    const gained = onDisk?.newestStep === undefined ? 0 : onDisk.newestStep + offset - firstStep(last);
    const seconds = Math.min(onDisk?.savedAt ?? now, now) - last.time;
    if (gained > 0 && seconds > 0) sum = { gained, seconds };
  }
  for (const [index, line] of [...journal.entries()].reverse()) {
    if (line.event !== 'end' || !line.newCheckpoint || !line.seconds || line.newestStep === undefined) continue;
    const start = journal.slice(0, index).findLast((other) => other.event === 'start');
    const gained = line.newestStep + offset - firstStep(start);
    if (gained <= 0) continue;
    sum = { gained: sum.gained + gained, seconds: sum.seconds + line.seconds };
    break;
  }
  return sum.seconds > 0 ? sum.gained / sum.seconds : undefined;
}

/** How many more tasks of a whole time limit a cell needs beyond those that run or wait. */
function jobsShort(manifest: Manifest, secondsLeft: number, tasks: readonly CellTask[], now: number): number | undefined {
  const time = manifest.slurm.find(([name]) => name === 'time')?.[1];
  const limit = typeof time === 'string' ? secondsOfTime(time) : undefined;
  if (limit === undefined || limit === 0) return undefined;
  let room = 0;
  for (const { state } of tasks) {
    if (!isAlive(state)) continue;
    room += state.kind === 'running' && state.since !== undefined ? Math.max(0, limit - (now - state.since)) : limit;
  }
  return Math.max(0, Math.ceil((secondsLeft - room) / limit));
}
