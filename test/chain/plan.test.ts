import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gpuHours, gpusPerTask, secondsOfTime } from '../../src/chain/cost.ts';
import { planOf } from '../../src/chain/plan.ts';
import { filesOf, secretAssignments } from '../../src/chain/task.ts';
import { wandbLinks } from '../../src/chain/wandb.ts';
import { parseSource } from '../../src/experiment/document.ts';
import { experimentFrom } from '../../src/experiment/experiment.ts';
import { parseRepoConfig } from '../../src/experiment/repo-config.ts';

const COMMIT = '1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b';
const experiment = (text: string) =>
  experimentFrom(parseSource('configs/smoke.yaml', `run: train\nsave: {path: /ckpt}\n${text}`), COMMIT, parseRepoConfig(''), []);
const PLACES = { workdir: '/w', savePath: '/ckpt' };

test('the exact sbatch arguments of a chain', () => {
  const { submissions } = planOf(
    experiment(
      'slurm: {partition: h100, gres: "gpu:1", exclusive: true, job-name: mine}\nchain: {n_jobs: 3, warn_before: 300}\nmax_concurrent_jobs: 2\n^lr: [1, 2, 3]\n',
    ),
    PLACES,
  );
  const common = (step: number) => [
    '--partition=h100',
    '--gres=gpu:1',
    '--exclusive',
    `--job-name=smoke-1a2b3c4d5e6f.l1-0.s${step}`,
    `--comment=smoke-1a2b3c4d5e6f.l1-0.s${step}`,
    `--output=/w/experiments/smoke-1a2b3c4d5e6f/logs/${step}_%A_%a.out`,
    '--open-mode=append',
    '--chdir=/w/experiments/smoke-1a2b3c4d5e6f/code',
    '--signal=B:USR1@300',
    '--export=ALL',
  ];
  assert.deepEqual(
    submissions.map((submission) => submission.arguments),
    [
      [...common(1), '--hold', '--array=0-2%2'],
      [...common(2), '--hold', '--dependency=afterany:@', '--array=0-2%2'],
      [...common(3), '--hold', '--dependency=afterany:@', '--array=0-2%2'],
    ],
  );
  assert.deepEqual(
    submissions.map((submission) => submission.after),
    [undefined, 0, 1],
  );
  assert.deepEqual(submissions[1]?.environment, {
    EXPERIMENT_ID: 'smoke-1a2b3c4d5e6f',
    EXPERIMENT_DIR: '/w/experiments/smoke-1a2b3c4d5e6f',
    EXPERIMENT_COMMIT: COMMIT,
    CHAIN_STEP: '2',
    CHAIN_LENGTH: '3',
    CHAIN_LAUNCH: '1',
    CHAIN_STOP_AFTER: '2',
    CHAIN_CANCEL_WHEN_DONE: 'true',
    CHAIN_WARN_SIGNAL: 'USR1',
  });
});

test('a later launch counts its steps on', () => {
  const { submissions } = planOf(experiment('chain: {n_jobs: 2}\n'), PLACES, { launch: 3, firstJob: 5, nonce: 'ab' });
  assert.deepEqual(
    submissions.map((submission) => [submission.tag, submission.environment['CHAIN_STEP'], submission.environment['CHAIN_LENGTH']]),
    [
      ['smoke-1a2b3c4d5e6f.l3-ab.s5', '5', '6'],
      ['smoke-1a2b3c4d5e6f.l3-ab.s6', '6', '6'],
    ],
  );
});

test('a comment the site asks for is kept, and a % in a path is not a pattern', () => {
  const [first] = planOf(experiment('slurm: {comment: project-x}\n'), { workdir: '/w/100%', savePath: '/s' }).submissions;
  assert.ok(first?.arguments.includes('--comment=project-x'));
  assert.ok(!first?.arguments.some((argument) => argument.startsWith('--comment=smoke')));
  assert.ok(first?.arguments.includes('--output=/w/100%%/experiments/smoke-1a2b3c4d5e6f/logs/1_%A_%a.out'));
});

test('text from the yaml reaches a shell only as one quoted word', () => {
  const nasty = `it's $(touch /tmp/x); "a",\`b\``;
  const files = filesOf(experiment(`env: {A: ${JSON.stringify(nasty)}}\n`), `/s/${nasty}`);
  const script = files.find((file) => file.path === 'run.sh')?.content ?? '';
  assert.ok(script.includes(`export A='it'\\''s $(touch /tmp/x); "a",\`b\`'\n`), script);
  assert.ok(files.find((file) => file.path === 'task.env')?.content.startsWith(`SAVE_PATH='/s/it'\\''s $(touch /tmp/x)`));
  assert.equal(secretAssignments(new Map([['KEY', "a'b$c"]])), `KEY='a'\\''b$c'\n`);
});

test('times in every form sbatch takes', () => {
  for (const [text, seconds] of [
    ['30', 1800],
    ['30:10', 1810],
    ['1:30:10', 5410],
    ['2-0', 172_800],
    ['2-1:30', 178_200],
    ['2-00:00:00', 172_800],
    ['UNLIMITED', undefined],
    ['soon', undefined],
  ] as const) {
    assert.equal(secondsOfTime(text), seconds, text);
  }
});

test('GPUs in every form sbatch takes', () => {
  for (const [options, gpus] of [
    [{ gres: 'gpu:4' }, 4],
    [{ gres: 'gpu:h100:2,license:1', nodes: '2' }, 4],
    [{ gres: 'gpu' }, 1],
    [{ gpus: 'a100:3' }, 3],
    [{ 'gpus-per-node': '8', nodes: '4' }, 32],
    [{ 'gpus-per-task': '1', ntasks: '6' }, 6],
    [{ 'gpus-per-task': '2', 'ntasks-per-node': '4', nodes: '2' }, 16],
    [{ partition: 'cpu' }, 0],
  ] as const) {
    assert.equal(gpusPerTask(new Map(Object.entries(options))), gpus, JSON.stringify(options));
  }
});

test('the bound is cells × steps × GPUs × time limit', () => {
  const { settings } = experiment('slurm: {gres: "gpu:1", time: "2-00:00:00"}\n');
  assert.equal(gpuHours(settings.slurm, 4, 3), 576);
  assert.equal(gpuHours(experiment('slurm: {gres: "gpu:1"}\n').settings.slurm, 4, 3), undefined);
});

test('W&B links need an entity and a project, and follow a self-hosted server', () => {
  assert.equal(wandbLinks({ entity: 'e', project: undefined, baseUrl: undefined }, 'id', 2), undefined);
  assert.deepEqual(wandbLinks({ entity: 'my team', project: 'p', baseUrl: 'https://w.edu' }, 'id', 2), {
    group: 'https://w.edu/my%20team/p/groups/id/workspace',
    runs: ['https://w.edu/my%20team/p/runs/id-0', 'https://w.edu/my%20team/p/runs/id-1'],
  });
});
