// What a launch leaves behind when the cluster says no, or says nothing. What sbatch may say wrongly is in faults.test.ts.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { asUser, endOf, inFront, type Lab, makeLab, regression, slurm, testCluster, until } from '../support/lab.ts';

const cluster = testCluster();
const labs: Lab[] = [];
after(async () => {
  for (const lab of labs) await lab.close();
});

/** A lab whose sbatch, and squeue if wanted, has a script of ours in front; see inFront. */
async function labWithSbatch(name: string, sbatch: string, squeue?: string): Promise<Lab> {
  const lab = await makeLab(cluster, name, {
    clusterFields: { prelude: inFront(cluster, name, { sbatch, ...(squeue === undefined ? {} : { squeue }) }) },
  });
  labs.push(lab);
  lab.commit({ [`configs/${name}.yaml`]: regression(lab, { name, nJobs: 3, secondsPerStep: 1 }) });
  return lab;
}

interface Queued {
  readonly id: string;
  readonly state: string;
  readonly name: string;
  readonly dependency: string;
}
function queueOf(prefix: string): Queued[] {
  return slurm(cluster, 'squeue', '-h', '-o', '%F|%T|%j|%E')
    .split('\n')
    .filter(Boolean)
    .map((row) => {
      const [id = '', state = '', name = '', dependency = ''] = row.split('|');
      return { id, state, name: name.replace(/-[0-9a-f]{6}\.s/, '.s'), dependency };
    })
    .filter((job) => job.name.startsWith(`${prefix}-`));
}

function cancel(prefix: string): void {
  const ids = queueOf(prefix).map((job) => job.id);
  if (ids.length > 0) slurm(cluster, 'scancel', ...new Set(ids.toReversed()));
}

/** Exactly one whole chain of three steps, in order, all of it on record. */
function assertOneChain(lab: Lab, name: string, id: string): void {
  const queue = queueOf(name).sort((a, b) => Number(a.id) - Number(b.id));
  assert.deepEqual(
    queue.map((job) => job.name),
    [1, 2, 3].map((step) => `${id}.l1.s${step}`),
  );
  for (const [index, job] of queue.slice(1).entries())
    assert.ok(job.dependency.startsWith(`afterany:${queue[index]?.id}_*`), job.dependency);
  const ledger = readFileSync(join(lab.workdir, 'experiments', id, 'ledger.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { event: string; job: string });
  assert.deepEqual(
    ledger.filter((line) => line.event === 'submitted').map((line) => line.job),
    queue.map((job) => job.id),
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
  assert.deepEqual(queueOf('no'), []);
});

test('a request that comes in after it was given up: nothing runs, and the queue is as it was', async () => {
  const lab = await labWithSbatch(
    'late',
    '[ $CALL != 2 ] || { (sleep 34; exec $REAL "$@" >/dev/null) </dev/null >/dev/null 2>&1 & echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1; }\n[ $CALL != 3 ] || sleep 6',
  );
  const result = await lab.dispatch({ config: 'late' });
  assert.equal(result.code, 1, result.log);
  assert.match(result.errors[0] ?? '', /refused: the queue holds jobs .* of this launch, and on record are/);
  assert.deepEqual(queueOf('late'), []);
});

test('a reply that got lost before the job was taken, and comes in after the roll-back, stays held', async () => {
  const lab = await labWithSbatch(
    'straggler',
    '[ $CALL != 2 ] || { (sleep 4; exec $REAL "$@" >/dev/null) </dev/null >/dev/null 2>&1 & echo "sbatch: error: Batch job submission failed: Access/permission denied" >&2; exit 1; }',
  );
  const result = await lab.dispatch({ config: 'straggler' });
  assert.equal(result.code, 1, result.log);
  const [left] = await until('the straggler', () => queueOf('straggler').length > 0 && queueOf('straggler'));
  assert.equal(left?.state, 'PENDING');
  assert.match(slurm(cluster, 'squeue', '-h', '-j', left?.id ?? '', '-o', '%r'), /JobHeldUser/);
  // The next launch finds it and takes it away.
  const again = await lab.dispatch({ config: 'straggler' });
  assert.equal(again.code, 0, again.log);
  assert.equal(queueOf('straggler').length, 3);
  cancel('straggler');
});

test('a squeue that fails when a launch is taken back: not known is not called no', async () => {
  const lab = await labWithSbatch(
    'mute',
    '[ $CALL != 2 ] || { echo "sbatch: error: Batch job submission failed: Access/permission denied" >&2; exit 1; }',
    '[ $CALL -lt 2 ] || { echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; }',
  );
  const result = await lab.dispatch({ config: 'mute' });
  assert.equal(result.code, 1);
  assert.match(result.errors[0] ?? '', /squeue does not answer.*Nothing was released; the next launch settles what is there/);
  assert.doesNotMatch(result.errors[0] ?? '', /Nothing of it is in the queue/);
});

test('options and variables an account switches on change nothing', async () => {
  const lab = await makeLab(cluster, 'options', {
    clusterFields: {
      prelude:
        'set -f -C; shopt -s failglob nullglob dotglob; export SQUEUE_STATES=RUNNING SQUEUE_PARTITION=none SQUEUE_FORMAT=%i SBATCH_WAIT=1 SBATCH_GET_USER_ENV=1 SBATCH_TIMELIMIT=1',
    },
  });
  labs.push(lab);
  lab.commit({ 'configs/options.yaml': regression(lab, { name: 'options', nJobs: 3, secondsPerStep: 1 }) });
  const first = await lab.dispatch({ config: 'options' });
  assert.equal(first.code, 0, first.log);
  assertOneChain(lab, 'options', first.outputs['experiment-id'] ?? '');
  assert.match(first.summary, /The account sets SBATCH\\_GET\\_USER\\_ENV, SBATCH\\_TIMELIMIT, SBATCH\\_WAIT/);
  const second = await lab.dispatch({ config: 'options' });
  assert.equal(second.outputs['state'], 'alive', second.log);
  cancel('options');
});

test('asking about a chain that is alive leaves its secrets alone', async () => {
  const lab = await makeLab(cluster, 'keeps');
  labs.push(lab);
  lab.commit({ 'configs/keeps.yaml': regression(lab, { name: 'keeps', secondsPerStep: 1 }) });
  const first = await lab.dispatch({ config: 'keeps', env: 'WANDB_API_KEY=first' });
  assert.equal(first.code, 0, first.log);
  for (const env of ['', 'WANDB_API_KEY=second']) assert.equal((await lab.dispatch({ config: 'keeps', env })).outputs['state'], 'alive');
  const secrets = join(lab.workdir, 'experiments', first.outputs['experiment-id'] ?? '', 'secrets.env');
  assert.equal(readFileSync(secrets, 'utf8'), "WANDB_API_KEY='first'\n");
  cancel('keeps');
});

test('a ledger that was cut in the middle of a line stops nothing', async () => {
  const lab = await makeLab(cluster, 'cutledger');
  labs.push(lab);
  lab.commit({ 'configs/cutledger.yaml': regression(lab, { name: 'cutledger', nJobs: 2, secondsPerStep: 1 }) });
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
  const lab = await makeLab(cluster, 'samename');
  labs.push(lab);
  const yaml = regression(lab, { name: 'samename', secondsPerStep: 1 });
  lab.commit({ 'configs/a/x.yaml': yaml, 'configs/b/x.yaml': yaml.replace('lr: 0.1', 'lr: 0.2') });
  assert.equal((await lab.dispatch({ config: 'configs/a/x.yaml' })).code, 0);
  const second = await lab.dispatch({ config: 'configs/b/x.yaml' });
  assert.match(second.errors[0] ?? '', /is configs\/a\/x\.yaml, and configs\/b\/x\.yaml has the same name at the same commit/);
  cancel('samename');
});

test('a launch that is killed between two submissions is undone by the next one', async () => {
  const lab = await labWithSbatch(
    'killed',
    '[ $CALL != 2 ] || { kill -KILL $(ps -o ppid= -p $(ps -o ppid= -p $(ps -o ppid= -p $PPID))) $(ps -o ppid= -p $(ps -o ppid= -p $PPID)) $(ps -o ppid= -p $PPID); exit 1; }',
  );
  const first = await lab.dispatch({ config: 'killed' });
  assert.equal(first.code, 1, first.log);
  const left = queueOf('killed');
  assert.equal(left.length, 1, 'step 1 is there, held');
  const second = await lab.dispatch({ config: 'killed' });
  assert.equal(second.outputs['state'], 'submitted', second.log);
  assert.match(second.log, /an earlier launch of killed-\S+ was interrupted before its release; cancelling what it queued/);
  const queue = queueOf('killed');
  assert.equal(queue.length, 3);
  assert.ok(
    queue.every((job) => job.name.includes('.l2.')),
    JSON.stringify(queue),
  );
  cancel('killed');
});

test('SIGTERM to the action between two submissions takes back what was queued', async () => {
  const lab = await labWithSbatch('stopped', '[ $CALL != 2 ] || sleep 3');
  const result = await lab.dispatch(
    { config: 'stopped' },
    {
      onLine: (line, kill) => {
        if (/step 1: job/.test(line)) kill('SIGTERM');
      },
    },
  );
  assert.equal(result.code, 1, result.log);
  assert.match(result.errors.join(), /refused: the launcher went away|Nothing of it is in the queue/);
  assert.deepEqual(queueOf('stopped'), []);
});

test('twenty launches of one experiment at the same moment give one chain', async () => {
  const lab = await makeLab(cluster, 'once');
  labs.push(lab);
  lab.commit({ 'configs/once.yaml': regression(lab, { name: 'once', nJobs: 3, secondsPerStep: 1 }) });
  await lab.dispatch({ command: 'plan', config: 'once' }); // fetches the commit; twenty runners would have a checkout each
  const results = await Promise.all(Array.from({ length: 20 }, () => lab.dispatch({ config: 'once' })));
  for (const result of results) assert.equal(result.code, 0, result.log);
  assert.deepEqual(results.map((result) => result.outputs['state']).sort(), [...Array<string>(19).fill('alive'), 'submitted']);
  const id = results[0]?.outputs['experiment-id'] ?? '';
  const queue = queueOf('once').filter((job, index, all) => all.findIndex((other) => other.id === job.id) === index);
  assert.deepEqual(
    queue.map((job) => job.name).sort(),
    [1, 2, 3].map((step) => `${id}.l1.s${step}`),
  );
  cancel('once');
  await endOf(
    cluster,
    queue.map((job) => job.id),
  );
});
