// Faults in the middle of a launch, on a real cluster of its own: the action killed, the connection cut, the controller
// stopped, accounting gone, disks full. After each, the next launch finds or makes exactly one chain, all of it on record.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { asUser, inFront, type Lab, type LabOptions, makeLab, ownCluster, regression, slurm, until } from '../support/lab.ts';

const own = ownCluster();
const { cluster } = own;
const labs: Lab[] = [];
const tally = { faults: 0, doubled: 0, orphaned: 0 };
after(async () => {
  for (const lab of labs) await lab.close();
  own.down();
});

const STEPS = 3;
let count = 0;
async function newLab(options: LabOptions = {}): Promise<{ lab: Lab; name: string }> {
  count += 1;
  const name = `fault${count}`;
  const lab = await makeLab(cluster, name, options);
  labs.push(lab);
  lab.commit({ [`configs/${name}.yaml`]: regression(lab, { name, nJobs: STEPS, secondsPerStep: 1 }) });
  return { lab, name };
}

interface Queued {
  readonly id: string;
  readonly name: string;
  readonly held: boolean;
}
function queue(): Queued[] {
  return slurm(cluster, 'squeue', '-a', '-h', '-o', '%F|%r|%j')
    .split('\n')
    .filter(Boolean)
    .map((row) => row.split('|'))
    .map(([id = '', reason = '', name = '']) => ({ id, name, held: reason === 'JobHeldUser' }));
}
function clear(): void {
  const ids = [...new Set(queue().map((job) => job.id))];
  if (ids.length > 0) slurm(cluster, 'scancel', ...ids.toReversed());
}

/** Launches once more, without the fault, and counts what is in the queue then. */
async function settle(lab: Lab, name: string, what: string): Promise<void> {
  tally.faults += 1;
  const result = await lab.dispatch({ config: name });
  assert.equal(result.code, 0, `${what}: ${result.log}`);
  const id = result.outputs['experiment-id'] ?? '';
  const jobs = queue().filter((job) => job.name.startsWith(`${id}.`));
  const names = [...new Set(jobs.map((job) => `${job.id} ${job.name}`))];
  const ledger = readFileSync(join(lab.workdir, 'experiments', id, 'ledger.jsonl'), 'utf8');
  const orphans = jobs.filter((job) => !ledger.includes(`"event":"submitted"`) || !ledger.includes(`"job":"${job.id}"`));
  if (names.length > STEPS) tally.doubled += 1;
  tally.orphaned += orphans.length;
  assert.equal(names.length, STEPS, `${what}: ${names.join(', ')}`);
  assert.deepEqual(orphans, [], `${what}: not on record`);
  assert.deepEqual(names.map((one) => /\.s(\d+)$/.exec(one)?.[1]).sort(), ['1', '2', '3'], what);
  assert.ok(
    jobs.every((job) => !job.held),
    `${what}: released`,
  );
  clear();
}

test('the action is killed with SIGKILL at every phase and after every submission', async () => {
  for (const phase of [
    /^connecting/,
    /^sending the code/,
    /^staging/,
    /^step 1: job/,
    /^step 2: job/,
    /^step 3: job/,
    /^comment|^::endgroup/,
  ]) {
    const { lab, name } = await newLab();
    await lab.dispatch({ config: name }, { onLine: (line, kill) => phase.test(line) && kill('SIGKILL') });
    await settle(lab, name, `killed at ${phase}`);
  }
});

/** Passes bytes on until so many have come from the server, then cuts, or goes silent. */
async function faultyProxy(bytes: number, kind: 'cut' | 'stall'): Promise<{ port: number; passed: () => number; close(): void }> {
  const sockets = new Set<Socket>();
  let passed = 0;
  const server = createServer((near) => {
    const far = connect(Number(cluster.CLUSTER_PORT), '127.0.0.1');
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {});
    }
    near.on('data', (chunk) => far.write(chunk));
    far.on('data', (chunk) => {
      passed += chunk.length;
      if (passed <= bytes) near.write(chunk);
      else if (kind === 'cut') {
        near.destroy();
        far.destroy();
      }
    });
    near.on('close', () => far.destroy());
    far.on('close', () => near.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as { port: number }).port,
    passed: () => passed,
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

test('the connection is cut after every so many bytes of what the cluster says', async () => {
  const known = (port: number) =>
    readFileSync(cluster.CLUSTER_KNOWN_HOSTS, 'utf8')
      .trim()
      .replace(/\]:\d+/, `]:${port}`);
  // How much a whole launch hears.
  const whole = await faultyProxy(Number.POSITIVE_INFINITY, 'cut');
  const first = await newLab({ clusterFields: { port: whole.port, known_hosts: known(whole.port) } });
  assert.equal((await first.lab.dispatch({ config: first.name })).code, 0);
  const total = whole.passed();
  whole.close();
  clear();
  for (let part = 1; part <= 8; part += 1) {
    const proxy = await faultyProxy(Math.floor((total * part) / 8.5), 'cut');
    const { lab, name } = await newLab({ clusterFields: { port: proxy.port, known_hosts: known(proxy.port) } });
    const result = await lab.dispatch({ config: name });
    assert.ok(result.code === 1 && !result.errors[0]?.startsWith('unexpected'), result.log);
    proxy.close();
    // The same experiment again: same commit and name, through a proxy that holds.
    const direct = createServer((near) => {
      const far = connect(Number(cluster.CLUSTER_PORT), '127.0.0.1');
      near.pipe(far).pipe(near);
      near.on('error', () => far.destroy());
      far.on('error', () => near.destroy());
    });
    await new Promise<void>((resolve) => direct.listen(proxy.port, '127.0.0.1', resolve));
    await settle(lab, name, `cut after ${part}/8.5 of ${total} bytes`);
    direct.close();
  }
});

test('slurmctld does not answer for a while during a submission', async () => {
  const pid = readFileSync(join(cluster.CLUSTER_DIR, 'run/slurmctld.pid'), 'utf8').trim();
  for (const step of [1, 2]) {
    const { lab, name } = await newLab();
    let resumed: NodeJS.Timeout | undefined;
    await lab.dispatch(
      { config: name },
      {
        onLine: (line) => {
          if (!line.startsWith(`step ${step}: job`)) return;
          execFileSync('kill', ['-STOP', pid]);
          resumed = setTimeout(() => execFileSync('kill', ['-CONT', pid]), 14_000);
        },
      },
    );
    assert.ok(resumed, 'it was stopped');
    await settle(lab, name, `slurmctld stopped after step ${step}`);
  }
});

test('a full disk under save.path: nothing in the queue, then one chain once there is room', async () => {
  const mount = execFileSync('mktemp', ['-d'], { encoding: 'utf8' }).trim();
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k,mode=777', 'tmpfs', mount]);
  try {
    const { lab, name } = await newLab();
    lab.commit({
      [`configs/${name}.yaml`]: regression(lab, { name, nJobs: STEPS, secondsPerStep: 1 }).replace(
        /save: .*/,
        `save: {path: ${mount}/save}`,
      ),
    });
    asUser(cluster, `head -c 1000000 /dev/zero > ${mount}/filler || true`);
    const result = await lab.dispatch({ config: name });
    assert.equal(result.code, 1);
    assert.match(result.errors[0] ?? '', /No space left on device|could not be written|cannot be written/);
    assert.deepEqual(queue(), []);
    asUser(cluster, `rm ${mount}/filler`);
    await settle(lab, name, 'save.path full');
    await until('the jobs to leave', () => queue().length === 0);
  } finally {
    execFileSync('umount', ['-l', mount]);
  }
});

test('a disk under workdir that fills up between two submissions', async () => {
  const mount = execFileSync('mktemp', ['-d'], { encoding: 'utf8' }).trim();
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=300k,mode=777', 'tmpfs', mount]);
  try {
    const { lab, name } = await newLab({
      clusterFields: {
        workdir: `${mount}/work`,
        prelude: inFront(cluster, 'fills', { sbatch: `[ $CALL != 2 ] || head -c 1000000 /dev/zero > ${mount}/filler` }),
      },
    });
    const result = await lab.dispatch({ config: name });
    assert.equal(result.code, 1, result.log);
    assert.match(result.errors[0] ?? '', /ledger\.jsonl could not be written|manifest could not be written/);
    assert.deepEqual(queue(), []);
    asUser(cluster, `rm ${mount}/filler`);
    const again = await lab.dispatch({ config: name });
    assert.equal(again.outputs['state'], 'submitted', again.log);
    assert.equal(new Set(queue().map((job) => job.id)).size, STEPS);
    tally.faults += 1;
    clear();
    await until('the jobs to leave', () => queue().length === 0);
  } finally {
    execFileSync('umount', ['-l', mount]);
  }
});

test('slurmdbd is down all along, and a reply is lost', async () => {
  const pid = readFileSync(join(cluster.CLUSTER_DIR, 'run/slurmdbd.pid'), 'utf8').trim();
  execFileSync('kill', [pid]);
  await until(
    'slurmdbd to be gone',
    () => spawnSync('kill', ['-0', pid]).status !== 0 || /\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8')),
  );
  {
    const { lab, name } = await newLab({
      clusterFields: {
        prelude: inFront(cluster, 'nodbd', { sbatch: '[ $CALL != 2 ] || { $REAL "$@" >/dev/null; exit 1; }' }),
      },
    });
    const result = await lab.dispatch({ config: name });
    assert.equal(result.code, 0, result.log);
    await settle(lab, name, 'slurmdbd down');
  }
});

test('the table: faults tried, chains doubled, jobs orphaned', (t) => {
  t.diagnostic(`faults tried ${tally.faults}, chains doubled ${tally.doubled}, jobs orphaned ${tally.orphaned}`);
  assert.ok(tally.faults >= 20, 'all of the above ran');
  assert.deepEqual([tally.doubled, tally.orphaned], [0, 0]);
});
