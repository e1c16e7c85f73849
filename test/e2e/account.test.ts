// Accounts as people have them: other login shells, start-up files that print, read and fail. On a cluster of its own,
// because it changes the account.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { asUser, endOf, ownCluster } from '../support/cluster.ts';
import { regression } from '../support/experiment.ts';
import { useLabs } from '../support/lab.ts';

const cluster = ownCluster('--shell', '/bin/tcsh');
const newLab = useLabs(cluster);

for (const shell of ['/bin/tcsh', '/bin/sh', '/bin/bash']) {
  test(`an account whose login shell is ${shell}`, async () => {
    const lab = await newLab(`shell${shell.slice(5)}`);
    lab.commit({ 'configs/run.yaml': regression(lab, { name: 'shell', nSteps: 30, nJobs: 1 }) });
    execFileSync('usermod', ['--shell', shell, cluster.CLUSTER_USER]);
    const result = await lab.dispatch({ config: 'run' });
    assert.equal(result.code, 0, result.log);
    const states = await endOf(cluster, [result.outputs['job-ids'] ?? '']);
    assert.deepEqual([...states.values()], ['COMPLETED 0:0']);
  });
}

test('start-up files that print 100 MB, read stdin and leave with a status', async (t) => {
  const home = join(cluster.CLUSTER_DIR, 'home');
  const quiet = readFileSync(join(home, '.bashrc'));
  // bash reads .bashrc when sshd starts it, and .bash_profile as a login shell, so every command begins with both. The first
  // one prints 100 MB in one line and 100 MB in short lines; more of it would only cost time.
  asUser(cluster, `echo 'head -c $([ -e ~/loud ] && echo 1000000 || echo 100000000) /dev/zero | tr "\\0" x' >> ${home}/.bashrc`);
  asUser(
    cluster,
    `cat > ${home}/.bash_profile <<'EOF'
yes "Submitted batch job 42" | head -c $([ -e ~/loud ] && echo 1000000 || echo 100000000)
touch ~/loud
cat > /dev/null
export CHAIN_TEST_HOME=$HOME/from-profile
false
EOF`,
  );
  try {
    const lab = await newLab('noisy');
    lab.commit({
      'configs/run.yaml': regression(lab, { name: 'noisy', nSteps: 30, nJobs: 1 }).replace(
        /save: .*/,
        'save: {path: $CHAIN_TEST_HOME/ckpt}',
      ),
    });
    const peak = join(lab.workspace, '..', 'peak');
    const report = `import { writeFileSync } from 'node:fs'; process.on('exit', () => writeFileSync('${peak}', String(process.resourceUsage().maxRSS)));`;
    const result = await lab.dispatch(
      { config: 'run' },
      { environment: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(report)}` } },
    );
    assert.equal(result.code, 0, result.log.slice(-3000));
    // The path was expanded from the login environment.
    assert.ok(result.outputs['checkpoint-dir']?.startsWith(`${home}/from-profile/ckpt/noisy-`));
    assert.ok(result.raw.length < 20_000, 'none of it is in the log');
    const megabytes = Number(readFileSync(peak, 'utf8')) / 1000;
    t.diagnostic(`the action's memory was ${megabytes.toFixed(0)} MB at most`);
    assert.ok(megabytes < 300, `${megabytes} MB`);
    await endOf(cluster, [result.outputs['job-ids'] ?? '']);
  } finally {
    writeFileSync(join(home, '.bashrc'), quiet);
    rmSync(join(home, '.bash_profile'));
  }
});
