// What squeue and sacct say about jobs whose names are `t<id>`.
import type { AccountingRow, QueueRow } from '../../src/chain/slurm-rows.ts';

/** Seconds since 1970. */
export const NOW = 1_800_000_000;
export const iso = (seconds: number) => new Date(seconds * 1000).toISOString();
/** A row of squeue. */
export const queued = (job: string, cells: number[], state: string, reason = 'None', start?: number): QueueRow => ({
  jobId: job,
  cells,
  state,
  reason,
  start,
  node: 'n1',
  name: `t${job}`,
});
/** A row of sacct. */
export const ended = (job: string, cells: number[], state: string, exit = '0:0', by?: string): AccountingRow => ({
  jobId: job,
  cells,
  name: `t${job}`,
  state,
  exit,
  by,
  start: NOW - 100,
  end: NOW,
  node: 'n1',
});
