import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseLedger } from '../../src/chain/ledger.ts';
import type { CancelledRow } from '../../src/cluster/programs/cancel.ts';
import { jobNumberOf, notesOn } from '../../src/commands/cancel.ts';
import type { Report } from '../../src/report/report.ts';

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

const ID = 'smoke-1a2b3c4d5e6f';
const row = (task: string, jobNumber: number, state = 'RUNNING'): CancelledRow => ({
  ...{ task, state },
  name: { experimentId: ID, launch: 1, nonce: '0', jobNumber, cell: undefined },
});
const QUEUE = [row('11_0', 1), row('11_1', 1), row('11_2', 1, 'PENDING'), row('12_[0-2]', 2, 'PENDING')];

/** @param left what is left in the queue: job numbers */
function notes(
  given: { jobNumber?: number; cell?: number },
  rows: readonly CancelledRow[],
  left: number[] = [],
  newest: (string | undefined)[] = [],
) {
  const report = {
    places: { experiment: '/w', checkpoints: `/ckpt/${ID}` },
    jobs: left,
    status: {
      cells: newest.map((name, number) => ({ number, newest: name })),
      jobs: [1, 2, 3].map((jobNumber) => ({ jobNumber, alive: left.includes(jobNumber) })),
    },
  } as unknown as Report;
  return notesOn({ id: ID, jobNumber: given.jobNumber, cell: given.cell }, rows, report);
}

test('a cancel says what it took out of the queue, and what was running', () => {
  const first = (...args: Parameters<typeof notes>) => notes(...args)[0];
  assert.deepEqual(notes({}, []), [`Nothing of ${ID} was in the queue.`]);
  assert.equal(first({}, QUEUE), 'Cancelled the whole chain. Of its tasks, 11_0, 11_1 were running.');
  assert.equal(first({ jobNumber: 1 }, QUEUE), 'Cancelled job 1. Of its tasks, 11_0, 11_1 were running.');
  assert.equal(first({ jobNumber: 2 }, QUEUE), 'Cancelled job 2. None of its tasks was running.');
  assert.equal(first({ cell: 1 }, QUEUE), 'Cancelled cell 1. Of its tasks, 11_1 was running.');
  assert.equal(first({ cell: 2 }, QUEUE), 'Cancelled cell 2. None of its tasks was running.');
  assert.equal(first({ jobNumber: 1, cell: 0 }, QUEUE), 'Cancelled job 1, cell 0. Of its tasks, 11_0 was running.');
  assert.equal(first({ jobNumber: 1 }, [{ ...row('11_0', 1), name: undefined }]), 'Cancelled job 1. None of its tasks was running.');
  const many = Array.from({ length: 22 }, (_, task) => row(`11_${task}`, 1));
  assert.match(first({}, many) ?? '', /11_19 and 2 more were running\.$/);
});

test('a cancel says which checkpoints stay', () => {
  const second = (...args: Parameters<typeof notes>) => notes(...args)[1];
  assert.equal(second({}, QUEUE), 'There are no checkpoints yet.');
  assert.equal(
    second({}, QUEUE, [], ['step_20', undefined, 'step_40']),
    `Checkpoints stay under /ckpt/${ID}. The newest: cell 0 step_20, cell 2 step_40.`,
  );
  assert.equal(
    second({ cell: 2 }, QUEUE, [], ['step_20', undefined, 'step_40']),
    `Checkpoints stay under /ckpt/${ID}. The newest: cell 2 step_40.`,
  );
  assert.equal(second({ cell: 1 }, QUEUE, [], ['step_20', undefined]), 'There are no checkpoints yet.');
});

test('a cancel of one job warns that the next one starts', () => {
  const third = (...args: Parameters<typeof notes>) => notes(...args)[2];
  assert.equal(
    third({ jobNumber: 1 }, QUEUE, [2, 3]),
    'The next job starts now, because a cancelled job counts as ended. 2 jobs of the chain are still in the queue.',
  );
  assert.equal(
    third({ jobNumber: 1 }, QUEUE, [2]),
    'The next job starts now, because a cancelled job counts as ended. 1 job of the chain is still in the queue.',
  );
  assert.equal(third({ jobNumber: 2 }, QUEUE, [1]), undefined, 'only a job before it is left');
  assert.equal(third({ jobNumber: 2 }, QUEUE, [1, 2]), undefined);
  assert.equal(third({}, QUEUE, [2, 3]), undefined);
  assert.equal(
    notesOn({ id: ID, jobNumber: 1, cell: undefined }, QUEUE, { places: {}, jobs: [] } as unknown as Report).length,
    2,
    'nobody knows what is left',
  );
});

test('of a long chain, the first twenty jobs are listed', () => {
  const jobs = ledger(...Array.from({ length: 22 }, (_, index) => [index + 1, String(100 + index)] as const));
  assert.throws(() => jobNumberOf(jobs, 99, 'smoke'), /20 \(119\) and 2 more$/);
});
