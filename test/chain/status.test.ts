import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseJournal } from '../../src/chain/journal.ts';
import type { Manifest } from '../../src/chain/manifest.ts';
import { type ChainStatus, type StatusSource, statusOf } from '../../src/chain/status.ts';
import { cellWords, chainWords } from '../../src/report/words.ts';
import { ended, iso, NOW, queued } from '../support/slurm-rows.ts';

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
const MANIFEST = {
  cells: [0, 1].map((cell) => ({ cell, choices: {}, nSteps: 1000 })),
  slurm: [['time', '01:00:00']],
  checkpoints: { prefix: 'step_', complete: '', offset: 1 },
  launches: [{ steps: [1, 2, 3] }],
};
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

const running = (job: string, cells: number[], since: number | undefined = NOW - 1000) => queued(job, cells, 'RUNNING', 'None', since);
const waits = (job: string, cells: number[]) => queued(job, cells, 'PENDING', 'Dependency');
/** Jobs 2 and 3 wait behind job 1, which runs since 1000 s. */
const QUEUE = { queue: [running('1', [0, 1]), waits('2', [0, 1]), waits('3', [0, 1])], accounting: [] };

test('jobs are listed in the order of the chain, and with scope: cell by cell', () => {
  const job = (jobNumber: number, cell: number | undefined, jobId: string) => ({ jobNumber, cell, jobId, after: [], tag: `t${jobId}` });
  const seen = status({
    jobs: [job(2, 1, '30'), job(1, undefined, '40'), job(3, 0, '5'), job(2, 0, '20')],
    slurm: { queue: [waits('5', [0]), running('30', [1]), waits('20', [0])], accounting: [ended('40', [0, 1], 'TIMEOUT')] },
  });
  assert.deepEqual(
    seen.jobs.map(({ jobId, alive, tasks }) => [jobId, alive, tasks.map(({ state, count }) => `${count} ${state.kind}`)]),
    [
      ['40', false, ['2 time-limit']],
      ['20', true, ['1 waiting-for-job']],
      ['30', true, ['1 running']],
      ['5', true, ['1 waiting-for-job']],
    ],
  );
  assert.deepEqual([seen.lastJob, seen.running], [3, { first: 2, last: 2 }]);
  assert.equal(seen.cells[1]?.current?.jobNumber, 2, 'the job of a cell is about that cell alone');
});

test('cells may be in different jobs, and then the chain runs from the first to the last of them', () => {
  const seen = status({ slurm: { queue: [running('3', [0]), running('2', [1]), waits('3', [1])], accounting: [] } });
  assert.deepEqual([seen.state, seen.running, seen.next], ['running', { first: 2, last: 3 }, undefined]);
});

test('what comes next is the first job that is alive; a chain that ended has none', () => {
  const slurm = { queue: [waits('3', [0]), queued('2', [1], 'PENDING', 'Priority')], accounting: [] };
  const seen = status({ slurm });
  assert.deepEqual([seen.state, seen.running], ['waiting', undefined]);
  assert.deepEqual(seen.next, { jobNumber: 2, state: { kind: 'pending', reason: 'Priority' } });
  assert.equal(status().next, undefined);
});

test('a chain is complete when every cell is; one that ended has failed when any cell has', () => {
  const half = status({ cells: new Map([[0, disk(999)]]), slurm: { queue: [], accounting: [] } });
  assert.deepEqual([half.state, half.cells.map((cell) => cell.complete)], ['ended', [true, false]]);
  const accounting = [ended('3', [0], 'FAILED', '1:0'), ended('3', [1], 'TIMEOUT')];
  assert.equal(status({ slurm: { queue: [], accounting } }).state, 'failed');
  const file = { ...disk(10), completeFile: true };
  assert.equal(status({ cells: new Map([0, 1].map((cell) => [cell, file])) }).state, 'complete', 'whatever n_steps says');
  const unbounded = status({ nSteps: null, cells: new Map([[0, disk(999)]]) });
  assert.deepEqual([unbounded.state, unbounded.cells[0]?.complete, unbounded.cells[0]?.nSteps], ['ended', false, undefined]);
  assert.equal(status({ manifest: { ...MANIFEST, cells: [] } as unknown as Manifest }).state, 'ended', 'without cells nothing is complete');
});

test('each cell has its own number of steps', () => {
  const cells = [0, 1].map((cell) => ({ cell, choices: {}, nSteps: cell === 0 ? 100 : 2000 }));
  const seen = status({ manifest: { ...MANIFEST, cells } as unknown as Manifest, cells: new Map([0, 1].map((cell) => [cell, disk(99)])) });
  assert.deepEqual(
    seen.cells.map(({ nSteps, stepsDone, complete }) => [nSteps, stepsDone, complete]),
    [
      [100, 100, true],
      [2000, 100, false],
    ],
  );
});

test('the ledger tells about a whole job, or about the task of one cell', () => {
  const of = (id: string) =>
    status({ cancelled: new Map([[id, { kind: 'by', who: 'alice' }]]) }).jobs[0]?.tasks.map(({ state, count }) => [state.kind, count]);
  assert.deepEqual(of('1'), [['cancelled', 2]]);
  assert.deepEqual(of('1_1'), [
    ['unknown', 1],
    ['cancelled', 1],
  ]);
});

const startOf = (job: string, resume: number, ago: number) => ({
  event: 'start',
  step: Number(job),
  job,
  time: iso(NOW - ago),
  resume_step: resume,
});
const endOf = (job: string, newest: number, seconds: number, more: object = {}) => ({
  ...{ event: 'end', step: Number(job), job, time: iso(NOW), newest_step: newest, seconds, exit: 1, new_checkpoint: true },
  ...more,
});
const journals = (...lines: object[]) => new Map([[0, journalOf(lines)]]);

test('the log of a cell is the one of its last failure, else of the last task that ran', () => {
  const failed = ended('1', [0], 'FAILED', '1:0');
  const first = (source: Parameters<typeof status>[0]) => {
    const [cell] = status(source).cells;
    return [cell?.log, cell?.current?.jobNumber, cell?.failed, cell?.stoppedLater];
  };
  // Training was complete in job 1; job 2 found nothing to do, and job 3 was taken out of the queue.
  assert.deepEqual(
    first({
      cells: new Map([[0, disk(999)]]),
      journals: journals(startOf('1', -1, 100), endOf('1', 999, 100, { exit: 0 }), { event: 'done', step: 2, job: '2', time: iso(NOW) }),
      slurm: { queue: [], accounting: [ended('1', [0], 'COMPLETED'), ended('2', [0], 'COMPLETED')] },
      cancelled: new Map([['3', { kind: 'not-needed' }]]),
    }),
    ['1_1_0.out', 1, false, false],
  );
  // The stop rule ended jobs 2 and 3, because of what is in the log of job 1.
  const stopped = ['2', '3'].map((job) => ({ event: 'stopped', step: Number(job), job, why: 'failures', time: iso(NOW) }));
  const slurm = { queue: [], accounting: [failed] };
  assert.deepEqual(first({ journals: journals(startOf('1', -1, 100), endOf('1', -1, 100), ...stopped), slurm }), [
    '1_1_0.out',
    1,
    true,
    true,
  ]);
  assert.deepEqual(
    first({ journals: journals(...stopped), slurm: { queue: [], accounting: [ended('1', [0], 'TIMEOUT')] } }),
    ['3_3_0.out', 3, true, false],
    'without another failure, the stop itself is what to read',
  );
  // Job 1 failed, and job 2 trained on until the time limit.
  const recovered = { queue: [], accounting: [failed, ended('2', [0], 'TIMEOUT')] };
  assert.deepEqual(first({ journals: journals(startOf('1', -1, 100), startOf('2', -1, 50)), slurm: recovered }), [
    '1_1_0.out',
    2,
    false,
    false,
  ]);
  // While job 2 runs, it says most about the cell, though job 1 failed.
  assert.deepEqual(first({ slurm: { queue: [running('2', [0])], accounting: [failed] } }), ['1_1_0.out', 2, true, false]);
  assert.deepEqual(first({ slurm: { queue: ['1', '2', '3'].map((job) => waits(job, [0])), accounting: [] } }), [
    undefined,
    1,
    false,
    false,
  ]);
});

const left = (source: Parameters<typeof status>[0]) => status({ slurm: QUEUE, ...source }).cells[0]?.secondsLeft;

test('the pace comes from the task that runs and from the last one that saved something', () => {
  // 100 steps in 1000 s, 900 to go.
  assert.equal(left({ journals: journals(startOf('1', -1, 1000)), cells: new Map([[0, disk(99)]]) }), 9000);
  // Written 500 s ago, so it took 500 s.
  assert.equal(left({ journals: journals(startOf('1', -1, 1000)), cells: new Map([[0, disk(99, NOW - 500)]]) }), 4500);
  // A file server whose clock is ahead.
  assert.equal(left({ journals: journals(startOf('1', -1, 1000)), cells: new Map([[0, disk(99, NOW + 500)]]) }), 9000);
  // The task before it gained 100 steps in 400 s from step 100 on, this one 100 in 1000 s: 200 in 1400 s, 700 to go.
  const both = journals(startOf('1', 99, 2000), endOf('1', 199, 400), startOf('2', 199, 1000));
  assert.equal(left({ journals: both, cells: new Map([[0, disk(299)]]) }), 4900);
  // This one has saved nothing yet.
  assert.equal(left({ journals: both, cells: new Map([[0, disk(199)]]) }), 3200);
  // Only the last task that saved something counts, not the ones before it and not those that saved nothing.
  const more = journals(
    ...[startOf('1', -1, 9000), endOf('1', 9, 5000), startOf('2', 9, 3000), endOf('2', 109, 400)],
    ...[startOf('3', 109, 500), endOf('3', 109, 77, { new_checkpoint: false })],
  );
  assert.equal(left({ journals: more, cells: new Map([[0, disk(109)]]) }), 3560);
});

test('without a pace nobody knows how long it takes', () => {
  const cells = new Map([[0, disk(99)]]);
  assert.equal(left({ cells }), undefined);
  assert.equal(left({ cells, journals: journals(startOf('1', 99, 1000)) }), undefined, 'nothing was gained');
  assert.equal(left({ journals: journals(startOf('1', -1, 1000)) }), undefined, 'nothing was saved');
  assert.equal(left({ cells, journals: journals(startOf('1', -1, 0)) }), undefined, 'it has just started');
  for (const more of [{ new_checkpoint: false }, { seconds: 0 }, { newest_step: null }, { newest_step: -1 }])
    assert.equal(left({ cells, journals: journals(startOf('1', -1, 900), endOf('1', 99, 100, more)) }), undefined, JSON.stringify(more));
  const done = journals(startOf('1', -1, 900), endOf('1', 99, 100));
  assert.equal(left({ cells, journals: done }), 900, '100 steps in 100 s');
  assert.equal(left({ cells: new Map([[0, disk(999)]]), journals: done }), undefined, 'it is complete');
  assert.equal(left({ cells, journals: done, nSteps: null }), undefined, 'nobody knows the end');
  const over = { queue: [], accounting: [ended('1', [0], 'TIMEOUT')] };
  assert.equal(left({ cells, journals: journals(startOf('1', -1, 1000)), slurm: over }), undefined, 'a task that does not run has no pace');
});

test('a cell that was taken out of a chain that goes on has no time left', () => {
  const slurm = { queue: [running('1', [1])], accounting: [] };
  const source = { cells: new Map([[0, disk(99)]]), journals: journals(startOf('1', -1, 900), endOf('1', 99, 100)) };
  assert.equal(left({ ...source, slurm }), undefined);
  assert.equal(left({ ...source, slurm: { queue: [], accounting: [] } }), 900, 'in a chain that ended, it is what is left to do');
});

test('how many more jobs it takes: time that is left against time that is queued', () => {
  // 36,000 s to go, at 100 steps in 4000 s.
  const source = { cells: new Map([[0, disk(99)]]), journals: journals(startOf('1', -1, 5000), endOf('1', 99, 4000)) };
  const short = (more: Parameters<typeof status>[0]) => status({ ...source, slurm: QUEUE, ...more }).cells[0]?.jobsShort;
  assert.equal(short({}), 8, '2600 s of job 1, and 7200 s of jobs 2 and 3');
  assert.equal(short({ time: '1-0' }), 0);
  assert.equal(short({ slurm: { queue: [], accounting: [] } }), 10);
  assert.equal(short({ slurm: { queue: [running('1', [0], NOW - 9000)], accounting: [] } }), 10, 'it is over its limit');
  assert.equal(short({ slurm: { queue: [queued('1', [0], 'RUNNING')], accounting: [] } }), 9, 'nobody knows since when it runs');
  for (const time of ['UNLIMITED', '0', 'soon']) assert.equal(short({ time }), undefined, time);
  assert.equal(short({ manifest: { ...MANIFEST, slurm: [] } as unknown as Manifest }), undefined);
  assert.equal(short({ manifest: { ...MANIFEST, slurm: [['time', true]] } as unknown as Manifest }), undefined);
  const other = {
    ...MANIFEST,
    slurm: [
      ['mem', '1'],
      ['time', '01:00:00'],
    ],
  } as unknown as Manifest;
  assert.equal(short({ manifest: other }), 8);
});
