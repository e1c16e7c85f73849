// What a launch does with what is there already: extend a chain, begin a new attempt, refuse what is not the same.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { asUser, cancelQueue, endOf, inFront, queueOf, slurm, testCluster } from '../support/cluster.ts';
import { useLabs } from '../support/lab.ts';
import { until } from '../support/until.ts';

const cluster = testCluster();
const newLab = useLabs(cluster, { experiment: { secondsPerStep: 1 } });

async function cancel(experiment: string): Promise<void> {
  cancelQueue(cluster, experiment);
  await until('the queue to be empty', () => queueOf(cluster, experiment).length === 0);
}
test('extend adds steps behind the end of a chain that is alive, and the same workflow run again adds no more', async () => {
  const lab = await newLab('extend');
  const first = await lab.dispatch({ config: 'extend' });
  const id = first.outputs['experiment-id'] ?? '';
  const run = { environment: { GITHUB_RUN_ID: '4242' } };
  const second = await lab.dispatch({ command: 'extend', config: 'extend', n_jobs: '2' }, run);
  assert.equal(second.code, 0, second.log);
  assert.equal(second.outputs['state'], 'extended');
  assert.equal(second.outputs['experiment-id'], id);
  const queue = queueOf(cluster, id);
  assert.deepEqual(
    queue.map((job) => job.jobNumber),
    [1, 2, 3, 4],
  );
  for (const [index, job] of queue.slice(1).entries())
    assert.ok(job.dependency.startsWith(`afterany:${queue[index]?.jobId}_*`), job.dependency);
  assert.ok(queue.every((job) => job.reason !== 'JobHeldUser'));

  const again = await lab.dispatch({ command: 'extend', config: 'extend', n_jobs: '2' }, run);
  assert.equal(again.outputs['state'], 'alive', again.log);
  assert.equal(queueOf(cluster, id).length, 4);
  const more = await lab.dispatch({ command: 'extend', config: 'extend' }, { environment: { GITHUB_RUN_ID: '4243' } });
  assert.equal(more.outputs['state'], 'extended', more.log);
  assert.deepEqual(queueOf(cluster, id).at(-1)?.jobNumber, 5, 'one step unless it is said how many');
  await cancel(id);
});

test('a chain of single cells is extended cell by cell, each behind its own last job', async () => {
  const lab = await newLab('cells', { experiment: { grid: '^lr: [0.1, 0.2]' } });
  const overrides = 'chain.scope=cell';
  const first = await lab.dispatch({ config: 'cells', overrides });
  const id = first.outputs['experiment-id'] ?? '';
  const second = await lab.dispatch({ command: 'extend', config: 'cells', overrides });
  assert.equal(second.outputs['state'], 'extended', second.log);
  const jobs = queueOf(cluster, id);
  const of = (jobNumber: number, cell: number) => jobs.find((job) => job.jobNumber === jobNumber && job.cell === cell);
  assert.equal(of(3, 0)?.dependency, `afterany:${of(2, 0)?.jobId}_0(unfulfilled)`);
  assert.equal(of(3, 1)?.dependency, `afterany:${of(2, 1)?.jobId}_1(unfulfilled)`);
  // And by an array, which waits for the last job of every cell.
  const third = await lab.dispatch(
    { command: 'extend', config: 'cells', overrides: 'chain.scope=array' },
    { environment: { GITHUB_RUN_ID: '4243' } },
  );
  assert.equal(third.outputs['state'], 'extended', third.log);
  const array = queueOf(cluster, id).find((job) => job.jobNumber === 4);
  for (const cell of [0, 1]) assert.ok(array?.dependency.includes(`afterany:${of(3, cell)?.jobId}_*(unfulfilled)`), array?.dependency);
  await cancel(id);
});

test('extend carries on a chain that has ended, and refuses where there is none', async () => {
  const lab = await newLab('ended');
  const none = await lab.dispatch({ command: 'extend', config: 'ended' });
  assert.match(none.errors[0] ?? '', /no experiment of lab\/nano on the cluster matches 'ended'/);
  const first = await lab.dispatch({ config: 'ended' });
  const id = first.outputs['experiment-id'] ?? '';
  await cancel(id);
  const second = await lab.dispatch({ command: 'extend', config: 'ended', n_jobs: '3' });
  assert.equal(second.outputs['state'], 'submitted', second.log);
  assert.deepEqual(
    queueOf(cluster, id).map((job) => job.jobNumber),
    [3, 4, 5],
  );
  await cancel(id);
});

test('a chain whose end leaves the queue while it is extended: the new step waits for nothing, and no chain is doubled', async () => {
  const lab = await newLab('leaving');
  const first = await lab.dispatch({ config: 'leaving' });
  const id = first.outputs['experiment-id'] ?? '';
  const jobs = queueOf(cluster, id).map((job) => job.jobId);
  const second = await lab.dispatch(
    { command: 'extend', config: 'leaving' },
    { onLine: (line) => line.startsWith('staging') && slurm(cluster, 'scancel', ...jobs.toReversed()) },
  );
  assert.equal(second.code, 0, second.log);
  await until('the old jobs to leave', () => queueOf(cluster, id).every((job) => !jobs.includes(job.jobId)));
  const queue = queueOf(cluster, id);
  assert.deepEqual(
    queue.map((job) => job.jobNumber),
    [3],
  );
  assert.notEqual(queue[0]?.reason, 'JobHeldUser');
  await cancel(id);
});

test('restart begins a new attempt with an id, directories and W&B runs of its own, and touches nothing of the old one', async () => {
  const lab = await newLab('again', { experiment: { nSteps: 40, secondsPerStep: 0.002 } });
  const first = await lab.dispatch({ config: 'again' });
  const id = first.outputs['experiment-id'] ?? '';
  await endOf(cluster, (first.outputs['job-ids'] ?? '').split(','));
  const before = asUser(cluster, `cd ${lab.save}/${id} && find . -printf '%p %T@\\n' | sort`);
  assert.equal((await lab.dispatch({ config: 'again' })).outputs['state'], 'complete');

  const run = { environment: { GITHUB_RUN_ID: '7001' } };
  const second = await lab.dispatch({ command: 'restart', config: 'again' }, run);
  assert.equal(second.code, 0, second.log);
  assert.equal(second.outputs['experiment-id'], `${id}-a2`);
  assert.equal(second.outputs['state'], 'submitted');
  const jobs = (second.outputs['job-ids'] ?? '').split(',');
  await endOf(cluster, jobs);
  const log = readFileSync(join(lab.workdir, 'experiments', `${id}-a2`, 'logs', `1_${jobs[0]}_0.out`), 'utf8');
  assert.match(log, /starting from scratch/);
  assert.ok(existsSync(join(lab.save, `${id}-a2`, '0/step_39')));
  assert.equal(asUser(cluster, `cd ${lab.save}/${id} && find . -printf '%p %T@\\n' | sort`), before, 'the old one is as it was');

  // The same workflow run again asks for what it has got; a launch means the newest attempt; another restart makes one more.
  assert.equal((await lab.dispatch({ command: 'restart', config: 'again' }, run)).outputs['experiment-id'], `${id}-a2`);
  const launched = await lab.dispatch({ config: 'again' });
  assert.deepEqual([launched.outputs['experiment-id'], launched.outputs['state']], [`${id}-a2`, 'complete']);
  const third = await lab.dispatch({ command: 'restart', config: 'again' }, { environment: { GITHUB_RUN_ID: '7002' } });
  assert.equal(third.outputs['experiment-id'], `${id}-a3`);
  await cancel(`${id}-a3`);
});

test('a new attempt that was refused is none: a launch still means the one before', async () => {
  const flag = `${cluster.CLUSTER_DIR}/home/refuse`;
  const sbatch = `[ ! -e ${flag} ] || { echo "sbatch: error: Batch job submission failed: Access/permission denied" >&2; exit 1; }`;
  const lab = await newLab('refused', { clusterFields: { prelude: inFront(cluster, 'refused', { sbatch }) } });
  const first = await lab.dispatch({ config: 'refused' });
  const id = first.outputs['experiment-id'] ?? '';
  asUser(cluster, `touch ${flag}`);
  const restarted = await lab.dispatch({ command: 'restart', config: 'refused' }, { environment: { GITHUB_RUN_ID: '7100' } });
  assert.equal(restarted.code, 1, restarted.log);
  assert.ok(existsSync(join(lab.workdir, 'experiments', `${id}-a2`)), 'it was staged');
  asUser(cluster, `rm ${flag}`);
  const again = await lab.dispatch({ config: 'refused' });
  assert.deepEqual([again.outputs['experiment-id'], again.outputs['state']], [id, 'alive']);
  await cancel(id);
});

test('an experiment whose id is the start of another one is not taken for it', async () => {
  const lab = await newLab('prefix');
  const changed = await lab.dispatch({ config: 'prefix', overrides: 'train.lr=0.3' });
  const plain = await lab.dispatch({ config: 'prefix' });
  assert.equal(plain.outputs['state'], 'submitted', plain.log);
  const [one, other] = [changed.outputs['experiment-id'] ?? '', plain.outputs['experiment-id'] ?? ''];
  assert.ok(one.startsWith(`${other}-`));
  assert.deepEqual([queueOf(cluster, one).length, queueOf(cluster, other).length], [2, 2]);
  await cancel(one);
  await cancel(other);
});

test('a manifest that was edited by hand is an error that shows the difference', async () => {
  const lab = await newLab('edited');
  const first = await lab.dispatch({ config: 'edited' });
  const id = first.outputs['experiment-id'] ?? '';
  await cancel(id);
  const file = join(lab.workdir, 'experiments', id, 'manifest.json');
  const whole = readFileSync(file, 'utf8');
  asUser(cluster, `sed -i 's/"nSteps":500/"nSteps":900/' ${file}`);
  const second = await lab.dispatch({ config: 'edited' });
  assert.equal(second.code, 1);
  assert.match(
    second.errors[0] ?? '',
    /manifest\.json\) does not match this commit:\n +cells\.0\.nSteps is 900 in the manifest and 500 at the commit/,
  );
  asUser(cluster, `printf '{"version":1,' > ${file}`);
  assert.match((await lab.dispatch({ config: 'edited' })).errors[0] ?? '', /manifest\.json on entropy is not valid JSON/);
  asUser(cluster, `cat > ${file} <<'EOF'\n${whole}EOF`);
  assert.equal((await lab.dispatch({ config: 'edited' })).outputs['state'], 'submitted');
  await cancel(id);
});

test('a cell config that was edited by hand is an error that shows the lines', async () => {
  const lab = await newLab('cellconfig');
  const first = await lab.dispatch({ config: 'cellconfig' });
  const id = first.outputs['experiment-id'] ?? '';
  await cancel(id);
  asUser(cluster, `sed -i 's/lr: 0.1/lr: 0.2/' ${lab.workdir}/experiments/${id}/configs/config_0.yaml`);
  const second = await lab.dispatch({ config: 'cellconfig' });
  assert.equal(second.code, 1);
  assert.match(
    second.errors[0] ?? '',
    /does not match what this launch has for the same EXPERIMENT_ID[\s\S]*config_0\.yaml of the commit[\s\S]*- {2}lr: 0\.1\n +\+ {2}lr: 0\.2/,
  );
  assert.equal(queueOf(cluster, id).length, 0);
});

test('a chain goes on from its checkpoints when workdir was purged: steps and launches are counted on', async () => {
  const lab = await newLab('purged');
  const first = await lab.dispatch({ config: 'purged' });
  const id = first.outputs['experiment-id'] ?? '';
  await cancel(id);
  asUser(cluster, `chmod -R u+w ${lab.workdir} && rm -rf ${lab.workdir}`);
  const second = await lab.dispatch({ config: 'purged' });
  assert.equal(second.outputs['state'], 'submitted', second.log);
  assert.deepEqual(
    queueOf(cluster, id).map((job) => job.jobNumber),
    [3, 4],
  );
  await cancel(id);
});
