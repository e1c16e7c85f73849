import { messageOf } from '../base/problem.ts';
import { type LedgerLine, releasedJobs } from '../chain/ledger.ts';
import type { Manifest } from '../chain/manifest.ts';
import type { Places } from '../chain/plan.ts';
import { type ChainStatus, type ReleasedJob, statusOf } from '../chain/status.ts';
import type { Connection } from '../cluster/connection.ts';
import { commandsFor, type SubmittedJob } from '../cluster/programs/submit.ts';
import { type Listing, listExperiments, type Survey, type Surveyed, survey, tailLogs } from '../cluster/programs/survey.ts';
import type { Cluster } from '../experiment/repo-config.ts';
import type { Report } from '../report/report.ts';
import { reportBasis } from './command.ts';

// What a comment has room for, and what a person reads.
const LOGS_SHOWN = 3;
const LOG_BYTES = 3000;

/** What became of experiments: their reports, and what could not be looked at. */
export interface Statuses {
  readonly reports: readonly Report[];
  readonly problems: readonly string[];
}

/**
 * Looks at experiments that are on a cluster: one squeue call (in the listing) and one sacct call however many they are.
 * @param ids each with the path of the manifest beside its checkpoints, or ''
 * @param secrets values that must not be shown
 */
export async function status(
  connection: Connection,
  cluster: Cluster,
  listing: Listing,
  ids: ReadonlyMap<string, string>,
  secrets: Iterable<string>,
): Promise<Statuses> {
  const seen = await survey(connection, cluster, ids);
  const reports: Report[] = [];
  for (const experiment of seen.experiments) {
    const chain = chainStatus(experiment, seen, listing);
    const logs = await logsOf(connection, cluster, experiment.manifest.id, chain, [...secrets]);
    reports.push(reportOf(experiment, chain, logs));
  }
  return { reports, problems: seen.missing };
}

/** The status of what a launch has just made or met; a look that fails hides nothing of the launch. */
export async function withStatus(connection: Connection, cluster: Cluster, report: Report): Promise<Report> {
  try {
    const listing = await listExperiments(connection, cluster, 0);
    const seen = await survey(connection, cluster, new Map([[report.id, '']]));
    const [experiment] = seen.experiments;
    if (experiment === undefined) return report;
    const chain = chainStatus(experiment, seen, listing);
    // What there was before an extension belongs to the chain as well.
    const commands = report.commands && commandsFor(placesOf(experiment.manifest), report.id, aliveJobs(chain));
    return { ...report, commands, status: chain };
  } catch (error) {
    return { ...report, notes: [...report.notes, `What became of the jobs could not be looked at: ${messageOf(error)}`] };
  }
}

function chainStatus(experiment: Surveyed, seen: Survey, listing: Listing): ChainStatus {
  return statusOf({
    manifest: experiment.manifest,
    jobs: stepsOf(experiment, listing.now),
    cancelled: new Map(
      experiment.ledger
        .filter((line) => line.event === 'cancelled' && (line.by !== undefined || line.why !== undefined))
        .map((line) => [line.jobId, line.why ?? line.by?.split(' ')[0] ?? '']),
    ),
    journals: experiment.journals,
    cells: experiment.cells,
    slurm: { queue: listing.queue, accounting: seen.accounting },
    now: listing.now,
  });
}

/** The steps of the ledger up to when squeue was asked; where that went with a purged workdir, those the journals name. */
function stepsOf({ ledger, journals }: Surveyed, asked: number): ReleasedJob[] {
  // What was queued since squeue was asked would seem to be gone.
  if (ledger.length > 0)
    return releasedJobs(ledger)
      .filter((line) => line.time === undefined || line.time <= asked)
      .map(stepOfLine);
  const lines = [...journals.values()].flat();
  const steps = new Map(
    lines.map((line) => [line.jobId, { jobNumber: line.jobNumber, cell: undefined, jobId: line.jobId, after: undefined, tag: '' }]),
  );
  return [...steps.values()];
}

function stepOfLine({ jobNumber, cell, jobId, after, tag }: LedgerLine): ReleasedJob {
  return { jobNumber: jobNumber ?? 0, cell, jobId, after: after?.replaceAll(' ', ',') || undefined, tag: tag ?? '' };
}

async function logsOf(
  connection: Connection,
  cluster: Cluster,
  id: string,
  chain: ChainStatus,
  secrets: readonly string[],
): Promise<{ file: string; text: string }[]> {
  const files = chain.cells
    .filter((cell) => cell.failed)
    .flatMap((cell) => cell.log ?? [])
    .slice(0, LOGS_SHOWN);
  if (files.length === 0) return [];
  const tails = await tailLogs(connection, cluster, id, files, LOG_BYTES);
  return [...tails].map(([file, text]) => ({ file, text: withoutSecrets(text, secrets) }));
}

/** Values of a character or two are no secrets, and taking them out would leave nothing to read. */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  return secrets
    .flatMap((secret) => secret.split(/\r?\n/))
    .map((secret) => secret.trim())
    .filter((secret) => secret.length >= 4)
    .sort((a, b) => b.length - a.length) // one may be a part of another
    .reduce((shown, secret) => shown.replaceAll(secret, '***'), text);
}

function reportOf({ manifest }: Surveyed, chain: ChainStatus, logs: Report['logs'] & object): Report {
  const jobs = aliveJobs(chain);
  return {
    ...reportBasis(manifest),
    command: 'status',
    state: chain.state,
    submissions: [],
    jobs,
    commands: jobs.length > 0 ? commandsFor(placesOf(manifest), manifest.id, jobs) : undefined,
    status: chain,
    logs,
    notes: [],
  };
}

function aliveJobs(chain: ChainStatus): SubmittedJob[] {
  return chain.jobs.filter((step) => step.alive).map(({ jobNumber, cell, jobId, after }) => ({ jobNumber, cell, jobId, after, state: '' }));
}

function placesOf(manifest: Manifest): Places {
  return { workdir: manifest.workdir, savePath: manifest.save };
}
