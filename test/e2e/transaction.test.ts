// What a launch leaves behind when the cluster says no, or says nothing. What sbatch may say wrongly is in faults.test.ts.
import assert from 'node:assert/strict';
import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { asUser, cancelQueue, endOf, inFront, QUICK, type QueuedJob, queueOf, slurm, testCluster } from '../support/cluster.ts';
import { regression } from '../support/experiment.ts';
import { type Lab, useLabs } from '../support/lab.ts';
import { until } from '../support/until.ts';

const cluster = testCluster();
const newLab = useLabs(cluster);
const experiment = { nJobs: 3, secondsPerStep: 1 };

/** A lab whose sbatch, and squeue if wanted, has a script of ours in front; see inFront. */
function labWithSbatch(name: string, sbatch: string, squeue?: string): Promise<Lab> {
  const front = inFront(cluster, name, { sbatch, ...(squeue === undefined ? {} : { squeue }) });
  return newLab(name, { experiment, clusterFields: { prelude: `${QUICK}; ${front}` } });
}

/** Three jobs of the first launch and nothing else. */
function assertFirstLaunch(queue: readonly QueuedJob[], id: string): void {
  assert.deepEqual(
    queue.map((job) => [job.experiment, job.launch.replace(/-.*/, ''), job.jobNumber, job.cell]),
    [1, 2, 3].map((jobNumber) => [id, 'l1', jobNumber, undefined]),
  );
}

/** Exactly one whole chain of three steps, in order, all of it on record. */
function assertOneChain(lab: Lab, name: string, id: string): void {
  const queue = queueOf(cluster, name);
  assertFirstLaunch(queue, id);
  for (const [index, job] of queue.slice(1).entries())
    assert.ok(job.dependency.startsWith(`afterany:${queue[index]?.jobId}_*`), job.dependency);
  const ledger = readFileSync(join(lab.workdir, 'experiments', id, 'ledger.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { event: string; job: string });
  assert.deepEqual(
    ledger.filter((line) => line.event === 'submitted').map((line) => line.job),
    queue.map((job) => job.jobId),
  );
}

test('an sbatch that says no at once: nothing queued, its words in the error', async () => {
  const lab = await labWithSbatch(
    'no',
    '[ $CALL != 2 ] || { echo "sbatch: error: job_submit/lua: project X has no hours left" >&2; echo "sbatch: error: Batch job submission failed: Unspecified error" >&2; exit 1; }',
  );
  const result = await lab.dispatch({ config: 'no' });
  assert.equal(result.code, 1);
  assert.match(result.errors[0] ?? '', /project X has no hours left; Batch job submission failed: Unspecified error/);
  assert.deepEqual(queueOf(cluster, 'no'), []);
});

test('a request that comes in after it was given up: nothing runs, and the queue is as it was', async () => {
  const lab = await labWithSbatch(
    'late',
    // The third call repeats the second one, whose request comes in after all just before.
    '[ $CALL != 2 ] || { echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1; }\n[ $CALL != 3 ] || $REAL "$@" >/dev/null',
  );
  const result = await lab.dispatch({ config: 'late' });
  assert.equal(result.code, 1, result.log);
  assert.match(result.errors[0] ?? '', /refused: the queue holds jobs .* of this launch, and on record are/);
  assert.deepEqual(queueOf(cluster, 'late'), []);
});

test('a reply that got lost before the job was taken, and comes in after the roll-back, stays held', async () => {
  const over = `${cluster.CLUSTER_DIR}/home/straggler-over-${process.pid}`;
  const lab = await labWithSbatch(
    'straggler',
    `[ $CALL != 2 ] || { (until [ -e ${over} ]; do sleep 0.1; done; exec $REAL "$@" >/dev/null) </dev/null >/dev/null 2>&1 3<&- 4>&- & echo "sbatch: error: Batch job submission failed: Access/permission denied" >&2; exit 1; }`,
  );
  const result = await lab.dispatch({ config: 'straggler' });
  assert.equal(result.code, 1, result.log);
  assert.deepEqual(queueOf(cluster, 'straggler'), []);
  asUser(cluster, `touch ${over}`);
  const left = await until('the straggler', () => queueOf(cluster, 'straggler')[0]);
  assert.deepEqual([left.state, left.reason], ['PENDING', 'JobHeldUser']);
  // The next launch finds it and takes it away.
  const again = await lab.dispatch({ config: 'straggler' });
  assert.equal(again.code, 0, again.log);
  assert.equal(queueOf(cluster, 'straggler').length, 3);
  cancelQueue(cluster, 'straggler');
});

test('a squeue that fails when a launch is taken back: not known is not called no', async () => {
  const lab = await labWithSbatch(
    'mute',
    '[ $CALL != 2 ] || { echo "sbatch: error: Batch job submission failed: Access/permission denied" >&2; exit 1; }',
    '[ $CALL -lt 2 ] || { echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; }',
  );
  const result = await lab.dispatch({ config: 'mute' });
  assert.equal(result.code, 1);
  assert.match(result.errors[0] ?? '', /squeue does not answer.*Nothing was released.*the next launch settles what is in the queue/);
  assert.doesNotMatch(result.errors[0] ?? '', /Nothing of it is in the queue/);
});

test('options and variables an account switches on change nothing', async () => {
  const lab = await newLab('options', {
    experiment,
    clusterFields: {
      prelude:
        'set -f -C; shopt -s failglob nullglob dotglob; export SQUEUE_STATES=RUNNING SQUEUE_PARTITION=none SQUEUE_FORMAT=%i SBATCH_WAIT=1 SBATCH_GET_USER_ENV=1 SBATCH_TIMELIMIT=1',
    },
  });
  const first = await lab.dispatch({ config: 'options' });
  assert.equal(first.code, 0, first.log);
  assertOneChain(lab, 'options', first.outputs['experiment-id'] ?? '');
  assert.match(first.summary, /The account sets SBATCH\\_GET\\_USER\\_ENV, SBATCH\\_TIMELIMIT, SBATCH\\_WAIT/);
  const second = await lab.dispatch({ config: 'options' });
  assert.equal(second.outputs['state'], 'alive', second.log);
  cancelQueue(cluster, 'options');
});

test('asking about a chain that is alive leaves its secrets alone', async () => {
  const lab = await newLab('keeps', { experiment });
  const first = await lab.dispatch({ config: 'keeps', env: 'WANDB_API_KEY=first' });
  assert.equal(first.code, 0, first.log);
  for (const env of ['', 'WANDB_API_KEY=second']) assert.equal((await lab.dispatch({ config: 'keeps', env })).outputs['state'], 'alive');
  const secrets = join(lab.workdir, 'experiments', first.outputs['experiment-id'] ?? '', 'secrets.env');
  assert.equal(readFileSync(secrets, 'utf8'), "WANDB_API_KEY='first'\n");
  cancelQueue(cluster, 'keeps');
});

test('a ledger that was cut in the middle of a line stops nothing', async () => {
  const lab = await newLab('cutledger', { experiment: { nJobs: 2, secondsPerStep: 1 } });
  for (const launch of [1, 2, 3]) {
    const result = await lab.dispatch({ config: 'cutledger' });
    assert.equal(result.outputs['state'], 'submitted', result.log);
    const jobs = (result.outputs['job-ids'] ?? '').split(',');
    slurm(cluster, 'scancel', ...jobs.toReversed());
    await endOf(cluster, jobs);
    if (launch < 3) asUser(cluster, `truncate -s -20 ${lab.workdir}/experiments/${result.outputs['experiment-id']}/ledger.jsonl`);
  }
});

test('two experiments of one name at one commit are told apart, not mixed', async () => {
  const lab = await newLab('samename');
  const yaml = regression(lab, { name: 'samename', secondsPerStep: 1 });
  lab.commit({ 'configs/a/x.yaml': yaml, 'configs/b/x.yaml': yaml.replace('lr: 0.1', 'lr: 0.2') });
  assert.equal((await lab.dispatch({ config: 'configs/a/x.yaml' })).code, 0);
  const second = await lab.dispatch({ config: 'configs/b/x.yaml' });
  assert.match(
    second.errors[0] ?? '',
    /was launched from configs\/a\/x\.yaml, and configs\/b\/x\.yaml has the same name at the same commit/,
  );
  cancelQueue(cluster, 'samename');
});

test('a launch that is killed between two submissions is undone by the next one', async () => {
  const lab = await labWithSbatch(
    'killed',
    '[ $CALL != 2 ] || { kill -KILL $(ps -o ppid= -p $(ps -o ppid= -p $(ps -o ppid= -p $PPID))) $(ps -o ppid= -p $(ps -o ppid= -p $PPID)) $(ps -o ppid= -p $PPID); exit 1; }',
  );
  const first = await lab.dispatch({ config: 'killed' });
  assert.equal(first.code, 1, first.log);
  const left = queueOf(cluster, 'killed');
  assert.equal(left.length, 1, 'step 1 is there, held');
  const second = await lab.dispatch({ config: 'killed' });
  assert.equal(second.outputs['state'], 'submitted', second.log);
  assert.match(second.log, /an earlier launch of killed-\S+ was interrupted before its release; cancelling the jobs that it queued/);
  const queue = queueOf(cluster, 'killed');
  assert.equal(queue.length, 3);
  assert.ok(
    queue.every((job) => job.launch.startsWith('l2-')),
    JSON.stringify(queue),
  );
  cancelQueue(cluster, 'killed');
});

test('SIGTERM to the action between two submissions takes back what was queued', async () => {
  // The second sbatch goes on until the launcher has gone, which is when descriptor 3 ends; see src/cluster/shell.ts.
  const lab = await labWithSbatch('stopped', '[ $CALL != 2 ] || for try in $(seq 100); do read -r -t 0 -u 3 && break; sleep 0.1; done');
  const result = await lab.dispatch(
    { config: 'stopped' },
    {
      onLine: (line, kill) => {
        if (/job 1: /.test(line)) kill('SIGTERM');
      },
    },
  );
  assert.equal(result.code, 1, result.log);
  assert.match(result.errors.join(), /refused: the launcher stopped|Nothing of it is in the queue/);
  assert.deepEqual(queueOf(cluster, 'stopped'), []);
});

test('twenty launches of one experiment at the same moment give one chain', async () => {
  const lab = await newLab('once', { experiment });
  await lab.dispatch({ command: 'plan', config: 'once' });
  // Each workflow run has a checkout of its own.
  const checkouts = Array.from({ length: 20 }, (_, index) => `${lab.workspace}-${index}`);
  for (const checkout of checkouts) cpSync(lab.workspace, checkout, { recursive: true });
  const results = await Promise.all(
    checkouts.map((checkout) => lab.dispatch({ config: 'once' }, { environment: { GITHUB_WORKSPACE: checkout } })),
  );
  for (const result of results) assert.equal(result.code, 0, result.log);
  assert.deepEqual(results.map((result) => result.outputs['state']).sort(), [...Array<string>(19).fill('alive'), 'submitted']);
  const id = results[0]?.outputs['experiment-id'] ?? '';
  const queue = queueOf(cluster, 'once');
  assertFirstLaunch(queue, id);
  cancelQueue(cluster, 'once');
  await endOf(
    cluster,
    queue.map((job) => job.jobId),
  );
});
