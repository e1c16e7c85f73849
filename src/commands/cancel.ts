import { Problem } from '../base/problem.ts';
import { count, some } from '../base/text.ts';
import { type LedgerLine, releasedJobs } from '../chain/ledger.ts';
import type { ExperimentSummary } from '../chain/manifest.ts';
import type { Login } from '../cluster/login.ts';
import { type CancelledRow, cancelJobs } from '../cluster/programs/cancel.ts';
import { listExperiments, survey } from '../cluster/programs/survey.ts';
import type { Report } from '../report/report.ts';
import type { Outcome } from './outcome.ts';
import { status } from './status.ts';

export interface CancelOrder {
  readonly summary: ExperimentSummary;
  /** Expanded. */
  readonly workdir: string;
  /** Only this job, by its number in the chain or by Slurm's id. */
  readonly job: number | undefined;
  /** Only this cell, from 0. */
  readonly cell: number | undefined;
  /** Who asks, for the lock and the ledger. */
  readonly by: string;
  /** Values that must not be shown. */
  readonly hidden: readonly string[];
}

/** The outcome of one of several cancellations. A fault of it does not stop the others. */
export async function cancelOutcome(login: Login, order: CancelOrder): Promise<Outcome> {
  try {
    return { kind: 'chain', report: await cancel(login, order) };
  } catch (error) {
    return { kind: 'problem', error };
  }
}

/**
 * Cancels a chain, one job of it, or one cell, and reports what is left.
 * @throws Problem when the job is not one of the chain's, when jobs are left, or when the outcome is not known
 */
async function cancel(login: Login, order: CancelOrder): Promise<Report> {
  const { summary, workdir, job, cell, by } = order;
  const jobNumber = job === undefined ? undefined : await jobNumberOn(login, summary, job);
  const rows = await cancelJobs(login, { workdir, id: summary.id, jobNumber, cell, by });
  const listing = await listExperiments(login, 0);
  const { reports, problems } = await status(login, listing, [summary], order.hidden);
  const [report] = reports;
  if (report === undefined) throw new Problem(`${summary.id} was cancelled; ${problems.join('; ')}`);
  // If nothing was in the queue, nothing was cancelled, least of all a chain that is complete.
  const state = rows.length === 0 ? report.state : 'cancelled';
  return { ...report, command: 'cancel', state, notes: notesOn({ id: summary.id, jobNumber, cell }, rows, report) };
}

async function jobNumberOn(login: Login, summary: ExperimentSummary, job: number): Promise<number> {
  const { experiments, missing } = await survey(login, [summary]);
  const [experiment] = experiments;
  if (experiment === undefined) throw new Problem(missing.join('; '));
  return jobNumberOf(experiment.ledger, job, summary.id);
}

/**
 * The number in the chain of a job that was given by this number or by Slurm's id.
 * @throws Problem when it may be both, or neither
 */
export function jobNumberOf(ledger: readonly LedgerLine[], job: number, id: string): number {
  const jobs = releasedJobs(ledger);
  const byNumber = jobs.find(({ jobNumber }) => jobNumber === job);
  const byId = jobs.find(({ jobId }) => jobId === String(job));
  if (byNumber !== undefined && byId !== undefined && byId.jobNumber !== job) {
    throw new Problem(
      `job=${job} is ambiguous: it may be job ${job} of the chain (Slurm's ${byNumber.jobId}), or Slurm's ${job} (job ${byId.jobNumber} of the chain). Give the other number of the one you mean`,
    );
  }
  const found = byNumber ?? byId;
  if (found !== undefined) return found.jobNumber;
  const known = [...new Map(jobs.map((one) => [one.jobNumber, one.jobId]))].map(([number, jobId]) => `${number} (${jobId})`);
  throw new Problem(`${id} has no job ${job}. Its jobs, with Slurm's ids, are ${some(known, 20) || 'none'}`);
}

interface Cancelled {
  readonly id: string;
  readonly jobNumber: number | undefined;
  readonly cell: number | undefined;
}

/** What a cancel did, and what it left. @param rows what was in the queue before. @param report what the chain looks like after */
export function notesOn({ id, jobNumber, cell }: Cancelled, rows: readonly CancelledRow[], report: Report): string[] {
  if (rows.length === 0) return [`Nothing of ${id} was in the queue.`];
  const what = [jobNumber === undefined ? '' : `job ${jobNumber}`, cell === undefined ? '' : `cell ${cell}`].filter(Boolean).join(', ');
  const isMeant = ({ task, name }: CancelledRow) =>
    (cell === undefined || task.endsWith(`_${cell}`)) && (jobNumber === undefined || name?.jobNumber === jobNumber);
  const running = rows.filter((row) => row.state === 'RUNNING' && isMeant(row)).map(({ task }) => task);
  const kept = (report.status?.cells ?? [])
    .filter((one) => one.newest !== undefined && (cell === undefined || one.number === cell))
    .map((one) => `cell ${one.number} ${one.newest}`);
  const ran =
    running.length === 0
      ? 'None of its tasks was running.'
      : `Of its tasks, ${some(running, 20)} ${running.length === 1 ? 'was' : 'were'} running.`;
  const nextStarts = jobNumber !== undefined && report.status?.jobs.some((one) => one.jobNumber > jobNumber && one.alive);
  return [
    `Cancelled ${what || 'the whole chain'}. ${ran}`,
    kept.length === 0
      ? 'There are no checkpoints yet.'
      : `Checkpoints stay under ${report.places.checkpoints}. The newest: ${some(kept, 20)}.`,
    ...(nextStarts
      ? [
          `The next job starts now, because a cancelled job counts as ended. ${count(report.jobs.length, 'job')} of the chain ${report.jobs.length === 1 ? 'is' : 'are'} still in the queue.`,
        ]
      : []),
  ];
}
