// The record of what was launched: what goes into it, and what is compared with the commit.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  fieldDifferences,
  type LaunchRecord,
  type Manifest,
  manifestDifferences,
  manifestOf,
  parseManifest,
  summaryOf,
} from '../../src/chain/manifest.ts';
import { planOf } from '../../src/chain/plan.ts';
import { parseSource } from '../../src/experiment/document.ts';
import { experimentFrom } from '../../src/experiment/experiment.ts';
import { parseOverrides } from '../../src/experiment/overrides.ts';
import { parseRepoConfig, parseSiteConfig } from '../../src/experiment/repo-config.ts';

const COMMIT = '1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b';
const DIGEST = 'd'.repeat(64);
const PLACES = { workdir: '/w', savePath: '/ckpt' };
const SITE = parseSiteConfig('clusters:\n  entropy: {host: login.edu, user: chain, workdir: /w, known_hosts: x}\n', 'main');
const YAML = 'run: train\nsave: {path: /ckpt}\nchain: {n_jobs: 2}\nn_steps: 500\n';

function manifest(
  yaml = '^lr: [1, 2]\n',
  overrides = '',
  earlier: readonly LaunchRecord[] = [],
  pullRequest: number | null = 12,
): Manifest {
  const experiment = experimentFrom(
    parseSource('configs/smoke.yaml', YAML + yaml),
    COMMIT,
    parseRepoConfig(''),
    parseOverrides(overrides),
    SITE,
  );
  const number = earlier.length + 1;
  return manifestOf({
    ...{ experiment, places: PLACES, subject: 'Warm up longer', earlier },
    code: { name: COMMIT, digest: DIGEST, submodules: [], lfsPointers: ['data.bin'] },
    plan: planOf(experiment, PLACES, { launch: number, firstJob: earlier.length * 2 + 1, nonce: '0' }),
    launch: {
      ...{ command: earlier.length > 0 ? 'extend' : 'launch', slurm: 'slurm 22.05.8', sbatchVariables: [], jobScript: DIGEST },
      ...{ actor: 'alice', runUrl: 'https://github.com/lab/nano/actions/runs/1', repository: 'lab/nano' },
      pullRequest: pullRequest ?? undefined,
      at: '2026-12-01T10:00:00Z',
    },
  });
}
const WHOLE = manifest();

test('a manifest says what was launched, from where, and where it is', () => {
  assert.partialDeepStrictEqual(WHOLE, {
    ...{ version: 1, id: 'smoke-1a2b3c4d5e6f', name: 'smoke', commit: COMMIT, path: 'configs/smoke.yaml', attempt: 1, overrides: [] },
    ...{ subject: 'Warm up longer', repository: 'lab/nano', pullRequests: [12], cluster: 'entropy', workdir: '/w' },
    ...{ save: '/ckpt/smoke-1a2b3c4d5e6f', checkpoints: { prefix: 'step_', complete: '', offset: 1 }, wandb: null },
    code: { name: COMMIT, digest: DIGEST, lfsPointers: ['data.bin'] },
  });
  assert.deepEqual(
    WHOLE.cells.map(({ cell, choices, nSteps }) => [cell, choices, nSteps]),
    [
      [0, { lr: '1' }, 500],
      [1, { lr: '2' }, 500],
    ],
  );
  const counted = manifest('n_epochs: 3\n', '+save.step=count +save.complete=done.json').checkpoints;
  assert.deepEqual(counted, { prefix: 'step_', complete: 'done.json', offset: 0 });
});

test('each launch adds a record, with the jobs that it asked for and the exact sbatch arguments', () => {
  const [first] = WHOLE.launches;
  assert.partialDeepStrictEqual(first, { launch: 1, command: 'launch', actor: 'alice', steps: [1, 2], jobScript: DIGEST });
  assert.equal(first?.sbatch.length, 2);
  assert.ok(first?.sbatch[1]?.includes('--dependency=afterany:@'));
  const second = manifest('^lr: [1, 2]\n', '', WHOLE.launches, 13);
  assert.deepEqual(
    second.launches.map(({ launch, steps }) => [launch, steps]),
    [
      [1, [1, 2]],
      [2, [3, 4]],
    ],
  );
  assert.deepEqual(second.pullRequests, [12, 13]);
  assert.deepEqual(manifest('', '', WHOLE.launches).pullRequests, [12], 'the same pull request once');
  assert.deepEqual(manifest('', '', [], null).pullRequests, []);
  const perCell = manifest('^lr: [1, 2]\n', 'chain.scope=cell');
  assert.deepEqual(perCell.launches[0]?.steps, [1, 2], 'a job number once, however many sbatch calls it takes');
});

test('overrides that are part of the id, and those that change the chain alone', () => {
  const { overrides, chain, launches } = manifest('train: {b: 1, a: 1}\n', 'train.b=2 chain.n_jobs=3 train.a=2 chain.warn_before=60');
  assert.deepEqual(overrides, ['train.a=2', 'train.b=2'], 'in one order, however they were written');
  assert.deepEqual(chain, ['chain.warn_before=60'], 'a later launch of the same chain has a length of its own');
  assert.deepEqual(launches[0]?.overrides, ['chain.n_jobs=3', 'chain.warn_before=60']);
});

test('a manifest is read as it was written, and a summary is the part that a listing reads', () => {
  const written = JSON.stringify(WHOLE);
  assert.deepEqual(JSON.parse(JSON.stringify(parseManifest(written, '/f'))), JSON.parse(written));
  const summary = summaryOf(WHOLE);
  assert.equal(summary.codeName, WHOLE.code.name);
  assert.ok(!('launches' in summary) && !('cells' in summary));
});

test('a manifest may be elsewhere and have other launches; everything else must be what the commit gives', () => {
  const moved = { ...WHOLE, workdir: '/new', launches: [], pullRequests: [], repository: 'lab/other', chain: ['chain.warn_before=60'] };
  assert.deepEqual(manifestDifferences(moved, WHOLE), []);
  assert.deepEqual(manifestDifferences({ ...WHOLE, path: 'other.yaml', code: { ...WHOLE.code, digest: 'x' } }, WHOLE), [
    'path is "other.yaml" in the manifest and "configs/smoke.yaml" at the commit',
    `code.digest is "x" in the manifest and "${DIGEST}" at the commit`,
  ]);
  const { subject: _, ...lacking } = WHOLE;
  assert.deepEqual(manifestDifferences(lacking as Manifest, WHOLE), [
    'subject is missing in the manifest and "Warm up longer" at the commit',
  ]);
  const extra = { ...WHOLE, code: { ...WHOLE.code, more: 1 } };
  assert.deepEqual(manifestDifferences(extra, WHOLE), ['code.more is 1 in the manifest and missing at the commit']);
  const all = { ...WHOLE, id: '', name: '', commit: '', path: '', attempt: 2, subject: '', cluster: '' };
  assert.equal(manifestDifferences(all, WHOLE).length, 5, 'enough to see what is going on');
});

for (const [a, b, differences] of [
  [1, 1, []],
  [1, '1', [{ path: '', a: 1, b: '1' }]],
  [null, {}, [{ path: '', a: null, b: {} }]],
  [{}, null, [{ path: '', a: {}, b: null }]],
  [{ x: { y: [1, 2] } }, { x: { y: [1, 3] } }, [{ path: 'x.y.1', a: 2, b: 3 }]],
  [
    { x: 1 },
    { y: 2 },
    [
      { path: 'x', a: 1, b: undefined },
      { path: 'y', a: undefined, b: 2 },
    ],
  ],
  [{ x: {} }, { x: 1 }, [{ path: 'x', a: {}, b: 1 }]],
  [[1], [1, 2], [{ path: '1', a: undefined, b: 2 }]],
] as const) {
  test(`${JSON.stringify(a)} and ${JSON.stringify(b)} differ in ${differences.length} fields`, () => {
    assert.deepEqual(fieldDifferences(a, b), differences);
  });
}

/** The manifest with one field replaced. @param path such as `launches.0.command` */
function withField(path: string, value: unknown): string {
  const copy = structuredClone(WHOLE) as unknown as Record<string, unknown>;
  const keys = path.split('.');
  const parent = keys.slice(0, -1).reduce((at, key) => at[key] as Record<string, unknown>, copy);
  parent[keys.at(-1) ?? ''] = value;
  return JSON.stringify(copy);
}

test('values that launches write in other cases', () => {
  for (const [path, value] of [
    ['launches.0.command', 'extend'],
    ['launches.0.command', 'restart'],
    ['launches.0.jobScript', ''],
    ['repository', ''],
    ['code.name', `${COMMIT}-0fe9c1`],
    ['wandb', { group: 'https://wandb.ai/e/p/groups/g/workspace', runs: ['https://wandb.ai/e/p/runs/g-0'] }],
  ] as const) {
    assert.doesNotThrow(() => parseManifest(withField(path, value), '/f'), `${path}: ${JSON.stringify(value)}`);
  }
  assert.deepEqual(parseManifest(withField('wandb', { group: 'g', runs: ['r'] }), '/f').wandb, { group: 'g', runs: ['r'] });
});

test('a value with something around it is none', () => {
  for (const [path, value] of [
    ['repository', 'x y/lab/nano'],
    ['repository', 'lab/nano x'],
    ['code.name', `x${COMMIT}`],
    ['code.name', `${COMMIT}x`],
    ['code.digest', `x${DIGEST}`],
    ['code.digest', `${DIGEST}x`],
    ['launches.0.at', 'x2026-12-01T10:00:00Z'],
    ['launches.0.at', '2026-12-01T10:00:00Zx'],
    ['workdir', 'w'],
    ['workdir', '/w/../x'],
    ['save', `/ckpt/x${WHOLE.id}`],
  ] as const) {
    assert.throws(
      () => parseManifest(withField(path, value), '/f'),
      /^Problem: \/f is not a manifest that this version of the action can read: its field /,
      `${path}: ${value}`,
    );
  }
});
