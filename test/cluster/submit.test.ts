import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Plan } from '../../src/chain/plan.ts';
import { Answers, decodeAnswer } from '../../src/cluster/answers.ts';
import { commandsFor, resultOf, SUBMIT } from '../../src/cluster/programs/submit.ts';

const plan = (...jobNumbers: number[]) =>
  ({ launch: 1, tag: 't', submissions: jobNumbers.map((jobNumber) => ({ jobNumber })) }) as unknown as Plan;
const unknown = (what = 'nothing said'): never => {
  throw new Error(what);
};
const result = (planned: Plan, ...answers: readonly (readonly [string, ...string[]])[]) =>
  resultOf(new Answers(answers.map(([key, ...values]) => decodeAnswer(SUBMIT.answers, { key, values }))), planned, unknown);

const ONE = ['submitted', '1', '', '4711'] as const;
const TWO = ['submitted', '2', '', '4712', '4711'] as const;

test('a chain that is in the queue, on record and released', () => {
  assert.deepEqual(result(plan(1, 2), ONE, TWO, ['released']), {
    kind: 'submitted',
    jobs: [
      { jobNumber: 1, cell: undefined, jobId: '4711', after: [], state: 'PENDING' },
      { jobNumber: 2, cell: undefined, jobId: '4712', after: ['4711'], state: 'PENDING' },
    ],
    held: undefined,
    cut: undefined,
  });
  const held = result(plan(1), ONE, ['held', 'access denied']);
  assert.equal(held.kind === 'submitted' && held.held, 'access denied');
});

test('jobs behind a cut are not reported, those before it are', () => {
  const cut = result(plan(1, 2, 3), ONE, TWO, ['cut', '2', 'sbatch: error: no room'], ['released']);
  assert.ok(cut.kind === 'submitted');
  assert.deepEqual([cut.jobs.map(({ jobId }) => jobId), cut.cut], [['4711'], { jobNumber: 2, reason: 'no room' }]);
});

test('the other outcomes', () => {
  assert.deepEqual(result(plan(1), ['refused', 'sbatch: error: Invalid partition\nsbatch: error: bye']), {
    kind: 'refused',
    reason: 'Invalid partition; bye',
  });
  assert.deepEqual(result(plan(1), ['problem', 'no lock']), { kind: 'refused', reason: 'no lock' });
  assert.deepEqual(result(plan(1), ['changed']), { kind: 'changed' });
  assert.deepEqual(result(plan(1), ['stuck', 'why', '4711', '4712']), { kind: 'stuck', reason: 'why', jobIds: ['4711', '4712'] });
});

test('a chain that is alive: one job per id, in the order of the chain; a row that runs says more than one that waits', () => {
  const name = 'smoke-1a2b3c4d5e6f.l1-0.s';
  const alive = result(
    plan(1),
    ['alive', '4712', 'PENDING', 'afterany:4711_*(unfulfilled),afterany:4711_*(unfulfilled)', `${name}2`],
    ['alive', '4711', 'PENDING', '', `${name}1`],
    ['alive', '4711', 'RUNNING', '', `${name}1`],
    ['alive', '4711', 'PENDING', '', `${name}1`],
  );
  assert.deepEqual(alive, {
    kind: 'alive',
    jobs: [
      { jobNumber: 1, cell: undefined, jobId: '4711', after: [], state: 'RUNNING' },
      { jobNumber: 2, cell: undefined, jobId: '4712', after: ['4711'], state: 'PENDING' },
    ],
  });
});

test('what says nothing about the outcome, or too little, is unknown, never a yes or a no', () => {
  assert.throws(() => result(plan(1)), /nothing said/);
  assert.throws(() => result(plan(1), ONE), /nothing said/, 'no word about the release');
  assert.throws(() => result(plan(1, 2), ONE, ['released']), /2 jobs were to be submitted, and the cluster reports 1/);
  assert.throws(() => result(plan(1), ['unknown', 'squeue is silent']), /squeue is silent\. Nothing was released\. Launch again/);
});

test('commands to copy: the last job first, by name if there are many', () => {
  const jobs = (count: number) =>
    Array.from({ length: count }, (_, index) => ({
      jobNumber: index + 1,
      cell: undefined,
      jobId: String(11 + index),
      after: [],
      state: '',
    }));
  assert.deepEqual(commandsFor("/w it's", 'smoke', jobs(2)), {
    queue: "squeue -j 11,12 -o '%i %T %R %E'",
    log: "tail -f '/w it'\\''s/experiments/smoke/logs/'*",
    cancel: 'scancel 12 11',
  });
  assert.match(commandsFor('/w', 'smoke', jobs(13)).cancel, /grep -F smoke\.l \| cut/);
});
