import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSource } from '../../src/experiment/document.ts';
import { type Experiment, experimentFrom } from '../../src/experiment/experiment.ts';
import { parseOverrides } from '../../src/experiment/overrides.ts';
import { parseRepoConfig } from '../../src/experiment/repo-config.ts';

const COMMIT = '1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b';
const BASE = 'run: python train.py\nsave: {path: /ckpt}\n';
const CLUSTER = '{host: h, user: u, workdir: /w, known_hosts: "h ssh-ed25519 AAAA"}';

function load(text: string, { config = '', overrides = '' } = {}): Experiment {
  return experimentFrom(parseSource('configs/x.yaml', text), COMMIT, parseRepoConfig(config), parseOverrides(overrides));
}

test('everything but run and save.path has a default', () => {
  const { settings, name, cells, cluster } = load(BASE);
  assert.equal(name, 'x');
  assert.equal(settings.chain.nJobs, 1);
  assert.equal(settings.chain.warnBefore, 0);
  assert.equal(settings.nSteps, undefined);
  assert.equal(cells.length, 1);
  assert.equal(cluster, undefined);
});

test("other top-level keys are the experiment's own", () => {
  assert.equal(load(`${BASE}model: {layers: 3}\nslurmy: 1\n`).cells[0]?.config(), `${BASE}model: {layers: 3}\nslurmy: 1\n`);
});

test('defaults of the repo fill in key by key, and the experiment wins', () => {
  const config =
    'defaults:\n  run: make train\n  save: {path: $WORK/ckpt, complete: .metadata}\n  slurm: {partition: a, gres: gpu:1}\n  env: {A: 1, B: 2}\n';
  const { settings } = load('slurm: {partition: b}\nenv: {B: 3}\n', { config });
  assert.equal(settings.run, 'make train');
  assert.deepEqual(settings.save, { path: '$WORK/ckpt', complete: '.metadata', prefix: 'step_', step: 'index' });
  assert.deepEqual(Object.fromEntries(settings.slurm), { partition: 'b', gres: 'gpu:1' });
  assert.deepEqual(Object.fromEntries(settings.env), { A: '1', B: '3' });
});

test('slurm options take - and _, flags and spelled numbers; null and false mean not given', () => {
  const { settings } = load(
    `${BASE}slurm: {cpus_per_gpu: 14, mem-per-gpu: 90G, exclusive: true, requeue: false, qos: null, time: "2-00:00:00", nodes: 007}\n`,
  );
  assert.deepEqual(Object.fromEntries(settings.slurm), {
    'cpus-per-gpu': '14',
    'mem-per-gpu': '90G',
    exclusive: true,
    time: '2-00:00:00',
    nodes: '007',
  });
});

test('merge keys are read as training code reads them', () => {
  const { settings } = load(`common: &c\n  slurm: {gres: gpu:2, time: "1:00:00"}\n  n_steps: 7\nsmall: &s {time: "5"}\n<<: *c\n${BASE}`);
  assert.deepEqual(Object.fromEntries(settings.slurm), { gres: 'gpu:2', time: '1:00:00' });
  assert.equal(settings.nSteps, 7);
  assert.equal(load(`small: &s {time: 5, gres: gpu}\nslurm: {<<: *s, time: 9}\n${BASE}`).settings.slurm.get('time'), '9');
});

test('overrides reach what an alias stands for', () => {
  const text = `res: &r {time: 60}\nslurm: *r\n${BASE}`;
  const { settings, cells } = load(text, { overrides: 'res.time=120' });
  assert.equal(settings.slurm.get('time'), '120');
  assert.match(cells[0]?.config() ?? '', /res: &r \{time: 120\}\nslurm: \*r/);
});

test('n_steps may be in the grid and is read per cell', () => {
  assert.deepEqual(
    load(`${BASE}^n_steps: [100, 200]\n`).cells.map((cell) => cell.nSteps),
    [100, 200],
  );
});

test('the one cluster of a repo needs no name', () => {
  assert.equal(load(BASE, { config: `clusters: {entropy: ${CLUSTER}}\n` }).cluster?.name, 'entropy');
});

test('another cluster is another experiment, the same one by name is not', () => {
  const config = `clusters:\n  entropy: ${CLUSTER}\n  helios: ${CLUSTER}\n`;
  const text = `${BASE}cluster: entropy\n`;
  assert.equal(load(text, { config, overrides: 'cluster=entropy' }).id, load(text, { config }).id);
  const moved = load(text, { config, overrides: 'cluster=helios' });
  assert.equal(moved.cluster?.name, 'helios');
  assert.notEqual(moved.id, load(text, { config }).id);
});

test('chain.* overrides make a chain longer and leave its id', () => {
  const longer = load(BASE, { overrides: 'chain.n_jobs=7' });
  assert.equal(longer.settings.chain.nJobs, 7);
  assert.equal(longer.id, load(BASE).id);
});

for (const [what, text, message] of [
  ['broken yaml', 'a: [1\n', /^Problem: configs\/x\.yaml:2:1: not valid yaml/],
  ['a key twice', 'a: 1\na: 2\n', /^Problem: configs\/x\.yaml:2:1: not valid yaml: Map keys must be unique/],
  ['no run', 'save: {path: /x}\n', /there is no run: key/],
  ['no save.path', 'run: x\n', /there is no save\.path/],
  [
    'an unknown key in slurm',
    `${BASE}slurm:\n  partiton: h100\n`,
    /^Problem: configs\/x\.yaml:4:3: unknown key 'partiton' under slurm; did you mean 'partition'\?/,
  ],
  ['an unknown key in chain', `${BASE}chain: {njobs: 3}\n`, /unknown key 'njobs' under chain; did you mean 'n_jobs'\?/],
  [
    'n_jobs 0',
    `${BASE}chain: {n_jobs: 0}\n`,
    /^Problem: configs\/x\.yaml:3:17: chain\.n_jobs is "0"; it must be a whole number from 1 to 1000/,
  ],
  ['n_jobs -1', `${BASE}chain: {n_jobs: -1}\n`, /chain\.n_jobs is "-1"/],
  ['n_jobs 2.5', `${BASE}chain: {n_jobs: 2.5}\n`, /chain\.n_jobs is "2\.5"/],
  ['n_jobs 1e9', `${BASE}chain: {n_jobs: 1e9}\n`, /chain\.n_jobs is "1e9"/],
  ['n_jobs as text', `${BASE}chain: {n_jobs: "3"}\n`, /chain\.n_jobs is "3"/],
  ['a relative save.path', 'run: x\nsave: {path: checkpoints}\n', /save\.path is "checkpoints"; it must be an absolute path/],
  ['save.path with ..', 'run: x\nsave: {path: /a/../b}\n', /without \.\./],
  ['a section that is a value', `${BASE}slurm: h100\n`, /slurm must hold keys and values/],
  ['an empty run', 'run: ""\nsave: {path: /x}\n', /run is ""; it must be a shell command/],
  ['DOS line ends in run', 'run: "a\\r\\nb"\nsave: {path: /x}\n', /Unix line ends/],
  ['a variable of the chain', `${BASE}env: {RESUME_FROM: x}\n`, /RESUME_FROM is set by the chain/],
  ['a variable that is no name', `${BASE}env: {"A B": x}\n`, /not a name an environment variable can have/],
  ['slurm options that differ between cells', `${BASE}slurm: {^time: [1, 2]}\n`, /slurm differs between cell 0 and cell 1/],
  ['a line end in an option', `${BASE}slurm: {comment: "a\\nb"}\n`, /slurm\.comment is .* one line of text/],
  ['a pattern out of the repo', `${BASE}code: {exclude: [../x]}\n`, /code\.exclude is "a list"; it must be patterns of paths from the top/],
  ['an option twice', `${BASE}slurm: {mem-per-gpu: 1, mem_per_gpu: 2}\n`, /given twice/],
] as const) {
  test(`refused with its place: ${what}`, () => {
    assert.throws(() => load(text), message);
  });
}

for (const option of [
  'array',
  'dependency',
  'export',
  'wrap',
  'parsable',
  'hold',
  'test-only',
  'clusters',
  'output',
  'signal',
  'wait',
  'get_user_env',
]) {
  test(`the reserved option ${option} is refused with what to use instead`, () => {
    assert.throws(() => load(`${BASE}slurm: {${option}: 1}\n`), new RegExp(`slurm\\.${option} cannot be set: .{10}`));
  });
}

for (const [what, config, message] of [
  [
    'an unknown key',
    'cluster: {}\n',
    /^Problem: \.github\/slurm-chain\.yml:1:1: unknown key 'cluster' in the file; did you mean 'clusters'\?/,
  ],
  ['an unknown key of a cluster', `clusters: {e: {hots: h}}\n`, /unknown key 'hots' in clusters\.e; did you mean 'host'\?/],
  ['no known_hosts', 'clusters: {e: {host: h, user: u, workdir: /w}}\n', /clusters\.e has no known_hosts: .*ssh-keyscan h/],
  ['a relative workdir', 'clusters: {e: {host: h, user: u, workdir: w, known_hosts: k}}\n', /workdir must be an absolute path/],
  ['a port out of range', 'clusters: {e: {host: h, port: 70000, user: u, workdir: /w, known_hosts: k}}\n', /port must be a whole number/],
  ['an unknown default', 'defaults: {slurmm: {}}\n', /unknown key 'slurmm' in defaults; did you mean 'slurm'\?/],
  [
    'an unknown option in defaults',
    'defaults: {slurm: {arry: 1}}\n',
    /^Problem: \.github\/slurm-chain\.yml:1:20: unknown key 'arry' under slurm/,
  ],
] as const) {
  test(`refused in the repo's file with its place: ${what}`, () => {
    assert.throws(() => load(BASE, { config }), message);
  });
}

test('an unknown cluster is named with those there are', () => {
  assert.throws(
    () => load(`${BASE}cluster: entrpy\n`, { config: `clusters: {entropy: ${CLUSTER}}\n` }),
    /unknown cluster 'entrpy'; did you mean 'entropy'\?/,
  );
});

test('several clusters and none named is a question back', () => {
  assert.throws(() => load(BASE, { config: `clusters: {a: ${CLUSTER}, b: ${CLUSTER}}\n` }), /cluster: a \| b/);
});

test('jump hosts are read like ProxyJump', () => {
  const { cluster } = load(BASE, {
    config: `clusters: {e: {host: h, user: u, workdir: /w, known_hosts: k, proxy_jump: "bob@gate:2222, [::1]"}}\n`,
  });
  assert.deepEqual(cluster?.jumps, [
    { host: 'gate', port: 2222, user: 'bob' },
    { host: '::1', port: 22, user: 'u' },
  ]);
});
