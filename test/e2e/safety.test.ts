// Secrets stay secret, text from outside stays text, hosts are who they say, and code is what the commit holds.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { asUser, endOf, slurm, testCluster } from '../support/cluster.ts';
import { regression } from '../support/experiment.ts';
import { useLabs } from '../support/lab.ts';

const cluster = testCluster();
const newLab = useLabs(cluster);

/** Every file under a directory, as one text; read as root. */
function everythingUnder(directory: string): string {
  return execFileSync('bash', ['-c', 'find "$1" -type f -not -name secrets.env -print0 | xargs -0 -r cat', '-', directory], {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
}

test('a secret reaches the job and nothing else', async () => {
  const secret = `s3cr3t-"'$(id);${process.pid}`;
  const lab = await newLab('secret');
  lab.commit({
    'configs/secret.yaml': regression(lab, { name: 'secret', nSteps: 30, nJobs: 1 }).replace(
      'echo setup ran',
      `'printf %s "$WANDB_API_KEY" | sha256sum > "$CHECKPOINT_DIR/seen"'`,
    ),
  });
  const pull = lab.openPull();
  const result = await lab.label(pull, 'launch', { inputs: { env: `WANDB_API_KEY=${secret}\nOTHER=two words` } });
  assert.equal(result.code, 0, result.log);
  const id = result.outputs['experiment-id'] ?? '';
  const job = result.outputs['job-ids'] ?? '';
  const details = slurm(cluster, 'scontrol', 'show', 'job', job);
  const script = slurm(cluster, 'scontrol', 'write', 'batch_script', job, '-');
  await endOf(cluster, [job]);

  const experiment = join(lab.workdir, 'experiments', id);
  const expected = execFileSync('sha256sum', { input: secret, encoding: 'utf8' });
  assert.equal(readFileSync(join(lab.save, id, '0/seen'), 'utf8'), expected);
  assert.equal(asUser(cluster, `stat -c '%a %U' ${experiment}/secrets.env`), `600 ${cluster.CLUSTER_USER}`);
  const accounting = slurm(cluster, 'sacct', '-P', '-j', job, '-o', 'ALL');
  const places = {
    'the log of the run': result.log,
    'what the run wrote, its masks aside': result.raw
      .split('\n')
      .filter((line) => !line.startsWith('::add-mask::'))
      .join('\n'),
    'the summary': result.summary,
    'the outputs': JSON.stringify(result.outputs),
    'the comments': JSON.stringify(lab.hub.comments),
    'the job in slurmctld': details + script,
    'the job in accounting': accounting,
    'the files of the experiment': everythingUnder(lab.workdir),
    'the files beside the checkpoints': everythingUnder(lab.save),
  };
  const keyLine = readFileSync(cluster.CLUSTER_KEY, 'utf8').split('\n')[2] ?? '?';
  for (const [place, text] of Object.entries(places)) {
    assert.ok(!text.includes('s3cr3t'), `${place} holds the secret`);
    assert.ok(!text.includes(keyLine), `${place} holds a line of the key`);
    assert.ok(!text.includes('ghs_test_token'), `${place} holds the token`);
  }
});

test('text with quotes, $(), line ends, semicolons and commas reaches no shell unquoted and arrives as it was', async () => {
  const canary = `/tmp/slurm-chain-canary-${process.pid}`;
  const nasty = `it's "q", $(touch ${canary}) \`touch ${canary}\`; touch ${canary} | & % * ~`;
  const lab = await newLab("na'sty $(touch canary); x,y", { clusterFields: {} });
  const yaml = [
    `name: ${JSON.stringify(nasty)}`,
    'run: |',
    '  python3 - <<PY',
    '  import json, os',
    '  json.dump({k: os.environ[k] for k in ("A", "B", "WANDB_PROJECT")}, open(os.path.join(os.environ["CHECKPOINT_DIR"], "seen"), "w"))',
    '  PY',
    `slurm: {comment: ${JSON.stringify(nasty)}, time: "00:05:00"}`,
    `save: {path: ${JSON.stringify(`${lab.save}/${nasty.replaceAll('/', '_')}`)}, complete: ${JSON.stringify(nasty.replaceAll('/', '_'))}}`,
    `env: {A: ${JSON.stringify(nasty)}, B: "two\\nlines"}`,
    `wandb: {entity: ${JSON.stringify(nasty)}, project: ${JSON.stringify(nasty)}}`,
    `note: ${JSON.stringify(nasty)}`,
    '',
  ].join('\n');
  const path = `configs/a b $(touch canary);'x'.yaml`;
  lab.commit({ [path]: yaml, "odd $(touch canary);'name'": 'x' }, 'experiment');
  lab.openPull();
  const result = await lab.dispatch({ config: path, overrides: `note="${'$(touch canary) ; `x`'}" +extra='a, b; $(touch canary)'` });
  assert.equal(result.code, 0, result.log);
  await endOf(cluster, [result.outputs['job-ids'] ?? '']);
  const directory = result.outputs['checkpoint-dir'] ?? '';
  const seen = JSON.parse(readFileSync(join(directory, '0/seen'), 'utf8')) as Record<string, string>;
  assert.deepEqual(seen, { A: nasty, B: 'two\nlines', WANDB_PROJECT: nasty });
  assert.match(result.outputs['experiment-id'] ?? '', /^[A-Za-z0-9._-]+$/);
  assert.ok(!existsSync(canary), 'no shell ran it');
  const strays = execFileSync('find', [cluster.CLUSTER_DIR, lab.workspace, '-name', 'canary'], { encoding: 'utf8' });
  assert.equal(strays, '');
});

test('through a jump host, with a host key for each hop', async () => {
  const jump = `${cluster.CLUSTER_USER}@localhost:${cluster.CLUSTER_PORT}`;
  const known = readFileSync(cluster.CLUSTER_KNOWN_HOSTS, 'utf8').trim();
  const lab = await newLab('jump', { clusterFields: { proxy_jump: jump, known_hosts: [known, known.replace('127.0.0.1', 'localhost')] } });
  lab.commit({ 'configs/run.yaml': regression(lab, { name: 'jump', nSteps: 30, nJobs: 1 }) });
  const result = await lab.dispatch({ config: 'run' });
  assert.equal(result.code, 0, result.log);
  await endOf(cluster, [result.outputs['job-ids'] ?? '']);

  const careless = await newLab('careless', { clusterFields: { proxy_jump: jump } });
  careless.commit({ 'configs/run.yaml': regression(careless, { name: 'jump' }) });
  const refused = await careless.dispatch({ config: 'run' });
  assert.match(refused.errors[0] ?? '', /^the host key of localhost:\d+ is not in clusters\.entropy\.known_hosts/);
});

test('the code of a commit is read-only, and code that was changed behind our back is not launched', async () => {
  const lab = await newLab('tamper');
  const commit = lab.commit({
    'configs/run.yaml': regression(lab, { name: 'tamper', nSteps: 30, nJobs: 1 }),
    'run.sh': '#!/bin/sh\n',
    'back\\slash': 'x',
    'ünïcode/ä b': 'y',
  });
  const first = await lab.dispatch({ config: 'run' });
  assert.equal(first.code, 0, first.log);
  await endOf(cluster, [first.outputs['job-ids'] ?? '']);
  const code = join(lab.workdir, 'code', commit);
  assert.throws(() => asUser(cluster, `echo x >> ${code}/train.py`), /Permission denied/);
  assert.throws(() => asUser(cluster, `touch ${code}/new`), /Permission denied/);
  const own = join(lab.workdir, 'experiments', first.outputs['experiment-id'] ?? '', 'code');
  asUser(cluster, `touch ${own}/made-by-a-job`);
  assert.throws(() => asUser(cluster, `echo x >> ${own}/train.py`), /Permission denied/);
  assert.deepEqual(readdirSync(code).sort(), ['.github', 'README.md', 'back\\slash', 'configs', 'run.sh', 'train.py', 'ünïcode']);

  asUser(cluster, `chmod u+w ${lab.workdir}/code/${commit}.sha256 && echo x >> ${lab.workdir}/code/${commit}.sha256`);
  const second = await lab.dispatch({ config: 'run', overrides: 'train.lr=0.2' });
  assert.equal(second.code, 1);
  assert.match(second.errors[0] ?? '', /does not match commit [0-9a-f]{12}: its recorded digest is/);
});

test('staged code that lost a file is sent again before anything runs from it', async () => {
  const lab = await newLab('purged');
  const commit = lab.commit({ 'configs/run.yaml': regression(lab, { name: 'purged', nSteps: 30, nJobs: 1 }), 'src/lib.py': 'x = 1\n' });
  const first = await lab.dispatch({ config: 'run' });
  await endOf(cluster, [first.outputs['job-ids'] ?? '']);
  const code = join(lab.workdir, 'code', commit);
  asUser(cluster, `chmod u+w ${code}/src && rm -f ${code}/src/lib.py`);
  const second = await lab.dispatch({ config: 'run', overrides: 'train.lr=0.2' });
  assert.equal(second.code, 0, second.log);
  assert.match(second.log, /was changed or purged since it was staged; sending it again, and keeping the old copy aside/);
  for (const place of [code, join(lab.workdir, 'experiments', second.outputs['experiment-id'] ?? '', 'code')])
    assert.ok(existsSync(join(place, 'src/lib.py')), place);
  await endOf(cluster, [second.outputs['job-ids'] ?? '']);
});

test('where hard links across folders are refused the experiment gets a copy', async () => {
  const elsewhere = execFileSync('mktemp', ['-d'], { encoding: 'utf8' }).trim();
  execFileSync('mount', ['-t', 'tmpfs', '-o', `mode=700,uid=${asUser(cluster, 'id -u')}`, 'tmpfs', elsewhere]);
  try {
    const lab = await newLab('nolinks');
    asUser(cluster, `mkdir -p ${lab.workdir} && ln -sfn ${elsewhere} ${lab.workdir}/code`);
    lab.commit({ 'configs/run.yaml': regression(lab, { name: 'nolinks', nSteps: 30, nJobs: 1 }), 'src/deep/lib.py': 'x = 1\n' });
    const result = await lab.dispatch({ config: 'run' });
    assert.equal(result.code, 0, result.log);
    const own = join(lab.workdir, 'experiments', result.outputs['experiment-id'] ?? '', 'code/src/deep/lib.py');
    assert.equal(asUser(cluster, `stat -c %h ${own}`), '1');
    await endOf(cluster, [result.outputs['job-ids'] ?? '']);
  } finally {
    execFileSync('umount', [elsewhere]);
  }
});

test('submodules, LFS pointers and excluded files are told, and none of them stops a launch', async () => {
  const lab = await newLab('parts', { config: 'defaults: {code: {exclude: ["data/**", "*.bin"]}}\n' });
  lab.commit({
    'configs/run.yaml': regression(lab, { name: 'parts', nSteps: 30, nJobs: 1 }),
    'data/huge': 'x',
    'weights.bin': 'x',
    'model.safetensors': 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n',
  });
  const result = await lab.dispatch({ config: 'run' });
  assert.equal(result.code, 0, result.log);
  assert.match(result.summary, /1 file of the commit \\\(model\.safetensors\\\) is a Git LFS pointer without the content\./);
  const code = join(lab.workdir, 'experiments', result.outputs['experiment-id'] ?? '', 'code');
  assert.deepEqual(readdirSync(code).sort(), ['.github', 'README.md', 'configs', 'model.safetensors', 'train.py']);
  await endOf(cluster, [result.outputs['job-ids'] ?? '']);
});
