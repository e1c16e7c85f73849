import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseJournalLine } from '../../src/chain/journal.ts';
import { lastJob, nextLaunch, parseLedger, releasedJobs } from '../../src/chain/ledger.ts';

const TAG = 'smoke-1a2b3c4d5e6f.l1-0fe9c1.s1';
const submitted = (more: object = {}) =>
  JSON.stringify({
    event: 'submitted',
    launch: 1,
    step: 1,
    cell: null,
    job: '4711',
    cluster: '',
    after: '',
    tag: TAG,
    time: '2026-12-01T10:00:00Z',
    ...more,
  });
const start = (more: object = {}) =>
  JSON.stringify({
    ...{ event: 'start', launch: 1, step: 1, cell: 0, job: '4711', task: '4712', restart: 0, host: 'n1', time: '2026-12-01T10:00:00Z' },
    ...{ resume_step: -1, ...more },
  });

test('a line of the ledger that no launch writes is left out', () => {
  assert.equal(parseLedger([submitted()]).length, 1);
  assert.equal(parseLedger([submitted({ later: { version: 9 } })]).length, 1, 'other keys are allowed');
  for (const more of [
    ...['35; touch x"]', '-1', '0', '1 2', '4711_0', 'x', 5, null].map((job) => ({ job })),
    ...[-1, 1.5, '1', null, 1e12, [1]].map((launch) => ({ launch })),
    ...[0, '<img>', 1e12].map((step) => ({ step })),
    ...['', 'x', '__proto__', null].map((event) => ({ event })),
  ]) {
    assert.deepEqual(parseLedger([submitted(more)]), [], JSON.stringify(more));
  }
  assert.deepEqual(parseLedger(['', '[]', 'null', '5', '{', '['.repeat(100_000)]), []);
  const [line] = parseLedger([submitted({ tag: '"]; click j1 "javascript:alert(1)"', after: '1 x 2 "]', cell: '<b>', time: 'now' })]);
  assert.deepEqual(line?.event === 'submitted' && [line.tag, line.after, line.cell, line.time], ['', ['1', '2'], undefined, undefined]);
  const [cancelled] = parseLedger([JSON.stringify({ event: 'cancelled', launch: 0, job: '4711_3', by: 'x'.repeat(5000) })]);
  assert.equal(cancelled?.event === 'cancelled' && cancelled.by, undefined);
});

test('a line of a journal that no task writes is left out', () => {
  assert.equal(parseJournalLine(start())?.event, 'start');
  for (const more of [
    ...['yesterday', '2026-12-01', '275760-01-01T00:00:00Z', '2026-99-01T00:00:00Z', 5, ''].map((time) => ({ time })),
    ...['x'.repeat(300), 5, null].map((host) => ({ host })),
    ...['x', '0', '1_1', 5].map((task) => ({ task })),
    ...[-1, 1e12, '0'].map((cell) => ({ cell })),
  ]) {
    assert.equal(parseJournalLine(start(more)), undefined, JSON.stringify(more).slice(0, 60));
  }
  const huge = parseJournalLine(start({ found: 'x'.repeat(200_000), resume_step: 1e300 }));
  assert.deepEqual(huge?.event === 'start' && [huge.found, huge.resumeStep], [undefined, undefined]);
});

test('the signal in a journal is the name of one', () => {
  const signalOf = (signal: unknown) => {
    const line = parseJournalLine(start({ event: 'end', newest_step: 5, signal }));
    return line?.event === 'end' ? line.signal : 'no line';
  };
  for (const signal of ['KILL', 'RTMIN+1', '9']) assert.equal(signalOf(signal), signal);
  for (const signal of ['](https://evil.example)', '<img src=x>', '@octocat', 'x\ny', '', 9, null])
    assert.equal(signalOf(signal), undefined);
});

test('a ledger of 30,000 lines is read whole', () => {
  const lines = Array.from({ length: 15_000 }, (_, index) => [
    submitted({ job: String(index + 1), launch: index, step: index + 1 }),
    JSON.stringify({ event: 'releasing', launch: index, job: '1' }),
  ]).flat();
  const ledger = parseLedger(lines);
  assert.equal(releasedJobs(ledger).length, 15_000);
  assert.equal(lastJob(ledger), 15_000);
  assert.equal(nextLaunch(ledger).launch, 15_000);
});

test('jobs that were released again, cancelled, or taken over by another launch', () => {
  const jobs = (...lines: string[]) => releasedJobs(parseLedger(lines)).map(({ jobId, launch }) => `${launch}:${jobId}`);
  const releasing = (launch: number) => JSON.stringify({ event: 'releasing', launch, job: '1' });
  const gone = (job: string) => JSON.stringify({ event: 'cancelled', launch: 1, job });
  assert.deepEqual(jobs(submitted(), submitted({ job: '5' }), gone('4711'), releasing(1), releasing(1)), ['1:5']);
  assert.deepEqual(jobs(submitted(), submitted({ launch: 2 }), releasing(1)), []);
  assert.deepEqual(jobs(submitted(), submitted({ launch: 2 }), releasing(2)), ['2:4711']);
  assert.deepEqual(jobs(submitted(), gone('4711_0'), releasing(1)), ['1:4711']);
  assert.deepEqual(jobs(releasing(1), submitted()), []);
});
