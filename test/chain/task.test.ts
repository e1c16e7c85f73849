// The files that a task reads, as the experiment gives them.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { checkpointArguments, filesOf, secretAssignments } from '../../src/chain/task.ts';
import { parseSource } from '../../src/experiment/document.ts';
import { experimentFrom } from '../../src/experiment/experiment.ts';
import { parseRepoConfig } from '../../src/experiment/repo-config.ts';

const COMMIT = '1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b';
function files(text: string): ReadonlyMap<string, string> {
  const experiment = experimentFrom(parseSource('configs/smoke.yaml', text), COMMIT, parseRepoConfig(''), []);
  return new Map(filesOf(experiment, '/ckpt').map(({ path, content }) => [path, content]));
}
const SAVE = 'save: {path: /ckpt}\n';

/** Runs run.sh as a task does. */
function runs(yaml: string, secrets = '') {
  const directory = mkdtempSync(join(tmpdir(), 'task-'));
  try {
    writeFileSync(join(directory, 'secrets.env'), secrets);
    writeFileSync(join(directory, 'run.sh'), files(`${SAVE}${yaml}`).get('run.sh') ?? '');
    const env = { PATH: process.env['PATH'] ?? '', EXPERIMENT_DIR: directory };
    const { stdout, status, signal } = spawnSync('bash', [join(directory, 'run.sh')], { encoding: 'utf8', env });
    return { stdout, status, signal };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

test('setup runs before run, in the same shell, and both see env and secrets', () => {
  const yaml = `setup: ["A=1", "cd /"]\nrun: |\n  echo "$A $PWD $E"\n  printenv E KEY\nenv: {E: "it's"}\n`;
  assert.deepEqual(runs(yaml, secretAssignments(new Map([['KEY', 'a b\nc']]))), {
    ...{ stdout: "1 / it's\nit's\na b\nc\n", status: 0, signal: null },
  });
  assert.equal(runs('setup: A=1\nrun: printenv A || echo private\n').stdout, 'private\n', 'a variable of setup is not exported');
});

test('the first command that fails ends it, also in front of a pipe', () => {
  assert.deepEqual(runs('setup: "false"\nrun: echo ran\n'), { stdout: '', status: 1, signal: null });
  assert.deepEqual(runs('run: "false | cat; echo ran"\n'), { stdout: '', status: 1, signal: null });
  assert.deepEqual(runs('run: exit 7\n'), { stdout: '', status: 7, signal: null });
});

test('a signal ends setup, and run outlives it, so that the training program can save', () => {
  for (const [name, status] of [
    ['USR1', 138],
    ['USR2', 138],
    ['TERM', 143],
  ] as const) {
    assert.deepEqual(runs(`setup: kill -${name} $$\nrun: echo ran\n`), { stdout: '', status, signal: null }, name);
    assert.deepEqual(runs(`run: |\n  kill -${name} $$\n  echo saved\n`), { stdout: 'saved\n', status: 0, signal: null }, name);
  }
});

test('W&B settings reach the program, and those that are not given do not', () => {
  const print = 'run: printenv WANDB_PROJECT WANDB_ENTITY WANDB_BASE_URL || true\n';
  assert.equal(runs(`${print}wandb: {project: p, entity: e, base_url: "https://w.edu"}\n`).stdout, 'p\ne\nhttps://w.edu\n');
  assert.equal(runs(`${print}wandb: {project: p}\n`).stdout, 'p\n');
});

test('run.sh says where it comes from, and ends with one line end', () => {
  const script = files(`${SAVE}run: "a\\n\\nb\\n\\n\\n"\n`).get('run.sh') ?? '';
  assert.ok(script.startsWith(`# setup and run of configs/smoke.yaml at ${COMMIT}\n`));
  assert.ok(script.endsWith('\na\n\nb\n'), script);
});

test('each cell has a config of its own', () => {
  const all = files(`${SAVE}run: train\ntrain: {^lr: [1, 2]}\n`);
  assert.deepEqual([...all.keys()], ['configs/config_0.yaml', 'configs/config_1.yaml', 'run.sh', 'task.env']);
  assert.match(all.get('configs/config_1.yaml') ?? '', /lr: 2/);
});

/** What bash reads from task.env. */
function taskVariables(yaml: string): string[] {
  const script = `${files(`run: train\n${yaml}`).get('task.env')}
    printf '%s\\n' "$SAVE_PATH" "$SAVE_PREFIX" "$SAVE_OFFSET" "$SAVE_COMPLETE" "\${#N_STEPS[@]}" "\${N_STEPS[@]}"`;
  return spawnSync('bash', ['-c', script], { encoding: 'utf8' }).stdout.trimEnd().split('\n');
}

test('what a task has to know about checkpoints', () => {
  assert.deepEqual(taskVariables(`${SAVE}n_steps: 500\n`).slice(3), ['', '1', '500']);
  assert.deepEqual(taskVariables('save: {path: /ckpt, pattern: "ckpt-{step}", complete: done.json, step: count}\n^n_steps: [10, 20]\n'), [
    ...['/ckpt', 'ckpt-', '0', 'done.json', '2', '10', '20'],
  ]);
  assert.equal(taskVariables('save: {path: /ckpt, step: index}\n')[2], '1');
  assert.deepEqual(taskVariables(`${SAVE}^a: [1, 2]\n`).slice(4), ['2'], 'without n_steps, each cell has an empty number');
});

test('how the programs on the login node recognise checkpoints', () => {
  assert.deepEqual(checkpointArguments({ prefix: 'step_', complete: 'done.json', offset: 1 }), [
    'SAVE_PREFIX=step_',
    'SAVE_COMPLETE=done.json',
  ]);
});

test('without secrets there is nothing to read', () => assert.equal(secretAssignments(new Map()), ''));
