// What became of a task, by what Slurm and the journal say. test/report/words.test.ts has the same in words.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseJournal } from '../../src/chain/journal.ts';
import type { AccountingRow, QueueRow } from '../../src/chain/slurm-rows.ts';
import { type Cancellation, isAlive, isFailure, isUnderWay, rowsOfArray, type TaskState, taskState } from '../../src/chain/state.ts';

const NOW = 1_800_000_000;

// A chain waits while a task is alive, and a person reads the log of one that failed.
const ALIVE = 'alive';
const UNDER_WAY = 'alive and under way';
const FAILED = 'failed';
const OVER = 'over';
for (const [state, what] of [
  [{ kind: 'waiting-for-job' }, ALIVE],
  [{ kind: 'waiting-for-throttle' }, ALIVE],
  [{ kind: 'pending', reason: '' }, ALIVE],
  [{ kind: 'held', reason: '' }, ALIVE],
  [{ kind: 'running', node: '', since: undefined }, UNDER_WAY],
  [{ kind: 'suspended', reason: '', since: undefined }, UNDER_WAY],
  [{ kind: 'failed' }, FAILED],
  [{ kind: 'out-of-memory' }, FAILED],
  [{ kind: 'node-failure' }, FAILED],
  [{ kind: 'stopped', why: 'failures' }, FAILED],
  [{ kind: 'cell-taken' }, FAILED],
  [{ kind: 'finished' }, OVER],
  [{ kind: 'nothing-to-do' }, OVER],
  [{ kind: 'time-limit' }, OVER],
  [{ kind: 'preempted' }, OVER],
  [{ kind: 'cancelled' }, OVER],
  [{ kind: 'not-needed' }, OVER],
  [{ kind: 'unknown', why: { kind: 'no-record' } }, OVER],
] as const satisfies readonly (readonly [TaskState, string])[]) {
  test(`a task that is ${state.kind} is ${what}`, () => {
    assert.deepEqual(
      [isAlive(state), isUnderWay(state), isFailure(state)],
      [what === ALIVE || what === UNDER_WAY, what === UNDER_WAY, what === FAILED],
    );
  });
}

/** Cell 2 of job 5, whose name is t5. */
const queue = (state: string, reason = 'None', more: Partial<QueueRow> = {}): QueueRow[] => [
  { ...{ jobId: '5', cells: [1, 2], state, reason, start: NOW, node: 'n1', name: 't5' }, ...more },
];
const sacct = (state: string, exit = '0:0', more: Partial<AccountingRow> = {}): AccountingRow[] => [
  { ...{ jobId: '5', cells: [2], name: 't5', state, by: undefined, exit, start: NOW, end: NOW, node: 'n1' }, ...more },
];
type LineOfJournal = readonly [event: string, more?: object];
const journal = (...lines: readonly LineOfJournal[]) =>
  parseJournal(
    lines.map(([event, more = {}]) =>
      JSON.stringify({
        ...{ event, launch: 1, step: 1, cell: 2, job: '5', task: '7', restart: 0, host: 'n1' },
        ...{ time: new Date(NOW * 1000).toISOString(), ...more },
      }),
    ),
  );
interface Seen {
  readonly queue?: QueueRow[] | undefined;
  readonly accounting?: AccountingRow[] | undefined;
  readonly journal?: ReturnType<typeof journal>;
  readonly cancelled?: Cancellation;
}
const stateOf = ({ queue: rows, accounting, journal: lines = [], cancelled }: Seen) =>
  taskState(rowsOfArray({ queue: rows, accounting }, '5', 't5'), 2, lines, cancelled);

const running = { kind: 'running', node: 'n1', since: NOW } as const;
const NO_RECORD = { kind: 'unknown', why: { kind: 'no-record' } } as const;
const NO_END = { kind: 'unknown', why: { kind: 'no-end', started: NOW, host: 'n1' } } as const;

for (const [state, reason, expected] of [
  ...['RUNNING', 'COMPLETING', 'CONFIGURING', 'STAGE_OUT', 'SIGNALING'].map((state) => [state, 'None', running] as const),
  ['SUSPENDED', 'Gang', { kind: 'suspended', reason: 'Gang', since: NOW }],
  ['STOPPED', 'None', { kind: 'suspended', reason: 'None', since: NOW }],
  ['REQUEUE_HOLD', 'None', { kind: 'held', reason: 'None' }],
  ['SPECIAL_EXIT', 'None', { kind: 'held', reason: 'None' }],
  ['REQUEUED', 'BeginTime', { kind: 'pending', reason: 'BeginTime' }],
  ['RESIZING', 'None', { kind: 'pending', reason: 'None' }],
  ['PENDING', 'Dependency', { kind: 'waiting-for-job' }],
  ['PENDING', 'JobArrayTaskLimit', { kind: 'waiting-for-throttle' }],
  ['PENDING', 'Resources', { kind: 'pending', reason: 'Resources' }],
  ['PENDING', 'DependencyNeverSatisfied', { kind: 'held', reason: 'DependencyNeverSatisfied' }],
  ['PENDING', 'JobHoldMaxRequeue', { kind: 'held', reason: 'JobHoldMaxRequeue' }],
  ['PENDING', 'launch failed requeued held', { kind: 'held', reason: 'launch failed requeued held' }],
  // squeue still lists a task that has just ended.
  ['COMPLETED', 'None', { kind: 'finished' }],
  ['FAILED', 'NonZeroExitCode', { kind: 'failed' }],
  ['CANCELLED', 'None', { kind: 'cancelled' }],
  ['REVOKED', 'None', { kind: 'unknown', why: { kind: 'slurm-state', state: 'REVOKED' } }],
] as const) {
  test(`squeue says ${state}, ${reason}: ${expected.kind}`, () => {
    assert.deepEqual(stateOf({ queue: queue(state, reason), accounting: sacct('FAILED', '1:0') }), expected, 'the queue comes first');
  });
}

for (const [state, exit, expected] of [
  ['COMPLETED', '0:0', { kind: 'finished' }],
  ['TIMEOUT', '0:0', { kind: 'time-limit' }],
  ['DEADLINE', '0:0', { kind: 'time-limit' }],
  ['OUT_OF_MEMORY', '0:125', { kind: 'out-of-memory' }],
  ['PREEMPTED', '0:0', { kind: 'preempted' }],
  ['NODE_FAIL', '0:0', { kind: 'node-failure' }],
  ['BOOT_FAIL', '0:0', { kind: 'node-failure' }],
  ['CANCELLED', '0:0', { kind: 'cancelled' }],
  ['FAILED', '3:0', { kind: 'failed', exit: 3 }],
  ['FAILED', '3:9', { kind: 'failed', exit: 3 }],
  ['FAILED', '0:9', { kind: 'failed', signal: '9' }],
  ['FAILED', '', { kind: 'failed' }],
  ['FAILED', '75:0', { kind: 'cell-taken' }],
  ['LAUNCH_FAILED', '0:0', { kind: 'unknown', why: { kind: 'slurm-state', state: 'LAUNCH_FAILED' } }],
  // Accounting lags behind the queue, so these are no end.
  ...['PENDING', 'RUNNING', 'REQUEUED', 'SUSPENDED'].map((lagging) => [lagging, '0:0', NO_RECORD] as const),
] as const) {
  test(`sacct says ${state}, ${exit}: ${expected.kind}`, () => {
    assert.deepEqual(stateOf({ queue: [], accounting: sacct(state, exit) }), expected);
  });
}

test('sacct knows who cancelled a task', () => {
  assert.deepEqual(stateOf({ queue: [], accounting: sacct('CANCELLED', '0:0', { by: 'root' }) }), { kind: 'cancelled', by: 'root' });
});

for (const [what, lines, expected] of [
  ['nothing', journal(), NO_RECORD],
  ['a start', journal(['start']), NO_END],
  ['exit 0', journal(['start'], ['end', { exit: 0 }]), { kind: 'finished' }],
  ['exit 1', journal(['start'], ['end', { exit: 1 }]), { kind: 'failed', exit: 1 }],
  ['a signal', journal(['start'], ['end', { exit: 143, signal: 'TERM' }]), { kind: 'failed', signal: 'TERM' }],
  ['an end without a code', journal(['start'], ['end']), { kind: 'failed' }],
  ['training was complete', journal(['done']), { kind: 'nothing-to-do' }],
  ['the stop rule', journal(['stopped', { why: 'vanished' }]), { kind: 'stopped', why: 'vanished' }],
  ['it left before its run', journal(['left']), { kind: 'cancelled', beforeRun: true }],
  ['a requeue after an end', journal(['start'], ['end', { exit: 1 }], ['start']), NO_END],
] as const) {
  test(`without accounting, the journal says: ${what}`, () => {
    assert.deepEqual(stateOf({ queue: [], accounting: undefined, journal: lines }), expected);
    assert.deepEqual(stateOf({ queue: [], accounting: sacct('RUNNING'), journal: lines }), expected, 'or while accounting lags');
  });
}

test('while squeue does not answer, a task without an end may be running', () => {
  const silent = { kind: 'unknown', why: { kind: 'no-answer' } };
  assert.deepEqual(stateOf({ queue: undefined, accounting: [] }), silent);
  assert.deepEqual(stateOf({ queue: undefined, accounting: [], journal: journal(['start']) }), silent);
  assert.deepEqual(stateOf({ queue: undefined, accounting: [], journal: journal(['end', { exit: 0 }]) }), { kind: 'finished' });
});

test('journal and accounting together tell what each alone does not', () => {
  const ended = (accounting: AccountingRow[], ...lines: readonly LineOfJournal[]) =>
    stateOf({ queue: [], accounting, journal: journal(...lines) });
  assert.deepEqual(ended(sacct('COMPLETED'), ['done']), { kind: 'nothing-to-do' });
  assert.deepEqual(ended(sacct('FAILED', '1:0'), ['stopped', { why: 'failures' }]), { kind: 'stopped', why: 'failures' });
  assert.deepEqual(ended(sacct('FAILED', '75:0'), ['start'], ['end', { exit: 75 }]), { kind: 'failed', exit: 75 });
  assert.deepEqual(ended(sacct('TIMEOUT'), ['start'], ['end', { exit: 143, signal: 'TERM' }]), { kind: 'time-limit' });
});

test('the ledger tells who cancelled, unless the task had ended by itself', () => {
  const alice: Cancellation = { kind: 'by', who: 'alice' };
  const byAlice = { kind: 'cancelled', by: 'alice' };
  assert.deepEqual(stateOf({ queue: [], accounting: [], cancelled: alice }), byAlice);
  assert.deepEqual(stateOf({ queue: [], accounting: sacct('CANCELLED'), cancelled: alice, journal: journal(['start']) }), byAlice);
  // Slurm forgets single tasks of an array that was still waiting.
  assert.deepEqual(stateOf({ queue: [], accounting: sacct('PENDING'), cancelled: alice }), byAlice);
  assert.deepEqual(stateOf({ queue: [], accounting: sacct('PENDING'), cancelled: { kind: 'not-needed' } }), { kind: 'not-needed' });
  assert.deepEqual(stateOf({ queue: queue('RUNNING'), accounting: [], cancelled: alice }), running, 'it has not been cancelled yet');
  assert.deepEqual(stateOf({ queue: [], accounting: sacct('COMPLETED'), cancelled: alice }), { kind: 'finished' });
  assert.deepEqual(stateOf({ queue: [], accounting: [], cancelled: alice, journal: journal(['done']) }), { kind: 'nothing-to-do' });
  assert.deepEqual(stateOf({ queue: [], accounting: [], cancelled: alice, journal: journal(['stopped', { why: 'failures' }]) }), {
    ...{ kind: 'stopped', why: 'failures' },
  });
});

test('rows of another job, another cell or another name are not about this task', () => {
  for (const other of [{ jobId: '6' }, { cells: [1, 3] }, { name: 'reused-id' }]) {
    assert.deepEqual(stateOf({ queue: queue('RUNNING', 'None', other), accounting: sacct('FAILED', '1:0', other) }), NO_RECORD);
  }
});
