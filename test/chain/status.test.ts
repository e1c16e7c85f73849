import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseJournal } from '../../src/chain/journal.ts';
import type { Manifest } from '../../src/chain/manifest.ts';
import type { AccountingRow, QueueRow } from '../../src/chain/slurm-rows.ts';
import { type ChainStatus, type StatusSource, statusOf } from '../../src/chain/status.ts';
import { cellWords, chainWords } from '../../src/report/words.ts';

const NOW = 1_800_000_000;
const iso = (seconds: number) => new Date(seconds * 1000).toISOString();
const queued = (job: string, cells: number[], state: string, reason = 'None', start?: number): QueueRow => ({
  jobId: job,
  cells,
  state,
  reason,
  start,
  node: 'n1',
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
    jobs: [1, 2, 3].map((number) => ({ jobNumber: number, cell: undefined, jobId: String(number), after: [], tag: `t${number}` })),
    cancelled: new Map(),
    journals: new Map(),
    cells: new Map(),
    slurm: { queue: [], accounting: [] },
    now: NOW,
    ...more,
  });
}
const journalOf = (lines: object[]) =>
  parseJournal(lines.map((one) => JSON.stringify({ launch: 1, cell: 0, job: '1', task: '1', restart: 0, host: 'n1', ...one })));
const disk = (step: number, savedAt = NOW) => ({ newest: `step_${step}`, newestStep: step, savedAt, completeFile: false });

test('a running chain: which job, how far, how long still, and whether the queued jobs are enough', () => {
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
  assert.equal(chainWords(seen), 'running, job 1 of 3');
  assert.deepEqual(seen.jobs[0]?.tasks, [{ state: { kind: 'running', node: '', since: undefined }, count: 2 }]);
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
  assert.equal(tight.extendBy, 4, '9000 s to go, 1400 s of this task, 2400 s per job');
});

test('a chain between two jobs waits, one that is over has ended or failed, one that is done is complete', () => {
  const waiting = status({
    slurm: { queue: [queued('2', [0, 1], 'PENDING', 'Resources')], accounting: [ended('1', [0, 1], 'TIMEOUT')] },
  });
  assert.equal(chainWords(waiting), 'job 2 of 3: waiting for resources (Resources: no resources are free)');
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

test('jobs that were asked for and never queued are counted', () => {
  const seen = status({ launches: [[1, 2, 3, 4, 5]], slurm: { queue: [queued('1', [0, 1], 'RUNNING')], accounting: [] } });
  assert.deepEqual([seen.lastJob, seen.wantedJobs], [3, 5]);
  assert.equal(chainWords(seen), 'running, job 1 of 3 (5 were asked for)');
});

test('a cell that failed is reported with its log, the one beside it is not', () => {
  const seen = status({
    slurm: {
      queue: [queued('2', [0, 1], 'PENDING', 'Dependency'), queued('3', [0, 1], 'PENDING', 'Dependency')],
      accounting: [ended('1', [0], 'FAILED', '1:0'), ended('1', [1], 'TIMEOUT')],
    },
  });
  assert.deepEqual(
    seen.cells.map((cell) => [cell.failed, cellWords(cell, NOW), cell.log]),
    [
      [true, 'job 1: failed, exit code 1', '1_1_0.out'],
      [false, 'job 2: waiting for the previous job', '1_1_1.out'],
    ],
  );
});

test('of a thousand cells each one is reported, and their states are counted', () => {
  const cells = Array.from({ length: 1000 }, (_, cell) => cell);
  const manifest = {
    cells: cells.map((cell) => ({ cell, choices: {}, nSteps: 10 })),
    slurm: [],
    checkpoints: { prefix: 'step_', complete: '', offset: 1 },
    launches: [{ steps: [1, 2] }],
  } as unknown as Manifest;
  const seen = status({
    manifest,
    slurm: {
      queue: [queued('2', cells, 'PENDING', 'Dependency')],
      accounting: cells.map((cell) => ended('1', [cell], cell < 300 ? 'OUT_OF_MEMORY' : 'TIMEOUT')),
    },
  });
  assert.equal(seen.cells.length, 1000);
  assert.deepEqual(seen.jobs[0]?.tasks, [
    { state: { kind: 'out-of-memory' }, count: 300 },
    { state: { kind: 'time-limit' }, count: 700 },
  ]);
});
