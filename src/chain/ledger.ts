import { randomBytes } from 'node:crypto';
import { greatest } from '../base/numbers.ts';
import { parseJobName } from './job-name.ts';
import { isCount, parseObject } from './journal.ts';
import type { LaunchRecord } from './manifest.ts';
import type { LaunchName } from './plan.ts';
import { isJobId } from './slurm-rows.ts';

/** sbatch gave this id to a job of a launch. */
export interface SubmittedLine {
  readonly event: 'submitted';
  readonly launch: number;
  /** Position in the chain, from 1; `step` in the file. */
  readonly jobNumber: number;
  /** undefined for an array over all cells. */
  readonly cell: number | undefined;
  /** Slurm's id; `job` in the file. */
  readonly jobId: string;
  /** Ids of the jobs that it waits for. */
  readonly after: readonly string[];
  /** Its job name. */
  readonly tag: string;
  /** Seconds since 1970, by the clock of the login node. */
  readonly time: number | undefined;
}

/** A job, or the task of one cell in it, was taken out of the queue. */
export interface CancelledLine {
  readonly event: 'cancelled';
  /** 0 where the line is about a task instead of a job. */
  readonly launch: number;
  readonly jobId: string;
  /** undefined for the whole job. */
  readonly cell: number | undefined;
  /** Who asked for it; undefined when a launch rolled back. */
  readonly by: string | undefined;
  /** Training was complete, so nothing waits for it any more. */
  readonly notNeeded: boolean;
}

/** A launch is about to release its jobs, or has released them. */
export interface ReleaseLine {
  readonly event: 'releasing' | 'released';
  readonly launch: number;
}

/** One line of ledger.jsonl, the record of every job id that sbatch returned. src/runtime/ledger.sh writes them. */
export type LedgerLine = SubmittedLine | CancelledLine | ReleaseLine;

// The actor and the address of the workflow run.
const LONGEST_BY = 4000;

/**
 * The lines of a ledger. A line that cannot be read is left out: a full disk or a kill may leave half a line, and its job is
 * still found by its name.
 */
export function parseLedger(lines: readonly string[]): LedgerLine[] {
  return lines.flatMap((line) => parseLedgerLine(line) ?? []);
}

function parseLedgerLine(line: string): LedgerLine | undefined {
  const { event, launch, job, step, cell, after, tag, by, why, time } = parseObject(line);
  if (!isCount(launch) || typeof job !== 'string') return undefined;
  switch (event) {
    case 'submitted': {
      if (!isJobId(job) || !isCount(step) || step < 1) return undefined;
      const ids = typeof after === 'string' ? after.split(' ').filter(isJobId) : [];
      const seconds = typeof time === 'string' ? Date.parse(time) / 1000 : Number.NaN;
      return {
        ...{ event, launch, jobNumber: step, cell: isCount(cell) ? cell : undefined, jobId: job, after: ids },
        tag: typeof tag === 'string' && parseJobName(tag) !== undefined ? tag : '',
        time: Number.isFinite(seconds) ? seconds : undefined,
      };
    }
    case 'cancelled': {
      const [, jobId, task] = /^(\d+)(?:_(\d{1,7}))?$/.exec(job) ?? [];
      if (jobId === undefined || !isJobId(jobId)) return undefined;
      return {
        ...{ event, launch, jobId, cell: task === undefined ? undefined : Number(task) },
        by: typeof by === 'string' && by.length <= LONGEST_BY ? by : undefined,
        notNeeded: why === 'done',
      };
    }
    case 'releasing':
    case 'released':
      return { event, launch };
    default:
      return undefined;
  }
}

/** Has the release of a launch begun? Then its jobs may have run. */
export function isReleased(ledger: readonly LedgerLine[], launch: number): boolean {
  return ledger.some((line) => line.event === 'releasing' && line.launch === launch);
}

/** The jobs that were queued and released, in the order of the ledger, without those that a launch rolled back. */
export function releasedJobs(ledger: readonly LedgerLine[]): SubmittedLine[] {
  const held = new Map<string, SubmittedLine>();
  const byLaunch = new Map<number, Set<string>>();
  const released: SubmittedLine[] = [];
  for (const line of ledger) {
    switch (line.event) {
      case 'submitted':
        held.set(line.jobId, line);
        byLaunch.set(line.launch, (byLaunch.get(line.launch) ?? new Set()).add(line.jobId));
        break;
      case 'cancelled':
        if (line.cell === undefined) held.delete(line.jobId);
        break;
      case 'releasing':
        for (const jobId of byLaunch.get(line.launch) ?? []) {
          const job = held.get(jobId);
          if (job?.launch !== line.launch) continue;
          released.push(job);
          held.delete(jobId);
        }
        byLaunch.delete(line.launch);
        break;
      case 'released':
        break;
      default:
        line satisfies never;
    }
  }
  return released;
}

/** The number of the last job that was queued and released; 0 for none. */
export function lastJob(ledger: readonly LedgerLine[]): number {
  return greatest(releasedJobs(ledger).map((line) => line.jobNumber));
}

/**
 * The number of the next launch, and of its first job.
 * @param earlier the launches in the manifest, for when the ledger was purged with its workdir
 */
export function nextLaunch(ledger: readonly LedgerLine[], earlier: readonly Pick<LaunchRecord, 'launch' | 'steps'>[] = []): LaunchName {
  const last = ledger.length > 0 ? lastJob(ledger) : greatest(earlier.flatMap((one) => one.steps));
  return {
    launch: greatest([...ledger, ...earlier].map((one) => one.launch)) + 1,
    firstJob: last + 1,
    nonce: randomBytes(3).toString('hex'),
  };
}
