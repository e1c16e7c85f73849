// The record of every task that ran. Lines of versions that are on clusters today must stay readable.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isCount, parseJournal, parseJournalLine, parseObject } from '../../src/chain/journal.ts';

const HEAD = { launch: 1, step: 2, cell: 3, job: '4712', task: '4720', restart: 0, host: 'n1', time: '2026-12-01T10:00:30Z' };
const line = (event: string, more: object = {}) => JSON.stringify({ event, ...HEAD, ...more });
const TASK = {
  ...{ launch: 1, jobNumber: 2, cell: 3, jobId: '4712', taskId: '4720', restart: 0, host: 'n1' },
  time: Date.parse('2026-12-01T10:00:30Z') / 1000,
};

test('every kind of line says which task wrote it, and when', () => {
  for (const event of ['start', 'end', 'done', 'stopped', 'left']) {
    assert.partialDeepStrictEqual(parseJournalLine(line(event, { found: '20-40/20' })), { event, ...TASK, found: '20-40/20' });
  }
});

test('what a start and an end say', () => {
  assert.partialDeepStrictEqual(parseJournalLine(line('start', { resume_step: -1 })), { resumeStep: -1 });
  assert.partialDeepStrictEqual(
    parseJournalLine(line('end', { newest_step: 40, saved: '40', seconds: 61, exit: 0, new_checkpoint: true, complete: true })),
    { newestStep: 40, saved: '40', seconds: 61, exit: 0, signal: undefined, newCheckpoint: true, complete: true },
  );
  assert.partialDeepStrictEqual(parseJournalLine(line('end', { exit: 143, signal: 'TERM', new_checkpoint: false, complete: false })), {
    ...{ exit: 143, signal: 'TERM', newCheckpoint: false, complete: false },
  });
});

test('a field that is missing or of another type is not known', () => {
  const UNKNOWN = { newestStep: undefined, saved: undefined, seconds: undefined, exit: undefined, signal: undefined };
  assert.partialDeepStrictEqual(parseJournalLine(line('end')), { ...UNKNOWN, newCheckpoint: false, complete: false });
  assert.partialDeepStrictEqual(
    parseJournalLine(
      line('end', { newest_step: '40', saved: 40, seconds: 1.5, exit: null, signal: 9, new_checkpoint: 1, complete: 'yes' }),
    ),
    { ...UNKNOWN, newCheckpoint: false, complete: false },
  );
  assert.partialDeepStrictEqual(parseJournalLine(line('start')), { resumeStep: undefined, found: undefined });
});

test('why the stop rule kept a task from starting', () => {
  assert.partialDeepStrictEqual(parseJournalLine(line('stopped', { why: 'vanished' })), { why: 'vanished' });
  assert.partialDeepStrictEqual(parseJournalLine(line('stopped', { why: 'failures' })), { why: 'failures' });
  assert.partialDeepStrictEqual(parseJournalLine(line('stopped')), { why: 'failures' }, 'the only reason of older versions');
});

test('what is no line of a journal is left out, and the others count', () => {
  const bad = [
    ...['launch', 'step', 'cell', 'restart'].flatMap((key) => [-1, 1.5, '1', null, 2 ** 53].map((value) => ({ [key]: value }))),
    ...['job', 'task'].flatMap((key) => [4711, '0', 'x', '', null].map((value) => ({ [key]: value }))),
    ...[{ host: 7 }, { host: null }, { time: 'soon' }, { time: 1_800_000_000 }, { time: null }],
  ];
  for (const more of bad) assert.equal(parseJournalLine(line('start', more)), undefined, JSON.stringify(more));
  assert.equal(parseJournalLine(line('other')), undefined);
  assert.deepEqual(
    parseJournal(['{"event":"sta', line('start'), '', line('other'), line('left')]).map(({ event }) => event),
    ['start', 'left'],
  );
});

test('text that holds no JSON object holds nothing', () => {
  for (const text of ['', 'x', 'null', '7', '"text"', 'true', '{"a":1']) assert.deepEqual(parseObject(text), {}, text);
  assert.deepEqual(parseObject('{"a":1}'), { a: 1 });
});

test('a count is a whole number from 0', () => {
  assert.ok(isCount(0) && isCount(1_000_000));
  for (const value of [-1, 0.5, 2 ** 53, Number.NaN, Number.POSITIVE_INFINITY, '1', null, undefined]) assert.ok(!isCount(value));
});
