import { randomBytes } from 'node:crypto';
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

/** The launch and the step that come next: steps that were cancelled before they could run do not count. */
export function nextLaunch(ledger: readonly LedgerLine[]): LaunchName {
  const released = new Set(ledger.filter((line) => line.event === 'releasing').map((line) => line.launch));
  const steps = ledger.filter((line) => line.event === 'submitted' && released.has(line.launch)).map((line) => line.step ?? 0);
  return {
    launch: Math.max(0, ...ledger.map((line) => line.launch)) + 1,
    firstStep: Math.max(0, ...steps) + 1,
    nonce: randomBytes(3).toString('hex'),
  };
}
