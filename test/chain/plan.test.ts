import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gpuHours, gpusPerTask, secondsOfTime } from '../../src/chain/cost.ts';
import { planOf, testArguments } from '../../src/chain/plan.ts';
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

/** Job number, array and dependency of each sbatch call, and which call it waits for. */
const calls = (text: string, name?: Parameters<typeof planOf>[2], behindTail?: boolean) =>
  planOf(experiment(text), PLACES, name, behindTail).submissions.map(({ jobNumber, cell, after, tag, arguments: all }) => {
    const option = (start: string) => all.find((one) => one.startsWith(start))?.slice(start.length);
    return [jobNumber, cell, tag.replace('smoke-1a2b3c4d5e6f.', ''), option('--array='), option('--dependency='), after];
  });
const PER_CELL = 'chain: {n_jobs: 3, scope: cell}\n^lr: [1, 2]\n';

test('with scope: cell, each cell waits for itself alone, and at first for the array that they share', () => {
  assert.deepEqual(calls(PER_CELL), [
    [1, undefined, 'l1-0.s1', '0-1', undefined, undefined],
    [2, 0, 'l1-0.s2.c0', '0', 'afterany:@_0', 0],
    [2, 1, 'l1-0.s2.c1', '1', 'afterany:@_1', 0],
    [3, 0, 'l1-0.s3.c0', '0', 'afterany:@_0', 1],
    [3, 1, 'l1-0.s3.c1', '1', 'afterany:@_1', 2],
  ]);
});

test('behind a chain that is in the queue, the first jobs wait for its end', () => {
  const name = { launch: 2, firstJob: 4, nonce: 'ab' };
  assert.deepEqual(calls('chain: {n_jobs: 2}\n^lr: [1, 2]\n', name, true), [
    [4, undefined, 'l2-ab.s4', '0-1', 'afterany:@', 'tail'],
    [5, undefined, 'l2-ab.s5', '0-1', 'afterany:@', 0],
  ]);
  assert.deepEqual(calls('chain: {n_jobs: 2, scope: cell}\n^lr: [1, 2]\n', name, true), [
    [4, 0, 'l2-ab.s4.c0', '0', 'afterany:@_0', 'tail'],
    [4, 1, 'l2-ab.s4.c1', '1', 'afterany:@_1', 'tail'],
    [5, 0, 'l2-ab.s5.c0', '0', 'afterany:@_0', 0],
    [5, 1, 'l2-ab.s5.c1', '1', 'afterany:@_1', 1],
  ]);
});

test('a throttle only where it would hold something back', () => {
  const array = (atATime: number | undefined) =>
    calls(`${atATime === undefined ? '' : `max_concurrent_jobs: ${atATime}\n`}^lr: [1, 2, 3]\n`)[0]?.[3];
  assert.deepEqual([1, 2, 3, 4, undefined].map(array), ['0-2%1', '0-2%2', '0-2', '0-2', '0-2']);
});

test('without warn_before, Slurm sends no signal and the job waits for none', () => {
  const [first] = planOf(experiment('chain: {warn_before: 0}\n'), PLACES).submissions;
  assert.equal(first?.environment['CHAIN_WARN_SIGNAL'], '');
  assert.ok(!first?.arguments.some((argument) => argument.startsWith('--signal')));
  const [warned] = planOf(experiment('chain: {warn_before: 60, warn_signal: USR2}\n'), PLACES).submissions;
  assert.equal(warned?.environment['CHAIN_WARN_SIGNAL'], 'USR2');
  assert.ok(warned?.arguments.includes('--signal=B:USR2@60'));
});

test('sbatch is asked beforehand whether it would take the whole array', () => {
  const asked = testArguments(experiment('slurm: {partition: h100, exclusive: true}\nmax_concurrent_jobs: 1\n^lr: [1, 2]\n'));
  assert.deepEqual(asked, ['--partition=h100', '--exclusive', '--array=0-1%1']);
});
