// Faults in the middle of a launch, on a real cluster of its own: sbatch gives no clean answer, the action is killed, the
// connection cut, stalled or slow, the controller stopped, accounting gone, disks full. After each, the next launch finds
// or makes exactly one chain, all of it on record.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { asUser, inFront, ownCluster, QUICK, slurm } from '../support/cluster.ts';
import { regression } from '../support/experiment.ts';
import { atOnce, EXPERIMENT, type LineFault, SBATCH_FAULTS, STEPS, sbatchFault, settle, startProxy, stepsOf } from '../support/faults.ts';
import { type Lab, type LabOptions, useLabs } from '../support/lab.ts';
import { until } from '../support/until.ts';

const cluster = ownCluster();
const makeLab = useLabs(cluster, { experiment: EXPERIMENT });
const tally = { faults: 0, doubled: 0, orphaned: 0 };

let count = 0;
async function newLab(options: LabOptions = {}): Promise<{ lab: Lab; name: string }> {
  count += 1;
  const name = `fault${count}x`;
  return { lab: await makeLab(name, options), name };
}

// Each case has its own lab and its own sbatch, so some can go at once; more than this and they wait for the processor.
const AT_ONCE = 4;

// Much of their time goes by in waiting, and they share nothing but the cluster.
describe('in labs of their own, all at once', { concurrency: true }, () => {
  test('sbatch gives no clean answer, every fault at every submission', async () => {
    const cases = Object.keys(SBATCH_FAULTS).flatMap((fault) => [1, 2, 3].map((call) => ({ fault, call })));
    await atOnce(AT_ONCE, cases, async ({ fault, call }) => {
      const what = `an sbatch that ${fault} at call ${call}`;
      const front = `${fault.replace(/[^a-z]/g, '')}${call}`;
      const prelude = `${QUICK}; ${inFront(cluster, front, sbatchFault(fault, call))}`;
      const { lab, name } = await newLab({ clusterFields: { prelude } });
      const result = await lab.dispatch({ config: name });
      assert.equal(result.code, 0, `${what}: ${result.log}`);
      const jobs = result.outputs['job-ids'];
      const again = await settle(lab, name, what, tally);
      assert.deepEqual([again.outputs['state'], again.outputs['job-ids']], ['alive', jobs], `${what}: the chain is the first one's`);
    });
  });

  test('the action is killed with SIGKILL at every phase and after every submission', async () => {
    const phases = [/^connecting/, /^sending the code/, /^staging/, /^job 1: /, /^job 2: /, /^job 3: /, /^comment|^::endgroup/];
    await atOnce(AT_ONCE, phases, async (phase) => {
      const { lab, name } = await newLab();
      let killed = false;
      await lab.dispatch(
        { config: name },
        {
          onLine: (line, kill) => {
            if (!phase.test(line)) return;
            killed = true;
            kill('SIGKILL');
          },
        },
      );
      assert.ok(killed, `there was a line like ${phase}`);
      await settle(lab, name, `killed at ${phase}`, tally);
    });
  });

  test('the connection is cut, goes silent or is slow after every so many bytes', async () => {
    // How much a whole launch hears and says.
    const whole = await startProxy(cluster);
    const first = await newLab({ clusterFields: whole.clusterFields });
    assert.equal((await first.lab.dispatch({ config: first.name })).code, 0);
    const total = { ...whole.passed };
    await settle(first.lab, first.name, 'a proxy that does nothing', tally);
    whole.close();

    const at = (kind: 'cut' | 'stall', direction: 'heard' | 'sent', parts: number[]): LineFault[] =>
      parts.map((part) => ({ kind, direction, bytes: Math.floor((total[direction] * part) / 8.5) }));
    const every = [1, 2, 3, 4, 5, 6, 7, 8];
    const through = async (fault: LineFault) => {
      const what = JSON.stringify(fault);
      const proxy = await startProxy(cluster, fault);
      try {
        const { lab, name } = await newLab({ clusterFields: proxy.clusterFields });
        const result = await lab.dispatch({ config: name });
        if (fault.kind === 'delay') assert.equal(result.outputs['state'], 'submitted', `${what}: ${result.log}`);
        // What breaks after the submission, while the status is asked for, hides nothing of it. Nor does what is never reached:
        // how much a launch hears varies a little.
        else if (result.code === 0) assert.equal(result.outputs['state'], 'submitted', `${what}: ${result.log}`);
        else assert.ok(!result.errors[0]?.startsWith('unexpected'), `${what}: ${result.log}`);
        proxy.set({ kind: 'none' });
        await settle(lab, name, what, tally);
      } finally {
        proxy.close();
      }
    };
    // Each stall takes as long as the keepalive takes to notice, so all of them wait together.
    const stalls = [...at('stall', 'heard', [1, 4, 6, 7, 8]), ...at('stall', 'sent', [2, 5, 8])];
    await Promise.all([
      atOnce(stalls.length, stalls, through),
      atOnce(2, [...at('cut', 'heard', every), ...at('cut', 'sent', every), { kind: 'delay', milliseconds: 20 }], through),
    ]);
  });
});

function pidOf(daemon: string): string {
  return readFileSync(join(cluster.CLUSTER_DIR, `run/${daemon}.pid`), 'utf8').trim();
}
/** Whether a process has ended; one that nobody waited for is still listed. */
function isGone(pid: string): boolean {
  return spawnSync('kill', ['-0', pid]).status !== 0 || /\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
}

test('slurmctld does not answer for a while during a submission', async () => {
  // Long enough for one command at least to give up on it.
  const patience = Number(/^MessageTimeout\s*=\s*(\d+) sec/m.exec(slurm(cluster, 'scontrol', 'show', 'config'))?.[1]);
  assert.ok(patience > 0);
  for (const step of [1, 2]) {
    const { lab, name } = await newLab();
    const pid = pidOf('slurmctld');
    let resumed: NodeJS.Timeout | undefined;
    await lab.dispatch(
      { config: name },
      {
        onLine: (line) => {
          if (!line.startsWith(`job ${step}: `)) return;
          execFileSync('kill', ['-STOP', pid]);
          resumed = setTimeout(() => execFileSync('kill', ['-CONT', pid]), (patience + 4) * 1000);
        },
      },
    );
    assert.ok(resumed, 'it was stopped');
    await settle(lab, name, `slurmctld stopped after job ${step}`, tally);
  }
});

test('slurmctld ends during a submission and is started again', async () => {
  const { lab, name } = await newLab();
  let started: Promise<void> | undefined;
  await lab.dispatch(
    { config: name },
    {
      onLine: (line) => {
        if (!line.startsWith('job 1: ')) return;
        const pid = pidOf('slurmctld');
        execFileSync('kill', [pid]);
        started = until('slurmctld to end', () => isGone(pid)).then(() => {
          execFileSync('slurmctld', { env: { ...process.env, SLURM_CONF: cluster.SLURM_CONF }, stdio: 'ignore' });
        });
      },
    },
  );
  assert.ok(started, 'it was ended');
  await started;
  // For its first seconds it has heard from no node and refuses whatever asks for a GPU.
  await until('the nodes to report', () => !/unknown/.test(slurm(cluster, 'sinfo', '-h', '-o', '%T')));
  await settle(lab, name, 'slurmctld ended and started again', tally);
});

interface Disk {
  readonly path: string;
  readonly size: number;
  close(): void;
}
function fullDisk(): Disk {
  const path = mkdtempSync(join(tmpdir(), 'slurm-chain-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=300k,mode=777', 'tmpfs', path]);
  return {
    path,
    size: 300_000,
    close() {
      execFileSync('umount', ['-l', path]);
      rmSync(path, { recursive: true });
    },
  };
}
/** btrfs, because its quota is in every kernel that has it; that of tmpfs and ext4 is an option that many leave out. */
function diskWithQuota(): Disk {
  const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-quota-'));
  const [image, mount] = [join(directory, 'image'), join(directory, 'mount')];
  writeFileSync(image, '');
  truncateSync(image, 128 * 1024 * 1024);
  execFileSync('mkfs.btrfs', ['--quiet', '--mixed', image], { stdio: 'pipe' });
  mkdirSync(mount);
  execFileSync('mount', ['-o', 'loop', image, mount]);
  const path = join(mount, 'limited');
  execFileSync('btrfs', ['quota', 'enable', mount]);
  execFileSync('btrfs', ['subvolume', 'create', path], { stdio: 'pipe' });
  execFileSync('btrfs', ['qgroup', 'limit', '2M', path]);
  execFileSync('chmod', ['755', directory]);
  execFileSync('chmod', ['777', path]);
  return {
    path,
    size: 2_000_000,
    close() {
      execFileSync('umount', ['-l', mount]);
      rmSync(directory, { recursive: true });
    },
  };
}
const noQuota =
  spawnSync('mkfs.btrfs', ['--version']).error !== undefined ||
  !/\tbtrfs$/m.test(readFileSync('/proc/filesystems', 'utf8')) ||
  !existsSync('/dev/loop-control');

for (const { fault, makeDisk, words, skip } of [
  { fault: 'a full disk', makeDisk: fullDisk, words: 'No space left on device', skip: false as const },
  {
    fault: 'a quota that is used up',
    makeDisk: diskWithQuota,
    words: 'Disk quota exceeded',
    skip: noQuota && 'it takes btrfs-progs, and btrfs and loop devices in the kernel',
  },
]) {
  test(`${fault} under save.path: nothing in the queue, then one chain once there is room`, { skip }, async () => {
    const disk = makeDisk();
    try {
      const { lab, name } = await newLab();
      lab.commit({
        [`configs/${name}.yaml`]: regression(lab, { name, ...EXPERIMENT }).replace(/save: .*/, `save: {path: ${disk.path}/save}`),
      });
      asUser(cluster, `head -c ${disk.size * 2} /dev/zero > ${disk.path}/filler || true`);
      const result = await lab.dispatch({ config: name });
      assert.equal(result.code, 1);
      assert.match(result.errors[0] ?? '', new RegExp(`${words}|could not be written|cannot be written`));
      assert.deepEqual(stepsOf(cluster, name), []);
      asUser(cluster, `rm ${disk.path}/filler`);
      await settle(lab, name, `${fault} under save.path`, tally);
      await until('the jobs to leave', () => stepsOf(cluster, name).length === 0);
    } finally {
      disk.close();
    }
  });

  test(`${fault} under workdir between two submissions`, { skip }, async () => {
    const disk = makeDisk();
    try {
      const sbatch = `[ $CALL != 2 ] || head -c ${disk.size * 2} /dev/zero > ${disk.path}/filler`;
      const { lab, name } = await newLab({
        clusterFields: { workdir: `${disk.path}/work`, prelude: inFront(cluster, fault.replaceAll(' ', ''), { sbatch }) },
      });
      const result = await lab.dispatch({ config: name });
      assert.equal(result.code, 1, result.log);
      assert.match(result.errors[0] ?? '', /ledger\.jsonl could not be written|manifest could not be written/);
      assert.deepEqual(stepsOf(cluster, name), []);
      asUser(cluster, `rm ${disk.path}/filler`);
      const again = await settle(lab, name, `${fault} under workdir`, tally);
      assert.equal(again.outputs['state'], 'submitted', again.log);
      await until('the jobs to leave', () => stepsOf(cluster, name).length === 0);
    } finally {
      disk.close();
    }
  });
}

test('slurmdbd is down all along, and a reply is lost', async () => {
  const pid = pidOf('slurmdbd');
  execFileSync('kill', [pid]);
  await until('slurmdbd to be gone', () => isGone(pid));
  const { lab, name } = await newLab({
    clusterFields: { prelude: inFront(cluster, 'nodbd', sbatchFault('loses the reply and exits 1', 2)) },
  });
  const result = await lab.dispatch({ config: name });
  assert.equal(result.code, 0, result.log);
  await settle(lab, name, 'slurmdbd down', tally);
});

test('the table: faults tried, chains doubled, jobs orphaned', (t) => {
  t.diagnostic(`faults tried ${tally.faults}, chains doubled ${tally.doubled}, jobs orphaned ${tally.orphaned}`);
  assert.ok(tally.faults >= Object.keys(SBATCH_FAULTS).length * STEPS + 38, 'all of the above ran');
  assert.deepEqual([tally.doubled, tally.orphaned], [0, 0]);
});
