// Somebody runs scancel by hand at the worst moment of a launch: right before the release, while the launch looks at the
// queue, while a chain is extended. A job that was running stays in the queue as COMPLETING for a while (slurm.conf(5), KillWait).
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { ActionResult } from '../support/action.ts';
import { asUser, endOf, inFront, slurm, testCluster } from '../support/cluster.ts';
import { regression } from '../support/experiment.ts';
import { type Lab, useLabs } from '../support/lab.ts';
import { until } from '../support/until.ts';

const cluster = testCluster();
const makeLab = useLabs(cluster);

/**
 * A lab with scripts in front of Slurm commands (see inFront) and jobs that ignore SIGTERM: they stay COMPLETING for the 5 s
 * of the cluster's KillWait.
 * @param more shell lines for the prelude
 */
async function newLab(name: string, bodies: Readonly<Record<string, string>>, { nJobs = 3, more = '' } = {}): Promise<Lab> {
  const lab = await makeLab(name, { clusterFields: { prelude: `${inFront(cluster, name, bodies)}\n${more}` } });
  const stubborn = regression(lab, { name, nJobs }).replace(/^run: .*/m, `run: "trap '' TERM; while :; do sleep 1; done"`);
  lab.commit({ [`configs/${name}.yaml`]: stubborn });
  return lab;
}

const jobsOf = (result: ActionResult): string[] => (result.outputs['job-ids'] ?? '').split(',');

/** The ids of the experiment's arrays in the queue, in order. */
function queueOf(result: ActionResult): string[] {
  const rows = slurm(cluster, 'squeue', '-a', '-h', '-o', '%F|%j').split('\n');
  const ids = rows.filter((row) => row.includes(`|${result.outputs['experiment-id']}.`)).map((row) => row.split('|')[0] ?? '');
  return [...new Set(ids)].sort((a, b) => Number(a) - Number(b));
}

function ledgerOf(lab: Lab, result: ActionResult): { event: string; launch: number; tag?: string }[] {
  const text = readFileSync(join(lab.workdir, 'experiments', result.outputs['experiment-id'] ?? '', 'ledger.jsonl'), 'utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { event: string; launch: number; tag?: string });
}

function cancelAll(result: ActionResult): void {
  slurm(cluster, 'scancel', ...queueOf(result).toReversed());
}

const isRunning = (job: string) => slurm(cluster, 'squeue', '-h', '-t', 'RUNNING', '-j', job) !== '';

/**
 * A chain whose first job runs, and a second launch during which `act` hits jobs, right before a squeue call of that launch.
 * @param when the first squeue call of the look (probe), or the first one under the launch lock (submit)
 * @param chosen picks the jobs out of the ids of the chain
 */
async function launchTwice(
  name: string,
  when: 'probe' | 'submit',
  act: 'scancel' | 'scontrol requeue',
  { nJobs, chosen }: { nJobs: number; chosen: (jobs: string[]) => string[] },
): Promise<{ first: ActionResult; second: ActionResult }> {
  const order = `${cluster.CLUSTER_DIR}/home/order-${process.pid}-${name}`;
  const squeue = `if [ -e ${order} ] && read -r LOCK JOBS < ${order} && [ -d "$LOCK" ]; then rm ${order}; ${act} $JOBS; fi`;
  const lab = await newLab(name, { squeue }, { nJobs });
  const first = await lab.dispatch({ config: name });
  const jobs = jobsOf(first);
  await until('the first job to run', () => isRunning(jobs[0] ?? ''));
  const lock = `${lab.workdir}/experiments/${first.outputs['experiment-id']}/launch.lock.2`;
  asUser(cluster, `echo ${when === 'submit' ? lock : '/'} ${chosen(jobs).join(' ')} > ${order}`);
  const second = await lab.dispatch({ config: name });
  assert.ok(!existsSync(order), 'the jobs were hit');
  assert.equal(second.code, 0, second.log);
  return { first, second };
}

describe('each in a lab of its own', { concurrency: 3 }, () => {
  test('a job cancelled right before the release: the others are released at once, and nothing is called held', async () => {
    const calls = `${cluster.CLUSTER_DIR}/home/releases-${process.pid}`;
    // The first job comes last, see release in submit.sh.
    const scontrol = `[ "$1" != release ] || { echo x >> ${calls}; scancel "\${@: -1}"; }`;
    const lab = await newLab('torelease', { scontrol });
    const first = await lab.dispatch({ config: 'torelease' });
    assert.equal(first.outputs['state'], 'submitted', first.log);
    assert.doesNotMatch(first.log + first.summary, /still held/);
    const [, ...others] = jobsOf(first);
    assert.deepEqual(queueOf(first), others);
    assert.doesNotMatch(slurm(cluster, 'squeue', '-h', '-j', others.join(','), '-o', '%r'), /JobHeld/);
    assert.deepEqual(
      ledgerOf(lab, first)
        .filter((line) => line.event === 'released')
        .map((line) => line.launch),
      [1],
    );
    const second = await lab.dispatch({ config: 'torelease' });
    assert.deepEqual([second.outputs['state'], jobsOf(second)], ['alive', others], second.log);
    assert.equal(readFileSync(calls, 'utf8'), 'x\n', 'one call released all, and no launch tried again');
    cancelAll(first);
  });

  test('a chain cancelled as a whole right before the release: the report offers no commands for jobs that are gone', async () => {
    const scontrol = '[ "$1" != release ] || scancel "${@:2}"';
    const lab = await newLab('allgone', { scontrol });
    const result = await lab.dispatch({ config: 'allgone' });
    assert.equal(result.outputs['state'], 'submitted', result.log);
    assert.deepEqual(queueOf(result), []);
    assert.doesNotMatch(result.summary, /scancel|squeue/);
  });

  test('a release that fails while a job is held is tried again', async () => {
    const calls = `${cluster.CLUSTER_DIR}/home/refusals-${process.pid}`;
    const scontrol = `if [ "$1" = release ] && [ ! -e ${calls} ]; then echo x >> ${calls}; echo "slurm_suspend error: Unable to contact slurm controller (connect failure)" >&2; exit 1; fi`;
    const lab = await newLab('retried', { scontrol });
    const result = await lab.dispatch({ config: 'retried' });
    assert.equal(result.outputs['state'], 'submitted', result.log);
    assert.ok(existsSync(calls), 'the first try failed');
    assert.doesNotMatch(slurm(cluster, 'squeue', '-h', '-j', jobsOf(result).join(','), '-o', '%r'), /JobHeld/);
    assert.ok(ledgerOf(lab, result).some((line) => line.event === 'released'));
    cancelAll(result);
  });

  test('a running job cancelled while a launch looks at its chain is not among the ids of the chain that is alive', async () => {
    const { first, second } = await launchTwice('onelost', 'submit', 'scancel', { nJobs: 3, chosen: (jobs) => jobs.slice(0, 1) });
    assert.deepEqual([second.outputs['state'], jobsOf(second)], ['alive', jobsOf(first).slice(1)], second.log);
    assert.deepEqual(queueOf(second), jobsOf(second));
    cancelAll(second);
  });

  for (const when of ['probe', 'submit'] as const) {
    test(`a chain whose last job was just cancelled is not alive, it is carried on (seen at the ${when})`, async () => {
      const { first, second } = await launchTwice(`lastlost${when}`, when, 'scancel', { nJobs: 1, chosen: (jobs) => jobs });
      assert.equal(second.outputs['state'], 'submitted', second.log);
      assert.notDeepEqual(jobsOf(second), jobsOf(first));
      assert.deepEqual(queueOf(second), jobsOf(second));
      cancelAll(second);
    });
  }

  for (const states of [['COMPLETING'], ['RUNNING', 'COMPLETING']]) {
    test(`a chain that completes during a launch is complete, and nothing is submitted (its job is ${states.join(', ')}, gone)`, async () => {
      const name = `completed${states.length}`;
      // One row for each call of squeue: the first one is that of the look, the second one that under the launch lock.
      const rows = `${cluster.CLUSTER_DIR}/home/rows-${process.pid}-${name}`;
      const squeue = `[ ! -s ${rows} ] || { head -n 1 ${rows}; sed -i 1d ${rows}; }`;
      const lab = await makeLab(name, { clusterFields: { prelude: inFront(cluster, name, { squeue }) } });
      lab.commit({ [`configs/${name}.yaml`]: regression(lab, { name, nJobs: 1, nSteps: 20 }) });
      const first = await lab.dispatch({ config: name });
      const [job = ''] = jobsOf(first);
      await endOf(cluster, [job]);
      const tag = ledgerOf(lab, first)[0]?.tag;
      asUser(cluster, `printf '${job}|${job}_0|%s|None|(null)|${tag}\\n' ${states.join(' ')} > ${rows}`);
      const second = await lab.dispatch({ config: name });
      assert.equal(readFileSync(rows, 'utf8'), '', 'every row was shown');
      assert.equal(second.outputs['state'], 'complete', second.log);
      assert.deepEqual(queueOf(second), []);
    });
  }

  test('a job on its way back into the queue shows as COMPLETING too, and its chain is alive', async () => {
    const { first, second } = await launchTwice('requeued', 'submit', 'scontrol requeue', { nJobs: 1, chosen: (jobs) => jobs });
    assert.deepEqual([second.outputs['state'], jobsOf(second)], ['alive', jobsOf(first)], second.log);
    assert.deepEqual(queueOf(second), jobsOf(first));
    cancelAll(second);
  });

  test('a job that stays COMPLETING, as on a node in trouble: its chain counts as alive after COMPLETING_PATIENCE', async () => {
    const flag = `${cluster.CLUSTER_DIR}/home/stuck-${process.pid}`;
    const squeue = `[ ! -e ${flag} ] || { $REAL "$@" | sed 's/|RUNNING|/|COMPLETING|/'; exit; }`;
    const lab = await newLab('stuck', { squeue }, { nJobs: 1, more: 'COMPLETING_PATIENCE=1' });
    const first = await lab.dispatch({ config: 'stuck' });
    await until('the job to run', () => isRunning(jobsOf(first)[0] ?? ''));
    asUser(cluster, `touch ${flag}`);
    const second = await lab.dispatch({ config: 'stuck' });
    assert.deepEqual([second.outputs['state'], jobsOf(second)], ['alive', jobsOf(first)], second.log);
    cancelAll(first);
  });

  test('the end of a chain cancelled while it is extended: the new job waits for what is left of the chain', async () => {
    const order = `${cluster.CLUSTER_DIR}/home/order-${process.pid}-tail`;
    const sbatch = `if [ -e ${order} ]; then JOB=$(<${order}); rm ${order}; scancel $JOB; fi`;
    const lab = await newLab('tail', { sbatch }, { nJobs: 2 });
    const first = await lab.dispatch({ config: 'tail' });
    const [runs = '', waits = ''] = jobsOf(first);
    await until('the first job to run', () => isRunning(runs));
    asUser(cluster, `echo ${waits} > ${order}`);
    const second = await lab.dispatch({ command: 'extend', config: 'tail' });
    assert.ok(!existsSync(order), 'the end of the chain was cancelled');
    assert.equal(second.outputs['state'], 'extended', second.log);
    const [added = ''] = jobsOf(second);
    assert.deepEqual(queueOf(first), [runs, added]);
    assert.equal(slurm(cluster, 'squeue', '-h', '-j', added, '-o', '%E %r'), `afterany:${runs}_*(unfulfilled) Dependency`);
    cancelAll(first);
  });
});
