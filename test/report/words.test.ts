import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseJournal } from '../../src/chain/journal.ts';
import type { AccountingRow, QueueRow } from '../../src/chain/slurm-rows.ts';
import { type Cancellation, rowsOfArray, taskState } from '../../src/chain/state.ts';
import { durationWords, stateWords } from '../../src/report/words.ts';
import { ended, iso, NOW, queued } from '../support/slurm-rows.ts';

const words = (queue: QueueRow[] | undefined, accounting: AccountingRow[] | undefined, journal: string[] = [], cancelled?: Cancellation) =>
  stateWords(taskState(rowsOfArray({ queue, accounting }, '5', 't5'), 2, parseJournal(journal), cancelled), NOW);
const line = (event: string, more: object = {}) =>
  JSON.stringify({ event, launch: 1, step: 1, cell: 2, job: '5', task: '5', restart: 0, host: 'n1', time: iso(NOW - 100), ...more });

for (const [what, said] of [
  [words([queued('5', [0, 1, 2], 'PENDING', 'Dependency')], []), 'waiting for the previous job'],
  [words([queued('5', [2], 'PENDING', 'Priority')], []), 'waiting for resources (Priority: other jobs come first)'],
  [words([queued('5', [2], 'PENDING', 'QOSMaxGRESPerUser')], []), 'waiting for resources (QOSMaxGRESPerUser)'],
  [words([queued('5', [2], 'PENDING', 'JobArrayTaskLimit')], []), 'waiting for other cells (max_concurrent_jobs)'],
  [
    words([queued('5', [2], 'PENDING', 'BeginTime')], []),
    'waiting for resources (BeginTime: it may not begin yet; after a requeue that takes two minutes)',
  ],
  [words([queued('5', [2], 'PENDING', 'JobHeldAdmin')], []), 'held (JobHeldAdmin: by an administrator)'],
  [words([queued('5', [2], 'RUNNING', 'None', NOW - 3700)], []), 'running for 1 h 1 min on n1'],
  [words([], [ended('5', [2], 'TIMEOUT')]), 'reached the time limit'],
  [words([], [ended('5', [2], 'FAILED', '3:0')]), 'failed, exit code 3'],
  [words([], [ended('5', [2], 'FAILED', '0:9')]), 'failed, signal 9'],
  [words([], [ended('5', [2], 'FAILED', '75:0')]), 'found the cell taken (another task holds it)'],
  // The user's own program may exit with the same code; then its journal has an end.
  [words([], [ended('5', [2], 'FAILED', '75:0')], [line('start'), line('end', { exit: 75 })]), 'failed, exit code 75'],
  [
    words([], [ended('5', [2], 'FAILED', '1:0')], [line('stopped', { why: 'failures' })]),
    'stopped by the stop rule (too many failures without a new checkpoint)',
  ],
  [words([], [ended('5', [2], 'OUT_OF_MEMORY', '0:125')]), 'out of memory'],
  [words([], [ended('5', [2], 'PREEMPTED')]), 'preempted'],
  [words([], [ended('5', [2], 'NODE_FAIL')]), 'lost its node'],
  [words([], [ended('5', [2], 'CANCELLED', '0:0', 'root')]), 'cancelled by root'],
  [words([], [ended('5', [2], 'CANCELLED', '0:0', 'chain')], [], { kind: 'by', who: 'alice' }), 'cancelled by alice'],
  [words([], [], [], { kind: 'not-needed' }), 'not needed any more'],
  [words([], [ended('5', [2], 'COMPLETED')], [line('done', { complete: true })]), 'nothing left to do'],
  [words([], [ended('5', [2], 'COMPLETED')], [line('start')]), 'finished'],
  // Accounting off or purged: the journal still knows.
  [words([], undefined, [line('start'), line('end', { exit: 0 })]), 'finished'],
  [words([], undefined, [line('start'), line('end', { exit: 143, signal: 'TERM' })]), 'failed, signal TERM'],
  [words([], undefined, [line('start')]), 'not known: it started at 2027-01-15T07:58:20Z on n1, and no record says how it ended'],
  [words([], []), 'not known: it left the queue, and no record says how it ended'],
  [words(undefined, undefined), 'not known: squeue did not answer'],
  // Accounting that lags behind the queue does not mean the end.
  [words([], [ended('5', [2], 'RUNNING')]), 'not known: it left the queue, and no record says how it ended'],
  // Slurm gave the id to another job since.
  [words([{ ...queued('5', [2], 'RUNNING'), name: 'other' }], [{ ...ended('5', [2], 'FAILED', '1:0'), name: 'other' }]), /^not known/],
] as const) {
  test(`a task is reported as: ${String(said)}`, () => {
    if (typeof said === 'string') assert.equal(what, said);
    else assert.match(what, said);
  });
}

test('a duration in its two largest units', () => {
  assert.deepEqual([0, 59, 61, 3600, 90_061].map(durationWords), ['0 s', '59 s', '1 min', '1 h', '1 d 1 h']);
});
