import { randomBytes } from 'node:crypto';
import type { LaunchRecord } from '../chain/manifest.ts';
import type { LaunchName } from '../chain/plan.ts';

/** One line of ledger.jsonl, the record of every id that sbatch returned and of what was done with it. */
export interface LedgerLine {
  readonly event: 'submitted' | 'cancelled' | 'releasing' | 'released';
  readonly launch: number;
  /** Slurm's id of the array. */
  readonly job: string;
  /** Only where event is submitted. */
  readonly step: number | undefined;
}

const EVENTS: readonly string[] = ['submitted', 'cancelled', 'releasing', 'released'];

/** A line that a full disk or a kill left half-written says nothing; its job is found by its tag. */
export function parseLedger(lines: readonly string[]): LedgerLine[] {
  return lines.flatMap((line) => {
    const value = parseObject(line);
    const { event, launch, job, step } = value;
    if (typeof event !== 'string' || !EVENTS.includes(event) || typeof launch !== 'number' || typeof job !== 'string') {
      return [];
    }
    return { event: event as LedgerLine['event'], launch, job, step: typeof step === 'number' ? step : undefined };
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

/** The last step that was queued and let go; 0 for none. Steps that were cancelled before they could run do not count. */
export function lastStep(ledger: readonly LedgerLine[]): number {
  const held = new Map<string, LedgerLine>();
  let last = 0;
  for (const line of ledger) {
    if (line.event === 'submitted') held.set(line.job, line);
    else if (line.event === 'cancelled') held.delete(line.job);
    else if (line.event === 'releasing') {
      for (const { launch, step } of held.values()) if (launch === line.launch) last = Math.max(last, step ?? 0);
    }
  }
  return last;
}

/**
 * The launch and the step that come next.
 * @param earlier what the manifest knows, for when the ledger went with a purged workdir
 */
export function nextLaunch(ledger: readonly LedgerLine[], earlier: readonly Pick<LaunchRecord, 'launch' | 'steps'>[] = []): LaunchName {
  const known = ledger.length > 0 ? lastStep(ledger) : Math.max(0, ...earlier.flatMap((one) => one.steps));
  return {
    launch: Math.max(0, ...ledger.map((line) => line.launch), ...earlier.map((one) => one.launch)) + 1,
    firstStep: known + 1,
    nonce: randomBytes(3).toString('hex'),
  };
}
