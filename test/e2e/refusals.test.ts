// Bad input: each one clear paragraph, and nothing on the cluster changed.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { ActionResult } from '../support/action.ts';
import { asUser, slurm, testCluster } from '../support/cluster.ts';
import { regression } from '../support/experiment.ts';
import { type Lab, type LabOptions, useLabs } from '../support/lab.ts';

const cluster = testCluster();
const makeLab = useLabs(cluster);
let count = 0;
function newLab(options: LabOptions = {}): Promise<Lab> {
  count += 1;
  return makeLab(`refusal${count}`, options);
}

/** The error, after checking that it is the only one, one paragraph, and that the cluster is as it was. */
function refusedCleanly(lab: Lab, result: ActionResult): string {
  assert.equal(result.code, 1, result.log);
  assert.equal(result.errors.length, 1, result.log);
  const message = result.errors[0] ?? '';
  assert.ok(!/\n\s*\n|\n\s+at /.test(message), `one paragraph, no stack: ${message}`);
  assert.ok(!message.startsWith('unexpected'), message);
  const experiments = join(lab.workdir, 'experiments');
  assert.deepEqual(existsSync(experiments) ? readdirSync(experiments) : [], [], 'no experiment on the cluster');
  assert.ok(!existsSync(lab.save), 'no checkpoint directory');
  assert.ok(!slurm(cluster, 'squeue', '-h', '-o', '%Z').includes(`${lab.workdir}/`), 'nothing in the queue');
  return message;
}

const shared = await newLab();
const base = regression(shared, { nJobs: 2 });
shared.commit({
  'configs/good.yaml': base,
  'configs/broken.yaml': 'a: [1\n',
  'configs/unknown.yaml': base.replace('gres:', 'gress:'),
  'configs/n0.yaml': base.replace('n_jobs: 2', 'n_jobs: 0'),
  'configs/nminus.yaml': base.replace('n_jobs: 2', 'n_jobs: -1'),
  'configs/nhalf.yaml': base.replace('n_jobs: 2', 'n_jobs: 2.5'),
  'configs/nhuge.yaml': base.replace('n_jobs: 2', 'n_jobs: 1e9'),
  'configs/empty.yaml': base.replace('lr: 0.1', '^lr: []'),
  'configs/wide.yaml': base.replace('lr: 0.1', `^lr: [${Array.from({ length: 1002 }, (_, index) => index).join(', ')}]`),
  'configs/relative.yaml': base.replace(/save: .*/, 'save: {path: checkpoints}'),
  'configs/unset.yaml': base.replace(/save: .*/, 'save: {path: $NO_SUCH_VARIABLE/x}'),
  'configs/cluster.yaml': `${base}cluster: entropi\n`,
  'configs/partition.yaml': base.replace('gres:', 'partition: nope, gres:'),
  'configs/gres.yaml': base.replace('gpu:1', 'gpu:99'),
  'configs/empty-file.yaml': '',
  'configs/list.yaml': '- 1\n',
});
const link = mkdtempSync(join(tmpdir(), 'slurm-chain-link-'));
execFileSync('git', ['clone', '--quiet', '--branch', 'experiment', shared.hub.gitDirectory, link], { stdio: 'ignore' });
symlinkSync('/etc/hostname', join(link, 'configs/link.yaml'));
execFileSync('git', ['-C', link, 'add', '-A']);
execFileSync('git', ['-C', link, '-c', 'user.name=A', '-c', 'user.email=a@b', 'commit', '--quiet', '-m', 'link']);
execFileSync('git', ['-C', link, 'push', '--quiet', 'origin', 'experiment']);
const tip = execFileSync('git', ['-C', link, 'rev-parse', 'HEAD'], { encoding: 'utf8' }).trim();

for (const [what, inputs, message] of [
  ['broken yaml', { config: 'broken' }, /^configs\/broken\.yaml:2:1: not valid yaml/],
  [
    'an unknown key in slurm:',
    { config: 'unknown' },
    /^configs\/unknown\.yaml:4:9: unknown key 'gress' under slurm; did you mean 'gres'\?/,
  ],
  ['n_jobs 0', { config: 'n0' }, /chain\.n_jobs is "0"; it must be a whole number from 1 to 1000/],
  ['n_jobs -1', { config: 'nminus' }, /chain\.n_jobs is "-1"/],
  ['n_jobs 2.5', { config: 'nhalf' }, /chain\.n_jobs is "2\.5"/],
  ['n_jobs 1e9', { config: 'nhuge' }, /chain\.n_jobs is "1e9"/],
  ['the input n_jobs 2.5', { config: 'good', n_jobs: '2.5' }, /chain\.n_jobs is "2\.5"/],
  ['the input n_jobs twelve', { config: 'good', n_jobs: 'twelve' }, /chain\.n_jobs is "twelve"/],
  ['an empty grid list', { config: 'empty' }, /\^train\.lr is an empty list/],
  ['a grid above MaxArraySize', { config: 'wide' }, /has 1002 cells, and entropy takes arrays of at most 1001 tasks \(MaxArraySize\)/],
  [
    'a reserved option by override',
    { config: 'good', overrides: '+slurm.array=0-3' },
    /slurm\.array cannot be set: the cells come from the \^ lists/,
  ],
  ['a missing config', { config: 'configs/smok.yaml' }, /there is no configs\/smok\.yaml at commit/],
  ['a missing name', { config: 'goood' }, /there is no experiment 'goood' at commit [0-9a-f]{12}; did you mean 'good'\?/],
  ['a config outside the repo', { config: '../../etc/x.yaml' }, /'\.\.\/\.\.\/etc\/x\.yaml' is not a path inside the repository/],
  ['an absolute config', { config: '/etc/x.yaml' }, /not a path inside the repository/],
  ['a link out of the repo', { config: 'configs/link.yaml' }, /configs\/link\.yaml is a symbolic link .* links are not followed/],
  ['a relative save.path', { config: 'relative' }, /save\.path is "checkpoints"; it must be an absolute path/],
  [
    'an unset variable in save.path',
    { config: 'unset' },
    /save\.path is '\$NO_SUCH_VARIABLE\/x', but \$NO_SUCH_VARIABLE is not set in the login environment of chain\d+@/,
  ],
  ['an unknown cluster', { config: 'cluster' }, /unknown cluster 'entropi'; did you mean 'entropy'\?/],
  ['an unknown cluster by input', { config: 'good', cluster: 'helios' }, /unknown cluster 'helios'; .* has entropy/],
  ['a partition that is not there', { config: 'partition' }, /invalid partition specified: nope/],
  ['more GPUs than there are', { config: 'gres' }, /Requested node configuration is not available/],
  ['an empty file', { config: 'configs/empty-file.yaml' }, /there is no run: key/],
  ['a list', { config: 'configs/list.yaml' }, /the top of the file must be a mapping/],
  [
    'an override of nothing',
    { config: 'good', overrides: 'train.lrr=1' },
    /train\.lrr does not exist in configs\/good\.yaml; did you mean 'lr'\?/,
  ],
  ['an override that is none', { config: 'good', overrides: 'faster' }, /'faster' is not of the form path=value/],
  ['an unknown command', { config: 'good', command: 'lanch' }, /the input command is 'lanch'; did you mean 'launch'\?/],
  ['a pr that is no number', { config: 'good', pr: 'twelve' }, /the input pr is 'twelve'/],
  [
    'an unsafe flag that is neither',
    { config: 'good', 'unsafe-allow-forks': 'yes' },
    /the input unsafe-allow-forks is 'yes'; it must be true or false/,
  ],
  [
    'a secret that is no assignment',
    { config: 'good', env: 'hunter2' },
    /^line 1 of the input env is not NAME=value\. .*The line is not shown/,
  ],
  ['a secret with a name of the chain', { config: 'good', env: 'RESUME_FROM=x' }, /RESUME_FROM is set by the chain/],
  ['an empty key', { config: 'good', 'ssh-key': '' }, /the input ssh-key is empty.*Check that the secret is set/],
  ['a key that is none', { config: 'good', 'ssh-key': 'hunter2' }, /does not start with '-----BEGIN/],
  [
    'a public key',
    { config: 'good', 'ssh-key': readFileSync(`${cluster.CLUSTER_KEY}.pub`, 'utf8') },
    /is a public key\. Give the private key/,
  ],
  [
    'a key without its end',
    { config: 'good', 'ssh-key': readFileSync(cluster.CLUSTER_KEY, 'utf8').slice(0, 200) },
    /has no line '-----END/,
  ],
] as const) {
  test(`refused: ${what}`, async () => {
    const result = await shared.dispatch(inputs, { environment: { GITHUB_SHA: tip } });
    assert.match(refusedCleanly(shared, result), message);
    assert.ok(!result.log.includes('hunter2'));
  });
}

test('an error in the yaml is an annotation at its place', async () => {
  const { raw } = await shared.dispatch({ config: 'unknown' }, { environment: { GITHUB_SHA: tip } });
  assert.match(raw, /^::error file=configs\/unknown\.yaml,line=4,col=9::/m);
});

async function clusterRefusal(options: LabOptions, inputs: Record<string, string> = {}): Promise<string> {
  const lab = await newLab(options);
  lab.commit({ 'configs/good.yaml': regression(lab) });
  return refusedCleanly(lab, await lab.dispatch({ config: 'good', ...inputs }));
}

test('an unreachable host', async () => {
  assert.match(await clusterRefusal({ clusterFields: { port: 1 } }), /cannot reach chain\d+@127\.0\.0\.1:1: the connection was refused/);
});

test('a host whose name means nothing', async () => {
  assert.match(await clusterRefusal({ clusterFields: { host: 'no-such-host.invalid' } }), /cannot reach .*no-such-host\.invalid/);
});

test('a host that takes connections and says nothing', async () => {
  const silent = createServer((socket) => socket.on('error', () => {}).end());
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const { port } = silent.address() as { port: number };
  const said = await clusterRefusal({ clusterFields: { port } });
  silent.close();
  assert.match(said, /(cannot reach|closed the connection)/);
});

test('a key the account does not know is named by its fingerprint', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-key-'));
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(directory, 'key')]);
  const fingerprint = execFileSync('ssh-keygen', ['-lf', join(directory, 'key')], { encoding: 'utf8' }).split(' ')[1] ?? '?';
  const said = await clusterRefusal({}, { 'ssh-key': readFileSync(join(directory, 'key'), 'utf8') });
  assert.ok(said.includes(`rejected the key ${fingerprint}`), said);
  assert.match(said, /authorized_keys.*The server accepts: publickey/);
});

test('an encrypted key without and with the wrong passphrase', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-key-'));
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', 'swordfish', '-f', join(directory, 'key')]);
  const key = readFileSync(join(directory, 'key'), 'utf8');
  assert.match(await clusterRefusal({}, { 'ssh-key': key }), /is encrypted and there is no ssh-passphrase/);
  assert.match(
    await clusterRefusal({}, { 'ssh-key': key, 'ssh-passphrase': 'halibut' }),
    /the ssh-passphrase does not decrypt the ssh-key/,
  );
});

test('an unknown host key is shown with its fingerprint and the line to add', async () => {
  const said = await clusterRefusal({
    clusterFields: { known_hosts: readFileSync(cluster.CLUSTER_KNOWN_HOSTS, 'utf8').replace('127.0.0.1', 'elsewhere') },
  });
  const fingerprint = execFileSync('ssh-keygen', ['-lf', cluster.CLUSTER_KNOWN_HOSTS], { encoding: 'utf8' }).split(' ')[1] ?? '?';
  assert.match(said, /^the host key of 127\.0\.0\.1:\d+ is not in clusters\.entropy\.known_hosts/);
  assert.ok(said.includes(fingerprint), said);
  assert.ok(said.includes(readFileSync(cluster.CLUSTER_KNOWN_HOSTS, 'utf8').trim()), said);
});

test('a changed host key is called that', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-key-'));
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(directory, 'key')]);
  const [type, key] = readFileSync(join(directory, 'key.pub'), 'utf8').split(' ');
  const said = await clusterRefusal({ clusterFields: { known_hosts: `[127.0.0.1]:${cluster.CLUSTER_PORT} ${type} ${key}` } });
  assert.match(said, /is NOT the one in clusters\.entropy\.known_hosts/);
});

test('no sbatch on the PATH', async () => {
  const bin = `${cluster.CLUSTER_DIR}/home/nosbatch-${process.pid}`;
  asUser(cluster, `mkdir -p ${bin} && ln -sf /usr/bin/* ${bin}/ && rm -f ${bin}/sbatch`);
  const said = await clusterRefusal({ clusterFields: { prelude: `export PATH=${bin}` } });
  assert.match(said, /there is no sbatch on the PATH of a login shell on .*prelude: module load slurm/);
});

test('a full disk under workdir', async () => {
  const mount = `/tmp/slurm-chain-full-${process.pid}`;
  execFileSync('mkdir', ['-p', mount]);
  execFileSync('mount', [
    '-t',
    'tmpfs',
    '-o',
    `size=64k,uid=${execFileSync('id', ['-u', cluster.CLUSTER_USER], { encoding: 'utf8' }).trim()}`,
    'tmpfs',
    mount,
  ]);
  try {
    const lab = await newLab({ clusterFields: { workdir: `${mount}/work` } });
    lab.commit({ 'configs/good.yaml': regression(lab), 'data.bin': 'x'.repeat(200_000) });
    const said = refusedCleanly(lab, await lab.dispatch({ config: 'good' }));
    assert.match(said, /unpacking into .* failed: .*No space left on device/);
    assert.deepEqual(readdirSync(`${mount}/work/code`), [], 'nothing half-written is left');
  } finally {
    execFileSync('umount', [mount]);
  }
});

test('a workdir that cannot be written', async () => {
  assert.match(await clusterRefusal({ clusterFields: { workdir: '/proc/chain' } }), /chain\d+ cannot write to \/proc\/chain\/code on /);
});

test('an upload nobody takes ends the run, however large it is', async () => {
  const lab = await newLab({ clusterFields: { workdir: '/proc/chain' } });
  lab.commit({ 'configs/good.yaml': regression(lab), 'data.bin': 'x'.repeat(20_000_000) });
  assert.match(refusedCleanly(lab, await lab.dispatch({ config: 'good' })), /cannot write to \/proc\/chain\/code on/);
});
