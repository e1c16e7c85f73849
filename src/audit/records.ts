import { count } from '../base/text.ts';
import type { LedgerLine, SubmittedLine } from '../chain/ledger.ts';
import type { Manifest } from '../chain/manifest.ts';
import type { CellAccount } from './attribution.ts';
import type { Findings } from './findings.ts';

/** A job that wrote a line in the journal of a cell. */
interface JournaledJob {
  readonly launch: number;
  readonly jobNumber: number;
  readonly jobId: string;
  readonly cell: number;
}

/**
 * Compares the three records of what was submitted: manifest, ledger and journals.
 * @param ledger undefined if it is gone; without the lines that cannot be read
 * @param unreadable the number of those lines
 */
export function compareRecords(
  manifest: Pick<Manifest, 'launches'>,
  ledger: readonly LedgerLine[] | undefined,
  unreadable: number,
  accounts: readonly Pick<CellAccount, 'cell' | 'lines'>[],
): Findings {
  const launches = new Map(manifest.launches.map((launch) => [launch.launch, launch]));
  const journaled = journaledJobs(accounts);
  const changed = journaled.flatMap(({ launch, jobNumber, jobId, cell }) => {
    const record = launches.get(launch);
    if (record === undefined) return [`the journal of cell ${cell} has job ${jobId} of launch ${launch}, which the manifest lacks`];
    if (record.steps.includes(jobNumber)) return [];
    return [
      `the journal of cell ${cell} has ${jobId} as job ${jobNumber} of the chain, which launch ${launch} in the manifest did not ask for`,
    ];
  });
  if (ledger === undefined) return { changed: unique(changed), missing: [], notes: [] };

  const missing: string[] = [];
  const notes =
    unreadable > 0 ? [`${count(unreadable, 'line')} of the ledger cannot be read; a full disk or a kill leaves such lines`] : [];
  const released = new Set(ledger.flatMap((line) => (line.event === 'releasing' ? [line.launch] : [])));
  for (const launch of released) {
    if (!launches.has(launch)) changed.push(`the ledger has launch ${launch}, which the manifest lacks`);
  }
  // If the ledger was purged with its workdir, the next launch starts a new one.
  const firstLaunch = ledger.reduce((first, line) => Math.min(first, line.launch), Number.POSITIVE_INFINITY);
  for (const launch of launches.keys()) {
    if (launch < firstLaunch) missing.push(`the ledger from before launch ${firstLaunch}`);
    else if (!released.has(launch)) notes.push(`launch ${launch} was never released: none of its jobs ran`);
  }
  const submitted = new Map(ledger.flatMap((line) => (line.event === 'submitted' ? [[line.jobId, line] as const] : [])));
  for (const { launch, jobNumber, jobId } of submitted.values()) {
    const record = launches.get(launch);
    if (record !== undefined && released.has(launch) && !record.steps.includes(jobNumber)) {
      changed.push(`the ledger has job ${jobNumber} of the chain (${jobId}) in launch ${launch}, which the manifest lacks`);
    }
  }
  changed.push(...journaled.flatMap((job) => (job.launch < firstLaunch ? [] : compareJob(job, submitted, released))));
  return { changed: unique(changed), missing: unique(missing), notes: unique(notes) };
}

function journaledJobs(accounts: readonly Pick<CellAccount, 'cell' | 'lines'>[]): JournaledJob[] {
  const jobs = new Map<string, JournaledJob>();
  for (const { cell, lines } of accounts) {
    for (const line of lines) jobs.set(`${line.launch} ${line.jobNumber} ${line.jobId}`, { ...line, cell });
  }
  return [...jobs.values()];
}

function compareJob(
  { launch, jobNumber, jobId, cell }: JournaledJob,
  submitted: ReadonlyMap<string, SubmittedLine>,
  released: ReadonlySet<number>,
): string[] {
  const line = submitted.get(jobId);
  if (line === undefined) return [`the journal of cell ${cell} has job ${jobId}, which the ledger lacks`];
  if (line.launch !== launch || line.jobNumber !== jobNumber) {
    return [
      `${jobId} is job ${jobNumber} of launch ${launch} in the journal of cell ${cell}, and job ${line.jobNumber} of launch ${line.launch} in the ledger`,
    ];
  }
  return released.has(launch)
    ? []
    : [`the journal of cell ${cell} has job ${jobId} of launch ${launch}, which the ledger does not list as released`];
}

function unique(lines: readonly string[]): string[] {
  return [...new Set(lines)];
}
