import type { LedgerLine } from '../chain/ledger.ts';
import type { LaunchRecord, Manifest } from '../chain/manifest.ts';
import { type CellAccount, timeText } from './attribution.ts';
import type { AuditCost } from './program.ts';
import { foldRanges, type NumberRange } from './ranges.ts';
import type { Reachability } from './recompute.ts';

/** The audits of one request, and their cost. */
export interface AuditReport {
  readonly audits: readonly Audit[];
  readonly cost: AuditCost;
}

/** What an audit found out about one experiment. Plain JSON. */
export interface Audit {
  readonly id: string;
  readonly experimentDirectory: string | undefined;
  readonly saveDirectory: string;
  readonly verdict: AuditVerdict;
  /** undefined if no manifest can be read. */
  readonly identity: AuditIdentity | undefined;
  readonly launches: readonly AuditLaunch[];
  readonly cells: readonly AuditCell[];
  readonly reachability: Reachability;
  /** Facts that do not change the verdict. */
  readonly notes: readonly string[];
}

export interface AuditVerdict {
  /** verified: everything is there and matches. changed: something does not match. incomplete: something is missing, and the rest matches. */
  readonly kind: 'verified' | 'changed' | 'incomplete';
  readonly changed: readonly string[];
  readonly missing: readonly string[];
}

export interface AuditIdentity {
  readonly name: string;
  readonly commit: string;
  readonly subject: string;
  readonly path: string;
  readonly attempt: number;
  readonly overrides: readonly string[];
  readonly repository: string;
  readonly cluster: string;
  readonly wandb: { readonly group: string; readonly runs: readonly string[] } | null;
}

export interface AuditLaunch {
  readonly launch: number;
  readonly command: string;
  readonly actor: string;
  readonly runUrl: string;
  readonly pullRequest: number | undefined;
  /** ISO 8601, UTC. */
  readonly at: string;
  /** Numbers of the jobs that were asked for. */
  readonly jobNumbers: readonly number[];
  /** chain.* overrides. */
  readonly overrides: readonly string[];
  /** The jobs according to the ledger, or to the journals if it is gone. */
  readonly jobs: readonly { readonly jobNumber: number; readonly jobId: string }[];
}

export interface AuditCell {
  readonly cell: number;
  readonly choices: Readonly<Record<string, string>>;
  readonly nSteps: number | null;
  /** The tasks that ran, in order. */
  readonly tasks: readonly AuditTask[];
  readonly unaccounted: readonly { readonly name: string; readonly number: number; readonly why: string }[];
}

export interface AuditTask {
  readonly launch: number;
  readonly jobNumber: number;
  readonly jobId: string;
  readonly taskId: string;
  readonly restart: number;
  readonly host: string;
  /** ISO 8601, UTC. */
  readonly started: string;
  readonly ended: string | undefined;
  readonly outcome: 'ended' | 'killed' | 'open';
  /** The checkpoint that it resumed from, -1 for none. */
  readonly resumeStep: number;
  /** Numbers of its checkpoints that are still there. */
  readonly checkpoints: readonly NumberRange[];
  readonly count: number;
}

export function identityOf({ name, commit, subject, path, attempt, repository, cluster, overrides, wandb }: Manifest): AuditIdentity {
  return { name, commit, subject, path, attempt, repository, cluster, overrides, wandb };
}

export function launchOf(launch: LaunchRecord, ledger: readonly LedgerLine[] | undefined, accounts: readonly CellAccount[]): AuditLaunch {
  const submitted = (ledger ?? []).flatMap((line) => (line.event === 'submitted' && line.launch === launch.launch ? [line] : []));
  const ran = accounts.flatMap(({ lines }) => lines.filter((line) => line.launch === launch.launch));
  const jobs = new Map((submitted.length > 0 ? submitted : ran).map(({ jobNumber, jobId }) => [jobId, { jobNumber, jobId }]));
  const { command, actor, runUrl, at, pullRequest, steps, overrides } = launch;
  return {
    ...{ launch: launch.launch, command, actor, runUrl, at, pullRequest, jobNumbers: steps, overrides },
    jobs: [...jobs.values()],
  };
}

export function cellOf(account: CellAccount, manifest: Manifest | undefined): AuditCell {
  const cell = manifest?.cells[account.cell];
  return {
    cell: account.cell,
    choices: cell?.choices ?? {},
    nSteps: cell?.nSteps ?? null,
    tasks: account.tasks.map(({ task, checkpoints }) => {
      const { launch, jobNumber, jobId, taskId, restart, host, outcome, resumeStep } = task;
      return {
        ...{ launch, jobNumber, jobId, taskId, restart, host, outcome, resumeStep },
        started: timeText(task.started),
        ended: task.ended === undefined ? undefined : timeText(task.ended),
        checkpoints: foldRanges(checkpoints.map((checkpoint) => checkpoint.number)),
        count: checkpoints.length,
      };
    }),
    unaccounted: account.unaccounted.map(({ checkpoint, why }) => ({ name: checkpoint.name, number: checkpoint.number, why })),
  };
}
