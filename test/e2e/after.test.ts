// After the launch: status, extend and cancel by comment, label, dispatch and schedule, on the real cluster and the GitHub server.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { asUser, cancelQueue, endOf, inFront, queueOf, slurm, testCluster } from '../support/cluster.ts';
import { regression } from '../support/experiment.ts';
import { type Lab, useLabs } from '../support/lab.ts';
import { until } from '../support/until.ts';

const cluster = testCluster();
const newLab = useLabs(cluster, { experiment: { secondsPerStep: 0.05 } });
/** The tasks of an experiment that are in the queue. */
const tasksOf = (id: string) => queueOf(cluster, id).flatMap((job) => job.tasks);
/** The comment of an experiment, without what is folded away. */
const shown = (lab: Lab, id: string) =>
  lab.hub.comments.find((one) => one.body.startsWith(`<!-- slurm-chain ${id} -->`))?.body.split('<details')[0] ?? '';
const reactions = (lab: Lab) => lab.hub.reactions.map((one) => one.content);

test('from a comment to the end: launch, status, extend, one cell cancelled, all cancelled', async () => {
  const lab = await newLab('talk', { experiment: { nSteps: 40_000, nJobs: 2, grid: '^lr: [0.1, 0.2]' } });
  const pull = lab.openPull();
  const launched = await lab.comment(pull, '/launch talk n_jobs=3');
  assert.equal(launched.code, 0, launched.log);
  assert.equal(launched.outputs['state'], 'submitted');
  const id = launched.outputs['experiment-id'] ?? '';
  assert.deepEqual(reactions(lab), ['eyes', 'rocket']);
  assert.equal(lab.hub.statuses[0]?.sha, lab.hub.headOf(pull));
  assert.deepEqual([lab.hub.statuses[0]?.context, lab.hub.statuses[0]?.state], ['slurm-chain/talk', 'pending']);
  await until('a checkpoint of both', () => [0, 1].every((cell) => existsSync(join(lab.save, id, `${cell}/step_40`))));

  const looked = await lab.comment(pull, '/status');
  assert.equal(looked.outputs['state'], 'running', looked.log);
  const body = shown(lab, id);
  assert.match(body, /running, job 1 of 3/);
  assert.match(body, /\| 1 \| `\d+` \| {2}\| 2 running \|/);
  assert.match(body, /\| 2 \| `\d+` \| `\d+` \| 2 waiting for the previous job \|/);
  assert.match(body, /\| 0 \| `train\.lr=0\.1` \| `step_\d+` \| ░+ \d+%, [\d\u00a0smin]+left \| job 1: running for \d+ s on n\d \|/);
  assert.match(lab.hub.statuses[0]?.description ?? '', /^running, job 1 of 3, \d+%$/);

  // The pull request moves on; the chain stays that of its commit.
  lab.commit({ 'README.md': 'another commit\n' });
  const extended = await lab.comment(pull, '/extend 2');
  assert.equal(extended.outputs['state'], 'extended', extended.log);
  assert.equal(extended.outputs['experiment-id'], id);
  assert.equal(tasksOf(id).length, 10);

  const cell = await lab.comment(pull, '/cancel cell=1');
  assert.equal(cell.outputs['state'], 'cancelled', cell.log);
  assert.match(shown(lab, id), /partly cancelled; running, job 1 of 5[\s\S]*Cancelled cell 1\. Of its tasks, \d+\\_1 was running/);
  assert.deepEqual(tasksOf(id), [0, 0, 0, 0, 0]);

  const all = await lab.comment(pull, '/cancel');
  assert.equal(all.outputs['state'], 'cancelled', all.log);
  assert.deepEqual(tasksOf(id), []);
  assert.match(shown(lab, id), /Cancelled the whole chain[\s\S]*Checkpoints stay under .*cell 0 step\\_\d+, cell 1 step\\_\d+/);
  assert.match(shown(lab, id), /\| 3 \| `\d+` \| `\d+` \| 2 cancelled by alice \|/);
  assert.equal(lab.hub.statuses[0]?.state, 'error');
  assert.equal(lab.hub.comments.filter((one) => one.author !== 'alice').length, 1, 'one comment, edited');
});

test('a task that failed shows the end of its log, without the secrets it was given', async () => {
  const lab = await newLab('broken');
  lab.commit({
    'configs/broken.yaml': `run: |\n  echo "the key is $API_KEY, and the disk is on fire; $PEM"\n  exit 3\nsave: {path: ${lab.save}}\nchain: {n_jobs: 4}\nn_steps: 10\nslurm: {time: "00:05:00"}\n`,
  });
  const pull = lab.openPull();
  const launched = await lab.label(pull, 'launch:broken', { inputs: { env: 'API_KEY=hunter2hunter2\nPEM=it\'s hunter2 "with quotes"' } });
  const id = launched.outputs['experiment-id'] ?? '';
  await endOf(cluster, (launched.outputs['job-ids'] ?? '').split(','));
  const looked = await lab.dispatch({ command: 'status', target: id });
  assert.equal(looked.outputs['state'], 'failed', looked.log);
  const body = lab.hub.comments[0]?.body ?? '';
  assert.match(body, /failed, job 2: exit code 3\. Nothing is in the queue, 0 of 1 cell complete/);
  assert.match(body, /\| 1 \| `\d+` \| {2}\| 1 failed, exit code 3 \|/);
  assert.match(body, /\| 3 \| .* \| 1 stopped by the stop rule \\\(too many failures without a new checkpoint\\\) \|/);
  assert.match(body, /Nothing was saved\. Fix the cause, push, and launch again\. .*`\/extend broken-[0-9a-f]{12} 1`/);
  assert.ok(!`${body}${looked.log}${looked.summary}`.includes('hunter2'), 'the secret is nowhere');
  assert.equal(lab.hub.statuses[0]?.state, 'failure');
  // The log of the last task says why that one did not start; the failure itself is in the one before.
  assert.match(body, /end of 2_\d+_0\.out<\/summary>[\s\S]*the key is \*\*\*, and the disk is on fire/);
});

test('a status rebuilds the comment from nothing, on any runner, and says the same whoever asks', async () => {
  const lab = await newLab('rebuilt', { experiment: { nSteps: 40, secondsPerStep: 0.002, nJobs: 2 } });
  const pull = lab.openPull();
  const launched = await lab.label(pull, 'launch:rebuilt');
  const id = launched.outputs['experiment-id'] ?? '';
  await endOf(cluster, (launched.outputs['job-ids'] ?? '').split(','));
  assert.equal((await lab.label(pull, 'chain:status')).outputs['state'], 'complete');
  assert.ok(!pull.labels.includes('chain:status'), 'the label came off');
  const before = lab.hub.comments[0]?.body;
  assert.match(
    before ?? '',
    /complete: every cell is complete[\s\S]*\| 1 \| `\d+` \| {2}\| 1 finished \|\n\| 2 \| `\d+` \| `\d+` \| 1 nothing left to do \|/,
  );
  assert.match(before ?? '', /██████████ 100% \| complete \|/);
  assert.equal(lab.hub.statuses[0]?.state, 'success');
  lab.hub.comments.splice(0);
  const again = await lab.schedule();
  assert.equal(again.code, 0, again.log);
  assert.equal(lab.hub.comments[0]?.body, before);
  assert.ok(again.outputs['experiment-id']?.split('\n').includes(id), 'one that ended a moment ago is among them');
  // Nothing changed, so nothing is written.
  const statuses = lab.hub.statuses.length;
  await lab.schedule();
  assert.equal(lab.hub.statuses.length, statuses);
  const extended = await lab.comment(pull, `/extend ${id} 2`);
  assert.equal(extended.outputs['state'], 'complete', extended.log);
  assert.deepEqual(tasksOf(id), [], 'jobs of a complete chain would do nothing');
});

test('cancelling one step alone says that the next one starts, and it does', async () => {
  const lab = await newLab('onestep', { experiment: { nSteps: 40_000, nJobs: 2 } });
  const launched = await lab.dispatch({ config: 'onestep' });
  const id = launched.outputs['experiment-id'] ?? '';
  const [, second] = (launched.outputs['job-ids'] ?? '').split(',');
  await until('a checkpoint', () => existsSync(join(lab.save, id, '0/step_20')));
  const result = await lab.dispatch({ command: 'cancel', target: id, step: '1' });
  assert.equal(result.code, 0, result.log);
  assert.match(
    result.summary,
    /The next job starts now, because a cancelled job counts as ended\. 1 job of the chain is still in the queue/,
  );
  await until('step 2 to run', () => slurm(cluster, 'squeue', '-h', '-j', second ?? '', '-o', '%T') === 'RUNNING');
  await lab.dispatch({ command: 'cancel', target: `${id}-0` });
  assert.deepEqual(tasksOf(id), []);
});

test('a closed pull request takes its chains out of the queue where the workflow says so, and only its own', async () => {
  const lab = await newLab('closing', { experiment: { nSteps: 40_000 } });
  lab.commit({ 'configs/other.yaml': regression(lab, { name: 'other', nSteps: 40_000 }) });
  const pull = lab.openPull();
  const mine = (await lab.label(pull, 'launch:closing')).outputs['experiment-id'] ?? '';
  const other = (await lab.dispatch({ config: 'other' })).outputs['experiment-id'] ?? '';
  const ignored = await lab.closePull(pull);
  assert.match(ignored.log, /asks for nothing/);
  assert.equal(tasksOf(mine).length, 2);
  pull.state = 'open';
  const closed = await lab.closePull(pull, false, { inputs: { command: 'cancel' } });
  assert.equal(closed.code, 0, closed.log);
  assert.deepEqual(tasksOf(mine), []);
  assert.equal(tasksOf(other).length, 2);
  await lab.dispatch({ command: 'cancel', config: 'other' });
  assert.deepEqual(tasksOf(other), []);
});

test('who may not write to the repository gets nothing done by a comment, and forks are refused', async () => {
  const lab = await newLab('stranger', { experiment: { nSteps: 40_000 } });
  const pull = lab.openPull();
  const id = (await lab.label(pull, 'launch:stranger')).outputs['experiment-id'] ?? '';
  lab.hub.permissions.set('mallory', 'read');
  for (const body of ['/cancel', '/extend 9', '/launch stranger', '/status', '/frobnicate']) {
    const result = await lab.comment(pull, body, { sender: 'mallory' });
    assert.equal(result.code, 1, body);
    assert.match(result.errors[0] ?? '', /mallory has read permission/);
  }
  assert.equal(tasksOf(id).length, 2);
  assert.deepEqual(reactions(lab), []);
  const fork = { ...lab.openPull(), fork: true };
  lab.hub.pulls.splice(-1, 1, fork);
  assert.match((await lab.comment(fork, '/launch stranger')).errors[0] ?? '', /comes from a fork/);
  assert.equal((await lab.comment(pull, '/cancel')).outputs['state'], 'cancelled');
});

test('a command that is none gets the list; a comment that is no command gets nothing', async () => {
  const lab = await newLab('unknown');
  const pull = lab.openPull();
  const result = await lab.comment(pull, '/statsu now, <b>please</b>');
  assert.equal(result.code, 0, result.log);
  const answer = lab.hub.comments.find((one) => one.author !== 'alice')?.body ?? '';
  assert.match(answer, /There is no command \/statsu; did you mean .*status'\? These are the commands:/);
  assert.match(answer, /`\/extend \[WHAT\] \[N\]`/);
  assert.ok(!answer.includes('please'));
  assert.deepEqual(reactions(lab), ['confused']);
  assert.match((await lab.comment(pull, 'looks good to me')).log, /Nothing to do: the comment is not a command/);
  assert.match((await lab.comment(pull, '/status', { onIssue: true })).log, /Nothing to do: the comment is on an issue/);
});

test('a comment asks for what is not there: the answer says so, once', async () => {
  const lab = await newLab('nothere');
  const pull = lab.openPull();
  const result = await lab.comment(pull, '/extend');
  assert.equal(result.code, 1);
  assert.match(result.errors[0] ?? '', /no cluster has a chain that was launched from pull request #1/);
  const problem = lab.hub.comments.filter((one) => one.author !== 'alice');
  assert.equal(problem.length, 1);
  assert.match(problem[0]?.body ?? '', /Not done: `\/extend`/);
  assert.deepEqual(reactions(lab), ['eyes', 'confused']);
});

test('without statuses: write, and with a comment that cannot be written, everything else is done', async () => {
  const lab = await newLab('lean', { experiment: { nSteps: 40_000 } });
  const pull = lab.openPull();
  lab.hub.faults.push({ method: 'POST', path: /\/statuses\/[0-9a-f]+$/, status: 403, times: 99 });
  const launched = await lab.label(pull, 'launch:lean');
  assert.equal(launched.code, 0, launched.log);
  assert.match(launched.log, /no commit status: .*statuses: write/);
  assert.equal(launched.errors.length, 0);
  await lab.dispatch({ command: 'cancel', target: '#1' });
});

test('a chain of another repository on the same account is neither shown nor cancelled', async () => {
  const lab = await newLab('mine', { experiment: { nSteps: 40_000 } });
  const id = (await lab.dispatch({ config: 'mine' })).outputs['experiment-id'] ?? '';
  const directory = `${lab.workdir}/experiments/${id}`;
  asUser(cluster, `cd ${directory} && sed -i 's#"repository":"lab/nano"#"repository":"lab/other"#g' manifest.json summary.json`);
  for (const command of ['status', 'cancel', 'extend']) {
    const result = await lab.dispatch({ command, target: id });
    assert.match(result.errors[0] ?? '', /no experiment of lab\/nano on the cluster matches '.*'/, command);
  }
  assert.equal(tasksOf(id).length, 2);
  cancelQueue(cluster, id);
});

test('one squeue call and one sacct call, however many jobs and experiments', async () => {
  const lab = await newLab('calls', { experiment: { nSteps: 40_000, nJobs: 3, grid: '^lr: [0.1, 0.2]' } });
  const ids = [];
  for (const lr of ['1', '2', '3']) {
    const launched = await lab.dispatch({ config: 'calls', overrides: `train.save_every=${lr}0`, n_jobs: '3' });
    ids.push(launched.outputs['experiment-id'] ?? '');
  }
  const log = `${cluster.CLUSTER_DIR}/home/calls.log`;
  const prelude = inFront(cluster, 'calls', { squeue: `echo squeue >> ${log}`, sacct: `echo sacct >> ${log}` });
  const counting = await newLab('calls', { clusterFields: { prelude } });
  const result = await counting.dispatch({ command: 'status' });
  assert.equal(result.code, 0, result.log);
  for (const id of ids) assert.ok(result.outputs['experiment-id']?.includes(id), id);
  assert.deepEqual(asUser(cluster, `sort ${log}`).split('\n'), ['sacct', 'squeue']);
  for (const id of ids) await lab.dispatch({ command: 'cancel', target: id });
});

test('a thousand cells: one status, one comment that GitHub takes, those that need somebody first', async () => {
  const lab = await newLab('thousand', {
    experiment: { nSteps: 100, nJobs: 2, grid: `^lr: [${Array.from({ length: 1000 }, (_, cell) => cell).join(', ')}]` },
  });
  const pull = lab.openPull();
  // It stays in the queue; what its cells have done is made up.
  const launched = await lab.comment(pull, '/launch thousand +slurm.begin=now+1hour');
  assert.equal(launched.code, 0, launched.log);
  const id = launched.outputs['experiment-id'] ?? '';
  const [job] = (launched.outputs['job-ids'] ?? '').split(',');
  const line = (cell: string) =>
    `{"event":"start","launch":1,"step":1,"cell":${cell},"job":"${job}","task":"${job}","restart":0,"host":"n1","time":"2026-12-01T00:00:00Z","resumed_from":null,"resume_step":-1}`;
  asUser(
    cluster,
    `cd ${lab.save}/${id} && for c in $(seq 0 999); do mkdir -p $c/step_$((c % 99)) && touch $c/step_$((c % 99))/shard && echo '${line('CELL')}' | sed "s/CELL/$c/" > .chain/$c.jsonl; done`,
  );
  const began = Date.now();
  const looked = await lab.comment(pull, '/status');
  assert.equal(looked.outputs['state'], 'waiting', looked.log);
  assert.ok(Date.now() - began < 60_000, 'not a round trip a cell');
  const body = lab.hub.comments.find((one) => one.body.startsWith('<!-- slurm-chain'))?.body ?? '';
  assert.match(body, /job 1 of 2: waiting for resources \(BeginTime/);
  assert.match(body, /\| 1 \| `\d+` \| {2}\| 1000 waiting for resources/);
  assert.match(body, /1,000 cells, 0 complete/);
  assert.match(body, /and 970 more cells, in the summary of the workflow run/);
  assert.match(looked.summary, /\| 999 \| `train\.lr=999` \| `step_9` \|/);
  await lab.comment(pull, '/cancel');
  assert.deepEqual(tasksOf(id), []);
});

for (const [what, shims, wanted] of [
  ['accounting is off', { sacct: 'echo "Slurm accounting storage is disabled" >&2; exit 1' }, /\| 1 \| `\d+` \| {2}\| 1 finished \|/],
  ['accounting hangs', { sacct: 'sleep 1; exit 124' }, /\| 1 finished \|/],
  [
    'squeue does not answer',
    { squeue: 'echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1' },
    /complete: every cell is complete/,
  ],
] as const) {
  test(`a status when ${what} says what is known all the same`, async () => {
    const name = `odd${what.replace(/[^a-z]/g, '')}`;
    const lab = await newLab(name, { experiment: { nSteps: 40, secondsPerStep: 0.002, nJobs: 1 } });
    const launched = await lab.dispatch({ config: name });
    await endOf(cluster, (launched.outputs['job-ids'] ?? '').split(','));
    const odd = await newLab(name, { clusterFields: { prelude: inFront(cluster, name, shims) } });
    const result = await odd.dispatch({ command: 'status', target: launched.outputs['experiment-id'] ?? '' });
    assert.equal(result.outputs['state'], 'complete', result.log);
    assert.match(result.summary, wanted);
  });
}

test('waiting says only what changed, ends when the chain has, and leaves the jobs alone when it is interrupted', async () => {
  const lab = await newLab('waits', { experiment: { nSteps: 40, secondsPerStep: 0.02, nJobs: 2 } });
  const result = await lab.dispatch({ config: 'waits', wait: 'finished' });
  assert.equal(result.code, 0, result.log);
  assert.equal(result.outputs['state'], 'complete');
  const said = result.log.split('\n').filter((line) => /^waits-\S+: (running|job|complete)/.test(line));
  assert.equal(new Set(said).size, said.length, said.join('\n'));
  assert.match(said.at(-1) ?? '', /complete: every cell is complete/);

  const long = await newLab('stays', { experiment: { nSteps: 40_000 } });
  const stopped = await long.dispatch(
    { config: 'stays', wait: 'finished' },
    { onLine: (line, kill) => /: running/.test(line) && kill('SIGINT') },
  );
  const id = stopped.outputs['experiment-id'] ?? '';
  assert.equal(tasksOf(id).length, 2, stopped.log);
  const gone = await long.dispatch(
    { command: 'status', target: id, wait: 'finished', 'cancel-jobs-on-cancel': 'true' },
    { onLine: (line, kill) => /: running/.test(line) && kill('SIGINT') },
  );
  assert.match(gone.log, /and with it the jobs \(cancel-jobs-on-cancel\)/);
  assert.deepEqual(tasksOf(id), []);
  const started = await long.dispatch({ command: 'extend', target: id, wait: 'started' });
  assert.equal(started.outputs['state'], 'running', started.log);
  await long.dispatch({ command: 'cancel', target: id });
});

test("another pull request's chain of the same name is out of reach, also once one's own has ended", async () => {
  const lab = await newLab('mine2', { experiment: { nSteps: 40_000 } });
  const first = lab.openPull();
  const theirs = (await lab.label(first, 'launch:mine2')).outputs['experiment-id'] ?? '';
  lab.commit({ 'configs/mine2.yaml': regression(lab, { name: 'mine2', nSteps: 20, secondsPerStep: 0.002 }) });
  const second = lab.openPull();
  const launched = await lab.label(second, 'launch:mine2');
  await endOf(cluster, (launched.outputs['job-ids'] ?? '').split(','));
  for (const command of ['/cancel mine2', '/extend mine2', '/cancel']) await lab.comment(second, command);
  assert.equal(tasksOf(theirs).length, 2);
  await lab.comment(first, `/cancel ${theirs}`);
  assert.deepEqual(tasksOf(theirs), []);
});

test('on the pull request of a fork only a label that launches is heard, whatever the configuration at its head says', async () => {
  const lab = await newLab('forked');
  const allow = { inputs: { 'unsafe-allow-forks': 'true' } };
  const canary = join(cluster.CLUSTER_DIR, 'home/forked-canary');
  const config = readFileSync(join(lab.workspace, '.github/slurm-chain.yml'), 'utf8').replace(/\}\}/, `, "prelude": "touch ${canary}"}}`);
  lab.commit({ '.github/slurm-chain.yml': config });
  const fork = { ...lab.openPull(), fork: true };
  lab.hub.pulls.splice(-1, 1, fork);
  for (const body of ['/status', '/cancel', '/extend', '/audit', '/plan forked', '/launch forked']) {
    const result = await lab.comment(fork, body, allow);
    assert.match(result.errors[0] ?? '', /comes from a fork, where only a label can launch/, body);
  }
  assert.match((await lab.closePull(fork, false, { inputs: { command: 'cancel', ...allow.inputs } })).log, /Nothing to do/);
  assert.ok(!existsSync(canary), 'nothing of it ran');
});

test('closing a pull request that has nothing in the queue says nothing and changes nothing', async () => {
  const lab = await newLab('quiet', { experiment: { nSteps: 20, secondsPerStep: 0.002 } });
  const empty = lab.openPull();
  const nothing = await lab.closePull(empty, false, { inputs: { command: 'cancel' } });
  assert.equal(nothing.code, 0, nothing.log);
  const pull = lab.openPull();
  const launched = await lab.label(pull, 'launch:quiet');
  await endOf(cluster, (launched.outputs['job-ids'] ?? '').split(','));
  await lab.label(pull, 'chain:status');
  const before = [lab.hub.statuses[0]?.state, lab.hub.comments.length];
  const closed = await lab.closePull(pull, false, { inputs: { command: 'cancel' } });
  assert.equal(closed.code, 0, closed.log);
  assert.deepEqual([lab.hub.statuses[0]?.state, lab.hub.comments.length], before);
  assert.equal(before[0], 'success');
});

test('a command that is not well-formed is answered, to those who may ask', async () => {
  const lab = await newLab('malformed');
  const pull = lab.openPull();
  const result = await lab.comment(pull, '/launch one two');
  assert.equal(result.code, 1);
  assert.deepEqual(reactions(lab), ['confused']);
  assert.match(lab.hub.comments.find((one) => one.author !== 'alice')?.body ?? '', /takes one experiment/);
});

test('an extension does not run code that was changed under the chain', async () => {
  const lab = await newLab('patched', { experiment: { nSteps: 40_000 } });
  const id = (await lab.dispatch({ config: 'patched' })).outputs['experiment-id'] ?? '';
  const file = `${lab.workdir}/experiments/${id}/code/train.py`;
  asUser(cluster, `cp ${file} ${file}.new && chmod u+w ${file}.new && echo '# hot patch' >> ${file}.new && mv -f ${file}.new ${file}`);
  const result = await lab.dispatch({ command: 'extend', target: id });
  assert.equal(result.code, 1, result.log);
  assert.match(result.errors[0] ?? '', /does not match what this launch has[\s\S]*train\.py: FAILED/);
  assert.equal(tasksOf(id).length, 2);
  await lab.dispatch({ command: 'cancel', target: id });
});
