import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { parseSource } from '../../src/experiment/document.ts';
import {
  asAttempt,
  type Experiment,
  experimentFrom,
  findExperiment,
  isExperimentPath,
  loadExperiment,
  savePathsAt,
} from '../../src/experiment/experiment.ts';
import { parseOverrides } from '../../src/experiment/overrides.ts';
import { parseRepoConfig, parseSiteConfig, repoConfigAt } from '../../src/experiment/repo-config.ts';
import { refused } from './refused.ts';

const COMMIT = '1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b';
const BASE = 'run: python train.py\nsave: {path: /ckpt}\n';
const NO_CONFIG = parseRepoConfig('');
const NO_SITE = parseSiteConfig('', 'main');

function load(text: string, { overrides = '', file = 'configs/x.yaml', config = NO_CONFIG, site = NO_SITE } = {}): Experiment {
  return experimentFrom(parseSource(file, text), COMMIT, config, parseOverrides(overrides), site);
}

test('the name is that of the yaml, or of the file', () => {
  assert.equal(load(BASE).name, 'x');
  assert.equal(load(BASE, { file: 'a/b.c.yml' }).name, 'b.c');
  assert.equal(load(BASE, { file: 'a/yaml.txt' }).name, 'yaml.txt');
  const named = load(`${BASE}name: n\n`);
  assert.equal(named.name, 'n');
  assert.equal(named.id, 'n-1a2b3c4d5e6f');
  assert.equal(named.path, 'configs/x.yaml');
  assert.equal(named.commit, COMMIT);
});

test('a cell has its number, its choices, its n_steps and its config', () => {
  const { cells } = load(`${BASE}^n_steps: [10, 20]\nmodel: {^lr: [1e-3, 3e-4]} # why\n`);
  assert.deepEqual(
    cells.map(({ number, choices, nSteps }) => [number, Object.fromEntries(choices), nSteps]),
    [
      [0, { 'model.lr': '1e-3', n_steps: '10' }, 10],
      [1, { 'model.lr': '1e-3', n_steps: '20' }, 20],
      [2, { 'model.lr': '3e-4', n_steps: '10' }, 10],
      [3, { 'model.lr': '3e-4', n_steps: '20' }, 20],
    ],
  );
  assert.equal(cells[3]?.config(), `${BASE}n_steps: 20\nmodel: {lr: 3e-4} # why\n`);
});

test('an n_steps that the defaults give is that of every cell', () => {
  const config = parseRepoConfig('defaults: {n_steps: 7}\n');
  assert.deepEqual(
    load(`${BASE}^a: [1, 2]\n`, { config }).cells.map((cell) => cell.nSteps),
    [7, 7],
  );
  assert.deepEqual(
    load(`${BASE}^n_steps: [null, 2]\n`, { config }).cells.map((cell) => cell.nSteps),
    [7, 2],
  );
});

test('a setting that comes through a merge key may not differ between cells either', () => {
  const text = `${BASE}small: &s {^max_concurrent_jobs: [1, 2]}\n<<: *s\n`;
  refused(() => load(text), 'configs/x.yaml:3:12: max_concurrent_jobs differs between cell 0 and cell 1');
});

test('an override of the chain reaches the settings and neither the id nor the configs', () => {
  const one = load(BASE, { overrides: 'chain.n_jobs=7 chain.scope=cell' });
  assert.deepEqual([one.settings.chain.nJobs, one.settings.chain.scope], [7, 'cell']);
  assert.equal(one.id, load(BASE).id);
  assert.equal(one.cells[0]?.config(), BASE);
  assert.equal(one.overrides.length, 2);
});

test('any other override reaches the settings, the id and the configs', () => {
  const one = load(`${BASE}a: 1\n`, { overrides: 'a=2 save.path=/other' });
  assert.equal(one.settings.save.path, '/other');
  assert.match(one.id, /^x-1a2b3c4d5e6f-[0-9a-f]{6}$/);
  assert.equal(one.cells[0]?.config(), 'run: python train.py\nsave: {path: /other}\na: 2\n');
  refused(() => load(BASE, { overrides: 'chains.n_jobs=2' }), "override 'chains.n_jobs': chains does not exist in configs/x.yaml");
});

test('an override of the cluster needs no key in the file, and no valid file to be compared', () => {
  const cluster = '{host: h, user: u, workdir: /w, known_hosts: k}';
  const site = parseSiteConfig(`clusters: {a: ${cluster}}\n`, 'main');
  assert.equal(load(BASE, { site, overrides: 'cluster=a' }).id, load(BASE, { site }).id);
  assert.equal(load('save: {path: /x}\n', { site, overrides: 'cluster=a +run=x' }).settings.run, 'x');
  assert.equal(load(BASE, { site, overrides: 'cluster=a' }).cells[0]?.config(), BASE);
});

test('an attempt has an id of its own and is otherwise the same', () => {
  const first = load(`${BASE}a: 1\n`, { overrides: 'a=2' });
  const { id, attempt, ...rest } = asAttempt(first, 3);
  assert.equal(id, `${first.id}-a3`);
  assert.equal(attempt, 3);
  const { id: _, attempt: one, ...others } = first;
  assert.equal(one, 1);
  assert.deepEqual(rest, others);
  assert.equal(asAttempt(asAttempt(first, 3), 1).id, first.id);
});

test('a near miss of a key is a warning with its line, and stays in the config', () => {
  const text = `${BASE}# longer\nchian: {n_jobs: 3}\nmodel: 1\n^n_step: [1, 2]\n`;
  const { warnings, cells, settings } = load(text);
  assert.deepEqual(warnings, [
    "configs/x.yaml:4:1: 'chian' has no meaning for Slurm Chain and counts as the experiment's own key; did you mean 'chain'?",
    "configs/x.yaml:6:1: '^n_step' has no meaning for Slurm Chain and counts as the experiment's own key; did you mean 'n_steps'?",
  ]);
  assert.equal(settings.chain.nJobs, 1);
  assert.match(cells[1]?.config() ?? '', /chian: \{n_jobs: 3\}/);
});

test('a near miss that a merge key or an override brings in is a warning too', () => {
  assert.match(load(`a: &a {saev: 1}\n<<: *a\n${BASE}`).warnings.join(), /^configs\/x\.yaml:1:8: 'saev' .* did you mean 'save'\?$/);
  assert.match(load(BASE, { overrides: '+n_stepz=3' }).warnings.join(), /^'n_stepz' .* did you mean 'n_steps'\?$/);
  assert.deepEqual(load(`${BASE}^n_steps: [1, 2]\n`).warnings, []);
});

test('paths are matched against the patterns of the repository', () => {
  assert.ok(isExperimentPath(NO_CONFIG, 'configs/a.yaml'));
  assert.ok(isExperimentPath(NO_CONFIG, 'configs/deep/er/a.yml'));
  assert.ok(!isExperimentPath(NO_CONFIG, 'configs/a.json'));
  assert.ok(!isExperimentPath(NO_CONFIG, 'other/a.yaml'));
  const config = parseRepoConfig('experiments: [a/*.yaml, b.yml]\n');
  assert.ok(isExperimentPath(config, 'b.yml'));
  assert.ok(!isExperimentPath(config, 'a/b/c.yaml'));
});

const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-experiment-'));
after(() => rmSync(directory, { recursive: true }));
const repo = { directory, token: '' };
const git = (...args: string[]) =>
  execFileSync('git', ['-C', directory, '-c', 'user.name=A', '-c', 'user.email=a@b', ...args], { encoding: 'utf8' }).trim();
const SHARED = 'experiments: configs/**/*.y*ml\n';
const files: Record<string, string> = {
  'configs/one.yaml': `${BASE}name: first\n`,
  'configs/deep/two.yml': 'run: x\nsave: {path: $WORK/two}\n',
  'configs/twins/a.yaml': `${BASE}name: twin\n`,
  'configs/twins/b.yaml': `${BASE}name: twin\n`,
  'configs/dup/two.yaml': `${BASE}name: other\n`,
  'configs/merged.yaml': `base: &b {name: by-merge}\n<<: *b\n${BASE}`,
  'configs/broken.yaml': 'a: [\n',
  'configs/unknown.yaml': `${BASE}chain: {njobs: 3}\n`,
  'elsewhere/three.yaml': `${BASE}name: third\n`,
  '.github/slurm-chain.yml': SHARED,
};
git('init', '--quiet', '--initial-branch=main');
for (const [path, text] of Object.entries(files)) {
  mkdirSync(join(directory, dirname(path)), { recursive: true });
  writeFileSync(join(directory, path), text);
}
symlinkSync('one.yaml', join(directory, 'configs/link.yaml'));
git('add', '-A');
git('commit', '--quiet', '-m', 'experiments');
const commit = git('rev-parse', 'HEAD');
const config = parseRepoConfig(SHARED);

test('an experiment is loaded from its commit', async () => {
  const experiment = await loadExperiment(repo, commit, config, './configs//one.yaml', parseOverrides('save.path=/y'));
  assert.deepEqual([experiment.name, experiment.path, experiment.settings.save.path], ['first', 'configs/one.yaml', '/y']);
  assert.deepEqual((await loadExperiment(repo, commit, config, 'configs/one.yaml')).overrides, []);
  await assert.rejects(loadExperiment(repo, commit, config, 'configs/broken.yaml'), /^Problem: configs\/broken\.yaml:2:1: not valid yaml/);
});

for (const [called, path] of [
  ['configs/one.yaml', 'configs/one.yaml'],
  [' ./configs/../elsewhere/three.yaml', 'elsewhere/three.yaml'],
  ['one', 'configs/one.yaml'],
  ['first', 'configs/one.yaml'],
  ['by-merge', 'configs/merged.yaml'],
  ['broken', 'configs/broken.yaml'],
] as const) {
  test(`'${called}' is found`, async () => {
    assert.equal(await findExperiment(repo, commit, config, called), path);
  });
}

for (const [called, message] of [
  ['configs/oen.yaml', /^Problem: there is no configs\/oen\.yaml at commit [0-9a-f]{12}; did you mean 'configs\/one\.yaml'\?$/],
  ['two', /^Problem: 'two' may mean any of configs\/deep\/two\.yml, configs\/dup\/two\.yaml; give the path$/],
  ['twin', /^Problem: 'twin' may mean any of configs\/twins\/a\.yaml, configs\/twins\/b\.yaml; give the path$/],
  ['oen', /^Problem: there is no experiment 'oen' at commit [0-9a-f]{12}; did you mean 'one'\?$/],
  ['third', /^Problem: there is no experiment 'third' at commit [0-9a-f]{12}/],
  ['zzzzzzzzzzzz', /^Problem: there is no experiment 'zzzzzzzzzzzz' at commit [0-9a-f]{12}; looked in configs\/\*\*\/\*\.y\*ml$/],
  ['../x.yaml', /^Problem: '\.\.\/x\.yaml' is not a path inside the repository/],
] as const) {
  test(`'${called}' is not found`, async () => {
    await assert.rejects(findExperiment(repo, commit, config, called), message);
  });
}

test('the save paths of a commit, each once, without those of files that are not valid', async () => {
  assert.deepEqual((await savePathsAt(repo, commit, config)).toSorted(), ['$WORK/two', '/ckpt']);
});

test('the shared file is read from the commit; without one, the defaults apply', async () => {
  assert.deepEqual((await repoConfigAt(repo, commit)).experiments, ['configs/**/*.y*ml']);
  git('rm', '--quiet', '.github/slurm-chain.yml');
  git('commit', '--quiet', '-m', 'no shared file');
  assert.deepEqual(await repoConfigAt(repo, git('rev-parse', 'HEAD')), NO_CONFIG);
});
