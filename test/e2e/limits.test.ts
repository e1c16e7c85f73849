// Submit limits of the cluster, on one of its own because they hold for the whole account.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { asUser, inFront, ownCluster, slurm } from '../support/cluster.ts';
import { type Lab, useLabs } from '../support/lab.ts';
import { until } from '../support/until.ts';

const cluster = ownCluster();
const newLab = useLabs(cluster, { experiment: { nJobs: 4, grid: '^lr: [1, 2, 3]', secondsPerStep: 1 } });
const queue = () => slurm(cluster, 'squeue', '-h', '-r', '-o', '%i');

const limit = (most: number) => slurm(cluster, 'sacctmgr', '-i', 'modify', 'user', cluster.CLUSTER_USER, 'set', `maxsubmitjobs=${most}`);
// A cluster that does not say what its limits are; the controller still has them.
const blind = (name: string) => inFront(cluster, name, { scontrol: '[[ "$*" != *assoc_mgr* ]] || exit 1' });

/** The lab of the refusal at the third step, which later tests go on with. */
let refused: Lab;

test('a chain that does not fit into the submit limits is refused with the sum before anything is sent', async () => {
  const lab = await newLab('sum');
  const lines = [
    [
      ['user', cluster.CLUSTER_USER, 'set', 'maxsubmitjobs=7'],
      /3 × 4 = 12 tasks do not fit on entropy: MaxSubmitJobs in account lab is 7, and 0 are in the queue\. A chain of 2 jobs would fit/,
    ],
    [['account', 'lab', 'set', 'grpsubmitjobs=11'], /GrpSubmitJobs of account lab is 11, and 0 are/],
    [
      ['qos', 'normal', 'set', 'maxsubmitjobspu=2'],
      /MaxSubmitJobsPerUser of QOS normal is 2, and 0 are in the queue\. Not even one job would fit/,
    ],
  ] as const;
  for (const [[what, who, set, value], message] of lines) {
    slurm(cluster, 'sacctmgr', '-i', 'modify', what, who, set, value);
    try {
      const result = await lab.dispatch({ config: 'sum' });
      assert.equal(result.code, 1, result.log);
      assert.match(result.errors[0] ?? '', message);
      assert.equal(queue(), '');
    } finally {
      slurm(cluster, 'sacctmgr', '-i', 'modify', what, who, set, value.replace(/=.*/, '=-1'));
    }
  }
  assert.ok(!existsSync(lab.workdir), 'nothing was sent');
});

test('what the account has in the queue already counts', async () => {
  asUser(cluster, 'cd / && sbatch --array=0-4 --hold --output=/dev/null --wrap=true');
  limit(16);
  try {
    const lab = await newLab('counted');
    const result = await lab.dispatch({ config: 'counted' });
    assert.match(result.errors[0] ?? '', /MaxSubmitJobs in account lab is 16, and 5 are in the queue\. A chain of 3 jobs would fit/);
  } finally {
    limit(-1);
    slurm(cluster, 'scancel', '-u', cluster.CLUSTER_USER);
    await until('the queue to be empty', () => queue() === '');
  }
});

test('a refusal at the third step takes the first two back, and nothing has run', async () => {
  const lab = await newLab('limit', { clusterFields: { prelude: blind('limit') } });
  refused = lab;
  limit(7);
  try {
    const result = await lab.dispatch({ config: 'limit' });
    assert.equal(result.code, 1, result.log);
    assert.match(
      result.errors[0] ?? '',
      /refused: .*AssocMaxSubmitJobLimit.*Nothing of it is in the queue, and nothing of it has run\. It asked for 3 × 4 tasks/,
    );
    assert.equal(result.outputs['state'], 'failed');
    assert.equal(queue(), '');
    const names = slurm(cluster, 'sacct', '-X', '-n', '-P', '-S', 'now-1hour', '-o', 'JobName,State,ElapsedRaw')
      .split('\n')
      .filter((row) => row.startsWith('limit-'));
    assert.ok(
      names.every((row) => /\|CANCELLED.*\|0$/.test(row)),
      names.join('\n'),
    );
  } finally {
    limit(-1);
  }
  // With room again, the same launch goes through.
  const again = await lab.dispatch({ config: 'limit' });
  assert.equal(again.outputs['state'], 'submitted', again.log);
  assert.equal(queue().split('\n').length, 12);
});

test('a chain that itself fills the limit is reported, not refused', async () => {
  limit(12);
  const result = await refused.dispatch({ config: 'limit' });
  limit(-1);
  assert.equal(result.outputs['state'], 'alive', result.log);
  slurm(cluster, 'scancel', '-u', cluster.CLUSTER_USER);
  await until('the queue to be empty', () => queue() === '');
});

for (const scope of ['array', 'cell']) {
  test(`partial: keep leaves the whole steps that fit, and the next launch adds the rest (${scope} scope)`, async () => {
    const name = `partial${scope}`;
    const lab = await newLab(name);
    const overrides = `chain.scope=${scope}`;
    const steps = () =>
      slurm(cluster, 'squeue', '-h', '-r', '-o', '%j')
        .split('\n')
        .map((job) => /\.s(\d+)/.exec(job)?.[1] ?? '')
        .sort()
        .join('');
    limit(8); // two steps of three tasks, and two of the third
    try {
      const first = await lab.dispatch({ config: name, overrides, partial: 'keep' });
      assert.equal(first.outputs['state'], 'submitted', first.log);
      assert.match(first.summary, /Slurm refused job 3 of 4 \\\(.*AssocMaxSubmitJobLimit.*2 jobs of 3 tasks each are missing/);
      assert.equal(steps(), '111222');
      const second = await lab.dispatch({ config: name, overrides });
      assert.equal(second.outputs['state'], 'alive', second.log);
      assert.match(second.log, /there is no room yet for the missing jobs/);
      assert.equal(steps(), '111222');
      limit(-1);
      const third = await lab.dispatch({ config: name, overrides });
      assert.equal(third.outputs['state'], 'extended', third.log);
      assert.equal(steps(), '111222333444');
      const [, , , ...rest] = slurm(cluster, 'squeue', '-h', '-S', 'i', '-o', '%E|%r').split('\n');
      assert.ok(rest.length > 0 && rest.every((row) => /^afterany:/.test(row) && !row.includes('JobHeldUser')), rest.join('\n'));
      assert.equal((await lab.dispatch({ config: name, overrides })).outputs['state'], 'alive');
    } finally {
      limit(-1);
      slurm(cluster, 'scancel', '-u', cluster.CLUSTER_USER);
      await until('the queue to be empty', () => queue() === '');
    }
  });
}

test('a chain in a hidden partition is seen', async () => {
  slurm(cluster, 'scontrol', 'update', 'PartitionName=h100', 'Hidden=YES');
  const lab = await newLab('hidden', { experiment: { nJobs: 2, grid: '' } });
  assert.equal((await lab.dispatch({ config: 'hidden' })).outputs['state'], 'submitted');
  assert.equal((await lab.dispatch({ config: 'hidden' })).outputs['state'], 'alive');
});

test('more tasks than the cluster holds jobs is refused with the sum', async () => {
  const result = await refused.dispatch({
    config: 'limit',
    n_jobs: '1000',
    overrides: `train.^lr=[${Array.from({ length: 20 }, (_, index) => index).join(', ')}]`,
  });
  assert.match(result.errors[0] ?? '', /asks for 20 cells × 1000 jobs = 20000 tasks, and entropy holds at most 10000 tasks .*MaxJobCount/);
});
