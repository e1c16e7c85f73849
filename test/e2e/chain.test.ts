// A launch from a label to the end of its chain, on the real cluster.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { asUser, endOf, slurm, testCluster } from '../support/cluster.ts';
import { journalOf, regression } from '../support/experiment.ts';
import { useLabs } from '../support/lab.ts';
import { until } from '../support/until.ts';

const cluster = testCluster();
const newLab = useLabs(cluster);

function stepsIn(directory: string): number[] {
  return readdirSync(directory)
    .filter((name) => /^step_\d+$/.test(name))
    .map((name) => Number(name.slice(5)))
    .sort((a, b) => a - b);
}
const EVERY_20 = [...Array.from({ length: 24 }, (_, index) => (index + 1) * 20), 499];

test('step 1 trains from scratch, step 2 finds it done and runs neither setup nor run', async () => {
  const lab = await newLab('smoke');
  const commit = lab.commit({ 'configs/smoke.yaml': regression(lab) });
  const pull = lab.openPull();
  const result = await lab.label(pull, 'launch:smoke');
  assert.equal(result.code, 0, result.log);

  const id = `smoke-${commit.slice(0, 12)}`;
  const checkpoints = join(lab.save, id);
  const { outputs } = result;
  assert.equal(outputs['experiment-id'], id);
  assert.equal(outputs['state'], 'submitted');
  assert.equal(outputs['checkpoint-dir'], checkpoints);
  const jobs = (outputs['job-ids'] ?? '').split(',');
  assert.equal(jobs.length, 2);

  const states = await endOf(cluster, jobs);
  assert.deepEqual(Object.fromEntries(states), { [`${jobs[0]}_0`]: 'COMPLETED 0:0', [`${jobs[1]}_0`]: 'COMPLETED 0:0' });
  assert.deepEqual(stepsIn(join(checkpoints, '0')), EVERY_20);
  const experiment = join(lab.workdir, 'experiments', id);
  const log = (step: number) => readFileSync(join(experiment, 'logs', `${step}_${jobs[step - 1]}_0.out`), 'utf8');
  assert.match(log(1), /setup ran[\s\S]*from step 0 of 500[\s\S]*done: y = 2\.99/);
  assert.doesNotMatch(log(2), /setup ran|run smoke/);
  assert.match(log(2), /training is complete \(step_499\)/);

  const [start, end, done] = journalOf(checkpoints, 0);
  assert.deepEqual([start?.event, start?.step, start?.job, start?.next_step], ['start', 1, jobs[0], 0]);
  assert.deepEqual([end?.event, end?.exit, end?.newest, end?.new_checkpoint], ['end', 0, 'step_499', true]);
  assert.deepEqual([done?.event, done?.step, done?.job, done?.newest], ['done', 2, jobs[1], 'step_499']);

  // Step 2 was behind step 1 and began only when that had ended.
  const [first, second] = slurm(cluster, 'sacct', '-X', '-n', '-P', '-j', jobs.join(','), '-o', 'Start,End')
    .split('\n')
    .map((row) => row.split('|'));
  assert.ok((second?.[0] ?? '') >= (first?.[1] ?? ''), `${second?.[0]} after ${first?.[1]}`);

  // The comment is on the pull request, the label is off, the records are in both places and say the same.
  assert.equal(lab.hub.comments.length, 1);
  assert.ok(lab.hub.comments[0]?.body.includes(`| 2 | \`${jobs[1]}\` | \`${jobs[0]}\` |`));
  assert.equal(outputs['comment-url'], `${lab.hub.url}/lab/nano/pull/1#issuecomment-${lab.hub.comments[0]?.id}`);
  assert.deepEqual(pull.labels, []);
  const manifest = readFileSync(join(experiment, 'manifest.json'), 'utf8');
  assert.equal(readFileSync(join(checkpoints, '.chain/manifest.json'), 'utf8'), manifest);
  assert.equal((JSON.parse(manifest) as { commit: string }).commit, commit);
  // Asked again, it says that there is nothing to do.
  const again = await lab.label(pull, 'launch:smoke');
  assert.equal(again.code, 0, again.log);
  assert.equal(again.outputs['state'], 'complete');
  assert.match(lab.hub.comments[0]?.body ?? '', /complete: every cell is complete, nothing was submitted/);
  const ledger = readFileSync(join(experiment, 'ledger.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { event: string; job: string });
  assert.deepEqual(
    ledger.map(({ event, job }) => `${event} ${job}`),
    [`submitted ${jobs[0]}`, `submitted ${jobs[1]}`, `releasing ${jobs[0]}`, `released ${jobs[0]}`],
  );
});

test('the time limit cuts step 1 in the middle; step 2 resumes from the newest checkpoint and finishes', async () => {
  const lab = await newLab('cut');
  lab.commit({ 'configs/cut.yaml': regression(lab, { name: 'cut', secondsPerStep: 0.15 }) });
  const result = await lab.dispatch({ config: 'configs/cut.yaml' });
  assert.equal(result.code, 0, result.log);
  const jobs = (result.outputs['job-ids'] ?? '').split(',');
  const checkpoints = result.outputs['checkpoint-dir'] ?? '';
  await until('step_180', () => existsSync(join(checkpoints, '0/step_180')));
  slurm(cluster, 'scontrol', 'update', `jobid=${jobs[0]}_0`, 'EndTime=now+1');

  const states = await endOf(cluster, jobs);
  assert.match(states.get(`${jobs[0]}_0`) ?? '', /^TIMEOUT/);
  assert.equal(states.get(`${jobs[1]}_0`), 'COMPLETED 0:0');
  const journal = journalOf(checkpoints, 0);
  const cut = journal.find((line) => line.event === 'end' && line.step === 1);
  const resumed = journal.find((line) => line.event === 'start' && line.step === 2);
  assert.equal(cut?.signal, 'TERM');
  assert.equal(resumed?.resumed_from, cut?.newest);
  const at = Number(cut?.newest?.slice(5));
  assert.ok(at >= 180 && at < 499, `${at} is between the checkpoint that was there and the end of the training`);
  assert.equal(resumed?.next_step, at + 1);
  assert.equal(journal.at(-1)?.newest, 'step_499');

  // Cutting it made no difference to what was learned.
  const uncut = await newLab('uncut');
  uncut.commit({ 'configs/cut.yaml': regression(uncut, { name: 'cut', nJobs: 1 }) });
  const whole = await uncut.dispatch({ config: 'cut' });
  assert.equal(whole.code, 0, whole.log);
  await endOf(cluster, [whole.outputs['job-ids'] ?? '']);
  const state = (directory: string) =>
    (JSON.parse(readFileSync(join(directory, '0/step_499/state.json'), 'utf8')) as { weights: number[] }).weights;
  assert.deepEqual(state(checkpoints), state(whole.outputs['checkpoint-dir'] ?? ''));
});

test('a grid of 3 and n_jobs 4: four arrays of three tasks in a row, three directories, three W&B runs', async () => {
  const lab = await newLab('grid');
  lab.commit({
    'configs/grid.yaml': [
      'run: mkdir "$CHECKPOINT_DIR/step_$NEXT_STEP" && touch "$CHECKPOINT_DIR/step_$NEXT_STEP/weights"',
      'setup: echo "$WANDB_RUN_ID $WANDB_RESUME $WANDB_RUN_GROUP $WANDB_PROJECT $CHAIN_STEP/$CHAIN_LENGTH $SLURM_ARRAY_TASK_ID" >> "$CHECKPOINT_DIR/seen"',
      `save: {path: ${lab.save}}`,
      'wandb: {entity: e, project: p}',
      'chain: {n_jobs: 9}',
      'n_steps: 100',
      '^lr: [0.1, 0.03, 0.01]',
      '',
    ].join('\n'),
  });
  const pull = lab.openPull();
  pull.labels.push('chain:4');
  const result = await lab.label(pull, 'launch');
  assert.equal(result.code, 0, result.log);
  const id = result.outputs['experiment-id'] ?? '';
  const jobs = (result.outputs['job-ids'] ?? '').split(',');
  assert.equal(jobs.length, 4);
  assert.equal(result.outputs['wandb-url'], `https://wandb.ai/e/p/groups/${id}/workspace`);

  const states = await endOf(cluster, jobs, { cells: 3, seconds: 180 });
  assert.deepEqual([...states.keys()].sort(), jobs.flatMap((job) => [0, 1, 2].map((cell) => `${job}_${cell}`)).sort());
  const rows = slurm(cluster, 'sacct', '-X', '-n', '-P', '-j', jobs.join(','), '-o', 'JobID,Start,End')
    .split('\n')
    .map((row) => row.split('|'));
  const times = (job: string, field: 1 | 2) => rows.filter(([name]) => name?.startsWith(`${job}_`)).map((row) => row[field] ?? '');
  for (const [index, job] of jobs.slice(1).entries()) {
    const before =
      times(jobs[index] ?? '', 2)
        .sort()
        .at(-1) ?? '';
    assert.ok(
      times(job, 1).every((start) => start >= before),
      `job ${job} waited for all of job ${jobs[index]}`,
    );
  }
  const directory = result.outputs['checkpoint-dir'] ?? '';
  assert.deepEqual(readdirSync(directory).sort(), ['.chain', '0', '1', '2']);
  for (const cell of [0, 1, 2]) {
    const seen = readFileSync(join(directory, String(cell), 'seen'), 'utf8')
      .trim()
      .split('\n');
    assert.deepEqual(
      seen,
      [1, 2, 3, 4].map((step) => `${id}-${cell} allow ${id} p ${step}/4 ${cell}`),
    );
    assert.deepEqual(stepsIn(join(directory, String(cell))), [0, 1, 2, 3]);
  }
});

test('asking again while the chain is alive submits nothing, sends nothing, and reports what is there', async () => {
  const lab = await newLab('again');
  lab.commit({ 'configs/again.yaml': regression(lab, { name: 'again', secondsPerStep: 1 }) });
  const pull = lab.openPull();
  const first = await lab.label(pull, 'launch:again');
  assert.equal(first.code, 0, first.log);
  assert.match(first.log, /sending the code/);
  await until('step 1 to run', () => slurm(cluster, 'squeue', '-h', '-t', 'R', '-j', first.outputs['job-ids'] ?? '') !== '');
  const second = await lab.label(pull, 'launch:again');
  assert.equal(second.code, 0, second.log);
  assert.equal(second.outputs['state'], 'alive');
  assert.equal(second.outputs['job-ids'], first.outputs['job-ids']);
  assert.doesNotMatch(second.log, /sending the code/);
  assert.equal(lab.hub.comments.length, 1);
  const ids = (first.outputs['job-ids'] ?? '').split(',');
  slurm(cluster, 'scancel', ...ids.toReversed());
  await endOf(cluster, ids);

  // The chain has ended and is not complete: a new launch carries on, counting its steps on.
  const third = await lab.label(pull, 'launch:again');
  assert.equal(third.outputs['state'], 'submitted', third.log);
  const report = JSON.parse(third.outputs['report'] ?? '[]') as { jobs: { jobNumber: number }[]; jobCount: number }[];
  assert.deepEqual(
    report[0]?.jobs.map((job) => job.jobNumber),
    [3, 4],
  );
  slurm(cluster, 'scancel', ...(third.outputs['job-ids'] ?? '').split(',').toReversed());
});

test('another experiment at the same commit shares the staged code and costs no second copy of a file', async () => {
  const lab = await newLab('share');
  lab.commit({
    'configs/one.yaml': regression(lab, { name: 'one', nSteps: 30, nJobs: 1 }),
    'configs/two.yaml': regression(lab, { name: 'two', nSteps: 30, nJobs: 1 }),
  });
  const pull = lab.openPull();
  const result = await lab.label(pull, 'launch');
  assert.equal(result.code, 0, result.log);
  assert.equal(result.log.match(/sending the code/g)?.length, 1);
  const [one = '', two = ''] = (result.outputs['experiment-id'] ?? '').split('\n');
  assert.match(one, /^one-/);
  assert.match(two, /^two-/);
  const inode = (id: string) => asUser(cluster, `stat -c %i ${lab.workdir}/experiments/${id}/code/train.py`);
  assert.equal(inode(one), inode(two));
  assert.equal(lab.hub.comments.length, 2);
  await endOf(cluster, (result.outputs['job-ids'] ?? '').split(/[\n,]/));
});
