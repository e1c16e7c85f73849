import type { JournalLine, StartLine } from './journal.ts';
import type { AccountingRow, QueueRow, SlurmRows } from './slurm-rows.ts';

/** What became of one task: one cell in one job. Data only; src/report/words.ts has the words. */
export type TaskState =
  /** The job before it in the chain has not ended. */
  | { readonly kind: 'waiting-for-job' }
  /** The array already runs as many tasks as max_concurrent_jobs allows. */
  | { readonly kind: 'waiting-for-throttle' }
  /** Slurm has not started it yet. @see squeue(1), JOB REASON CODES */
  | { readonly kind: 'pending'; readonly reason: string }
  | { readonly kind: 'held'; readonly reason: string }
  /** since: seconds since 1970 */
  | { readonly kind: 'running'; readonly node: string; readonly since: number | undefined }
  | { readonly kind: 'suspended'; readonly reason: string; readonly since: number | undefined }
  | { readonly kind: 'finished' }
  /** Training was complete already. */
  | { readonly kind: 'nothing-to-do' }
  | { readonly kind: 'time-limit' }
  /** exit: the exit code; signal: a name such as KILL, or a number where only Slurm's accounting knows it */
  | { readonly kind: 'failed'; readonly exit?: number; readonly signal?: string }
  | { readonly kind: 'out-of-memory' }
  | { readonly kind: 'preempted' }
  | { readonly kind: 'node-failure' }
  /** beforeRun: a signal came before the run began. */
  | { readonly kind: 'cancelled'; readonly by?: string; readonly beforeRun?: true }
  /** Training was complete before its turn came, so it was taken out of the queue. */
  | { readonly kind: 'not-needed' }
  /** The stop rule kept it from starting: too many failures, or the checkpoints vanished. */
  | { readonly kind: 'stopped'; readonly why: 'failures' | 'vanished' }
  /** Another job held the lock of the cell. */
  | { readonly kind: 'cell-taken' }
  | { readonly kind: 'unknown'; readonly why: UnknownReason };

type UnknownReason =
  | { readonly kind: 'no-answer' }
  /** It left the queue, and no record says how it ended. */
  | { readonly kind: 'no-record' }
  /** Its journal has a start and no end. started: seconds since 1970 */
  | { readonly kind: 'no-end'; readonly started: number; readonly host: string }
  /** Slurm's accounting has a state that this version does not know. */
  | { readonly kind: 'slurm-state'; readonly state: string };

/** Is this task still to come, or under way? */
export function isAlive(state: TaskState): boolean {
  switch (state.kind) {
    case 'waiting-for-job':
    case 'waiting-for-throttle':
    case 'pending':
    case 'held':
    case 'running':
    case 'suspended':
      return true;
    case 'finished':
    case 'nothing-to-do':
    case 'time-limit':
    case 'failed':
    case 'out-of-memory':
    case 'preempted':
    case 'node-failure':
    case 'cancelled':
    case 'not-needed':
    case 'stopped':
    case 'cell-taken':
    case 'unknown':
      return false;
    default:
      return state satisfies never;
  }
}

/** Has this task started and not ended? */
export function isUnderWay(state: TaskState): boolean {
  return state.kind === 'running' || state.kind === 'suspended';
}

/** Did this task end badly, so that its log is worth a look? */
export function isFailure(state: TaskState): boolean {
  switch (state.kind) {
    case 'failed':
    case 'out-of-memory':
    case 'node-failure':
    case 'stopped':
    case 'cell-taken':
      return true;
    case 'waiting-for-job':
    case 'waiting-for-throttle':
    case 'pending':
    case 'held':
    case 'running':
    case 'suspended':
    case 'finished':
    case 'nothing-to-do':
    case 'time-limit':
    case 'preempted':
    case 'cancelled':
    case 'not-needed':
    case 'unknown':
      return false;
    default:
      return state satisfies never;
  }
}

/** The rows of one array, looked up by cell. */
export interface ArrayRows {
  queue(cell: number): QueueRow | undefined;
  accounting(cell: number): AccountingRow | undefined;
  readonly queueAnswered: boolean;
}

/**
 * The rows of one array. A row with another job name is another job: Slurm uses ids again after a while (slurm.conf(5),
 * MaxJobId).
 */
export function rowsOfArray(rows: SlurmRows, jobId: string, tag: string): ArrayRows {
  const byCell = <T extends QueueRow | AccountingRow>(all: readonly T[] | undefined) => {
    const found = new Map<number, T>();
    for (const row of all ?? []) if (row.jobId === jobId && row.name === tag) for (const cell of row.cells) found.set(cell, row);
    return found;
  };
  const [queue, accounting] = [byCell(rows.queue), byCell(rows.accounting)];
  return {
    queue: (cell) => queue.get(cell),
    accounting: (cell) => accounting.get(cell),
    queueAnswered: rows.queue !== undefined,
  };
}

/** Why a task was taken out of the queue, according to the ledger. */
export type Cancellation = { readonly kind: 'not-needed' } | { readonly kind: 'by'; readonly who: string };

const UNFINISHED_IN_ACCOUNTING: readonly string[] = ['PENDING', 'RUNNING', 'REQUEUED', 'SUSPENDED'];

/**
 * The state of one task. The queue comes first, then accounting, then the journal.
 * @param journal the lines of this cell and this job
 * @param cancelled what the ledger knows about a cancellation of this task
 */
export function taskState(rows: ArrayRows, cell: number, journal: readonly JournalLine[], cancelled?: Cancellation): TaskState {
  const queued = rows.queue(cell);
  if (queued !== undefined) return queuedState(queued);
  const last = journal.at(-1);
  const accounting = rows.accounting(cell);
  // Slurm only knows which account cancelled a task. It forgets single tasks of an array that was still waiting.
  if (cancelled !== undefined && last?.event !== 'done' && last?.event !== 'stopped') {
    if (accounting === undefined || accounting.state === 'CANCELLED' || accounting.state === 'PENDING') {
      return cancelled.kind === 'not-needed' ? { kind: 'not-needed' } : { kind: 'cancelled', by: cancelled.who };
    }
  }
  if (accounting !== undefined && !UNFINISHED_IN_ACCOUNTING.includes(accounting.state)) return endedState(accounting, last);
  if (last !== undefined && last.event !== 'start') return journaledState(last);
  if (!rows.queueAnswered) return { kind: 'unknown', why: { kind: 'no-answer' } };
  if (last !== undefined) return { kind: 'unknown', why: { kind: 'no-end', started: last.time, host: last.host } };
  return { kind: 'unknown', why: { kind: 'no-record' } };
}

/** Job states and reasons are those of squeue(1). */
function queuedState({ state, reason, start, node }: QueueRow): TaskState {
  switch (state) {
    case 'RUNNING':
    case 'COMPLETING':
    case 'CONFIGURING':
    case 'STAGE_OUT':
    case 'SIGNALING':
      return { kind: 'running', node, since: start };
    case 'SUSPENDED':
    case 'STOPPED':
      return { kind: 'suspended', reason, since: start };
    case 'REQUEUE_HOLD':
    case 'SPECIAL_EXIT':
      return { kind: 'held', reason };
    case 'PENDING':
    case 'REQUEUED':
    case 'RESIZING':
      if (reason === 'Dependency') return { kind: 'waiting-for-job' };
      if (reason === 'DependencyNeverSatisfied' || /Held|HOLD|launch failed/i.test(reason)) return { kind: 'held', reason };
      if (reason === 'JobArrayTaskLimit') return { kind: 'waiting-for-throttle' };
      return { kind: 'pending', reason };
    default:
      // squeue shows a job for a moment after its end (slurm.conf(5), MinJobAge).
      return endedState({ state, by: undefined, exit: '' }, undefined);
  }
}

/** The exit code with which job.sh leaves when another job holds the cell. */
const CELL_TAKEN = 75;

function endedState({ state, by, exit }: Pick<AccountingRow, 'state' | 'by' | 'exit'>, last: JournalLine | undefined): TaskState {
  switch (state) {
    case 'COMPLETED':
      return last?.event === 'done' ? { kind: 'nothing-to-do' } : { kind: 'finished' };
    case 'TIMEOUT':
    case 'DEADLINE':
      return { kind: 'time-limit' };
    case 'OUT_OF_MEMORY':
      return { kind: 'out-of-memory' };
    case 'PREEMPTED':
      return { kind: 'preempted' };
    case 'NODE_FAIL':
    case 'BOOT_FAIL':
      return { kind: 'node-failure' };
    case 'CANCELLED':
      return by === undefined ? { kind: 'cancelled' } : { kind: 'cancelled', by };
    case 'FAILED': {
      if (last?.event === 'stopped') return journaledState(last);
      const [code, signal] = exit.split(':').map(Number);
      // With an `end` line in the journal, the code is the one of the user's program.
      if (code === CELL_TAKEN && last?.event !== 'end') return { kind: 'cell-taken' };
      if (code === 0 && signal) return { kind: 'failed', signal: String(signal) };
      return code === undefined || exit === '' ? { kind: 'failed' } : { kind: 'failed', exit: code };
    }
    default:
      return { kind: 'unknown', why: { kind: 'slurm-state', state } };
  }
}

function journaledState(line: Exclude<JournalLine, StartLine>): TaskState {
  switch (line.event) {
    case 'done':
      return { kind: 'nothing-to-do' };
    case 'stopped':
      return { kind: 'stopped', why: line.why };
    case 'left':
      return { kind: 'cancelled', beforeRun: true };
    case 'end':
      if (line.exit === 0) return { kind: 'finished' };
      // After a time limit or scancel the job itself only sees the signal.
      if (line.signal !== undefined) return { kind: 'failed', signal: line.signal };
      return line.exit === undefined ? { kind: 'failed' } : { kind: 'failed', exit: line.exit };
    default:
      return line satisfies never;
  }
}
