// Random faults in the middle of launches, as a seed has them. A round depends on the seed and its own number alone, so
// that one can be run again by itself; what the machine's timing adds is not repeated.
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { ActionResult, ActionRun } from '../support/action.ts';
import { inFront, readCluster, slurm } from '../support/cluster.ts';
import {
  cancelAll,
  checkQueue,
  EXPERIMENT,
  type FaultyProxy,
  type LineFault,
  SBATCH_FAULTS,
  STEPS,
  sbatchFault,
  settle,
  startProxy,
  stepsOf,
  type Tally,
} from '../support/faults.ts';
import { type Lab, makeLab } from '../support/lab.ts';
import { until } from '../support/until.ts';

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { seed: { type: 'string', default: '1' }, minutes: { type: 'string', default: '10' }, round: { type: 'string' } },
});
const [directory] = positionals;
const seed = Number(options.seed);
const minutes = Number(options.minutes);
if (directory === undefined || !Number.isInteger(seed) || !(minutes > 0)) {
  throw new Error('usage: chaos.ts CLUSTER_DIR [--seed S] [--minutes M] [--round R]');
}
const cluster = readCluster(directory);

/** Random numbers for one round: mulberry32, which is small and always the same. */
class Dice {
  #state: number;
  constructor(round: number) {
    this.#state = Math.imul(seed, 0x9e3779b1) ^ Math.imul(round, 0x85ebca6b);
  }
  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
  /** A whole number from low to high, both included. */
  between(low: number, high: number): number {
    return low + Math.floor(this.fraction() * (high - low + 1));
  }
  pick<T>(items: readonly [T, ...T[]]): T {
    return items[Math.floor(this.fraction() * items.length)] ?? items[0];
  }
}

// A stall is rare because it takes as long as the keepalive takes to notice.
const KINDS = [
  'sbatch',
  'sbatch',
  'sbatch',
  'kill',
  'kill',
  'program',
  'cut',
  'cut',
  'delay',
  'controller',
  'launches',
  'launches',
  'scancel',
  'stall',
] as const;
type Kind = (typeof KINDS)[number];
const HARMLESS: readonly Kind[] = ['sbatch', 'delay', 'launches'];
// How the round finds the experiment, most often as one nobody has launched yet.
const BEFORE = ['new', 'new', 'new', 'alive', 'cancelled', 'interrupted'] as const;

/** What a round does; undefined is not done. */
interface Round {
  readonly before: (typeof BEFORE)[number];
  readonly kinds: readonly Kind[];
  readonly sbatch: { readonly fault: string; readonly call: number } | undefined;
  readonly line: LineFault;
  readonly launches: number;
  /** Seconds after the first line of the first launch. */
  readonly killAt: number | undefined;
  /** As killAt, for what runs on the login node. */
  readonly programAt: number | undefined;
  readonly controller: { readonly at: number; readonly seconds: number } | undefined;
  readonly scancel: { readonly at: number; readonly step: number } | undefined;
}

function roundOf(dice: Dice): Round {
  const before = dice.pick(BEFORE);
  const one = dice.pick(KINDS);
  const two = dice.pick(KINDS);
  // Cut, stalled and slow at once is no more than one of them.
  const isLine = (kind: Kind) => kind === 'cut' || kind === 'stall' || kind === 'delay';
  const kinds = dice.fraction() < 0.5 || one === two || (isLine(one) && isLine(two)) ? [one] : [one, two];
  const has = (kind: Kind) => kinds.includes(kind);
  // The dice are thrown for all of them, so that one choice does not change the others.
  const sbatch = { fault: dice.pick(Object.keys(SBATCH_FAULTS) as [string, ...string[]]), call: dice.between(1, STEPS) };
  // A whole launch hears 8 kB and says 90 kB.
  const direction = dice.pick<'heard' | 'sent'>(['heard', 'sent']);
  const bytes = dice.between(0, direction === 'heard' ? 9_000 : 100_000);
  const milliseconds = dice.between(1, 60);
  const launches = dice.between(2, 5);
  const killAt = dice.fraction() * 2.5;
  const programAt = dice.fraction() * 2.5;
  const controller = { at: dice.fraction() * 2, seconds: dice.between(1, 25) };
  const scancel = { at: dice.fraction() * 2.5, step: dice.between(1, STEPS) };
  const line: LineFault = has('cut')
    ? { kind: 'cut', direction, bytes }
    : has('stall')
      ? { kind: 'stall', direction, bytes }
      : has('delay')
        ? { kind: 'delay', milliseconds }
        : { kind: 'none' };
  return {
    before,
    kinds,
    sbatch: has('sbatch') ? sbatch : undefined,
    line,
    launches: has('launches') ? launches : 1,
    killAt: has('kill') ? killAt : undefined,
    programAt: has('program') ? programAt : undefined,
    controller: has('controller') ? controller : undefined,
    scancel: has('scancel') ? scancel : undefined,
  };
}

function described(round: Round): string {
  const { sbatch, line, launches, killAt, programAt, controller, scancel } = round;
  return [
    round.before,
    sbatch && `sbatch ${sbatch.fault} at call ${sbatch.call}`,
    line.kind === 'delay' && `delay ${line.milliseconds} ms`,
    (line.kind === 'cut' || line.kind === 'stall') && `${line.kind} after ${line.bytes} bytes ${line.direction}`,
    launches > 1 && `${launches} launches at once`,
    killAt !== undefined && `action killed at ${killAt.toFixed(2)} s`,
    programAt !== undefined && `program on the login node killed at ${programAt.toFixed(2)} s`,
    controller && `slurmctld stopped at ${controller.at.toFixed(2)} s for ${controller.seconds} s`,
    scancel && `scancel of step ${scancel.step} at ${scancel.at.toFixed(2)} s`,
  ]
    .filter(Boolean)
    .join(', ');
}

/** How often sbatch is called by prepare. */
const CALLS_BEFORE = { new: 0, alive: STEPS, cancelled: STEPS, interrupted: 2 } as const;

/** Brings the experiment to where the round starts from. */
async function prepare(lab: Lab, name: string, before: Round['before']): Promise<void> {
  await lab.dispatch({ command: 'plan', config: name }); // fetches the commit; runners would have a checkout each
  if (before === 'new') return;
  const run: ActionRun = before === 'interrupted' ? { onLine: (line, kill) => line.startsWith('job 2: ') && kill('SIGKILL') } : {};
  const result = await lab.dispatch({ config: name }, run);
  if (before !== 'interrupted' && result.outputs['state'] !== 'submitted') throw new Error(`the launch before the fault: ${result.log}`);
  if (before === 'cancelled') {
    cancelAll(cluster, name);
    await until('the cancelled chain to leave', () => stepsOf(cluster, name).length === 0);
  }
}

function wait(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}

async function stopController({ at, seconds }: NonNullable<Round['controller']>): Promise<void> {
  const pid = readFileSync(join(cluster.CLUSTER_DIR, 'run/slurmctld.pid'), 'utf8').trim();
  await wait(at);
  execFileSync('kill', ['-STOP', pid]);
  await wait(seconds);
  execFileSync('kill', ['-CONT', pid]);
}

async function killProgram(at: number): Promise<void> {
  await wait(at);
  // The program's own processes and no job's; see runProgram in src/cluster/shell.ts. An sbatch it called goes on.
  const pids = spawnSync('pgrep', ['-u', cluster.CLUSTER_USER, '-f', 'head -c [0-9]+ <&3'], { encoding: 'utf8' }).stdout.trim();
  // Some may have ended by now.
  if (pids !== '') spawnSync('kill', ['-KILL', ...pids.split('\n')]);
}

/** Cancels the step if it is there by then. @returns the ids of what it cancelled */
async function cancelByHand(name: string, { at, step }: NonNullable<Round['scancel']>): Promise<string[]> {
  await wait(at);
  const jobs = stepsOf(cluster, name)
    .filter((one) => one.step === step)
    .map((one) => one.job);
  if (jobs.length > 0) slurm(cluster, 'scancel', ...jobs);
  return jobs;
}

/** The launches of the round with its faults. @returns them, and the ids of what was cancelled by hand meanwhile */
async function disturb(
  lab: Lab,
  name: string,
  round: Round,
  proxy: FaultyProxy,
  tally: Tally,
): Promise<{ results: ActionResult[]; cancelled: string[] }> {
  proxy.set(round.line);
  const { killAt } = round;
  let waiting = killAt !== undefined;
  const launches = Array.from({ length: round.launches }, () =>
    lab.dispatch(
      { config: name },
      {
        onLine: (_, kill) => {
          if (killAt !== undefined && waiting) setTimeout(() => kill('SIGKILL'), killAt * 1000);
          waiting = false;
        },
      },
    ),
  );
  // slurmctld goes on before anything here asks it: a question to a stopped one would block this process, which holds the proxy.
  const stopped = round.controller === undefined ? undefined : stopController(round.controller);
  const byHand = (async () => {
    if (round.scancel === undefined) return [];
    await stopped;
    return cancelByHand(name, round.scancel);
  })();
  const programKilled = round.programAt === undefined ? undefined : killProgram(round.programAt);
  let over = false;
  const ended = Promise.all(launches).finally(() => {
    over = true;
  });
  const watch = async () => {
    while (round.controller === undefined && !over) {
      checkQueue(lab, name, 'while it launches', tally, round.scancel !== undefined);
      await wait(0.2);
    }
  };
  const [results, cancelled] = await Promise.all([ended, byHand, watch(), stopped, programKilled]);
  return { results, cancelled };
}

const table = new Map<string, Tally>();
const total: Tally = { faults: 0, doubled: 0, orphaned: 0 };

/** @returns what to say of it @throws Error for what must not be */
async function play(number: number, round: Round): Promise<string> {
  const name = `round${number}x`;
  const proxy = await startProxy(cluster);
  const { sbatch } = round;
  const prelude = sbatch && inFront(cluster, name, sbatchFault(sbatch.fault, sbatch.call + CALLS_BEFORE[round.before]));
  const clusterFields = { ...proxy.clusterFields, ...(prelude ? { prelude } : {}) };
  const lab = await makeLab(cluster, name, { experiment: EXPERIMENT, clusterFields });
  const tally: Tally = { faults: 0, doubled: 0, orphaned: 0 };
  try {
    await prepare(lab, name, round.before);
    const { results, cancelled } = await disturb(lab, name, round, proxy, tally);
    proxy.set({ kind: 'none' });
    const outcome = results
      .map(({ outputs, code, errors }) =>
        code === null ? 'killed' : code === 0 ? outputs['state'] : `failed: ${errors[0]?.slice(0, 120)} …`,
      )
      .join(' | ');
    // Every failure is told as one, and what leaves a launch its connection and its queue is no reason to fail.
    const isHarmless = round.kinds.every((kind) => HARMLESS.includes(kind));
    for (const { code, errors, log } of results) {
      if (errors.some((error) => error.startsWith('unexpected')) || (isHarmless && code !== 0)) throw new Error(log);
    }
    checkQueue(lab, name, 'after the faults', tally, cancelled.length > 0);
    const last = await settle(lab, name, 'the launch after them', tally, cancelled);
    return `${outcome}; then ${last.outputs['state']}`;
  } finally {
    for (const kind of round.kinds) {
      const row = table.get(kind) ?? { faults: 0, doubled: 0, orphaned: 0 };
      table.set(kind, {
        faults: row.faults + 1,
        doubled: row.doubled + tally.doubled,
        orphaned: row.orphaned + tally.orphaned,
      });
    }
    total.faults += round.kinds.length;
    total.doubled += tally.doubled;
    total.orphaned += tally.orphaned;
    cancelAll(cluster, name);
    proxy.close();
    await lab.close();
  }
}

const end = Date.now() + minutes * 60_000;
let broken = false;
for (let number = Number(options.round ?? 1); Date.now() < end && !broken; number += 1) {
  const round = roundOf(new Dice(number));
  const start = Date.now();
  let outcome: string;
  try {
    outcome = await play(number, round);
  } catch (error) {
    broken = true;
    outcome = `BROKEN: ${error instanceof Error ? error.message : error}\nagain with: script/chaos --seed ${seed} --round ${number}`;
  }
  console.log(`seed ${seed} round ${number}: ${described(round)} -> ${outcome} (${((Date.now() - start) / 1000).toFixed(0)} s)`);
  if (options.round !== undefined) break;
}

console.log('\nfault       tried  chains doubled  jobs orphaned');
for (const [kind, row] of [...[...table].sort(), ['all', total] as const]) {
  console.log(
    `${kind.padEnd(10)} ${String(row.faults).padStart(6)} ${String(row.doubled).padStart(15)} ${String(row.orphaned).padStart(14)}`,
  );
}
process.exitCode = broken ? 1 : 0;
