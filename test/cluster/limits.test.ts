// Submit limits of the cluster, on one of its own because they hold for the whole account.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { type Lab, makeLab, ownCluster, regression, slurm } from '../support/lab.ts';

const own = ownCluster();
const { cluster } = own;
const labs: Lab[] = [];
after(async () => {
  for (const lab of labs) await lab.close();
  own.down();
});
const queue = () => slurm(cluster, 'squeue', '-h', '-r', '-o', '%i');

test('a refusal at the third step takes the first two back, and nothing has run', async () => {
  const lab = await makeLab(cluster, 'limit');
  labs.push(lab);
  lab.commit({ 'configs/limit.yaml': regression(lab, { name: 'limit', nJobs: 4, grid: '^lr: [1, 2, 3]', secondsPerStep: 1 }) });
  slurm(cluster, 'sacctmgr', '-i', 'modify', 'user', cluster.CLUSTER_USER, 'set', 'maxsubmitjobs=7');
  try {
    const result = await lab.dispatch({ config: 'limit' });
    assert.equal(result.code, 1, result.log);
    assert.match(
      result.errors[0] ?? '',
      /refused: .*AssocMaxSubmitJobLimit.*Nothing of it is in the queue, and nothing has run\. It would have been 3 × 4 tasks/,
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
    slurm(cluster, 'sacctmgr', '-i', 'modify', 'user', cluster.CLUSTER_USER, 'set', 'maxsubmitjobs=-1');
  }
  // With room again, the same launch goes through.
  const again = await lab.dispatch({ config: 'limit' });
  assert.equal(again.outputs['state'], 'submitted', again.log);
  assert.equal(queue().split('\n').length, 12);
});

test('a chain that itself fills the limit is reported, not refused', async () => {
  const lab = labs[0];
  assert.ok(lab);
  slurm(cluster, 'sacctmgr', '-i', 'modify', 'user', cluster.CLUSTER_USER, 'set', 'maxsubmitjobs=12');
  const result = await lab.dispatch({ config: 'limit' });
  slurm(cluster, 'sacctmgr', '-i', 'modify', 'user', cluster.CLUSTER_USER, 'set', 'maxsubmitjobs=-1');
  assert.equal(result.outputs['state'], 'alive', result.log);
});

test('a chain in a hidden partition is seen', async () => {
  slurm(cluster, 'scontrol', 'update', 'PartitionName=h100', 'Hidden=YES');
  const lab = await makeLab(cluster, 'hidden');
  labs.push(lab);
  lab.commit({ 'configs/hidden.yaml': regression(lab, { name: 'hidden', secondsPerStep: 1 }) });
  assert.equal((await lab.dispatch({ config: 'hidden' })).outputs['state'], 'submitted');
  assert.equal((await lab.dispatch({ config: 'hidden' })).outputs['state'], 'alive');
});

test('more tasks than the cluster holds jobs is refused with the sum', async () => {
  const lab = labs[0];
  assert.ok(lab);
  const result = await lab.dispatch({
    config: 'limit',
    n_jobs: '1000',
    overrides: `train.^lr=[${Array.from({ length: 20 }, (_, index) => index).join(', ')}]`,
  });
  assert.match(result.errors[0] ?? '', /asks for 20 cells × 1000 steps = 20000 tasks, and entropy holds at most 10000 jobs .*MaxJobCount/);
});
