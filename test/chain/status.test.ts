import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseJournal } from '../../src/chain/journal.ts';
import type { Manifest } from '../../src/chain/manifest.ts';
import { type AccountingRow, durationWords, type QueueRow, rowsOfArray, stateWords, taskState } from '../../src/chain/state.ts';
import { type ChainStatus, type StatusSource, statusOf } from '../../src/chain/status.ts';
import { tasksOf } from '../../src/cluster/programs/survey.ts';

const NOW = 1_800_000_000;
const iso = (seconds: number) => new Date(seconds * 1000).toISOString();
const queued = (job: string, cells: number[], state: string, reason = 'None', start?: number): QueueRow => ({
  jobId: job,
  cells,
  state,
  reason,
  start,
  node: 'n1',
  dependency: '',
  name: `t${job}`,
});
const ended = (job: string, cells: number[], state: string, exit = '0:0', by?: string): AccountingRow => ({
  jobId: job,
  cells,
  name: `t${job}`,
  state,
  exit,
  by,
  start: NOW - 100,
  end: NOW,
  node: 'n1',
});
const words = (queue: QueueRow[] | undefined, accounting: AccountingRow[] | undefined, journal: string[] = [], cancelled?: string) =>
  stateWords(taskState(rowsOfArray({ queue, accounting }, '5', 't5'), 2, parseJournal(journal), cancelled), NOW);
const line = (event: string, more: object = {}) =>
  JSON.stringify({ event, launch: 1, step: 1, cell: 2, job: '5', task: '5', restart: 0, host: 'n1', time: iso(NOW - 100), ...more });

for (const [what, said] of [
  [words([queued('5', [0, 1, 2], 'PENDING', 'Dependency')], []), 'waiting for the step before'],
  [words([queued('5', [2], 'PENDING', 'Priority')], []), 'waiting for resources (Priority: others come first)'],
  [words([queued('5', [2], 'PENDING', 'QOSMaxGRESPerUser')], []), 'waiting for resources (QOSMaxGRESPerUser)'],
  [words([queued('5', [2], 'PENDING', 'JobArrayTaskLimit')], []), 'waiting for other cells (max_concurrent_jobs)'],
  [words([queued('5', [2], 'PENDING', 'JobHeldAdmin')], []), 'held (JobHeldAdmin: by an administrator)'],
  [words([queued('5', [2], 'RUNNING', 'None', NOW - 3700)], []), 'running for 1 h 1 min on n1'],
  [words([], [ended('5', [2], 'TIMEOUT')]), 'reached the time limit'],
  [words([], [ended('5', [2], 'FAILED', '3:0')]), 'failed, exit code 3'],
  [words([], [ended('5', [2], 'FAILED', '0:9')]), 'failed, signal 9'],
  [words([], [ended('5', [2], 'FAILED', '75:0')]), 'found the cell taken (another job holds it)'],
  [words([], [ended('5', [2], 'FAILED', '1:0')], [line('stopped', { why: 'failures' })]), /^stopped by the stop rule/],
  [words([], [ended('5', [2], 'OUT_OF_MEMORY', '0:125')]), 'out of memory'],
  [words([], [ended('5', [2], 'PREEMPTED')]), 'preempted'],
  [words([], [ended('5', [2], 'NODE_FAIL')]), 'lost its node'],
  [words([], [ended('5', [2], 'CANCELLED', '0:0', 'root')]), 'cancelled by root'],
  [words([], [ended('5', [2], 'CANCELLED', '0:0', 'chain')], [], 'alice'), 'cancelled by alice'],
  [words([], [], [], 'done'), 'not needed any more'],
  [words([], [ended('5', [2], 'COMPLETED')], [line('done', { complete: true })]), 'nothing left to do'],
  [words([], [ended('5', [2], 'COMPLETED')], [line('start')]), 'finished'],
  // Accounting off or purged: the journal still knows.
  [words([], undefined, [line('start'), line('end', { exit: 0 })]), 'finished'],
  [words([], undefined, [line('start'), line('end', { exit: 143, signal: 'TERM' })]), 'failed, signal TERM'],
  [words([], undefined, [line('start')]), /^not known: started .* and nothing says how it ended/],
  [words([], []), 'not known: it left the queue and nothing says how it ended'],
  [words(undefined, undefined), 'not known: squeue did not answer'],
  // Accounting that lags behind the queue is no end.
  [words([], [ended('5', [2], 'RUNNING')]), 'not known: it left the queue and nothing says how it ended'],
  // An id that was given to somebody else's job since.
  [words([{ ...queued('5', [2], 'RUNNING'), name: 'other' }], [{ ...ended('5', [2], 'FAILED', '1:0'), name: 'other' }]), /^not known/],
] as const) {
  test(`a task is told of as: ${String(said)}`, () => {
    if (typeof said === 'string') assert.equal(what, said);
    else assert.match(what, said);
  });
}

test('task lists as squeue and sacct write them', () => {
  assert.deepEqual(tasksOf('3'), [3]);
  assert.deepEqual(tasksOf('0-3%2'), [0, 1, 2, 3]);
  assert.deepEqual(tasksOf('1,5-6,9'), [1, 5, 6, 9]);
  assert.deepEqual(tasksOf('0-6:3'), [0, 3, 6]);
  assert.deepEqual(tasksOf(''), []);
  assert.deepEqual(tasksOf('4294967294'), [4294967294]);
});

test('a duration in its two largest units', () => {
  assert.deepEqual([0, 59, 61, 3600, 90_061].map(durationWords), ['0 s', '59 s', '1 min', '1 h', '1 d 1 h']);
});

function status(source: Partial<StatusSource> & { nSteps?: number | null; time?: string; launches?: number[][] } = {}): ChainStatus {
  const { nSteps = 1000, time = '01:00:00', launches = [[1, 2, 3]], ...more } = source;
  const manifest = {
    cells: [0, 1].map((cell) => ({ cell, choices: {}, nSteps })),
    slurm: [['time', time]],
    checkpoints: { prefix: 'step_', complete: '', offset: 1 },
    launches: launches.map((steps) => ({ steps })),
  } as unknown as Manifest;
  return statusOf({
    manifest,
    jobs: [1, 2, 3].map((number) => ({ jobNumber: number, cell: undefined, jobId: String(number), after: undefined, tag: `t${number}` })),
    cancelled: new Map(),
    journals: new Map(),
    cells: new Map(),
    slurm: { queue: [], accounting: [] },
    now: NOW,
    ...more,
  });
}
const journalOf = (lines: object[]) =>
  parseJournal(lines.map((one) => JSON.stringify({ launch: 1, cell: 0, job: '1', task: '1', ...one })));
const disk = (step: number, savedAt = NOW) => ({ newest: `step_${step}`, newestStep: step, savedAt, completeFile: false });

test('a running chain: which step, how far, how long still, and whether the queued steps are enough', () => {
  // 100 steps in 1000 s; 900 to go take 9000 s. Left: 2600 s of this task and two times an hour, so 200 s short of it.
  const seen = status({
    slurm: {
      queue: [
        queued('1', [0, 1], 'RUNNING', 'None', NOW - 1000),
        queued('2', [0, 1], 'PENDING', 'Dependency'),
        queued('3', [0, 1], 'PENDING', 'Dependency'),
      ],
      accounting: [],
    },
    journals: new Map([[0, journalOf([{ event: 'start', step: 1, time: iso(NOW - 1000), resume_step: -1 }])]]),
    cells: new Map([[0, disk(99)]]),
  });
  assert.equal(seen.state, 'running');
  assert.equal(seen.headline, 'running, step 1 of 3');
  assert.deepEqual(seen.jobs[0]?.tasks, [{ words: 'running', count: 2 }]);
  const [cell] = seen.cells;
  assert.equal(cell?.stepsDone, 100);
  assert.equal(Math.round(cell?.secondsLeft ?? 0), 9000);
  assert.equal(cell?.jobsShort, 0, '2600 + 2 × 3600 = 9800 seconds are there');
  const tight = status({
    ...{ time: '00:40:00' },
    slurm: { queue: [queued('1', [0, 1], 'RUNNING', 'None', NOW - 1000)], accounting: [] },
    journals: new Map([[0, journalOf([{ event: 'start', step: 1, time: iso(NOW - 1000), resume_step: -1 }])]]),
    cells: new Map([[0, disk(99)]]),
  });
  assert.equal(tight.extendBy, 4, '9000 s to go, 1400 s of this task, 2400 s a step');
});

test('a chain between two steps waits, one that is over has ended or failed, one that is through is complete', () => {
  const waiting = status({
    slurm: { queue: [queued('2', [0, 1], 'PENDING', 'Resources')], accounting: [ended('1', [0, 1], 'TIMEOUT')] },
  });
  assert.equal(waiting.headline, 'step 2 of 3: waiting for resources (Resources: nothing is free)');
  const rows = (state: string, exit = '0:0') => [1, 2, 3].map((job) => ended(String(job), [0, 1], state, exit));
  assert.equal(status({ slurm: { queue: [], accounting: rows('TIMEOUT') } }).state, 'ended');
  assert.equal(status({ slurm: { queue: [], accounting: rows('FAILED', '1:0') } }).state, 'failed');
  const complete = status({
    cells: new Map([0, 1].map((cell) => [cell, disk(999)])),
    slurm: { queue: undefined, accounting: undefined },
  });
  assert.equal(complete.state, 'complete', 'whatever squeue says');
  assert.equal(status({ slurm: { queue: undefined, accounting: rows('TIMEOUT') } }).state, 'unknown');
});

test('steps that were asked for and never queued are counted', () => {
  const seen = status({ launches: [[1, 2, 3, 4, 5]], slurm: { queue: [queued('1', [0, 1], 'RUNNING')], accounting: [] } });
  assert.equal(seen.missingJobs, 2);
  assert.equal(seen.headline, 'running, step 1 of 3 (5 were asked for)');
});

test('a cell that failed is told of with its log, the one beside it is not', () => {
  const seen = status({
    slurm: {
      queue: [queued('2', [0, 1], 'PENDING', 'Dependency'), queued('3', [0, 1], 'PENDING', 'Dependency')],
      accounting: [ended('1', [0], 'FAILED', '1:0'), ended('1', [1], 'TIMEOUT')],
    },
  });
  assert.deepEqual(
    seen.cells.map((cell) => [cell.failed, cell.words, cell.log]),
    [
      [true, 'step 1: failed, exit code 1', '1_1_0.out'],
      [false, 'step 2: waiting for the step before', '1_1_1.out'],
    ],
  );
});

test('a thousand cells of a thousand states are put together in a moment', () => {
  const cells = Array.from({ length: 1000 }, (_, cell) => cell);
  const manifest = {
    cells: cells.map((cell) => ({ cell, choices: {}, nSteps: 10 })),
    slurm: [],
    checkpoints: { prefix: 'step_', complete: '', offset: 1 },
    launches: [{ steps: [1, 2] }],
  } as unknown as Manifest;
  const seen = status({
    manifest,
    slurm: { queue: [queued('2', cells, 'PENDING', 'Dependency')], accounting: cells.map((cell) => ended('1', [cell], 'TIMEOUT')) },
  });
  assert.equal(seen.cells.length, 1000);
  assert.deepEqual(seen.jobs[0]?.tasks, [{ words: 'reached the time limit', count: 1000 }]);
});
