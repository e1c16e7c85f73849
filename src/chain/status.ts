import { secondsOfTime } from './cost.ts';
import type { JournalLine } from './journal.ts';
import type { Manifest } from './manifest.ts';
import { isAlive, isFailure, rowsOfArray, type SlurmRows, stateWords, type TaskState, taskState } from './state.ts';

/** A step that was let go, as the ledger has it. */
export interface ReleasedJob {
  readonly jobNumber: number;
  /** undefined: an array over all cells. */
  readonly cell: number | undefined;
  readonly jobId: string;
  /** Ids with commas between. */
  readonly after: string | undefined;
  readonly tag: string;
}

export interface JobStatus extends Omit<ReleasedJob, 'tag'> {
  /** How many tasks are in which state, in plain words. */
  readonly tasks: readonly { readonly words: string; readonly count: number }[];
  readonly alive: boolean;
}

export interface CellStatus {
  readonly number: number;
  readonly newest: string | undefined;
  /** Training steps done. */
  readonly stepsDone: number;
  readonly nSteps: number | undefined;
  readonly complete: boolean;
  /** What its newest task that is or was more than waiting is doing. */
  readonly words: string;
  readonly failed: boolean;
  /** Name of the log that says most: of the last task that failed, else of the last one that ran. */
  readonly log: string | undefined;
  /** Seconds of training that are left at the pace of the last task; undefined where there is nothing to go by. */
  readonly secondsLeft: number | undefined;
  /** Steps that lack until training is complete, at that pace; 0 when those in the queue are enough. */
  readonly jobsShort: number | undefined;
}

/** What a chain is doing. Plain JSON. */
export interface ChainStatus {
  /**
   * running: a task runs. waiting: the next one waits. complete: every cell is done. ended: nothing is in the queue and
   * training is not complete. failed: ended, and the last tasks went wrong. unknown: the queue could not be asked.
   */
  readonly state: 'running' | 'waiting' | 'complete' | 'ended' | 'failed' | 'unknown';
  readonly headline: string;
  /** Seconds since 1970, by the cluster's clock. */
  readonly at: number;
  readonly jobs: readonly JobStatus[];
  readonly cells: readonly CellStatus[];
  /** Steps by which the chain is too short for its slowest cell, as far as that can be told. */
  readonly extendBy: number;
  /** Steps that were asked for and never queued. */
  readonly missingJobs: number;
}

export interface StatusSource {
  readonly manifest: Manifest;
  readonly jobs: readonly ReleasedJob[];
  /** Who had a job `<id>` or a task `<id>_<cell>` cancelled. */
  readonly cancelled: ReadonlyMap<string, string>;
  readonly journals: ReadonlyMap<number, readonly JournalLine[]>;
  readonly cells: ReadonlyMap<
    number,
    {
      readonly newest: string | undefined;
      readonly newestStep: number | undefined;
      readonly savedAt: number | undefined;
      readonly completeFile: boolean;
    }
  >;
  readonly slurm: SlurmRows;
  /** Seconds since 1970, by the cluster's clock. */
  readonly now: number;
}

interface CellTask {
  readonly job: ReleasedJob;
  readonly state: TaskState;
  /** Did it get as far as the journal? */
  readonly ran: boolean;
}

/** Puts together what ledger, queue, accounting, journals and checkpoints say. Pure. */
export function statusOf(source: StatusSource): ChainStatus {
  const { manifest, now, slurm } = source;
  const numbers = manifest.cells.map((cell) => cell.cell);
  const arrays = source.jobs.toSorted((a, b) => a.jobNumber - b.jobNumber || (a.cell ?? 0) - (b.cell ?? 0));
  const steps: JobStatus[] = [];
  const tasks = new Map<number, CellTask[]>(numbers.map((number) => [number, []]));
  const journalOf = new Map(
    numbers.map((number) => [number, Map.groupBy(source.journals.get(number) ?? [], (line) => line.jobId)] as const),
  );
  for (const array of arrays) {
    const rows = rowsOfArray(slurm, array.jobId, array.tag);
    const counts = new Map<string, number>();
    let alive = false;
    for (const number of array.cell === undefined ? numbers : [array.cell]) {
      const journal = journalOf.get(number)?.get(array.jobId) ?? [];
      const by = source.cancelled.get(array.jobId) ?? source.cancelled.get(`${array.jobId}_${number}`);
      const state = taskState(rows, number, journal, by);
      tasks.get(number)?.push({ job: array, state, ran: journal.length > 0 });
      const words = state.kind === 'running' ? 'running' : stateWords(state, now);
      counts.set(words, (counts.get(words) ?? 0) + 1);
      alive ||= isAlive(state);
    }
    const { tag: _, ...rest } = array;
    steps.push({ ...rest, tasks: [...counts].map(([words, count]) => ({ words, count })), alive });
  }
  const anyAlive = [...tasks.values()].flat().some(({ state }) => isAlive(state));
  const cells = numbers.map((number) => cellStatus(source, number, tasks.get(number) ?? [], anyAlive));
  const wanted = Math.max(0, ...manifest.launches.flatMap((launch) => launch.steps));
  const last = Math.max(0, ...arrays.map((array) => array.jobNumber));
  const states = [...tasks.values()].flat();
  const unfinished = cells.filter((cell) => !cell.complete);
  const running = states.filter(({ state }) => state.kind === 'running' || state.kind === 'suspended');
  const queued = states.filter(({ state }) => isAlive(state));
  const of = wanted > last ? `${last} (${wanted} were asked for)` : String(last);
  const basis = {
    at: now,
    jobs: steps,
    cells,
    extendBy: Math.max(0, ...cells.map((cell) => cell.jobsShort ?? 0)),
    missingJobs: last > 0 ? Math.max(0, wanted - last) : 0,
  };
  if (unfinished.length === 0 && cells.length > 0) return { ...basis, state: 'complete', headline: 'complete: every cell is done' };
  if (running.length > 0) {
    const at = running.map(({ job }) => job.jobNumber);
    const [low, high] = [Math.min(...at), Math.max(...at)];
    return { ...basis, state: 'running', headline: `running, ${low === high ? `step ${low}` : `steps ${low} to ${high}`} of ${of}` };
  }
  const [next] = queued.toSorted((a, b) => a.job.jobNumber - b.job.jobNumber);
  if (next !== undefined)
    return { ...basis, state: 'waiting', headline: `step ${next.job.jobNumber} of ${of}: ${stateWords(next.state, now)}` };
  if (slurm.queue === undefined) return { ...basis, state: 'unknown', headline: 'squeue does not answer, so what runs is not known' };
  const done = `${cells.length - unfinished.length} of ${cells.length} cells complete`;
  const failed = unfinished.find((cell) => cell.failed);
  return failed
    ? {
        ...basis,
        state: 'failed',
        headline: `failed, ${failed.words.replace(': failed, ', ': ')}. Nothing is in the queue any more, ${done}`,
      }
    : { ...basis, state: 'ended', headline: `ended before training was complete: nothing is in the queue, ${done}` };
}

/** @param anyAlive whether anything of the chain is still to come */
function cellStatus(source: StatusSource, number: number, tasks: readonly CellTask[], anyAlive: boolean): CellStatus {
  const { manifest, now } = source;
  const nSteps = manifest.cells.find((cell) => cell.cell === number)?.nSteps ?? undefined;
  const onDisk = source.cells.get(number);
  const journal = source.journals.get(number) ?? [];
  const done = onDisk?.newestStep === undefined ? 0 : onDisk.newestStep + manifest.checkpoints.offset;
  const complete = onDisk?.completeFile === true || (nSteps !== undefined && done >= nSteps);
  const begun = tasks.filter(({ state }) => !isAlive(state) || state.kind === 'running' || state.kind === 'suspended');
  // Once it is done, what later steps found is of no interest.
  const last =
    begun.findLast(({ state, ran }) => (ran || isFailure(state)) && state.kind !== 'nothing left to do') ??
    (complete ? undefined : begun.at(-1));
  const running = begun.find(({ state }) => isAlive(state));
  const next = tasks.find(({ state }) => isAlive(state));
  const failed = !complete && last !== undefined && isFailure(last.state);
  const current = running ?? (failed ? last : (next ?? last));
  // Why a task was not started is in the log of the one before, which failed.
  const told = begun.findLast(({ state }) => isFailure(state) && state.kind !== 'stopped by the stop rule') ?? last;
  // The cause, not what followed from it.
  const shown = failed && running === undefined ? (told ?? current) : current;
  const pace = stepsPerSecond(source, number, journal, tasks);
  // A cell that was taken out of a chain that goes on is not waited for.
  const out = anyAlive && next === undefined;
  const left = nSteps === undefined || pace === undefined || complete || out ? undefined : (nSteps - done) / pace;
  return {
    number,
    newest: onDisk?.newest,
    stepsDone: done,
    nSteps,
    complete,
    words: complete
      ? 'complete'
      : shown === undefined
        ? 'nothing was queued'
        : `step ${shown.job.jobNumber}: ${stateWords(shown.state, now)}${last !== shown && last?.state.kind === 'stopped by the stop rule' ? '; the stop rule ended the later ones' : ''}`,
    failed,
    log: told === undefined ? undefined : `${told.job.jobNumber}_${told.job.jobId}_${number}.out`,
    secondsLeft: left,
    jobsShort: left === undefined ? undefined : jobsShort(manifest, left, tasks, now),
  };
}

/**
 * Training steps a second, of the last task that got anywhere and the one that runs together: a task that has only just
 * resumed says little by itself, because loading took most of its time.
 */
function stepsPerSecond(
  { cells, manifest, now }: StatusSource,
  number: number,
  journal: readonly JournalLine[],
  tasks: readonly CellTask[],
): number | undefined {
  const last = journal.at(-1);
  const onDisk = cells.get(number);
  const { offset } = manifest.checkpoints;
  let sum = { gained: 0, seconds: 0 };
  const first = (resumed: number | undefined) => (resumed === undefined || resumed < 0 ? 0 : resumed + offset);
  if (last?.event === 'start' && tasks.some(({ state }) => state.kind === 'running')) {
    const [step, savedAt] = [onDisk?.newestStep, onDisk?.savedAt];
    const gained = step === undefined ? 0 : step + offset - first(last.resumeStep);
    const seconds = Math.min(savedAt ?? now, now) - Date.parse(last.time) / 1000;
    if (gained > 0 && seconds > 0) sum = { gained, seconds };
  }
  for (const [index, line] of [...journal.entries()].reverse()) {
    if (line.event !== 'end' || !line.newCheckpoint || !line.seconds || line.newestStep === undefined) continue;
    const start = journal.slice(0, index).findLast((other) => other.event === 'start');
    const gained = line.newestStep + offset - first(start?.resumeStep);
    if (gained <= 0) continue;
    sum = { gained: sum.gained + gained, seconds: sum.seconds + line.seconds };
    break;
  }
  return sum.seconds > 0 ? sum.gained / sum.seconds : undefined;
}

/** How many more tasks of a whole time limit each it takes beyond those that run or wait. */
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
