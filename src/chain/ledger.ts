import { randomBytes } from 'node:crypto';
import type { LaunchRecord } from './manifest.ts';
import type { LaunchName } from './plan.ts';

/** One line of ledger.jsonl, the record of every id that sbatch returned and of what was done with it. */
export interface LedgerLine {
  readonly event: 'submitted' | 'cancelled' | 'releasing' | 'released';
  readonly launch: number;
  /** Slurm's id of the array. */
  readonly jobId: string;
  /** Only where event is submitted, as what follows. */
  readonly jobNumber: number | undefined;
  readonly cell: number | undefined;
  /** What it waited for: job ids with blanks between, or empty. */
  readonly after: string | undefined;
  readonly tag: string | undefined;
  /** Only where event is cancelled: who asked for it, and `done` where training was complete. Job may be `<id>_<cell>` there. */
  readonly by: string | undefined;
  readonly why: string | undefined;
  /** Seconds since 1970, by the clock of the login node. */
  readonly time: number | undefined;
}

const EVENTS: readonly string[] = ['submitted', 'cancelled', 'releasing', 'released'];

/** A line that a full disk or a kill left half-written says nothing; its job is found by its tag. */
export function parseLedger(lines: readonly string[]): LedgerLine[] {
  return lines.flatMap((line) => {
    const value = parseObject(line);
    const { event, launch, job, step, cell, after, tag, by, why, time } = value;
    if (typeof event !== 'string' || !EVENTS.includes(event) || typeof launch !== 'number' || typeof job !== 'string') {
      return [];
    }
    const number = (one: unknown) => (typeof one === 'number' ? one : undefined);
    const seconds = (one: string | undefined) => (one === undefined || Number.isNaN(Date.parse(one)) ? undefined : Date.parse(one) / 1000);
    const text = (one: unknown) => (typeof one === 'string' ? one : undefined);
    return {
      event: event as LedgerLine['event'],
      launch,
      jobId: job,
      jobNumber: number(step),
      cell: number(cell),
      after: text(after),
      tag: text(tag),
      by: text(by),
      why: text(why),
      time: seconds(text(time)),
    };
  });
}

function parseObject(line: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

export function isReleased(ledger: readonly LedgerLine[], launch: number): boolean {
  return ledger.some((line) => line.event === 'releasing' && line.launch === launch);
}

/** The steps that were queued and let go, in the order of the ledger; not those that were cancelled before they could run. */
export function releasedJobs(ledger: readonly LedgerLine[]): LedgerLine[] {
  const held = new Map<string, LedgerLine>();
  const released: LedgerLine[] = [];
  for (const line of ledger) {
    if (line.event === 'submitted') held.set(line.jobId, line);
    else if (line.event === 'cancelled') held.delete(line.jobId);
    else if (line.event === 'releasing') {
      for (const step of held.values()) {
        if (step.launch !== line.launch) continue;
        released.push(step);
        held.delete(step.jobId);
      }
    }
  }
  return released;
}

/** The last step that was queued and let go; 0 for none. */
export function lastJob(ledger: readonly LedgerLine[]): number {
  return Math.max(0, ...releasedJobs(ledger).map((line) => line.jobNumber ?? 0));
}

/**
 * The launch and the step that come next.
 * @param earlier what the manifest knows, for when the ledger went with a purged workdir
 */
export function nextLaunch(ledger: readonly LedgerLine[], earlier: readonly Pick<LaunchRecord, 'launch' | 'steps'>[] = []): LaunchName {
  const known = ledger.length > 0 ? lastJob(ledger) : Math.max(0, ...earlier.flatMap((one) => one.steps));
  return {
    launch: Math.max(0, ...ledger.map((line) => line.launch), ...earlier.map((one) => one.launch)) + 1,
    firstJob: known + 1,
    nonce: randomBytes(3).toString('hex'),
  };
}
