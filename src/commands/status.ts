import { messageOf } from '../base/problem.ts';
import { lookBack, redact } from '../base/redact.ts';
import { type LedgerLine, releasedJobs } from '../chain/ledger.ts';
import type { ExperimentSummary, Manifest } from '../chain/manifest.ts';
import type { QueuedJob } from '../chain/plan.ts';
import type { Cancellation } from '../chain/state.ts';
import { type ChainStatus, type ReleasedJob, statusOf } from '../chain/status.ts';
import type { Login } from '../cluster/login.ts';
import { commandsFor } from '../cluster/programs/submit.ts';
import {
  type Listing,
  listExperiments,
  type Survey,
  type Surveyed,
  type SurveyTarget,
  survey,
  tailLogs,
} from '../cluster/programs/survey.ts';
import type { Report } from '../report/report.ts';
import { reportBasis } from './basis.ts';

// A comment holds the ends of a few logs, and every one is a file on a shared disk.
const LOGS_SHOWN = 3;
const LOG_BYTES = 4000;

/** Reports, and why some experiments have none. */
export interface Statuses {
  readonly reports: readonly Report[];
  readonly problems: readonly string[];
}

/**
 * Looks at experiments on a cluster. However many they are, that takes one call of squeue (in the listing) and one of sacct.
 * @param hidden values that must not be shown
 */
export async function status(
  login: Login,
  listing: Listing,
  targets: readonly SurveyTarget[],
  hidden: readonly string[],
): Promise<Statuses> {
  const seen = await survey(login, targets);
  const reports: Report[] = [];
  const problems = [...seen.missing];
  for (const experiment of seen.experiments) {
    try {
      const chain = chainStatus(experiment, seen, listing);
      reports.push(reportOf(experiment.manifest, chain, await logsOf(login, experiment.manifest.id, chain, hidden)));
    } catch (error) {
      problems.push(`${experiment.manifest.id}: ${messageOf(error)}`);
    }
  }
  return { reports, problems };
}

/** Adds the status to the report of a launch. If the look fails, the report stays and says so. */
export async function withStatus(login: Login, report: Report, summary: ExperimentSummary): Promise<Report> {
  try {
    const listing = await listExperiments(login, 0);
    const seen = await survey(login, [summary]);
    const [experiment] = seen.experiments;
    if (experiment === undefined) return report;
    const chain = chainStatus(experiment, seen, listing);
    const jobs = aliveJobs(chain);
    // Somebody may have cancelled all of them meanwhile.
    const hasCommands = report.commands !== undefined && jobs.length > 0;
    return { ...report, commands: hasCommands ? commandsFor(experiment.manifest.workdir, report.id, jobs) : undefined, status: chain };
  } catch (error) {
    return { ...report, notes: [...report.notes, `The status of the jobs could not be read: ${messageOf(error)}`] };
  }
}

function chainStatus(experiment: Surveyed, seen: Survey, listing: Listing): ChainStatus {
  return statusOf({
    manifest: experiment.manifest,
    jobs: jobsOf(experiment, listing.now),
    cancelled: cancellations(experiment.ledger),
    journals: experiment.journals,
    cells: experiment.cells,
    slurm: { queue: listing.queue, accounting: seen.accounting },
    now: listing.now,
  });
}

/** The cancellations in a ledger, by `<job id>` or `<job id>_<cell>`. */
function cancellations(ledger: readonly LedgerLine[]): Map<string, Cancellation> {
  return new Map(
    ledger.flatMap((line) => {
      if (line.event !== 'cancelled' || (line.by === undefined && !line.notNeeded)) return [];
      const key = line.cell === undefined ? line.jobId : `${line.jobId}_${line.cell}`;
      // The ledger has the actor and the address of the workflow run.
      const who = line.by?.split(' ')[0] ?? '';
      return [[key, line.notNeeded ? { kind: 'not-needed' } : { kind: 'by', who }] as const];
    }),
  );
}

/**
 * The jobs of the ledger up to the time when squeue was asked: a job that was queued later would seem to be gone. If the ledger
 * was purged with its workdir, the jobs that the journals name.
 */
function jobsOf({ ledger, journals }: Surveyed, asked: number): ReleasedJob[] {
  if (ledger.length > 0) return releasedJobs(ledger).filter(({ time }) => time === undefined || time <= asked);
  const lines = [...journals.values()].flat();
  const jobs = lines.map(({ jobNumber, jobId }) => [jobId, { jobNumber, cell: undefined, jobId, after: [], tag: '' }] as const);
  return [...new Map(jobs).values()];
}

async function logsOf(login: Login, id: string, chain: ChainStatus, hidden: readonly string[]): Promise<{ file: string; text: string }[]> {
  const files = chain.cells
    .filter((cell) => cell.failed)
    .flatMap((cell) => cell.log ?? [])
    .slice(0, LOGS_SHOWN);
  if (files.length === 0) return [];
  const tails = await tailLogs(login, id, files, LOG_BYTES + lookBack(hidden));
  return [...tails].map(([file, text]) => ({ file, text: endOf(redact(text, hidden)) }));
}

/** The last LOG_BYTES of a text, from the start of a line. */
function endOf(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= LOG_BYTES) return text;
  const end = bytes.subarray(-LOG_BYTES).toString();
  return end.slice(end.indexOf('\n') + 1);
}

function reportOf(manifest: Manifest, chain: ChainStatus, logs: NonNullable<Report['logs']>): Report {
  const jobs = aliveJobs(chain);
  return {
    ...reportBasis(manifest),
    ...{ command: 'status', state: chain.state, submissions: [], jobs },
    commands: jobs.length > 0 ? commandsFor(manifest.workdir, manifest.id, jobs) : undefined,
    ...{ status: chain, logs, notes: [] },
  };
}

function aliveJobs(chain: ChainStatus): QueuedJob[] {
  return chain.jobs.filter((job) => job.alive).map(({ jobNumber, cell, jobId, after }) => ({ jobNumber, cell, jobId, after, state: '' }));
}
