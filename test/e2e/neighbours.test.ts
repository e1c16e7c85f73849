// Another user of the cluster, in a group that may write where the account writes, gets nothing by it.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { asUser, cancelQueue, endOf, queueOf, testCluster } from '../support/cluster.ts';
import { regression } from '../support/experiment.ts';
import { type Lab, type LabOptions, useLabs } from '../support/lab.ts';
import { until } from '../support/until.ts';

const cluster = testCluster();
const makeLab = useLabs(cluster);
const account = cluster.CLUSTER_USER;

const neighbour = `neighbour${process.pid}`;
execFileSync('useradd', ['--no-create-home', neighbour]);
execFileSync('gpasswd', ['-a', account, neighbour]);
after(() => {
  execFileSync('gpasswd', ['-d', account, neighbour]);
  execFileSync('userdel', [neighbour]);
});

/** Runs a shell line as the neighbour. @returns whether it succeeded */
function asNeighbour(line: string): boolean {
  return spawnSync('setpriv', [`--reuid=${neighbour}`, `--regid=${neighbour}`, '--clear-groups', 'bash', '-c', line]).status === 0;
}

/** A directory of the account in which the neighbour's group may do what the mode says. */
function sharedDirectory(path: string, mode: string): void {
  execFileSync('install', ['-d', '-o', account, '-g', neighbour, '-m', mode, path]);
}

/** Paths under directories for which the condition of find(1) holds. */
function found(directories: readonly string[], ...condition: string[]): string[] {
  const text = execFileSync('find', [...directories, ...condition], { encoding: 'utf8' });
  return text.split('\n').filter((line) => line !== '');
}

/** A lab with an experiment that ends at once, for an account with this umask, whose directories belong to the neighbour's group. */
async function labWith(name: string, umask: string, options: LabOptions = {}): Promise<{ lab: Lab; id: string }> {
  const lab = await makeLab(name, { ...options, clusterFields: { prelude: `umask ${umask}`, ...options.clusterFields } });
  sharedDirectory(lab.workdir, '2755');
  sharedDirectory(lab.save, '2775');
  const setup = 'setup: umask > "$CHECKPOINT_DIR/umask"; touch "$CHECKPOINT_DIR/touched"';
  const commit = lab.commit({
    [`configs/${name}.yaml`]: regression(lab, { name, nSteps: 30, nJobs: 1 }).replace('setup: echo setup ran', setup),
  });
  return { lab, id: `${name}-${commit.slice(0, 12)}` };
}

for (const umask of ['0000', '0002', '0022', '0077']) {
  test(`with umask ${umask} our files are private, and the run has the account's umask`, async () => {
    const { lab, id } = await labWith(`umask${umask}`, umask);
    const result = await lab.dispatch({ config: `umask${umask}` }, { inputs: { env: 'WANDB_API_KEY=something' } });
    assert.equal(result.code, 0, result.log);
    const jobs = await endOf(cluster, [result.outputs['job-ids'] ?? '']);
    const experiment = join(lab.workdir, 'experiments', id);
    const log = join(experiment, 'logs', `1_${result.outputs['job-ids']}_0.out`);
    assert.deepEqual([...jobs.values()], ['COMPLETED 0:0'], readFileSync(log, 'utf8'));

    const ours = [join(lab.workdir, 'experiments'), join(lab.workdir, 'code'), join(lab.save, id, '.chain')];
    assert.deepEqual(found(ours, '(', '-type', 'f', '-o', '-type', 'd', ')', '-perm', '/077'), [], 'nobody else may read them');
    assert.equal(asUser(cluster, `stat -c '%a %U' ${experiment}/secrets.env ${log} | sort -u`), `600 ${account}`);
    // Directories above checkpoints are as open as the account wants them, but nobody else writes there.
    assert.deepEqual(found([join(lab.save, id)], '-maxdepth', '1', '-perm', '/022'), []);
    assert.equal(readFileSync(join(lab.save, id, '0/umask'), 'utf8').trim(), umask);
    const expected = (0o666 & ~Number.parseInt(umask, 8)).toString(8);
    assert.equal(asUser(cluster, `stat -c %a ${lab.save}/${id}/0/touched`), expected);
    assert.equal(asNeighbour(`touch ${lab.save}/${id}/0/step_999`), false);
  });
}

test('with share: group the group reads everything but the secrets, and writes nothing', async () => {
  const { lab, id } = await labWith('shared', '0002', { clusterFields: { share: 'group' } });
  const result = await lab.dispatch({ config: 'shared' }, { inputs: { env: 'WANDB_API_KEY=something' } });
  assert.equal(result.code, 0, result.log);
  await endOf(cluster, [result.outputs['job-ids'] ?? '']);
  const experiment = join(lab.workdir, 'experiments', id);
  const records = join(lab.save, id, '.chain');
  for (const file of [
    `${experiment}/manifest.json`,
    `${experiment}/ledger.jsonl`,
    `${experiment}/code/train.py`,
    `${experiment}/configs/config_0.yaml`,
    `${experiment}/logs/1_${result.outputs['job-ids']}_0.out`,
    `${records}/0.jsonl`,
    `${records}/manifest.json`,
  ]) {
    assert.ok(asNeighbour(`cat ${file}`), `the group reads ${file}`);
  }
  assert.equal(asNeighbour(`cat ${experiment}/secrets.env`), false);
  const ours = [join(lab.workdir, 'experiments'), join(lab.workdir, 'code'), records];
  assert.deepEqual(found(ours, '(', '-type', 'f', '-o', '-type', 'd', ')', '-perm', '/027'), []);
});

test('a workdir that others may write is refused with the chmod that helps, and so is one of somebody else', async () => {
  const lab = await makeLab('open');
  lab.commit({ 'configs/open.yaml': regression(lab, { name: 'open' }) });
  sharedDirectory(lab.workdir, '2775');
  const refused = await lab.dispatch({ config: 'open' });
  assert.equal(refused.code, 1);
  assert.ok(refused.errors[0]?.includes(`chmod go-w ${lab.workdir}`), refused.errors[0]);
  execFileSync('chown', [neighbour, lab.workdir]);
  assert.match((await lab.dispatch({ config: 'open' })).errors[0] ?? '', new RegExp(`it is a directory of ${neighbour}`));

  const inside = await makeLab('inside', { clusterFields: { workdir: `${lab.workdir}/mine` } });
  inside.commit({ 'configs/inside.yaml': regression(inside, { name: 'inside' }) });
  execFileSync('chown', [account, lab.workdir]);
  assert.ok((await inside.dispatch({ config: 'inside' })).errors[0]?.includes(`chmod go-w ${lab.workdir}`), 'its parent can be renamed');
  assert.ok(!existsSync(`${lab.workdir}/mine`));
  // A sticky directory such as /tmp protects what is in it.
  execFileSync('chmod', ['1777', lab.workdir]);
  const result = await inside.dispatch({ config: 'inside' });
  assert.equal(result.code, 0, result.log);
  cancelQueue(cluster, result.outputs['experiment-id'] ?? '');
});

test('a directory that was planted under the name of the experiment is not adopted', async () => {
  const planted: Readonly<Record<string, (directory: string) => void>> = {
    'a checkpoint of somebody else': (directory) => assert.ok(asNeighbour(`umask 0; mkdir -p ${directory}/0/step_10`)),
    'a link to the home of the account': (directory) => assert.ok(asNeighbour(`ln -s ${cluster.CLUSTER_DIR}/home ${directory}`)),
    'files that no launch made': (directory) => asUser(cluster, `mkdir -p ${directory}/0/step_10 && touch ${directory}/0/step_10/w`),
    'records of somebody else': (directory) => {
      asUser(cluster, `mkdir ${directory}`);
      execFileSync('install', ['-d', '-o', neighbour, '-m', '777', `${directory}/.chain`]);
    },
    'a lock of somebody else': (directory) => {
      asUser(cluster, `mkdir -p ${directory}/.chain`);
      execFileSync('install', ['-d', '-o', neighbour, '-m', '777', `${directory}/.chain/0.lock.999`]);
    },
  };
  for (const [index, [what, plant]] of Object.entries(planted).entries()) {
    const { lab, id } = await labWith(`planted${index}`, '0022');
    plant(join(lab.save, id));
    const before = found([lab.save], '-printf', '%p %U %m %l\\n');
    const result = await lab.dispatch({ config: `planted${index}` });
    assert.equal(result.code, 1, `${what}: ${result.log}`);
    assert.ok(result.errors[0]?.includes(join(lab.save, id)), `${what}: ${result.errors[0]}`);
    assert.match(result.errors[0] ?? '', new RegExp(`${neighbour}|no launch of`), what);
    assert.deepEqual(queueOf(cluster, id), [], what);
    assert.deepEqual(found([lab.save], '-printf', '%p %U %m %l\\n'), before, `${what}: it is as it was`);
  }
});

test('a save.path that others may write is told, and a directory that they put in place of ours stops the job', async () => {
  const name = 'exchanged';
  const { lab } = await labWith(name, '0022');
  const commit = lab.commit({ [`configs/${name}.yaml`]: regression(lab, { name, nSteps: 500, secondsPerStep: 1, nJobs: 2 }) });
  const id = `${name}-${commit.slice(0, 12)}`;
  const result = await lab.dispatch({ config: name });
  assert.equal(result.code, 0, result.log);
  assert.ok(result.summary.replaceAll('\\', '').includes(`chmod +t ${lab.save}`), result.summary);
  const [first, second] = (result.outputs['job-ids'] ?? '').split(',');
  await until('the first job to run', () => existsSync(join(lab.save, id, '0')));
  assert.ok(asNeighbour(`cd ${lab.save} && mv ${id} aside && mkdir -p ${id}/.chain ${id}/0/step_10 && touch ${id}/0/step_10/w`));
  asUser(cluster, `SLURM_CONF=${cluster.SLURM_CONF} scancel ${first}`);
  const states = await endOf(cluster, [second ?? '']);
  assert.deepEqual([...states.values()], ['FAILED 77:0']);
  const log = readFileSync(join(lab.workdir, 'experiments', id, 'logs', `2_${second}_0.out`), 'utf8');
  assert.match(log, new RegExp(`${id} belongs to ${neighbour} and not to ${account}`));
  assert.doesNotMatch(log, /resuming from/);
});

test('records and logs that are links or belong to somebody else are named and not opened', async () => {
  const name = 'links';
  const { lab } = await labWith(name, '0022');
  lab.commit({ [`configs/${name}.yaml`]: regression(lab, { name, nJobs: 1 }).replace('run: python3 train.py', 'run: exit 3') });
  const pull = lab.openPull();
  const result = await lab.label(pull, `launch:${name}`);
  assert.equal(result.code, 0, result.log);
  const id = result.outputs['experiment-id'] ?? '';
  const job = result.outputs['job-ids'] ?? '';
  await endOf(cluster, [job]);
  const experiment = join(lab.workdir, 'experiments', id);
  const victim = `${cluster.CLUSTER_DIR}/home/victim-${process.pid}`;
  asUser(cluster, `umask 077; echo CANARY > ${victim}`);

  const log = `${experiment}/logs/1_${job}_0.out`;
  asUser(cluster, `mv ${log} ${log}.kept && ln -s ${victim} ${log}`);
  await lab.comment(pull, `/status ${id}`);
  const comment = () => lab.hub.comments.map(({ body }) => body).join('\n');
  assert.ok(!comment().includes('CANARY'));
  assert.match(comment(), /This log is not shown: \S+ is a link that/);
  asUser(cluster, `rm ${log} && mv ${log}.kept ${log}`);
  execFileSync('chown', [neighbour, log]);
  await lab.comment(pull, `/status ${id}`);
  assert.match(comment(), new RegExp(`This log is not shown: \\S+ belongs to ${neighbour}`));
  execFileSync('chown', [account, log]);

  for (const file of [
    `${experiment}/manifest.json`,
    `${experiment}/ledger.jsonl`,
    `${lab.save}/${id}/.chain/0.jsonl`,
    `${lab.save}/${id}/.chain/manifest.json`,
  ]) {
    asUser(cluster, `mv ${file} ${file}.kept && ln -s ${victim} ${file}`);
    const again = await lab.dispatch({ config: name });
    assert.equal(again.code, 1, again.log);
    assert.ok(again.errors[0]?.includes(`${file} is a link that ${account} made`), `${file}: ${again.errors[0]}`);
    const asked = await lab.comment(pull, `/status ${id}`);
    if (!file.includes('/.chain/manifest')) assert.ok(asked.log.includes(`${file} is a link`), `${file}: ${asked.log}`);
    asUser(cluster, `rm ${file} && mv ${file}.kept ${file}`);
  }
  assert.equal(readFileSync(victim, 'utf8'), 'CANARY\n');
});

test('an experiment of an older version goes on, and its directories are closed to others', async () => {
  const { lab, id } = await labWith('older', '0002');
  const first = await lab.dispatch({ config: 'older', overrides: 'chain.n_jobs=1' });
  assert.equal(first.code, 0, first.log);
  await endOf(cluster, [first.outputs['job-ids'] ?? '']);
  // What umask 002 left behind.
  const old = `${lab.workdir}/experiments ${lab.workdir}/code ${lab.save}/${id}`;
  asUser(cluster, `find ${old} -type d -exec chmod u+w,g+rwx,o+rx {} + && find ${old} -type f -links 1 -exec chmod g+rw,o+r {} +`);
  asUser(
    cluster,
    `rm -f ${lab.workdir}/experiments/${id}/summary.json ${lab.save}/${id}/.chain/summary.json && rm -rf ${lab.save}/${id}/0/step_*`,
  );
  asUser(
    cluster,
    `chmod 644 ${lab.workdir}/experiments/${id}/secrets.env && mv ${lab.save}/${id}/.chain/0.jsonl ${lab.save}/${id}/.chain/old`,
  );
  const second = await lab.dispatch({ config: 'older' });
  assert.equal(second.code, 0, second.log);
  assert.equal(second.outputs['state'], 'submitted');
  const states = await endOf(cluster, [second.outputs['job-ids'] ?? '']);
  assert.deepEqual([...states.values()], ['COMPLETED 0:0']);
  for (const path of [
    `${lab.workdir}/experiments/${id}`,
    `${lab.workdir}/experiments/${id}/logs`,
    `${lab.save}/${id}`,
    `${lab.save}/${id}/0`,
  ])
    assert.deepEqual(found([path], '-maxdepth', '0', '-perm', '/022'), []);
  assert.equal(asUser(cluster, `stat -c %a ${lab.workdir}/experiments/${id}/secrets.env`), '600');
});
