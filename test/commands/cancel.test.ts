import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseLedger } from '../../src/chain/ledger.ts';
import { jobNumberOf } from '../../src/commands/cancel.ts';

const ledger = (...jobs: readonly (readonly [number, string])[]) =>
  parseLedger([
    ...jobs.map(([step, job]) => JSON.stringify({ event: 'submitted', launch: 1, step, cell: null, job, after: '', tag: '', time: '' })),
    JSON.stringify({ event: 'releasing', launch: 1, job: '1' }),
  ]);

test('a job is meant by its number in the chain or by the id of Slurm', () => {
  const jobs = ledger([1, '4711'], [2, '4712'], [3, '4713']);
  assert.equal(jobNumberOf(jobs, 2, 'smoke'), 2);
  assert.equal(jobNumberOf(jobs, 4713, 'smoke'), 3);
});

test('a number that may be both is refused, and the message names both', () => {
  const jobs = ledger([1, '2'], [2, '3'], [3, '4']);
  assert.throws(
    () => jobNumberOf(jobs, 2, 'smoke'),
    /ambiguous: it may be job 2 of the chain \(Slurm's 3\), or Slurm's 2 \(job 1 of the chain\)/,
  );
  assert.equal(jobNumberOf(ledger([1, '1'], [2, '7']), 1, 'smoke'), 1, 'both mean the same job');
});

test('a job that does not exist is refused with those that do', () => {
  assert.throws(
    () => jobNumberOf(ledger([1, '4711'], [2, '4712']), 9, 'smoke'),
    /smoke has no job 9\. Its jobs, with Slurm's ids, are 1 \(4711\), 2 \(4712\)/,
  );
  assert.throws(() => jobNumberOf([], 1, 'smoke'), /are none/);
});
