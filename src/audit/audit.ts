import { messageOf } from '../base/problem.ts';
import { type LedgerLine, parseLedger } from '../chain/ledger.ts';
import type { LaunchRecord, Manifest } from '../chain/manifest.ts';
import type { Connection } from '../cluster/connection.ts';
import { call, runChecked } from '../cluster/shell.ts';
import type { Cluster } from '../experiment/repo-config.ts';
import { ensureHistory, type Repo } from '../repo/git.ts';
import { count } from '../report/markdown.ts';
import { type AuditCost, type AuditFacts, type AuditTarget, checkpointsOf, NO_FACTS, readAnswers, type StagedCode } from './answers.ts';
import { accountFor, type CellAccount, type CellRecord, compareRecords, foldRanges, type NumberRange, timeText } from './attribution.ts';
import { type Copies, compareCode, compareFiles, type Findings, readManifests } from './compare.ts';
import {
  lackOf,
  pullRequestsOf,
  type Reachability,
  type Recomputed,
  type RepoCache,
  reachabilityOf,
  recompute,
  unknownReachability,
} from './recompute.ts';

/** What an audit found out about one experiment. Plain JSON. */
export interface Audit {
  readonly id: string;
  readonly experimentDirectory: string | undefined;
  readonly saveDirectory: string;
  readonly verdict: AuditVerdict;
  /** undefined when no manifest can be read. */
  readonly identity: AuditIdentity | undefined;
  readonly launches: readonly AuditLaunch[];
  readonly cells: readonly AuditCell[];
  readonly reachability: Reachability;
  /** Worth knowing, and nothing against the verdict. */
  readonly notes: readonly string[];
}

export interface AuditVerdict {
  /**
   * verified: everything is there and agrees. changed: something does not agree. incomplete: nothing disagrees, and not all of
   * it is there to be compared.
   */
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
  /** Steps that were asked for. */
  readonly jobNumbers: readonly number[];
  /** chain.* overrides. */
  readonly overrides: readonly string[];
  /** Arrays by the ledger, or by the journals where it is gone. */
  readonly jobs: readonly { readonly jobNumber: number; readonly jobId: string }[];
}

export interface AuditCell {
  readonly cell: number;
  readonly choices: Readonly<Record<string, string>>;
  readonly nSteps: number | null;
  /** One for each task that ran, in order. */
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
  /** The checkpoint it went on from, -1 for none. */
  readonly resumeStep: number;
  /** Numbers of its checkpoints that are still there. */
  readonly checkpoints: readonly NumberRange[];
  readonly count: number;
}

/**
 * Audits experiments in one round trip. What is wrong with one of them is in its audit and stops no other.
 * @param token for git, to fetch commits and branches the checkout lacks
 * @throws Problem when the cluster gives no whole answer
 */
export async function auditExperiments(
  connection: Connection,
  cluster: Cluster,
  repo: Repo,
  targets: readonly AuditTarget[],
  token: string,
  progress: (line: string) => void,
): Promise<{ audits: Audit[]; cost: AuditCost }> {
  const started = performance.now();
  progress(`looking at ${count(targets.length, 'experiment')} on ${cluster.name}`);
  let seen = 0;
  const answers = await runChecked(connection, {
    purpose: 'auditing',
    parts: ['audit'],
    prelude: cluster.prelude,
    calls: [
      'audit_begin',
      ...targets.map((target) => call('audit_experiment', target.experimentDirectory ?? '', target.saveDirectory)),
      'audit_end',
    ],
    deadlineSeconds: Math.min(4 * 3600, 900 + 20 * targets.length),
    onAnswer: ({ key }) => {
      if (key !== 'experiment') return;
      seen += 1;
      if (seen % 100 === 0) progress(`looked at ${count(seen, 'experiment')} of ${targets.length}`);
    },
  });
  const { found, codes, endOf, cost } = readAnswers(answers, targets.length);

  const manifests = found.map((one) => readManifests(one));
  const pulls = new Set(manifests.flatMap((copies) => copies.readable.flatMap(({ manifest }) => pullRequestsOf(manifest))));
  progress('bringing branches and tags of the repository');
  let unknown: string | undefined;
  try {
    await ensureHistory(repo, token, [...pulls]);
  } catch (error) {
    unknown = `the branches of the repository could not be fetched: ${messageOf(error)}`;
  }
  const source: RepoCache = {
    repo,
    token,
    unknown,
    commits: new Map(),
    configs: new Map(),
    experiments: new Map(),
    codes: new Map(),
    holders: new Map(),
    subjects: new Map(),
  };
  const audits: Audit[] = [];
  for (const [index, target] of targets.entries()) {
    const one = found[index] ?? NO_FACTS;
    const copies = manifests[index] ?? { readable: [], changed: [] };
    try {
      audits.push(await auditOne(target, one, copies, codes, endOf, source));
    } catch (error) {
      audits.push(failed(target, error));
    }
    if ((index + 1) % 100 === 0) progress(`compared ${count(index + 1, 'experiment')} with the repository`);
  }
  return {
    audits,
    cost: { experiments: targets.length, ...cost, seconds: (performance.now() - started) / 1000 },
  };
}

function failed(target: AuditTarget, error: unknown): Audit {
  return {
    ...target,
    verdict: { kind: 'incomplete', changed: [], missing: [`the audit of it failed: ${messageOf(error)}`] },
    identity: undefined,
    launches: [],
    cells: [],
    reachability: unknownReachability('the audit failed'),
    notes: [],
  };
}

const COMMIT = /^[0-9a-f]{40}$/;

async function auditOne(
  target: AuditTarget,
  found: AuditFacts,
  copies: Copies,
  codes: ReadonlyMap<string, StagedCode>,
  endOf: ReadonlyMap<string, number>,
  source: RepoCache,
): Promise<Audit> {
  const changed: string[] = [...copies.changed];
  const missing: string[] = [];
  const notes: string[] = [];

  const { id, saveDirectory, experimentDirectory } = target;
  if (!found.saveThere) missing.push(`the checkpoints' directory ${saveDirectory}`);
  if (!found.directoryThere) {
    missing.push(
      `the experiment's directory ${experimentDirectory ?? 'in workdir'}, and with it the staged code, the cell configs, the scripts, the ledger and the other manifest`,
    );
  }
  for (const [there, file] of [
    [found.saveThere, `${saveDirectory}/.chain/manifest.json`],
    [found.directoryThere, `${experimentDirectory}/manifest.json`],
  ] as const) {
    if (there && !found.manifests.some((one) => one.file === file)) missing.push(`the manifest ${file}`);
  }
  if (found.directoryThere && found.ledger === undefined) missing.push(`the ledger ${experimentDirectory}/ledger.jsonl`);

  const choice = await choose(source, target, copies);
  const manifest = choice?.manifest;
  let reachability = unknownReachability('no manifest says which commit it is');
  if (choice !== undefined && manifest !== undefined) {
    changed.push(...choice.changed);
    missing.push(...choice.missing);
    notes.push(...choice.notes);
    reachability = await reachabilityOf(source, manifest, choice.lack);
    if (choice.recomputed !== undefined && found.directoryThere) {
      compareFiles(found, manifest, choice.recomputed, { changed, missing, notes });
      compareCode(target, found, codes, choice.recomputed.code, { changed, missing, notes });
    }
    if (experimentDirectory !== undefined && found.directoryThere && `${manifest.workdir}/experiments/${id}` !== experimentDirectory) {
      notes.push(`the manifest says the experiment was in ${manifest.workdir}/experiments/${id}; this one is in ${experimentDirectory}`);
    }
    if (found.saveThere && manifest.save !== saveDirectory) {
      notes.push(`the manifest says the checkpoints were in ${manifest.save}; these are in ${saveDirectory}`);
    }
  }

  const accounts = accountsOf(found, manifest, endOf);
  for (const account of accounts) {
    if (found.unreadable.has(account.cell)) {
      missing.push(`the journal of cell ${account.cell}, which this account may not read`);
      continue;
    }
    changed.push(...account.gaps.map((gap) => `cell ${account.cell}: ${gap}`));
    const { unaccounted } = account;
    changed.push(
      ...unaccounted.slice(0, 20).map(({ checkpoint, why }) => `${account.cell}/${checkpoint.name} is unaccounted for: ${why}`),
      ...(unaccounted.length > 20 ? [`${unaccounted.length - 20} more checkpoints of cell ${account.cell} are unaccounted for`] : []),
    );
    if (!found.journals.has(account.cell) && (unaccounted.length > 0 || found.releasedChecksums.has(account.cell))) {
      missing.push(`the journal of cell ${account.cell}`);
    }
    notes.push(...account.notes);
  }
  const ledger = found.ledger === undefined ? undefined : parseLedger(found.ledger);
  if (manifest !== undefined) {
    const usable = ledger !== undefined && ledger.length > 0 ? ledger : undefined;
    if (ledger !== undefined && usable === undefined) missing.push('a ledger that can be read');
    const records = compareRecords(manifest, usable, (found.ledger?.length ?? 0) - (ledger?.length ?? 0), accounts);
    changed.push(...records.changed);
    missing.push(...records.missing);
    notes.push(...records.notes);
  }
  const kind = changed.length > 0 ? 'changed' : missing.length > 0 ? 'incomplete' : 'verified';
  return {
    id,
    experimentDirectory,
    saveDirectory,
    verdict: { kind, changed, missing },
    identity: manifest && identityOf(manifest),
    launches: manifest === undefined ? [] : manifest.launches.map((launch) => launchOf(launch, ledger, accounts)),
    cells: accounts.map((account) => cellOf(account, manifest)),
    reachability,
    notes: [...new Set(notes)],
  };
}

interface Choice extends Findings {
  readonly manifest: Manifest;
  readonly recomputed: Recomputed | undefined;
  /** Why the commit is not to be had. */
  readonly lack: string | undefined;
}

/** The manifest to go by: of two that differ the one that is nearer to what its commit gives. */
async function choose(source: RepoCache, target: AuditTarget, copies: Copies): Promise<Choice | undefined> {
  const [one, other] = copies.readable;
  if (one === undefined) return undefined;
  const first = await confront(source, target, one.manifest);
  if (other === undefined || other.text === one.text) return first;
  const second = await confront(source, target, other.manifest);
  const distance = (choice: Choice) => choice.changed.length * 2 + choice.missing.length;
  return distance(second) < distance(first) ? second : first;
}

async function confront(source: RepoCache, target: AuditTarget, manifest: Manifest): Promise<Choice> {
  const changed: string[] = [];
  const missing: string[] = [];
  const notes: string[] = [];
  const done = (recomputed: Recomputed | undefined, lack?: string): Choice => ({ manifest, recomputed, lack, changed, missing, notes });
  if (manifest.id !== target.id) changed.push(`the manifest is of ${manifest.id}`);
  if (!COMMIT.test(manifest.commit)) {
    changed.push(`the manifest's commit is '${manifest.commit}'`);
    return done(undefined, 'no commit id');
  }
  const lack = await lackOf(source, manifest.commit, pullRequestsOf(manifest));
  if (lack !== undefined) {
    missing.push(
      `the commit ${manifest.commit.slice(0, 12)} is not in the repository any more, so nothing could be compared with what it gives`,
    );
    notes.push(lack);
    return done(undefined, lack);
  }
  try {
    const recomputed = await recompute(source, target, manifest);
    changed.push(...recomputed.different);
    return done(recomputed);
  } catch (error) {
    changed.push(`commit ${manifest.commit.slice(0, 12)} does not give such an experiment: ${messageOf(error)}`);
    return done(undefined);
  }
}

function accountsOf(found: AuditFacts, manifest: Manifest | undefined, endOf: ReadonlyMap<string, number>): CellAccount[] {
  const checkpoints = checkpointsOf(found.checkpoints, manifest?.checkpoints.prefix);
  const cells = new Set([
    ...(manifest?.cells.map((cell) => cell.cell) ?? []),
    ...found.journals.keys(),
    ...found.releasedChecksums.keys(),
    ...checkpoints.keys(),
  ]);
  return [...cells]
    .sort((a, b) => a - b)
    .map((cell) => {
      const journal = found.journals.get(cell);
      const record: CellRecord = {
        cell,
        journal: journal?.lines,
        cut: journal?.cut ?? false,
        releasedChecksum: found.releasedChecksums.get(cell),
        checkpoints: checkpoints.get(cell) ?? [],
      };
      return accountFor(record, endOf);
    });
}

/** What is shown is text, whatever somebody wrote into the manifest: reading it checks no more than a launch needs. */
function identityOf(manifest: Manifest): AuditIdentity {
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

function launchOf(launch: LaunchRecord, ledger: readonly LedgerLine[] | undefined, accounts: readonly CellAccount[]): AuditLaunch {
  const submitted = (ledger ?? []).flatMap((line) =>
    line.event === 'submitted' && line.launch === launch.launch && line.jobNumber !== undefined
      ? [{ jobNumber: line.jobNumber, jobId: line.jobId }]
      : [],
  );
  const ran = accounts.flatMap(({ lines }) => lines.filter((line) => line.launch === launch.launch));
  const jobs = new Map((submitted.length > 0 ? submitted : ran).map(({ jobNumber, jobId }) => [jobId, { jobNumber, jobId }]));
  const { actor, runUrl, at } = launch;
  const pull: unknown = launch.pullRequest;
  return {
    ...{ launch: launch.launch, actor, runUrl, at },
    command: String(launch.command),
    pullRequest: typeof pull === 'number' ? pull : undefined,
    jobNumbers: launch.steps.map(Number),
    overrides: textsOf(launch.overrides),
    jobs: [...jobs.values()],
  };
}

function cellOf(account: CellAccount, manifest: Manifest | undefined): AuditCell {
  const cell = manifest?.cells.find((one) => one.cell === account.cell);
  return {
    cell: account.cell,
    choices: Object.fromEntries(Object.entries(cell?.choices ?? {}).map(([path, value]) => [path, String(value)])),
    nSteps: cell?.nSteps ?? null,
    tasks: account.tasks.map(({ task, checkpoints }) => ({
      launch: task.launch,
      jobNumber: task.jobNumber,
      jobId: task.jobId,
      taskId: task.taskId,
      restart: task.restart,
      host: task.host,
      started: timeText(task.started),
      ended: task.ended === undefined ? undefined : timeText(task.ended),
      outcome: task.outcome,
      resumeStep: task.resumeStep,
      checkpoints: foldRanges(checkpoints.map((checkpoint) => checkpoint.number)),
      count: checkpoints.length,
    })),
    unaccounted: account.unaccounted.map(({ checkpoint, why }) => ({ name: checkpoint.name, number: checkpoint.number, why })),
  };
}
