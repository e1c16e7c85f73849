// Faults to put between a launch and the real cluster, and the check of what is in the queue after them.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import type { ActionResult } from './action.ts';
import { type ClusterEnvironment, slurm } from './cluster.ts';
import type { RegressionOptions } from './experiment.ts';
import type { Lab } from './lab.ts';

/** A chain of the experiments here has so many steps of so many tasks. */
export const STEPS = 3;
export const CELLS = 2;

const TIMED_OUT = 'echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1';

/** What an sbatch does instead of a clean submission; in all but one the real sbatch takes the job. */
export const SBATCH_FAULTS: Readonly<Record<string, string>> = {
  'times out before the job was taken': TIMED_OUT,
  'loses the reply': '$REAL "$@" >/dev/null; exit 0',
  'loses the reply and exits 1': '$REAL "$@" >/dev/null; exit 1',
  'times out': `$REAL "$@" >/dev/null; ${TIMED_OUT}`,
  'prints noise': 'echo "Note that 128 GB will be charged"; exec $REAL "$@"',
  'warns on stderr': 'echo "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying" >&2; exec $REAL "$@"',
  'prints the id and exits 1': '$REAL "$@"; exit 1',
  'prints the id twice': 'ID=$($REAL "$@"); echo $ID; echo $ID; exit 0',
  'prints a number that is not the id': '$REAL "$@" >/dev/null; echo 99999999; exit 0',
  'prints the id of another job': '$REAL "$@" >/dev/null; squeue -h -o %F | sort -n | head -n 1; exit 0',
  'adds the cluster to the id': 'echo "$($REAL "$@");chain"; exit 0',
  hangs: '$REAL "$@" >/dev/null; exec sleep 600',
};

/**
 * Bodies for inFront: the fault at the given call of sbatch, counted from 1. The launch gives an sbatch that hangs 300 s
 * (SBATCH_PATIENCE in src/runtime/submit.sh); the timeout in front of it makes that 8.
 */
export function sbatchFault(fault: string, call: number): Record<string, string> {
  const body = SBATCH_FAULTS[fault];
  if (body === undefined) throw new Error(`there is no fault '${fault}'`);
  return {
    sbatch: `[ $CALL != ${call} ] || { ${body}; }`,
    ...(fault === 'hangs' ? { timeout: '[ "$2" != sbatch ] || { shift; set -- 8 "$@"; }' } : {}),
  };
}

/** What becomes of the bytes between the action and sshd. */
export type LineFault =
  | { readonly kind: 'none' }
  /** After so many bytes of what the cluster says (`heard`) or of what it is told (`sent`). */
  | { readonly kind: 'cut' | 'stall'; readonly direction: 'heard' | 'sent'; readonly bytes: number }
  | { readonly kind: 'delay'; readonly milliseconds: number };

export interface FaultyProxy {
  /** Fields of clusters.<name> that lead through it. */
  readonly clusterFields: { readonly port: number; readonly known_hosts: string };
  /** Bytes that have come by, whether or not they were passed on. */
  readonly passed: { heard: number; sent: number };
  /** The fault for the connections from now on, and for open ones that are not stalled. */
  set(fault: LineFault): void;
  close(): void;
}

/** A TCP proxy in front of the cluster's sshd. */
export async function startProxy(cluster: ClusterEnvironment, fault: LineFault = { kind: 'none' }): Promise<FaultyProxy> {
  const sockets = new Set<Socket>();
  const passed = { heard: 0, sent: 0 };
  let current = fault;
  const server = createServer((near) => {
    const far = connect(Number(cluster.CLUSTER_PORT), '127.0.0.1');
    let stalled = false;
    for (const [from, to, direction] of [
      [near, far, 'sent'],
      [far, near, 'heard'],
    ] as const) {
      sockets.add(from);
      from.setNoDelay(true);
      from.on('error', () => {});
      from.on('data', (chunk) => {
        passed[direction] += chunk.length;
        const reached = (current.kind === 'cut' || current.kind === 'stall') && passed[current.direction] > current.bytes;
        if (reached && current.kind === 'cut') {
          near.destroy();
          far.destroy();
        } else if (reached) stalled = true;
        if (reached || stalled) return;
        if (current.kind === 'delay') setTimeout(() => to.write(chunk), current.milliseconds);
        else to.write(chunk);
      });
      // On a line where nothing comes through, neither side hears that the other one has gone.
      from.on('close', () => {
        sockets.delete(from);
        if (stalled) return;
        // What is still being delayed comes before the end.
        if (current.kind === 'delay') setTimeout(() => to.destroy(), current.milliseconds);
        else to.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  return {
    clusterFields: {
      port,
      known_hosts: readFileSync(cluster.CLUSTER_KNOWN_HOSTS, 'utf8')
        .trim()
        .replace(/\]:\d+/, `]:${port}`),
    },
    passed,
    set(next) {
      current = next;
      passed.heard = 0;
      passed.sent = 0;
    },
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

/** An experiment of STEPS × CELLS tasks that run for minutes. */
export const EXPERIMENT: RegressionOptions = { nJobs: STEPS, secondsPerStep: 1, grid: '^lr: [0.1, 0.2]' };

/** One array in the queue. */
export interface QueuedStep {
  readonly experiment: string;
  readonly launch: string;
  readonly step: number;
  readonly job: string;
  /** The job it waits for. */
  readonly after: string | undefined;
  readonly tasks: number;
  readonly held: boolean;
}

/** What the queue holds of the experiment with this name, by launch and step. */
export function stepsOf(cluster: ClusterEnvironment, name: string): QueuedStep[] {
  const steps = new Map<string, QueuedStep>();
  for (const row of slurm(cluster, 'squeue', '-a', '-r', '-h', '-o', '%F|%r|%E|%j').split('\n')) {
    const [job = '', reason, dependency = '', tag = ''] = row.split('|');
    const [, experiment, launch, step] = /^(.*-[0-9a-f]{12})\.(l\d+-[0-9a-f]+)\.s(\d+)$/.exec(tag) ?? [];
    if (experiment === undefined || launch === undefined || !experiment.startsWith(`${name}-`)) continue;
    const seen = steps.get(job);
    steps.set(job, {
      experiment,
      launch,
      step: Number(step),
      job,
      after: /^afterany:(\d+)_\*\(unfulfilled\)$/.exec(dependency)?.[1],
      tasks: (seen?.tasks ?? 0) + 1,
      held: (seen?.held ?? true) && reason === 'JobHeldUser',
    });
  }
  return [...steps.values()].sort((a, b) => a.launch.localeCompare(b.launch) || a.step - b.step);
}

/** Takes out of the queue what there is of it, last step first, because a cancelled step starts the next. */
export function cancelAll(cluster: ClusterEnvironment, name: string): void {
  const jobs = stepsOf(cluster, name).map((step) => step.job);
  if (jobs.length > 0) slurm(cluster, 'scancel', ...jobs.toReversed());
}

/** What is counted over all faults; the last two are to stay 0. */
export interface Tally {
  faults: number;
  doubled: number;
  orphaned: number;
}

/**
 * What holds at any moment, during a launch too: one chain at most, whatever may run is whole and on record, and no two
 * steps can run side by side.
 * @param cancelledByHand whether somebody may have cancelled a step: what waited for it starts, and leaves where it finds
 * its cell at work
 * @returns what the queue held
 */
export function checkQueue(lab: Lab, name: string, what: string, tally: Tally, cancelledByHand = false): QueuedStep[] {
  // The queue first: the record may be ahead of it, never behind.
  const steps = stepsOf(lab.cluster, name);
  const ledger = join(lab.workdir, 'experiments', steps[0]?.experiment ?? '', 'ledger.jsonl');
  const recorded = existsSync(ledger) ? readFileSync(ledger, 'utf8').split('\n') : [];
  const seen = `${what}: ${JSON.stringify(steps)}\n${recorded.join('\n')}`;

  // A second chain is another launch's, or one launch has queued a step twice.
  const isDoubled = new Set(steps.map((step) => step.launch)).size > 1 || new Set(steps.map((step) => step.step)).size < steps.length;
  if (isDoubled) tally.doubled += 1;
  assert.ok(!isDoubled, `more than one chain. ${seen}`);
  const orphans = steps.filter(
    ({ job, held }) => !held && !recorded.some((line) => line.startsWith('{"event":"submitted",') && line.includes(`"job":"${job}"`)),
  );
  tally.orphaned += orphans.length;
  assert.deepEqual(orphans, [], `not on record and not held. ${seen}`);
  if (steps.some((step) => !step.held)) {
    // The step before a cancelled one and the step behind it may share the cells: each leaves those that the other has.
    const tasks = steps.reduce((sum, step) => sum + step.tasks, 0);
    const isWhole = steps.length === STEPS && tasks === STEPS * CELLS;
    assert.ok(isWhole || (cancelledByHand && steps.length <= STEPS && tasks >= CELLS), `${STEPS} steps of ${CELLS} tasks or none. ${seen}`);
  }
  for (const [index, step] of steps.entries()) {
    const before = index === 0 ? undefined : steps[index - 1]?.job;
    const waitsForCancelled = cancelledByHand && !steps.some((other) => other.job === step.after);
    assert.ok(step.after === before || waitsForCancelled, `step ${step.step} does not wait for the one before it. ${seen}`);
  }
  return steps;
}

/**
 * Launches once more, without the fault, and checks that one whole chain is in the queue then, released; cancels it.
 * @param cancelled ids of the steps that somebody has cancelled by hand
 */
export async function settle(lab: Lab, name: string, what: string, tally: Tally, cancelled: readonly string[] = []): Promise<ActionResult> {
  const cancelledByHand = cancelled.length > 0;
  const before = checkQueue(lab, name, `${what}, right after`, tally, cancelledByHand);
  const result = await lab.dispatch({ config: name });
  assert.equal(result.code, 0, `${what}: ${result.log}`);
  const steps = checkQueue(lab, name, `${what}, launched again`, tally, cancelledByHand);
  const seen = `${what}: ${JSON.stringify(steps)}`;
  assert.ok(steps.length > 0 && steps.every((step) => !step.held), `one chain, released. ${seen}`);
  const queued = steps.map((step) => step.job);
  // What waited for a cancelled step starts, finds its cell at work and leaves, maybe after it was reported. The cancelled one
  // itself is not to be reported.
  const mayHaveLeft = cancelledByHand ? before.map((step) => step.job).filter((job) => !cancelled.includes(job)) : [];
  const reported = result.outputs['job-ids']?.split(',').filter((job) => queued.includes(job) || !mayHaveLeft.includes(job));
  assert.deepEqual(reported, queued, seen);
  // A launch that takes its release for failed tries again for 18 s, and so does every launch after it.
  const ledger = readFileSync(join(lab.workdir, 'experiments', steps[0]?.experiment ?? '', 'ledger.jsonl'), 'utf8');
  for (const launch of new Set(steps.map((step) => step.launch.replace(/^l(\d+)-.*/, '$1'))))
    assert.ok(
      ledger.includes(`{"event":"released","launch":${launch},`),
      `launch ${launch} is not on record as released. ${seen}\n${ledger}`,
    );
  tally.faults += 1;
  cancelAll(lab.cluster, name);
  return result;
}

/** Does the work for each item, so many at a time. */
export async function atOnce<T>(limit: number, items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = [...items];
  const worker = async () => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: limit }, worker));
}
