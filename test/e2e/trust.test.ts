// Who decides what: the default branch says where to log in and what is allowed there, whatever a pull request holds.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import type { ActionResult } from '../support/action.ts';
import { cancelQueue, endOf, inFront, queueOf, testCluster } from '../support/cluster.ts';
import { regression } from '../support/experiment.ts';
import { type Lab, useLabs } from '../support/lab.ts';

const cluster = testCluster();
const newLab = useLabs(cluster, { experiment: { secondsPerStep: 0.05, nSteps: 40_000 } });
const CONFIG = '.github/slurm-chain.yml';
/** The comment of an experiment on the pull request. */
const shown = (lab: Lab, result: ActionResult) =>
  lab.hub.comments.find((one) => one.body.startsWith(`<!-- slurm-chain ${result.outputs['experiment-id']} -->`))?.body ?? '';

test('a pull request with another host, user, jump host and prelude decides nothing, under any command', async () => {
  const lab = await newLab('elsewhere');
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const canary = join(cluster.CLUSTER_DIR, 'home/elsewhere-canary');
  const main = readFileSync(join(lab.workspace, CONFIG), 'utf8');
  const changes = [
    main.replace(/"port":\d+/, `"port":${port}`),
    main.replace('}}', `, "proxy_jump": "root@127.0.0.1:${port}"}}`),
    main.replace(/"user":"[^"]*"/, '"user":"root"'),
    main.replace('}}', `, "prelude": "touch ${canary}"}}`),
  ];
  try {
    for (const changed of changes) {
      assert.notEqual(changed, main);
      lab.commit({ [CONFIG]: changed });
      const pull = lab.openPull();
      const planned = await lab.comment(pull, '/plan elsewhere');
      assert.equal(planned.code, 0, planned.log);
      assert.match(planned.summary, /differ from those of the default branch main, which were used\. .* takes effect once merged/);
      const launched = await lab.comment(pull, '/launch elsewhere');
      assert.equal(launched.outputs['state'], 'submitted', launched.log);
      assert.match(shown(lab, launched), /takes effect once merged/);
      for (const command of ['/status', '/extend', '/audit', '/cancel']) {
        const result = await lab.comment(pull, command);
        assert.equal(result.code, 0, `${command}: ${result.log}`);
      }
      const byHand = await lab.dispatch({ command: 'status' });
      assert.equal(byHand.code, 0, byHand.log);
    }
  } finally {
    server.close();
    cancelQueue(cluster, 'elsewhere');
  }
  assert.equal(connections, 0, 'nobody came to the host of the pull request');
  assert.ok(!existsSync(canary), 'no prelude of the pull request ran');
});

test('a commit without the file, or with other clusters by name, is served by those of the default branch', async () => {
  const lab = await newLab('renamed');
  lab.commit({ [CONFIG]: readFileSync(join(lab.workspace, CONFIG), 'utf8').replace('entropy', 'mine') });
  const result = await lab.dispatch({ command: 'plan', config: 'renamed', cluster: 'mine' });
  assert.match(result.errors.join(), /unknown cluster 'mine'; \.github\/slurm-chain\.yml of main has entropy/);
  assert.equal((await lab.dispatch({ command: 'plan', config: 'renamed' })).code, 0);
});

test('clusters that are not on the default branch are shown, to be merged', async () => {
  const lab = await newLab('unmerged');
  const config = readFileSync(join(lab.workspace, CONFIG), 'utf8');
  // The branch of the experiment was made before, with the file.
  lab.commit({ [CONFIG]: '# nothing yet\n' }, 'main');
  const pull = lab.openPull();
  for (const command of ['/launch unmerged', '/status']) {
    const result = await lab.comment(pull, command);
    assert.equal(result.code, 1, command);
    assert.match(result.errors[0] ?? '', /^the default branch main has no clusters in \.github\/slurm-chain\.yml/, command);
    assert.match(
      result.errors[0] ?? '',
      new RegExp(`Merge this into main .*\\n\\s*clusters:\\s+entropy:[\\s\\S]*host: ${cluster.CLUSTER_HOST}`),
    );
    assert.doesNotMatch(result.log, /connecting to/);
  }
  lab.commit({ [CONFIG]: config }, 'main');
  const merged = await lab.comment(pull, '/plan unmerged');
  assert.equal(merged.code, 0, merged.log);
});

test('limits are those of the default branch, and a launch beyond them sends nothing', async () => {
  const lab = await newLab('limited');
  const config = readFileSync(join(lab.workspace, CONFIG), 'utf8');
  lab.commit(
    { [CONFIG]: `${config}limits: {users: [alice, carol], jobs: 2, cells: 2, save_paths: ["${lab.save}"], gpu_hours: 1}\n` },
    'main',
  );
  lab.commit({
    [CONFIG]: `${config}limits: {jobs: 1000}\n`,
    'configs/limited.yaml': regression(lab, { name: 'limited', nJobs: 2, secondsPerStep: 1 }),
    'configs/elsewhere.yaml': regression({ save: '/elsewhere' }, { name: 'elsewhere', grid: '^lr: [1, 2, 3]' }),
  });
  const pull = lab.openPull();
  for (const [body, sender, messages] of [
    [
      '/launch limited n_jobs=3',
      'alice',
      [/limited is beyond the limits in \.github\/slurm-chain\.yml of main: chain\.n_jobs is 3, and limits\.jobs is 2/],
    ],
    ['/plan limited n_jobs=3', 'alice', [/limits\.jobs is 2/]],
    ['/launch limited', 'bob', [/limits\.users does not list bob/]],
    ['/launch limited slurm.time=1-00:00:00', 'alice', [/GPU-hours that it can use is 48, and limits\.gpu_hours is 1/]],
    ['/launch elsewhere', 'alice', [/save\.path is \/elsewhere, and limits\.save_paths allows/, /the number of cells is 3/]],
  ] as const) {
    lab.hub.permissions.set('bob', 'write');
    const result = await lab.comment(pull, body, { sender });
    assert.equal(result.code, 1, body);
    for (const message of messages) assert.match(result.errors[0] ?? '', message);
    assert.doesNotMatch(result.log, /connecting to/, body);
  }
  const launched = await lab.comment(pull, '/launch limited');
  assert.equal(launched.code, 0, launched.log);
  const extended = await lab.comment(pull, '/extend 3');
  assert.match(extended.errors[0] ?? '', /chain\.n_jobs is 3, and limits\.jobs is 2/);
  assert.equal(queueOf(cluster, 'limited').length, 2);
  cancelQueue(cluster, 'limited');
});

test('a comment launches what its author could see, not what was pushed later, whenever the run starts', async () => {
  const lab = await newLab('seen');
  lab.hub.permissions.set('bob', 'write');
  const pull = lab.openPull();
  const seen = lab.hub.headOf(pull);
  const comment = lab.hub.addComment(pull.number, 'alice', '/launch seen', 'MEMBER');
  const event = lab.commented(comment);
  const later = lab.commit({ 'train.py': 'print("not approved")\n' });
  for (const attempt of ['1', '2']) {
    const result = await lab.comment(pull, '(the old event)', { event, environment: { GITHUB_RUN_ATTEMPT: attempt } });
    assert.equal(result.code, 1, result.log);
    assert.match(
      result.errors[0] ?? '',
      new RegExp(`was at ${seen} when the comment was written, and is at ${later} now\\. Nothing was submitted`),
    );
    assert.doesNotMatch(result.log, /connecting to/);
  }
  assert.deepEqual(queueOf(cluster, 'seen'), []);

  // By name, an older commit of the pull request goes as well, and nothing else does.
  const foreign = lab.commit({ 'x.txt': 'x' }, 'other');
  const refused = await lab.comment(pull, `/launch seen @${foreign}`);
  assert.match(refused.errors[0] ?? '', new RegExp(`commit ${foreign} is not one of pull request #1`));
  const named = await lab.comment(pull, `/launch seen @${seen}`);
  assert.equal(named.outputs['experiment-id'], `seen-${seen.slice(0, 12)}`, named.log);

  // While the head is the same, the old event may run again.
  const fresh = lab.commented(lab.hub.addComment(pull.number, 'alice', '/plan seen', 'MEMBER'));
  for (const attempt of ['1', '2']) {
    const result = await lab.comment(pull, '(again)', { event: fresh, environment: { GITHUB_RUN_ATTEMPT: attempt } });
    assert.equal(result.code, 0, result.log);
  }
  cancelQueue(cluster, 'seen');
});

test('where GitHub does not say when a commit was pushed, a comment has to name it', async () => {
  const lab = await newLab('untold');
  const pull = lab.openPull();
  lab.hub.faults.push({ method: 'GET', path: /\/activity$/, status: 404, times: 99 });
  const result = await lab.comment(pull, '/plan untold');
  assert.match(result.errors[0] ?? '', /is not known .*Name the commit that you mean/);
  const form = /(\/plan untold @[0-9a-f]{40})$/.exec(result.errors[0] ?? '')?.[1] ?? '';
  const named = await lab.comment(pull, form);
  assert.equal(named.code, 0, named.log);
});

test('a request without any actor is refused', async () => {
  const lab = await newLab('nobody');
  const result = await lab.dispatch({ config: 'nobody' }, { environment: { GITHUB_ACTOR: '', GITHUB_TRIGGERING_ACTOR: '' } });
  assert.match(result.errors[0] ?? '', /names nobody/);
  assert.deepEqual(queueOf(cluster, 'nobody'), []);
});

test('what the cluster, a label and a comment say is never a workflow command', async () => {
  const forged = ['::add-mask::launch', '::error file=x,line=1::forged', '::stop-commands::tok', 'x ##[set-output name=state]forged'];
  const print = forged.map((line) => `echo '${line}' >&2`).join('; ');
  const lab = await newLab('forger', { clusterFields: { prelude: inFront(cluster, 'forger', { sbatch: print }) } });
  const pull = lab.openPull();
  const results = [
    await lab.label(pull, 'launch:forger'),
    await lab.label(pull, 'launch:##[set-output name=x]forged'),
    await lab.label(pull, '##[set-output name=x]forged'),
    await lab.comment(pull, '/launch forger save.path=/x##[set-output\u202ename=x]forged'),
  ];
  assert.equal(results[0]?.code, 0, results[0]?.log);
  assert.match(results[0]?.raw ?? '', /: :stop-commands::tok/, 'it is shown, as text');
  for (const { raw } of results) {
    assert.ok(!raw.includes('##['), raw);
    assert.doesNotMatch(raw, /^\s*::(error file=x|add-mask::launch$|stop-commands|set-output)/m);
    assert.doesNotMatch(raw, /\u202e/);
  }
  cancelQueue(cluster, 'forger');
});

test('a secret of several lines reaches the job whole', async () => {
  const lab = await newLab('lines');
  lab.commit({ 'configs/lines.yaml': `run: printf %s "$KEY" > "$CHECKPOINT_DIR/key"\nsave: {path: ${lab.save}}\n` });
  const key = '-----BEGIN KEY-----\nab"c\'=\n\nX=y\n-----END KEY-----';
  const result = await lab.dispatch({ config: 'lines', env: `OTHER=1\nKEY<<END\n${key}\nEND\n` });
  assert.equal(result.code, 0, result.log);
  await endOf(cluster, (result.outputs['job-ids'] ?? '').split(','));
  const id = result.outputs['experiment-id'] ?? '';
  assert.equal(readFileSync(join(lab.save, id, '0/key'), 'utf8'), key);
  for (const line of key.split('\n').filter((one) => one.length >= 4)) assert.ok(!result.log.includes(line), line);
});
