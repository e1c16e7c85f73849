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

/** Everything here is text for people: a manifest is only checked as far as a launch needs. */
export function identityOf(manifest: Manifest): AuditIdentity {
  const { name, commit, subject, path, attempt, repository, cluster } = manifest;
  const wandb: { group?: unknown; runs?: unknown } | null = manifest.wandb;
  return {
    ...{ name, commit, subject, path, attempt, repository, cluster },
    overrides: textsOf(manifest.overrides),
    wandb: typeof wandb?.group === 'string' ? { group: wandb.group, runs: textsOf(wandb.runs) } : null,
  };
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.map((one) => (typeof one === 'string' ? one : (JSON.stringify(one) ?? ''))) : [];
}

export function launchOf(launch: LaunchRecord, ledger: readonly LedgerLine[] | undefined, accounts: readonly CellAccount[]): AuditLaunch {
  const submitted = (ledger ?? []).flatMap((line) => (line.event === 'submitted' && line.launch === launch.launch ? [line] : []));
  const ran = accounts.flatMap(({ lines }) => lines.filter((line) => line.launch === launch.launch));
  const jobs = new Map((submitted.length > 0 ? submitted : ran).map(({ jobNumber, jobId }) => [jobId, { jobNumber, jobId }]));
  const { actor, runUrl, at } = launch;
  const pullRequest: unknown = launch.pullRequest;
  return {
    ...{ launch: launch.launch, actor, runUrl, at },
    command: String(launch.command),
    pullRequest: typeof pullRequest === 'number' ? pullRequest : undefined,
    jobNumbers: launch.steps.map(Number),
    overrides: textsOf(launch.overrides),
    jobs: [...jobs.values()],
  };
}

export function cellOf(account: CellAccount, manifest: Manifest | undefined): AuditCell {
  const cell = manifest?.cells.find((one) => one.cell === account.cell);
  return {
    cell: account.cell,
    choices: Object.fromEntries(Object.entries(cell?.choices ?? {}).map(([path, value]) => [path, String(value)])),
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
