// The pull request's side of a launch: who may, which commit, and a comment that never hides what was submitted.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cancelQueue, queueOf, testCluster } from '../support/cluster.ts';
import { regression } from '../support/experiment.ts';
import { type Lab, useLabs } from '../support/lab.ts';

const cluster = testCluster();
const makeLab = useLabs(cluster);
let count = 0;
async function newLab(): Promise<Lab> {
  count += 1;
  const lab = await makeLab(`hub${count}`);
  lab.commit({ 'configs/run.yaml': regression(lab, { name: `hub${count}`, secondsPerStep: 1 }) });
  return lab;
}
const mine = () => queueOf(cluster, `hub${count}`);
const cancel = () => cancelQueue(cluster, `hub${count}`);

test('a label set by somebody without write permission launches nothing', async () => {
  const lab = await newLab();
  lab.hub.permissions.set('mallory', 'read');
  const pull = lab.openPull();
  const result = await lab.label(pull, 'launch', { event: lab.labeled(pull, 'launch', 'mallory') });
  assert.equal(result.code, 1);
  assert.match(result.errors[0] ?? '', /^mallory has read permission on lab\/nano\. Launching on the cluster needs write/);
  assert.deepEqual(mine(), []);
});

test('a stranger who re-runs a workflow needs write permission too', async () => {
  const lab = await newLab();
  const result = await lab.dispatch({ config: 'run' }, { environment: { GITHUB_TRIGGERING_ACTOR: 'mallory' } });
  assert.match(result.errors[0] ?? '', /reading the permission of mallory in lab\/nano failed/);
  assert.deepEqual(mine(), []);
});

test('a fork is refused unless the unsafe input allows it', async () => {
  const lab = await newLab();
  const pull = { ...lab.openPull(), fork: true };
  lab.hub.pulls[0] = pull;
  const refused = await lab.label(pull, 'launch:run');
  assert.match(refused.errors[0] ?? '', /comes from a fork\. A launch would run its author's code/);
  assert.deepEqual(mine(), []);
  const allowed = await lab.label(pull, 'launch:run', { inputs: { 'unsafe-allow-forks': 'true' } });
  assert.equal(allowed.code, 0, allowed.log);
  cancel();
});

test('empty secrets on a fork and for Dependabot are explained before anything else', async () => {
  const lab = await newLab();
  const pull = { ...lab.openPull(), fork: true };
  lab.hub.pulls[0] = pull;
  const fork = await lab.label(pull, 'launch', { inputs: { 'ssh-key': '' } });
  assert.match(fork.errors[0] ?? '', /ssh-key is empty.*from forks get no secrets/);
  const bot = await lab.dispatch({ config: 'run' }, { inputs: { 'ssh-key': '' }, environment: { GITHUB_ACTOR: 'dependabot[bot]' } });
  assert.match(bot.errors[0] ?? '', /Dependabot get Dependabot secrets/);
  assert.deepEqual(lab.hub.requests, []);
});

test('a push between the label and the submission stops the launch', async () => {
  const lab = await newLab();
  const pull = lab.openPull();
  const event = lab.labeled(pull, 'launch');
  let pushed = false;
  lab.hub.before = (request) => {
    // The permission is asked for first; the head is read again right before the first sbatch.
    if (!pushed && request.endsWith('/permission')) {
      pushed = true;
      lab.commit({ 'later.txt': 'not approved' });
    }
  };
  const result = await lab.label(pull, 'launch', { event });
  assert.equal(result.code, 1);
  assert.match(result.errors[0] ?? '', /moved from [0-9a-f]{12} to [0-9a-f]{12} after it was labelled\. Nothing was submitted/);
  assert.deepEqual(mine(), []);
  assert.deepEqual(pull.labels, [], 'the label is off, so that setting it again asks again');
  assert.match(lab.hub.comments[0]?.body ?? '', /Not done: `label launch`/);

  // Labelled again, the new head goes, and the comment about the failure with it.
  const again = await lab.label(pull, 'launch:run');
  assert.equal(again.code, 0, again.log);
  assert.equal(lab.hub.comments.length, 1);
  assert.match(lab.hub.comments[0]?.body ?? '', /submitted, 2 jobs/);
  cancel();
});

test('a label of another kind, and launch among the labels, do nothing', async () => {
  const lab = await newLab();
  const pull = lab.openPull();
  pull.labels.push('launch');
  const result = await lab.label(pull, 'bug');
  assert.equal(result.code, 0);
  assert.match(result.log, /Nothing to do: the label 'bug' is not launch/);
  assert.deepEqual(lab.hub.requests, []);
});

test('plain launch on a pull request without experiments says so', async () => {
  const lab = await newLab();
  lab.commit({ 'docs/x.md': 'x' }, 'docs');
  const pull = lab.openPull('docs');
  const result = await lab.label(pull, 'launch');
  assert.match(result.errors[0] ?? '', /changes no experiment \(configs\/\*\*\/\*\.yaml/);
});

for (const status of [401, 403, 404, 422] as const) {
  test(`a comment that GitHub refuses with ${status} hides no jobs`, async () => {
    const lab = await newLab();
    const pull = lab.openPull();
    lab.hub.faults.push({ method: 'POST', path: /\/issues\/\d+\/comments$/, status, times: 99 });
    const result = await lab.label(pull, 'launch:run');
    assert.equal(result.code, 0, result.log);
    assert.equal(result.outputs['state'], 'submitted');
    assert.match(result.outputs['job-ids'] ?? '', /^\d+,\d+$/);
    assert.match(result.warnings.join(), /writing the comment on pull request #1 failed.*The report is in the summary/);
    if (status === 403) assert.match(result.warnings.join(), /Give the workflow 'permissions: pull-requests: write'/);
    assert.match(result.summary, /submitted, 2 jobs/);
    cancel();
  });
}

for (const status of [429, 502] as const) {
  test(`a ${status} from GitHub is asked again`, async () => {
    const lab = await newLab();
    const pull = lab.openPull();
    lab.hub.faults.push({ method: 'POST', path: /\/issues\/\d+\/comments$/, status, times: 1 });
    const result = await lab.label(pull, 'launch:run');
    assert.equal(result.code, 0, result.log);
    assert.equal(lab.hub.comments.length, 1);
    cancel();
  });
}

test('by hand, the report goes to the open pull requests that contain the commit', async () => {
  const lab = await newLab();
  lab.openPull();
  const result = await lab.dispatch({ config: 'run' });
  assert.equal(result.code, 0, result.log);
  assert.equal(lab.hub.comments[0]?.pull, 1);
  cancel();
});

test('with no pull request, summary and outputs are the report', async () => {
  const lab = await newLab();
  const result = await lab.dispatch({ config: 'run' });
  assert.equal(result.code, 0, result.log);
  assert.equal(result.outputs['comment-url'], '');
  assert.match(result.summary, /submitted, 2 jobs/);
  assert.deepEqual(lab.hub.comments, []);
  cancel();
});

test('a comment with our marker by somebody else is left alone', async () => {
  const lab = await newLab();
  const pull = lab.openPull();
  const planned = await lab.dispatch({ command: 'plan', config: 'run' });
  const id = planned.outputs['experiment-id'] ?? '';
  lab.hub.comments.splice(0);
  lab.hub.comments.push({ id: 1, pull: 1, author: 'mallory', body: `<!-- slurm-chain ${id} -->\nall is well` });
  const result = await lab.label(pull, 'launch:run');
  assert.equal(result.code, 0, result.log);
  assert.equal(lab.hub.comments.length, 2);
  assert.match(lab.hub.comments[0]?.body ?? '', /all is well/);
  cancel();
});

test('two writers that both found no comment leave one', async () => {
  const lab = await newLab();
  const pull = lab.openPull();
  let planted = false;
  lab.hub.before = (request) => {
    if (!planted && request === 'POST /repos/lab/nano/issues/1/comments') {
      planted = true;
      lab.hub.comments.push({
        id: 7,
        pull: 1,
        author: 'github-actions[bot]',
        body: `<!-- slurm-chain hub${count}-${lab.hub.headOf(pull).slice(0, 12)} -->\nthe other writer`,
      });
    }
  };
  const result = await lab.label(pull, 'launch:run');
  assert.equal(result.code, 0, result.log);
  assert.deepEqual(
    lab.hub.comments.map((comment) => comment.id),
    [7],
  );
  assert.match(lab.hub.comments[0]?.body ?? '', /submitted, 2 jobs/);
  cancel();
});

test('plan reports the exact calls, asks the cluster, and submits nothing', async () => {
  const lab = await newLab();
  const result = await lab.dispatch({ command: 'plan', config: 'run', overrides: 'slurm.time=2-00:00:00', n_jobs: '5' });
  assert.equal(result.code, 0, result.log);
  assert.equal(result.outputs['state'], 'planned');
  assert.equal(result.outputs['job-ids'], '');
  assert.equal(result.summary.match(/sbatch --parsable /g)?.length, 5);
  assert.match(result.summary, /1 cell × 5 jobs · at most 240 GPU-hours/);
  assert.match(result.summary, /sbatch \\-\\-test\\-only on entropy: Job \d+ to start at/);
  assert.deepEqual(mine(), []);
});

test('plan works without a key and without a cluster', async () => {
  const lab = await newLab();
  const result = await lab.dispatch({ command: 'plan', config: 'run' }, { inputs: { 'ssh-key': '' } });
  assert.equal(result.code, 0, result.log);
  assert.match(result.summary, /Planned without asking a cluster: there is no ssh\\-key/);
});
