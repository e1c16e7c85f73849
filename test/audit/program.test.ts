import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AUDIT, checkpointsOf, factsOf, pathsText } from '../../src/audit/program.ts';
import { savePathOf } from '../../src/audit/recompute.ts';
import { Answers, decodeAnswer } from '../../src/cluster/answers.ts';

const facts = (expected: number, ...answers: readonly (readonly [string, ...string[]])[]) =>
  factsOf(new Answers(answers.map(([key, ...values]) => decodeAnswer(AUDIT.answers, { key, values }))), expected);
const COST = ['cost', '7', '1000', '2500000000'] as const;
const SUM = 'a'.repeat(64);

test('the answers about an experiment', () => {
  const { experiments, codes, taskEnds, cost } = facts(
    1,
    ['save-present', '0'],
    ['checkpoints', '0', '10.5 20.5 w 0/step_20'],
    ['checkpoints', '0', '30 40 e 1/step_40'],
    ['released', '0', '0 0123456789abcdef', '1 '],
    ['journal', '0', '0', 'half', '{}', '{'],
    ['journal', '0', '1', 'unreadable'],
    ['ledger', '0', '{}'],
    ['manifest', '0', '/f', '{"a":1}'],
    ['summary', '0', '/s', '{}'],
    ['directory-present', '0'],
    ['files', '0', `${SUM}  run.sh`, 'nonsense', `${SUM} *configs/config_0.yaml`],
    ['code', '/w/code/c', 'r', 'a', '2', './x', './y'],
    ['copy', '0', '/w/code/c'],
    ['copy-changed', '0', '12', './train.py'],
    ['copy-gone', '0', '0'],
    ['copy-added', '0', '0'],
    ['experiment', '0'],
    ['task-end', '4711', '1800000000'],
    ['task-end', '4712', 'Unknown'],
    COST,
  );
  const [one] = experiments;
  assert.deepEqual([one?.savePresent, one?.directoryPresent, one?.checkpoints.length, one?.ledger], [true, true, 2, ['{}']]);
  assert.deepEqual(one?.journals.get(0), { lines: ['{}', '{'], cut: true });
  assert.deepEqual([one?.journals.has(1), one?.unreadable.has(1)], [false, true]);
  assert.deepEqual(
    one?.releasedChecksums,
    new Map([
      [0, '0123456789abcdef'],
      [1, ''],
    ]),
  );
  assert.deepEqual(
    one?.files,
    new Map([
      ['run.sh', SUM],
      ['configs/config_0.yaml', SUM],
    ]),
  );
  assert.deepEqual(one?.copy, {
    ...{ kind: 'compared', dir: '/w/code/c', gone: { count: 0, names: [] }, added: { count: 0, names: [] } },
    changed: { count: 12, names: ['train.py'] },
  });
  assert.deepEqual(codes.get('/w/code/c'), { recorded: 'r', actual: 'a', bad: { count: 2, names: ['x', 'y'] } });
  assert.deepEqual([...taskEnds], [['4711', 1_800_000_000]]);
  assert.deepEqual(cost, { filesHashed: 7, bytesHashed: 1000, clusterSeconds: 2.5 });
  assert.equal(pathsText({ count: 12, names: ['a', 'b'] }), 'a, b and 10 more');
});

test('answers belong to their experiment, whatever their order', () => {
  const { experiments } = facts(
    2,
    ['experiment', '1'],
    ['copy-missing', '1', '/c'],
    ['copy-unknown', '0', '/c'],
    ['experiment', '0'],
    COST,
  );
  assert.deepEqual(
    experiments.map(({ copy }) => copy),
    [
      { kind: 'unknown', dir: '/c' },
      { kind: 'missing', dir: '/c' },
    ],
  );
  assert.deepEqual([experiments[0]?.ledger, experiments[0]?.savePresent], [undefined, false]);
});

test('an experiment without its last answer, and a missing cost, are errors', () => {
  assert.throws(() => facts(2, ['experiment', '0'], COST), /examined 1 of 2 experiments/);
  assert.throws(() => facts(1, ['experiment', '0']), /'cost' is missing/);
});

test('directories that are checkpoints', () => {
  const rows = [
    '10.5 20.5 w 0/step_0020',
    '1 2 p 0/step_40',
    '1 2 w 0/ckpt-7',
    '1 2 w 0/incomplete.step_60.4711.0',
    '1 2 w 0/step_x',
    'nonsense',
  ];
  assert.deepEqual(checkpointsOf(rows, 'step_').get(0), [
    { name: 'step_0020', number: 20, complete: true, modified: 10, touched: 20 },
    { name: 'step_40', number: 40, complete: false, modified: 1, touched: 2 },
  ]);
  assert.deepEqual(
    checkpointsOf(rows, undefined)
      .get(0)
      ?.map(({ name }) => name),
    ['step_0020', 'step_40', 'ckpt-7'],
  );
});

test('the save.path as it was expanded', () => {
  const target = { saveDirectory: '/new/ckpt/id' };
  assert.equal(savePathOf('/ckpt', target, { save: '/other/id' }), '/ckpt');
  assert.equal(savePathOf('~/ckpt', target, { save: '/home/alice/ckpt/id' }), '/home/alice/ckpt');
  assert.equal(savePathOf('$SCRATCH/ckpt', target, { save: '/scratch/alice/ckpt/id' }), '/scratch/alice/ckpt');
  assert.equal(
    savePathOf('~/ckpt', target, { save: '/home/alice/elsewhere/id' }),
    '/new/ckpt',
    'the manifest does not fit, so where it is now counts',
  );
});
