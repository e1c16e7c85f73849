import type { JournalLine } from './journal.ts';

/** A row of squeue. */
export interface QueueRow {
  /** Id of the array. */
  readonly jobId: string;
  readonly cells: readonly number[];
  readonly state: string;
  readonly reason: string;
  /** Seconds since 1970. */
  readonly start: number | undefined;
  readonly node: string;
  readonly dependency: string;
  readonly name: string;
}

/** A row of sacct. */
export interface AccountingRow {
  readonly jobId: string;
  readonly cells: readonly number[];
  readonly name: string;
  readonly state: string;
  /** Who cancelled it. */
  readonly by: string | undefined;
  /** `exit:signal` */
  readonly exit: string;
  readonly start: number | undefined;
  readonly end: number | undefined;
  readonly node: string;
}

/** What became of one task: one step of one cell. */
export interface TaskState {
  readonly kind:
    | 'waiting for the step before'
    | 'waiting for other cells'
    | 'waiting for resources'
    | 'held'
    | 'running'
    | 'suspended'
    | 'finished'
    | 'nothing left to do'
    | 'reached the time limit'
    | 'failed'
    | 'out of memory'
    | 'preempted'
    | 'lost its node'
    | 'cancelled'
    | 'not needed any more'
    | 'stopped by the stop rule'
    | 'found the cell taken'
    | 'unknown';
  /** Slurm's reason, an exit code, who cancelled it, why it is not known. Empty where there is nothing to add. */
  readonly detail: string;
  /** Seconds since 1970, of the start; only of what runs. */
  readonly since: number | undefined;
}

/** Is this task still to come or under way? */
export function isAlive(state: TaskState): boolean {
  switch (state.kind) {
    case 'waiting for the step before':
    case 'waiting for other cells':
    case 'waiting for resources':
    case 'held':
    case 'running':
    case 'suspended':
      return true;
    case 'finished':
    case 'nothing left to do':
    case 'reached the time limit':
    case 'failed':
    case 'out of memory':
    case 'preempted':
    case 'lost its node':
    case 'cancelled':
    case 'not needed any more':
    case 'stopped by the stop rule':
    case 'found the cell taken':
    case 'unknown':
      return false;
    default:
      return state.kind satisfies never;
  }
}

/** Did this task end badly, so that its log is worth a look? */
export function isFailure(state: TaskState): boolean {
  return ['failed', 'out of memory', 'lost its node', 'stopped by the stop rule', 'found the cell taken'].includes(state.kind);
}

export interface SlurmRows {
  /** undefined when squeue did not answer. */
  readonly queue: readonly QueueRow[] | undefined;
  /** undefined when sacct did not answer or keeps nothing. */
  readonly accounting: readonly AccountingRow[] | undefined;
}

/** Looks the rows of one array up by cell. */
export interface ArrayRows {
  queue(cell: number): QueueRow | undefined;
  accounting(cell: number): AccountingRow | undefined;
  readonly queueAnswered: boolean;
}

/**
 * The rows of one array. A row whose name is not this job's tag is another job: ids are used again after a while
 * (slurm.conf(5), MaxJobId).
 */
export function rowsOfArray(records: SlurmRows, job: string, tag: string): ArrayRows {
  const byCell = <T extends QueueRow | AccountingRow>(rows: readonly T[] | undefined) => {
    const found = new Map<number, T>();
    for (const row of rows ?? []) if (row.jobId === job && row.name === tag) for (const cell of row.cells) found.set(cell, row);
    return found;
  };
  const [queue, accounting] = [byCell(records.queue), byCell(records.accounting)];
  return {
    queue: (cell) => queue.get(cell),
    accounting: (cell) => accounting.get(cell),
    queueAnswered: records.queue !== undefined,
  };
}

/**
 * @param journal of the cell, lines of this job only
 * @param cancelled who had this task cancelled, as the ledger knows it; `done` where training was complete
 */
export function taskState(records: ArrayRows, cell: number, journal: readonly JournalLine[], cancelled?: string): TaskState {
  const queued = records.queue(cell);
  if (queued !== undefined) return queuedState(queued);
  const last = journal.at(-1);
  // Slurm only knows the account, and of single tasks of a waiting array not even that they were there.
  if (cancelled !== undefined && (last === undefined || last.event === 'start' || last.event === 'left' || last.event === 'end')) {
    const account = records.accounting(cell);
    if (account === undefined || account.state === 'CANCELLED' || account.state === 'PENDING') {
      return cancelled === 'done' ? known('not needed any more') : known('cancelled', `by ${cancelled}`);
    }
  }
  const account = records.accounting(cell);
  if (account !== undefined && !['PENDING', 'RUNNING', 'REQUEUED', 'SUSPENDED'].includes(account.state)) return endedState(account, last);
  if (last !== undefined && last.event !== 'start') return journaledState(last);
  if (!records.queueAnswered) return known('unknown', 'squeue did not answer');
  if (last !== undefined) return known('unknown', `started ${last.time} on ${last.host}, and nothing says how it ended`);
  return known('unknown', 'it left the queue and nothing says how it ended');
}

function known(kind: TaskState['kind'], detail = '', since?: number): TaskState {
  return { kind, detail, since };
}

/** Job state codes and reasons are those of squeue(1). */
function queuedState({ state, reason, start, node }: QueueRow): TaskState {
  switch (state) {
    case 'RUNNING':
    case 'COMPLETING':
    case 'CONFIGURING':
    case 'STAGE_OUT':
    case 'SIGNALING':
      return known('running', node, start);
    case 'SUSPENDED':
    case 'STOPPED':
      return known('suspended', reason === 'None' ? '' : reason, start);
    case 'PENDING':
    case 'REQUEUED':
    case 'REQUEUE_HOLD':
    case 'RESIZING':
    case 'SPECIAL_EXIT':
      if (/^Dependency$/.test(reason)) return known('waiting for the step before');
      if (reason === 'DependencyNeverSatisfied') return known('held', 'its dependency can never be satisfied');
      if (/Held|HOLD|launch failed/i.test(reason) || state === 'REQUEUE_HOLD' || state === 'SPECIAL_EXIT')
        return known('held', reasonWords(reason));
      if (reason === 'JobArrayTaskLimit') return known('waiting for other cells', 'max_concurrent_jobs');
      return known('waiting for resources', reasonWords(reason));
    default:
      // Just ended, and still shown for a moment (slurm.conf(5), MinJobAge).
      return endedState({ state, by: undefined, exit: '' }, undefined);
  }
}

const REASONS: Readonly<Record<string, string>> = {
  JobHeldUser: 'by its owner or by a launch that was cut short; launching again settles it',
  JobHeldAdmin: 'by an administrator',
  BeginTime: 'it may not begin yet; after a requeue that is two minutes',
  Priority: 'others come first',
  Resources: 'nothing is free',
  None: '',
};

function reasonWords(reason: string): string {
  const words = REASONS[reason];
  return words === undefined ? reason : words === '' ? '' : `${reason}: ${words}`;
}

function endedState({ state, by, exit }: Pick<AccountingRow, 'state' | 'by' | 'exit'>, last: JournalLine | undefined): TaskState {
  switch (state) {
    case 'COMPLETED':
      return last?.event === 'done' ? known('nothing left to do') : known('finished');
    case 'TIMEOUT':
    case 'DEADLINE':
      return known('reached the time limit');
    case 'OUT_OF_MEMORY':
      return known('out of memory');
    case 'PREEMPTED':
      return known('preempted');
    case 'NODE_FAIL':
    case 'BOOT_FAIL':
      return known('lost its node');
    case 'CANCELLED':
      return known('cancelled', by === undefined ? '' : `by ${by}`);
    case 'FAILED': {
      if (last?.event === 'stopped') return journaledState(last);
      const [code = '', signal = ''] = exit.split(':');
      if (code === '75') return known('found the cell taken', 'another job holds it');
      if (code === '0' && signal !== '' && signal !== '0') return known('failed', `signal ${signal}`);
      return known('failed', code === '' ? '' : `exit code ${code}`);
    }
    default:
      return known('unknown', `Slurm says ${state}`);
  }
}

function journaledState(line: JournalLine): TaskState {
  switch (line.event) {
    case 'done':
      return known('nothing left to do');
    case 'stopped':
      return known(
        'stopped by the stop rule',
        line.why === 'vanished' ? 'its checkpoints are gone' : 'too many failures without a new checkpoint',
      );
    case 'left':
      return known('cancelled', 'before its run began');
    case 'end':
      if (line.exit === 0) return known('finished');
      // Of a time limit and of scancel the job only sees the signal.
      return known('failed', line.signal === undefined ? `exit code ${line.exit ?? '?'}` : `signal ${line.signal}`);
    case 'start':
      return known('unknown', 'nothing says how it ended');
    default:
      return line.event satisfies never;
  }
}

/** Plain words for a state. @param now seconds since 1970, for how long it has been running */
export function stateWords({ kind, detail, since }: TaskState, now: number): string {
  const long = since !== undefined && kind === 'running' ? ` for ${durationWords(Math.max(0, now - since))}` : '';
  switch (kind) {
    case 'running':
      return `running${long}${detail === '' ? '' : ` on ${detail}`}`;
    case 'unknown':
      return `not known: ${detail}`;
    case 'failed':
      return detail === '' ? 'failed' : `failed, ${detail}`;
    case 'cancelled':
      return detail === '' ? 'cancelled' : `cancelled ${detail}`;
    default:
      return detail === '' ? kind : `${kind} (${detail})`;
  }
}

/** `3 d 4 h`, `2 h 5 min`, `40 s`: the two largest units. */
export function durationWords(seconds: number): string {
  const whole = Math.round(seconds);
  const parts: [number, string][] = [
    [Math.floor(whole / 86_400), 'd'],
    [Math.floor((whole % 86_400) / 3600), 'h'],
    [Math.floor((whole % 3600) / 60), 'min'],
    [whole % 60, 's'],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  if (first < 0) return '0 s';
  return parts
    .slice(first, first + (first >= 2 ? 1 : 2))
    .filter(([value]) => value > 0)
    .map(([value, unit]) => `${value} ${unit}`)
    .join(' ');
}
