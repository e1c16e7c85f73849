// What a launch leaves behind when the cluster says no, or says nothing.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { asUser, endOf, type Lab, makeLab, regression, slurm, testCluster } from '../support/lab.ts';

const cluster = testCluster();
const labs: Lab[] = [];
after(async () => {
  for (const lab of labs) await lab.close();
});

const SHIM = '/tmp/slurm-chain-shim';
/** A lab whose sbatch is a script of ours in front of the real one. @param body runs with the real path in $REAL and the number of the call in $CALL */
async function labWithSbatch(name: string, body: string): Promise<Lab> {
  const directory = `${SHIM}-${process.pid}-${name}`;
  const script = [
    '#!/bin/bash',
    'REAL=/usr/bin/sbatch',
    // --test-only and --version are no submissions and are not counted.
    'case " $* " in *" --test-only "* | *" --version "*) exec $REAL "$@" ;; esac',
    `echo x >> ${directory}/calls`,
    `CALL=$(wc -l < ${directory}/calls)`,
    body,
    'exec $REAL "$@"',
  ].join('\n');
  asUser(cluster, `mkdir -p ${directory} && cat > ${directory}/sbatch <<'EOF'\n${script}\nEOF\nchmod +x ${directory}/sbatch`);
  const lab = await makeLab(cluster, name, { clusterFields: { prelude: `export PATH=${directory}:$PATH` } });
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
      return { id, state, name, dependency };
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

for (const [fault, body] of [
  ['loses the reply', '[ $CALL != 2 ] || { $REAL "$@" >/dev/null; exit 1; }'],
  [
    'times out after the job was taken',
    '[ $CALL != 2 ] || { $REAL "$@" >/dev/null; echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1; }',
  ],
  ['prints a number that is not the id', '[ $CALL != 2 ] || { $REAL "$@" >/dev/null; echo 99999999; exit 0; }'],
  ['prints the id of another job', '[ $CALL != 2 ] || { $REAL "$@" >/dev/null; echo 1; exit 0; }'],
  ['prints noise before the id', '[ $CALL != 2 ] || { echo "Note that 128 GB will be charged"; exec $REAL "$@"; }'],
  ['prints the id twice', '[ $CALL != 2 ] || { ID=$($REAL "$@"); echo $ID; echo $ID; exit 0; }'],
  [
    'warns on stderr and succeeds',
    '[ $CALL != 2 ] || echo "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying" >&2',
  ],
  ['adds the cluster to the id', '[ $CALL != 2 ] || { echo "$($REAL "$@");chain"; exit 0; }'],
  [
    'times out before the job was taken, once',
    '[ $CALL != 2 ] || { echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1; }',
  ],
  ['loses the first reply', '[ $CALL != 1 ] || { $REAL "$@" >/dev/null; exit 1; }'],
  ['loses the last reply', '[ $CALL != 3 ] || { $REAL "$@" >/dev/null; exit 1; }'],
] as const) {
  test(`an sbatch that ${fault}: one chain, all on record`, async () => {
    const name = `f${fault.replace(/[^a-z]/g, '').slice(0, 20)}`;
    const lab = await labWithSbatch(name, body);
    try {
      const result = await lab.dispatch({ config: name });
      assert.equal(result.code, 0, result.log);
      assertOneChain(lab, name, result.outputs['experiment-id'] ?? '');
    } finally {
      cancel(name);
    }
  });
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

test('eight launches of one experiment at the same moment give one chain', async () => {
  const lab = await makeLab(cluster, 'once');
  labs.push(lab);
  lab.commit({ 'configs/once.yaml': regression(lab, { name: 'once', nJobs: 3, secondsPerStep: 1 }) });
  await lab.dispatch({ command: 'plan', config: 'once' }); // fetches the commit; eight runners would have a checkout each
  const results = await Promise.all(Array.from({ length: 8 }, () => lab.dispatch({ config: 'once' })));
  for (const result of results) assert.equal(result.code, 0, result.log);
  assert.deepEqual(results.map((result) => result.outputs['state']).sort(), [...Array<string>(7).fill('alive'), 'submitted']);
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
