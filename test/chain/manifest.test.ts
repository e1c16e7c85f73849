import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from '../../src/base/problem.ts';
import { ownerOfRecord } from '../../src/chain/layout.ts';
import { type Manifest, parseManifest, parseSummary, summaryOf } from '../../src/chain/manifest.ts';

const COMMIT = '1a2b3c4d5e6f'.padEnd(40, 'a');
const ID = 'smoke-1a2b3c4d5e6f';

const MANIFEST: Manifest = {
  ...{ version: 1, id: ID, name: 'smoke', commit: COMMIT, path: 'configs/smoke.yaml', attempt: 1, overrides: ['lr=1'], subject: 'Try' },
  ...{ chain: ['chain.scope=cell'], repository: 'lab/nano', pullRequests: [7], cluster: 'entropy', workdir: '/w', save: `/ckpt/${ID}` },
  checkpoints: { prefix: 'step_', complete: '', offset: 1 },
  slurm: [
    ['gres', 'gpu:1'],
    ['exclusive', true],
  ],
  wandb: null,
  code: { name: COMMIT, digest: 'd'.repeat(64), submodules: [], lfsPointers: [] },
  cells: [
    { cell: 0, choices: { lr: '1' }, nSteps: 500 },
    { cell: 1, choices: { lr: '2' }, nSteps: null },
  ],
  launches: [
    {
      ...{ launch: 1, command: 'launch', steps: [1, 2], overrides: [], slurm: 'slurm 22.05.8', sbatchVariables: ['SBATCH_QOS'] },
      ...{
        jobScript: 'e'.repeat(64),
        sbatch: [['--hold', '--array=0-1']],
        actor: 'alice',
        runUrl: 'https://github.com/lab/nano/actions/runs/1',
      },
      ...{ repository: 'lab/nano', pullRequest: 7, at: '2026-12-01T10:02:03.123Z' },
    },
  ],
};

/** A copy with one field changed. @param path such as `launches.0.steps` */
function changed(value: unknown, path: string, to: unknown): string {
  const copy = structuredClone(value) as Record<string, unknown>;
  const keys = path.split('.');
  const last = keys.pop() ?? '';
  const parent = keys.reduce<Record<string, unknown>>((one, key) => one[key] as Record<string, unknown>, copy);
  if (to === undefined) delete parent[last];
  else parent[last] = to;
  return JSON.stringify(copy);
}

test('what a launch writes can be read, with keys that only other versions know', () => {
  assert.deepEqual(parseManifest(JSON.stringify(MANIFEST), 'x'), MANIFEST);
  const summary = summaryOf(MANIFEST);
  assert.deepEqual(parseSummary(JSON.stringify(summary), 'x'), summary);
  assert.deepEqual(parseSummary(JSON.stringify(MANIFEST), 'x'), summary, 'an experiment of an older version has only its manifest');
  assert.deepEqual(parseManifest(changed(MANIFEST, 'more', { deep: [1] }), 'x'), MANIFEST);
  assert.deepEqual(parseManifest(changed(MANIFEST, 'launches.0.more', 1), 'x'), MANIFEST);
  // A launch by a dispatch.
  assert.equal(parseManifest(changed(MANIFEST, 'launches.0.pullRequest', undefined), 'x').launches[0]?.pullRequest, undefined);
});

const BAD: readonly (readonly [string, unknown])[] = [
  ...['', '../x', '-x', 'a b', 'a/b', 'a\nb', '<img>', 'x'.repeat(65), '@octocat', 5, null, undefined].map((id) => ['id', id] as const),
  ...['--upload-pack=touch pwned', 'HEAD', COMMIT.slice(1), `${COMMIT}0`, COMMIT.toUpperCase(), '', 5].map(
    (one) => ['commit', one] as const,
  ),
  ...[[null], [5], ['novalue'], ['=x'], [['a=b']], 'a=b', Array.from({ length: 1001 }, () => 'a=b')].map(
    (one) => ['overrides', one] as const,
  ),
  ...[[{}], [null]].map((one) => ['chain', one] as const),
  ...[['x'], [0], [-1], [1.5], [1e12], [null], '7'].map((one) => ['pullRequests', one] as const),
  ...['lab', 'lab/nano/x', 'lab nano/x', '<b>/x', 5].map((one) => ['repository', one] as const),
  ...['', 'x', '../x', `/a/../${ID}`, `/ckpt/other`, `/ckpt/${ID}\0`, `/${'x'.repeat(5000)}/${ID}`].map((one) => ['save', one] as const),
  ...['w', '', '/w/../x', 5].map((one) => ['workdir', one] as const),
  ...[0, 100, 1.5, '1', null].map((one) => ['attempt', one] as const),
  ...[2, '1', undefined].map((one) => ['version', one] as const),
  ...[[5], [['a']], [['a', 5]], [['a', false]], [['a', 'b', 'c']]].map((one) => ['slurm', one] as const),
  ...[{ runs: 'x' }, { group: 5, runs: [] }, { group: 'x', runs: [5] }, 5].map((one) => ['wandb', one] as const),
  ...[{}, null, { prefix: 5, complete: '', offset: 0 }, { prefix: '', complete: '', offset: 2 }].map(
    (one) => ['checkpoints', one] as const,
  ),
  ...['x', `${COMMIT}-zzzzzz`, '../../x'].map((one) => ['code.name', one] as const),
  ['code.digest', 'x'],
  ['code.submodules', [5]],
  ...[null, { a: null }, { a: 5 }, { a: ['x'] }, 'x'].map((one) => ['cells.0.choices', one] as const),
  ...[1, -1, '0', null].map((one) => ['cells.0.cell', one] as const),
  ...[0, -1, 1.5, '5'].map((one) => ['cells.0.nSteps', one] as const),
  ['cells', Array.from({ length: 100_001 }, (_, cell) => ({ cell, choices: {}, nSteps: null }))],
  ...[['<img src=x> @octocat'], [0], [-1], [1.5], [1e10], 1, Array.from({ length: 100_001 }, () => 1)].map(
    (one) => ['launches.0.steps', one] as const,
  ),
  ...[0, '1', 1e10].map((one) => ['launches.0.launch', one] as const),
  ...['rm', '<b>', 5, undefined].map((one) => ['launches.0.command', one] as const),
  ...['yesterday', '', '2026-12-01T10:02:03Z<b>', 5].map((one) => ['launches.0.at', one] as const),
  ...[5, null, undefined].map((one) => ['launches.0.actor', one] as const),
  ['launches.0.pullRequest', 'x'],
  ['launches.0.sbatch', [[5]]],
  ['launches', [null]],
  ['name', 'x\0y'],
  ['subject', 'x'.repeat(1_000_001)],
];

test('everything else is a Problem that names the file and the field', () => {
  for (const [path, value] of BAD) {
    const about = `${path}: ${JSON.stringify(value)?.slice(0, 80)}`;
    assert.throws(
      () => parseManifest(changed(MANIFEST, path, value), '/w/manifest.json'),
      (error) => {
        assert.ok(error instanceof Problem, about);
        const [top = ''] = path.split('.');
        assert.match(error.message, /^\/w\/manifest\.json is not a manifest that this version of the action can read: its field /, about);
        assert.ok(error.message.includes(top), `${about}: ${error.message}`);
        assert.ok(error.message.length < 300, about);
        return true;
      },
      about,
    );
  }
  const summary = summaryOf(MANIFEST);
  for (const [path, value] of BAD.filter(([key]) => key in summary && !key.includes('.'))) {
    assert.throws(() => parseSummary(changed(summary, path, value), 'x'), Problem, `${path}: ${JSON.stringify(value)?.slice(0, 80)}`);
  }
  assert.throws(() => parseSummary(changed(summary, 'codeName', '../x'), 'x'), /its field codeName/);
});

test('text that is no record at all', () => {
  for (const text of [
    '',
    'null',
    '5',
    '[]',
    '"x"',
    '{',
    '{}',
    '\0',
    '['.repeat(100_000),
    `{"id":${'['.repeat(50_000)}${']'.repeat(50_000)}}`,
  ]) {
    assert.throws(() => parseManifest(text, 'x'), Problem, text.slice(0, 20));
    assert.throws(() => parseSummary(text, 'x'), Problem, text.slice(0, 20));
  }
});

test('keys of objects never reach the prototype', () => {
  const text = JSON.stringify(MANIFEST).replace('"choices":{"lr":"1"}', '"choices":{"__proto__":"polluted","constructor":"x"}');
  try {
    parseManifest(text, 'x');
  } catch (error) {
    assert.ok(error instanceof Problem);
  }
  assert.equal(({} as Record<string, unknown>)['polluted'], undefined);
});

test('a record belongs to the experiment whose directory it is in', () => {
  assert.equal(ownerOfRecord(`/w/experiments/${ID}/summary.json`), ID);
  assert.equal(ownerOfRecord(`/w/experiments/${ID}/manifest.json`), ID);
  assert.equal(ownerOfRecord(`/ckpt/${ID}/.chain/summary.json`), ID);
  assert.equal(ownerOfRecord('summary.json'), '');
});
