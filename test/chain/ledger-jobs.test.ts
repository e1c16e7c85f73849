// The record of every job id that sbatch returned, and what can be told from it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isReleased, lastJob, nextLaunch, parseLedger, releasedJobs } from '../../src/chain/ledger.ts';

const submitted = (launch: number, step: number, job: string, more: object = {}) =>
  JSON.stringify({ ...{ event: 'submitted', launch, step, cell: null, job, after: '', tag: `id.l${launch}-0.s${step}` }, ...more });
const event = (name: string, launch: number, job: string, more: object = {}) => JSON.stringify({ event: name, launch, job, ...more });
const parsed = (line: string) => parseLedger([line])[0];

test('a line about a job that sbatch took', () => {
  const line = parsed(
    submitted(2, 3, '4713', { cell: 1, after: '4711_1 4712 x 4710', time: '2026-12-01T10:00:30Z', tag: 'smoke.l2-0.s3.c1' }),
  );
  assert.partialDeepStrictEqual(line, {
    ...{ event: 'submitted', launch: 2, jobNumber: 3, cell: 1, jobId: '4713', tag: 'smoke.l2-0.s3.c1' },
    ...{ after: ['4712', '4710'], time: Date.parse('2026-12-01T10:00:30Z') / 1000 },
  });
  assert.partialDeepStrictEqual(parsed(submitted(1, 1, '4711')), { cell: undefined, after: [], time: undefined });
});

test('fields that an older version did not write may be missing', () => {
  const bare = event('submitted', 1, '4711', { step: 1 });
  assert.partialDeepStrictEqual(parsed(bare), { jobId: '4711', cell: undefined, after: [], tag: '', time: undefined });
  assert.partialDeepStrictEqual(parsed(submitted(1, 1, '4711', { after: 4710, tag: 7, time: 1 })), { after: [], tag: '', time: undefined });
  assert.partialDeepStrictEqual(parsed(submitted(1, 1, '4711', { time: 'soon' })), { time: undefined });
});

test('a line about a cancelled job or task: who, and whether it was needed', () => {
  assert.deepEqual(parsed(event('cancelled', 1, '4711', { by: 'alice' })), {
    ...{ event: 'cancelled', launch: 1, jobId: '4711', cell: undefined, by: 'alice', notNeeded: false },
  });
  assert.deepEqual(parsed(event('cancelled', 0, '4711_12', { why: 'done' })), {
    ...{ event: 'cancelled', launch: 0, jobId: '4711', cell: 12, by: undefined, notNeeded: true },
  });
  assert.partialDeepStrictEqual(parsed(event('cancelled', 1, '4711', { by: 7, why: 'other' })), { by: undefined, notNeeded: false });
});

for (const line of [
  '',
  '{"event":"submitted","launch":1,"step":1,"job":"4711"',
  'null',
  '[]',
  '"text"',
  submitted(1, 1, 'x'),
  submitted(1, 1, '0'),
  submitted(1, 0, '4711'),
  submitted(1, 1.5, '4711'),
  submitted(-1, 1, '4711'),
  submitted(1, 1, '4711', { step: '1' }),
  submitted(1, 1, '4711', { launch: '1' }),
  submitted(1, 1, '4711', { job: 4711 }),
  event('cancelled', 1, 'x4711'),
  event('cancelled', 1, '4711x'),
  event('cancelled', 1, '4711_x'),
  event('cancelled', 1, ''),
  event('cancelled', 1, '0'),
  event('released', 1, '4711', { launch: null }),
  event('other', 1, '4711'),
]) {
  test(`what is no line of a ledger is left out: ${line}`, () => assert.deepEqual(parseLedger([line]), []));
}

const LEDGER = parseLedger([
  submitted(1, 1, '11'),
  submitted(1, 2, '12'),
  submitted(1, 3, '13'),
  event('cancelled', 1, '13'),
  event('releasing', 1, '11'),
  event('released', 1, '11'),
  event('cancelled', 1, '11_0', { by: 'alice' }),
  event('cancelled', 1, '12', { by: 'alice' }),
  submitted(2, 3, '21'),
  event('cancelled', 0, '21_0'),
  submitted(3, 4, '31'),
  event('releasing', 3, '31'),
]);
const idsOf = (lines: ReturnType<typeof releasedJobs>) => lines.map(({ jobId }) => jobId);

test('a job counts once its launch was released: not what was rolled back, and not what is held', () => {
  assert.deepEqual(idsOf(releasedJobs(LEDGER)), ['11', '12', '31']);
  const held = parseLedger([submitted(2, 3, '21'), event('cancelled', 0, '21_0'), event('releasing', 2, '21')]);
  assert.deepEqual(idsOf(releasedJobs(held)), ['21'], 'one task of it was cancelled, and the job is still there');
  assert.deepEqual(idsOf(releasedJobs(parseLedger([submitted(1, 1, '11'), event('released', 1, '11')]))), []);
  // A launch that was interrupted is released again by the next one.
  const twice = parseLedger([submitted(1, 1, '11'), event('releasing', 1, '11'), event('releasing', 1, '11')]);
  assert.deepEqual(idsOf(releasedJobs(twice)), ['11']);
});

test('a launch whose release has begun may have run', () => {
  assert.deepEqual(
    [1, 2, 3, 4].map((launch) => isReleased(LEDGER, launch)),
    [true, false, true, false],
  );
  assert.ok(!isReleased(parseLedger([event('released', 1, '11')]), 1));
});

test('the next launch counts on, in launches and in jobs', () => {
  assert.equal(lastJob([]), 0);
  assert.equal(lastJob(LEDGER), 4);
  const next = (...args: Parameters<typeof nextLaunch>) => {
    const { launch, firstJob } = nextLaunch(...args);
    return { launch, firstJob };
  };
  assert.deepEqual(next([]), { launch: 1, firstJob: 1 });
  assert.deepEqual(next(LEDGER), { launch: 4, firstJob: 5 });
  // Launch 5 of the manifest put nothing in the queue that the ledger knows.
  assert.deepEqual(next(LEDGER, [{ launch: 5, steps: [5, 6] }]), { launch: 6, firstJob: 5 });
  // The ledger was purged with its workdir.
  assert.deepEqual(
    next(
      [],
      [
        { launch: 1, steps: [1, 2] },
        { launch: 2, steps: [3] },
      ],
    ),
    { launch: 3, firstJob: 4 },
  );
});

test('no two launches have the same nonce', () => {
  const nonces = Array.from({ length: 20 }, () => nextLaunch([]).nonce);
  for (const nonce of nonces) assert.match(nonce, /^[0-9a-f]{6}$/, 'as job names need it');
  assert.ok(new Set(nonces).size > 15);
});
