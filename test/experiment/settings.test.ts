import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSource } from '../../src/experiment/document.ts';
import { type Experiment, experimentFrom } from '../../src/experiment/experiment.ts';
import { parseOverrides } from '../../src/experiment/overrides.ts';
import { parseRepoConfig, parseSiteConfig } from '../../src/experiment/repo-config.ts';
import { checkVariableName } from '../../src/experiment/settings.ts';
import { startsOnCluster } from '../../src/experiment/values.ts';
import { refused } from './refused.ts';

const COMMIT = '1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b';
const BASE = 'run: python train.py\nsave: {path: /ckpt}\n';
const CLUSTER = '{host: h, user: u, workdir: /w, known_hosts: "h ssh-ed25519 AAAA"}';

function load(text: string, { config = '', overrides = '' } = {}): Experiment {
  return experimentFrom(
    parseSource('configs/x.yaml', text),
    COMMIT,
    parseRepoConfig(config),
    parseOverrides(overrides),
    parseSiteConfig(config, 'main'),
  );
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

test('every key is read', () => {
  const { settings } = load(
    `
name: n
cluster: c
run: |
  srun python train.py
setup: [module load cuda, "source a\\nsource b"]
slurm: {gres: "gpu:1"}
chain: {n_jobs: 3, scope: array, warn_before: 300, warn_signal: TERM, stop_after_failures: 4, cancel_when_done: false}
save: {path: ~/ckpt//, complete: a/.metadata, pattern: "ckpt-{step}", step: count}
n_steps: 500
max_concurrent_jobs: 4
wandb: {entity: e, project: p, base_url: https://wandb.example.edu/}
env: {A: b}
code: {exclude: [data/**, "*.bin"]}
`,
    { config: `clusters: {c: ${CLUSTER}}\n` },
  );
  assert.deepEqual(settings, {
    name: 'n',
    cluster: 'c',
    run: 'srun python train.py\n',
    setup: ['module load cuda', 'source a\nsource b'],
    slurm: new Map([['gres', 'gpu:1']]),
    chain: { nJobs: 3, scope: 'array', warnBefore: 300, warnSignal: 'TERM', stopAfterFailures: 4, cancelWhenDone: false },
    save: { path: '~/ckpt', complete: 'a/.metadata', prefix: 'ckpt-', step: 'count' },
    nSteps: 500,
    maxConcurrentJobs: 4,
    wandb: { entity: 'e', project: 'p', baseUrl: 'https://wandb.example.edu' },
    env: new Map([['A', 'b']]),
    exclude: ['data/**', '*.bin'],
  });
});

test('the defaults of everything but run and save.path', () => {
  assert.deepEqual(load(BASE).settings, {
    run: 'python train.py',
    setup: [],
    slurm: new Map(),
    chain: { nJobs: 1, scope: 'array', warnBefore: 0, warnSignal: 'USR1', stopAfterFailures: 2, cancelWhenDone: true },
    save: { path: '/ckpt', prefix: 'step_', step: 'index' },
    wandb: {},
    env: new Map(),
    exclude: [],
  });
});

test('the largest and the smallest numbers that are allowed', () => {
  const chain = (fields: string) => load(`${BASE}chain: {${fields}}\n`).settings.chain;
  assert.equal(chain('n_jobs: 1000').nJobs, 1000);
  assert.equal(chain('warn_before: 65535').warnBefore, 65535);
  assert.equal(chain('stop_after_failures: 1000').stopAfterFailures, 1000);
  assert.equal(chain('stop_after_failures: 1').stopAfterFailures, 1);
  assert.equal(load(`${BASE}n_steps: 1\nmax_concurrent_jobs: 1000000\n`).settings.maxConcurrentJobs, 1_000_000);
});

test('null counts as not given, so the defaults of the repository apply', () => {
  const config = `defaults:
  run: make
  save: {path: /d, complete: .metadata}
  slurm: {partition: a, qos: high}
  chain: {n_jobs: 5}
  env: {A: 1}
  n_steps: 9
`;
  const text = 'run: null\nsave: {path: ~, complete: null}\nslurm: {qos: null}\nchain:\nenv: {A: null, B: ~}\nn_steps: null\n';
  const { settings } = load(text, { config });
  assert.deepEqual(settings, load('', { config }).settings);
  assert.equal(settings.save.path, '/d');
  assert.equal(settings.slurm.get('qos'), 'high');
  assert.deepEqual([...settings.env], [['A', '1']]);
});

test('false switches off an option of the defaults, and an empty text a variable', () => {
  const config = 'defaults: {slurm: {qos: high}, env: {A: 1}}\n';
  const { settings } = load(`${BASE}slurm: {qos: false}\nenv: {A: ""}\n`, { config });
  assert.equal(settings.slurm.has('qos'), false);
  assert.equal(settings.env.get('A'), '');
});

test('options and variables keep the order of the experiment, then of the defaults', () => {
  const config = 'defaults: {slurm: {time: 1, gres: gpu, mem: 1G}, env: {Z: 1, A: 1}}\n';
  const { settings } = load(`${BASE}slurm: {nodes: 2, gres: gpu}\nenv: {A: 2}\n`, { config });
  assert.deepEqual([...settings.slurm.keys()], ['nodes', 'gres', 'time', 'mem']);
  assert.deepEqual([...settings.env.keys()], ['A', 'Z']);
});

test('where text is due, a number keeps its spelling', () => {
  const { settings } = load(
    `name: 007\nrun: true\nsave: {path: /x}\nslurm: {time: 02:00:00, mem: 0x10}\nenv: {A: 1e-10, B: 123456789012345678901, C: yes, D: True, E: "0"}\n`,
  );
  assert.equal(settings.name, '007');
  assert.equal(settings.run, 'true');
  assert.deepEqual(Object.fromEntries(settings.slurm), { time: '02:00:00', mem: '0x10' });
  assert.deepEqual(Object.fromEntries(settings.env), { A: '1e-10', B: '123456789012345678901', C: 'yes', D: 'True', E: '0' });
});

test('scope cell is allowed without a throttle', () => {
  assert.equal(load(`${BASE}chain: {scope: cell}\n`).settings.chain.scope, 'cell');
  assert.equal(load(`${BASE}max_concurrent_jobs: 4\n`).settings.maxConcurrentJobs, 4);
});

test('the address of W&B may be without TLS, and its slashes at the end do not count', () => {
  assert.equal(load(`${BASE}wandb: {base_url: "http://wandb.lan:8080//"}\n`).settings.wandb.baseUrl, 'http://wandb.lan:8080');
});

test('white space around a word does not count', () => {
  const { settings } = load('name: " a b "\nrun: " x "\nsave: {path: " /x "}\nenv: {A: " a "}\n');
  assert.deepEqual([settings.name, settings.run, settings.save.path, settings.env.get('A')], ['a b', ' x ', '/x', ' a ']);
});

test('a path on the cluster is absolute or starts with ~/ or a variable', () => {
  for (const path of ['/', '/a', '~/', '~/a', '$A', '$A/', '$_a1/b', '/a..b/...']) assert.ok(startsOnCluster(path), path);
  for (const path of ['', 'a', '~', '~a/', 'a/', '$', '$/', '$1/a', '$A-b', '${A}/b', './a', ' /a'])
    assert.ok(!startsOnCluster(path), path);
  assert.equal(load('run: x\nsave: {path: //}\n').settings.save.path, '/');
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

test('of several mappings that are merged, the first counts, and a key of its own before all', () => {
  const { slurm } = load(
    `a: &a {time: 1, mem: 1}\nb: &b {time: 2, mem: 2, gres: 2, qos: 2}\nslurm: {gres: 3, <<: [*a, *b]}\n${BASE}`,
  ).settings;
  assert.deepEqual(Object.fromEntries(slurm), { gres: '3', time: '1', mem: '1', qos: '2' });
});

test('a null that hides a merged value counts as not given', () => {
  assert.equal(load(`a: &a {time: 1}\nslurm: {<<: *a, time: null}\n${BASE}`).settings.slurm.has('time'), false);
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
  [
    'a pattern out of the repo',
    `${BASE}code: {exclude: [a, ../x]}\n`,
    /^Problem: configs\/x\.yaml:3:21: code\.exclude\[1\] is "\.\.\/x"; it must be a pattern of paths from the top/,
  ],
  ['a single pattern out of the repo', `${BASE}code: {exclude: /x}\n`, /:3:17: code\.exclude is "\/x"; it must be a pattern/],
  [
    'an option twice',
    `${BASE}slurm: {mem-per-gpu: 1, mem_per_gpu: 2}\n`,
    /:3:25: slurm\.mem_per_gpu is given twice, once with - and once with _/,
  ],
] as const) {
  test(`refused with its place: ${what}`, () => {
    assert.throws(() => load(text), message);
  });
}

const X = 'configs/x.yaml';
for (const [what, text, message] of [
  ['no run', '', `${X}: there is no run: key. The command that trains, such as`],
  ['a run that is null', 'run:\nsave: {path: /x}\n', `${X}: there is no run: key`],
  ['no save.path', 'run: x\n', `${X}: there is no save.path. The directory on the cluster for checkpoints`],
  ['a section save without a path', 'run: x\nsave: {step: count}\n', `${X}:2:1: there is no save.path`],
  ['a section save in the grid without a path', 'run: x\n^save: [{step: count}]\n', `${X}:2:1: there is no save.path`],
  ['a misspelled path', 'run: x\nsave: {pth: /x}\n', `${X}:2:8: unknown key 'pth' under save; did you mean 'path'?`],
  ['a run that is a list', 'run: [a, b]\nsave: {path: /x}\n', `${X}:1:6: run is "a list"; it must be a shell command`],
  ['a blank run', 'run: " "\n', `${X}:1:6: run is " "; it must be a shell command`],
  ['a NUL in run', 'run: "a\\0b"\n', `${X}:1:6: run is "a\\u0000b"; it must be a shell command without a NUL character`],
  ['a null in setup', `${BASE}setup: [a, null]\n`, `${X}:3:12: setup[1] is "null"; it must be a shell command`],
  ['an empty item in setup', `${BASE}setup:\n  - a\n  -\n`, `${X}:5:4: setup[1] is ""; it must be a shell command`],
  ['setup that is a mapping', `${BASE}setup: {a: b}\n`, `${X}:3:8: setup is "a mapping"; it must be text or a list of texts`],
  ['a mapping in setup', `${BASE}setup: [{a: b}]\n`, `${X}:3:9: setup[0] is "a mapping"; it must be a shell command`],
  ['a carriage return in setup', `${BASE}setup: "a\\r"\n`, `${X}:3:8: setup is "a\\r"; it must be a shell command with Unix line ends`],
  ['an empty name', `${BASE}name: ""\n`, `${X}:3:7: name is ""; it must be one line of text`],
  ['a line end in a name', `${BASE}name: "a\\nb"\n`, `${X}:3:7: name is "a\\nb"; it must be one line of text`],
  ['a delete character in a cluster', `${BASE}cluster: "a\\x7fb"\n`, `${X}:3:10: cluster is "a\x7fb"; it must be one line of text`],
  ['a control character in save.path', 'run: x\nsave: {path: "/a\\tb"}\n', `${X}:2:14: save.path is "/a\\tb"; it must be`],
  [
    'a control character in W&B',
    `${BASE}wandb: {entity: "a\\eb"}\n`,
    `${X}:3:17: wandb.entity is "a\\u001bb"; it must be one line of text`,
  ],
  [
    'a backslash in save.path',
    "run: x\nsave: {path: '/a\\b'}\n",
    `${X}:2:14: save.path is "/a\\\\b"; it must be a path without a backslash`,
  ],
  [
    'a NUL in a variable',
    `${BASE}env: {A: "a\\0"}\n`,
    `${X}:3:10: env.A is "a\\u0000"; it must be text or a number, without a NUL character`,
  ],
  ['a variable that is a list', `${BASE}env: {A: [1]}\n`, `${X}:3:10: env.A is "a list"; it must be text or a number`],
  ['a variable that starts with a digit', `${BASE}env: {1A: x}\n`, `${X}:3:7: env: '1A' is not a name an environment variable can have`],
  ['a variable of Slurm that is null', `${BASE}env: {SLURM_JOB_ID: null}\n`, `${X}:3:7: env: SLURM_JOB_ID is set by the chain or by Slurm`],
  ['env that is a list', `${BASE}env: [A=1]\n`, `${X}:3:6: env must hold keys and values`],
  [
    'an option that is a mapping',
    `${BASE}slurm: {time: {a: 1}}\n`,
    `${X}:3:15: slurm.time is "a mapping"; it must be one line of text, or true for an option without a value`,
  ],
  ['an option that is a list', `${BASE}slurm: {time: [1]}\n`, `${X}:3:15: slurm.time is "a list"; it must be one line of text, or true`],
  ['an empty option', `${BASE}slurm: {time: ""}\n`, `${X}:3:15: slurm.time is ""; it must be one line of text`],
  [
    'an option like none',
    `${BASE}slurm: {zzzzzzzzzz: 1}\n`,
    `${X}:3:9: unknown key 'zzzzzzzzzz' under slurm; it takes the long options of sbatch`,
  ],
  [
    'a misspelled option with _',
    `${BASE}slurm: {cpus_per_tusk: 1}\n`,
    `${X}:3:9: unknown key 'cpus_per_tusk' under slurm; did you mean 'cpus-per-task'?`,
  ],
  [
    'a reserved option that is null',
    `${BASE}slurm: {array: null}\n`,
    `${X}:3:9: slurm.array cannot be set: the cells come from the ^ lists`,
  ],
  ['an unknown key that is null', `${BASE}chain: {njobs: null}\n`, `${X}:3:9: unknown key 'njobs' under chain; did you mean 'n_jobs'?`],
  ['a key like none', `${BASE}code: {zzzzzzzz: 1}\n`, `${X}:3:8: unknown key 'zzzzzzzz' under code; it takes exclude`],
  ['n_jobs 1001', `${BASE}chain: {n_jobs: 1001}\n`, `${X}:3:17: chain.n_jobs is "1001"; it must be a whole number from 1 to 1000`],
  ['n_jobs as a list', `${BASE}chain: {n_jobs: [1]}\n`, `${X}:3:17: chain.n_jobs is "a list"; it must be a whole number from 1 to 1000`],
  ['an infinite n_steps', `${BASE}n_steps: .inf\n`, `${X}:3:10: n_steps is ".inf"; it must be a whole number, at least 1`],
  ['n_steps 0', `${BASE}n_steps: 0\n`, `${X}:3:10: n_steps is "0"; it must be a whole number, at least 1`],
  [
    'max_concurrent_jobs 0',
    `${BASE}max_concurrent_jobs: 0\n`,
    `${X}:3:22: max_concurrent_jobs is "0"; it must be a whole number from 1 to 1000000`,
  ],
  ['max_concurrent_jobs beyond Slurm', `${BASE}max_concurrent_jobs: 1000001\n`, `${X}:3:22: max_concurrent_jobs is "1000001"`],
  [
    'warn_before -1',
    `${BASE}chain: {warn_before: -1}\n`,
    `${X}:3:22: chain.warn_before is "-1"; it must be a whole number from 0 to 65535`,
  ],
  ['warn_before 65536', `${BASE}chain: {warn_before: 65536}\n`, `${X}:3:22: chain.warn_before is "65536"`],
  ['stop_after_failures 0', `${BASE}chain: {stop_after_failures: 0}\n`, `${X}:3:30: chain.stop_after_failures is "0"`],
  ['stop_after_failures 1001', `${BASE}chain: {stop_after_failures: 1001}\n`, `${X}:3:30: chain.stop_after_failures is "1001"`],
  ['a scope', `${BASE}chain: {scope: cells}\n`, `${X}:3:16: chain.scope is "cells"; it must be one of array, cell`],
  ['a scope that is a number', `${BASE}chain: {scope: 1}\n`, `${X}:3:16: chain.scope is "1"; it must be one of array, cell`],
  ['a signal', `${BASE}chain: {warn_signal: HUP}\n`, `${X}:3:22: chain.warn_signal is "HUP"; it must be one of USR1, USR2, TERM`],
  ['a truth', `${BASE}chain: {cancel_when_done: "true"}\n`, `${X}:3:27: chain.cancel_when_done is "true"; it must be true or false`],
  ['a chain that is a list', `${BASE}chain: [1]\n`, `${X}:3:8: chain must hold keys and values`],
  [
    'a complete that is absolute',
    'run: x\nsave: {path: /x, complete: /a}\n',
    `${X}:2:28: save.complete is "/a"; it must be the name of a file inside a checkpoint directory`,
  ],
  ['a complete with ..', 'run: x\nsave: {path: /x, complete: a/../b}\n', `${X}:2:28: save.complete is "a/../b"`],
  ['a complete that is a directory', 'run: x\nsave: {path: /x, complete: a/}\n', `${X}:2:28: save.complete is "a/"`],
  [
    'a pattern without {step}',
    'run: x\nsave: {path: /x, pattern: step_}\n',
    `${X}:2:27: save.pattern is "step_"; it must be a name that ends in {step}`,
  ],
  ['a pattern with an end', 'run: x\nsave: {path: /x, pattern: "a{step}.pt"}\n', `${X}:2:27: save.pattern is "a{step}.pt"`],
  ['a pattern that starts with a digit', 'run: x\nsave: {path: /x, pattern: "1{step}"}\n', `${X}:2:27: save.pattern is "1{step}"`],
  ['a pattern that is only {step}', 'run: x\nsave: {path: /x, pattern: "{step}"}\n', `${X}:2:27: save.pattern is "{step}"`],
  [
    'a pattern for what job.sh renames',
    'run: x\nsave: {path: /x, pattern: "incomplete.{step}"}\n',
    `${X}:2:27: save.pattern is "incomplete.{step}"`,
  ],
  [
    'an address that is none',
    `${BASE}wandb: {base_url: wandb.example.edu}\n`,
    `${X}:3:19: wandb.base_url is "wandb.example.edu"; it must be a web address`,
  ],
  ['an address of another kind', `${BASE}wandb: {base_url: "ftp://https:x"}\n`, `${X}:3:19: wandb.base_url is "ftp://https:x"`],
  ['a pattern with a digit in front', 'run: x\nsave: {path: /x, pattern: "1a{step}"}\n', `${X}:2:27: save.pattern is "1a{step}"`],
  ['an address of a file', `${BASE}wandb: {base_url: "file:///a"}\n`, `${X}:3:19: wandb.base_url is "file:///a"; it must be a web address`],
  [
    'an address that only begins well',
    `${BASE}wandb: {base_url: "https://"}\n`,
    `${X}:3:19: wandb.base_url is "https://"; it must be a web address`,
  ],
  [
    'a pattern with ..',
    `${BASE}code: {exclude: a/../b}\n`,
    `${X}:3:17: code.exclude is "a/../b"; it must be a pattern of paths from the top of the repository`,
  ],
  [
    'a throttle with scope cell',
    `${BASE}chain: {scope: cell}\nmax_concurrent_jobs: 4\n`,
    `${X}:4:1: max_concurrent_jobs throttles one job array, but with chain.scope: cell`,
  ],
  ['an alias without an anchor', `${BASE}slurm: *none\n`, `${X}:3:8: the alias *none has no anchor &none before it`],
  ['a mapping that contains itself', `${BASE}slurm: &s {<<: *s, time: 1}\n`, `${X}:3:16: the alias *s stands for a value that contains it`],
  ['a second document', `${BASE}---\na: 1\n`, `${X}:3:1: not valid yaml: the file holds a second document`],
  ['a setting that differs in a cell', `${BASE}chain: {^n_jobs: [1, 2]}\n`, `${X}:3:1: chain differs between cell 0 and cell 1. All cells`],
  ['exclude that differs', `${BASE}code: {^exclude: [a, b]}\n`, `${X}:3:1: code differs between cell 0 and cell 1`],
  [
    'a setting that is wrong in one cell',
    `${BASE}^slurm: [{time: 1}, {tme: 1}]\n`,
    `${X}:3:22: unknown key 'tme' under slurm; did you mean 'time'?`,
  ],
  ['n_steps that is wrong in one cell', `${BASE}^n_steps: [1, 0]\n`, `${X}:3:15: n_steps is "0"; it must be a whole number, at least 1`],
] as const) {
  test(`refused at its place: ${what}`, () => {
    refused(() => load(text), message);
  });
}

test('a fault in the defaults is named where it is', () => {
  refused(() => load(BASE, { config: 'defaults: {slurm: {arry: 1}}\n' }), ".github/slurm-chain.yml:1:20: unknown key 'arry' under slurm");
  refused(() => load(`${BASE}chain: {n_jobs: 2}\n`, { config: 'defaults: {chain: 3}\n' }), '.github/slurm-chain.yml:1:19: chain must hold');
  refused(() => load('run: x\n', { config: 'defaults: {save: {step: index}}\n' }), '.github/slurm-chain.yml:1:12: there is no save.path');
});

test('a fault in an override is not blamed on a line of the file', () => {
  const text = `${BASE}chain: {n_jobs: 3}\n`;
  refused(() => load(text, { overrides: 'chain.n_jobs=0' }), `${X} with the overrides: chain.n_jobs is "0"; it must be a whole number`);
  refused(() => load(BASE, { overrides: '+slurm.tme=1' }), `${X} with the overrides: unknown key 'tme' under slurm; did you mean 'time'?`);
  refused(() => load(BASE, { overrides: '+env.SLURM_X=1' }), `${X} with the overrides: env: SLURM_X is set by the chain or by Slurm`);
});

test('cells may spell a setting in different ways as long as it is the same', () => {
  assert.equal(load(`${BASE}^slurm: [{mem_per_gpu: 1}, {mem-per-gpu: "1"}]\n`).cells.length, 2);
  assert.deepEqual(load(`${BASE}^chain: [{n_jobs: 1}, {scope: array}]\n`).settings.chain.nJobs, 1);
});

test('variables that the chain sets cannot be given, others with a similar name can', () => {
  for (const name of [
    'EXPERIMENT_ID',
    'CHAIN_STEP',
    'SLURM_X',
    'SBATCH_X',
    'WANDB_RUN_ID',
    'WANDB_RESUME',
    'WANDB_RUN_GROUP',
    'WANDB_NAME',
    'CHECKPOINT_DIR',
    'RESUME_FROM',
    'RESUME_STEP',
    'NEXT_STEP',
  ]) {
    refused(
      () => checkVariableName(name, 'input env'),
      `input env: ${name} is set by the chain or by Slurm and cannot be given; remove it`,
    );
  }
  for (const name of ['WANDB_MODE', 'WANDB_NAMES', 'CHECKPOINT_DIRS', 'RESUME', 'RESUME_STEPS', 'NEXT_STEPS', 'MY_SLURM_X', '_', 'a1'])
    checkVariableName(name, 'input env');
  for (const name of ['', '1a', 'a-b', 'a b', 'é', 'a\n'])
    refused(() => checkVariableName(name, 'w'), `w: '${name}' is not a name an environment`);
});

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

test('an unknown cluster is named with those there are', () => {
  assert.throws(
    () => load(`${BASE}cluster: entrpy\n`, { config: `clusters: {entropy: ${CLUSTER}}\n` }),
    /^Problem: configs\/x\.yaml:3:10: unknown cluster 'entrpy'; did you mean 'entropy'\?/,
  );
  refused(
    () => load(`${BASE}cluster: helios\n`, { config: `clusters: {entropy: ${CLUSTER}}\n` }),
    `${X}:3:10: unknown cluster 'helios'; .github/slurm-chain.yml of main has entropy`,
  );
  refused(() => load(`${BASE}cluster: helios\n`), `${X}:3:10: unknown cluster 'helios'; .github/slurm-chain.yml of main has no clusters`);
});

test('several clusters and none named is a question back', () => {
  assert.throws(() => load(BASE, { config: `clusters: {a: ${CLUSTER}, b: ${CLUSTER}}\n` }), /cluster: a \| b/);
});
