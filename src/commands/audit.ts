import { createHash } from 'node:crypto';
import {
  accountFor,
  type CellAccount,
  type CellRecord,
  type CheckpointEntry,
  compareRecords,
  foldRuns,
  type Run,
  timeText,
} from '../chain/accounting.ts';
import { type LaunchRecord, type Manifest, manifestDifferences, manifestOf, parseManifest } from '../chain/manifest.ts';
import { filesOf } from '../chain/task.ts';
import type { Connection } from '../cluster/connection.ts';
import { type LedgerLine, parseLedger } from '../cluster/ledger.ts';
import { type Answer, call, runChecked } from '../cluster/shell.ts';
import { JOB_SCRIPT } from '../cluster/stage.ts';
import { type Code, codeOf } from '../experiment/code.ts';
import { asAttempt, type Experiment, loadExperiment } from '../experiment/experiment.ts';
import { ensureCommit, ensureHistory, type Holders, holdersOf, type Repo, subjectOf } from '../experiment/git.ts';
import type { Override } from '../experiment/overrides.ts';
import { type Cluster, type RepoConfig, repoConfigAt } from '../experiment/repo-config.ts';
import { messageOf } from '../problem.ts';
import { count } from '../report/markdown.ts';

/** An experiment to audit, its places expanded and absolute. */
export interface AuditTarget {
  readonly id: string;
  /** `{workdir}/experiments/{id}`; undefined where nobody knows it. Need not exist. */
  readonly experimentDirectory: string | undefined;
  /** `{save.path}/{id}`; need not exist. */
  readonly saveDirectory: string;
}

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
  readonly steps: readonly number[];
  /** chain.* overrides. */
  readonly overrides: readonly string[];
  /** Arrays by the ledger, or by the journals where it is gone. */
  readonly jobs: readonly { readonly step: number; readonly job: string }[];
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
  readonly step: number;
  readonly job: string;
  readonly task: string;
  readonly restart: number;
  readonly host: string;
  /** ISO 8601, UTC. */
  readonly started: string;
  readonly ended: string | undefined;
  readonly outcome: 'ended' | 'killed' | 'open';
  /** The checkpoint it went on from, -1 for none. */
  readonly resumeStep: number;
  /** Numbers of its checkpoints that are still there. */
  readonly checkpoints: readonly Run[];
  readonly count: number;
}

export interface Reachability {
  /** A branch, a tag or a pull request of the repository leads to the commit. */
  readonly reachable: boolean;
  readonly branches: readonly string[];
  readonly tags: readonly string[];
  /** Those among the experiment's own. */
  readonly pullRequests: readonly number[];
  /** Why nobody knows. */
  readonly unknown: string | undefined;
}

/** What an audit took. */
export interface AuditCost {
  readonly experiments: number;
  readonly filesHashed: number;
  readonly bytesHashed: number;
  /** Seconds of the one program on the login node. */
  readonly clusterSeconds: number;
  /** Seconds in all, git included. */
  readonly seconds: number;
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
  const source: Source = {
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
    const one = found[index] ?? NOTHING;
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
    reachability: NOBODY_KNOWS('the audit failed'),
    notes: [],
  };
}

const NOBODY_KNOWS = (unknown: string): Reachability => ({ reachable: false, branches: [], tags: [], pullRequests: [], unknown });

// --- what the cluster said ---------------------------------------------------------------------------------------------

/** Paths, the first few of them by name. */
interface Listed {
  readonly count: number;
  readonly names: readonly string[];
}

interface StagedCode {
  /** SHA-256 of the listing that was made when it was staged; empty when that is gone. */
  readonly recorded: string;
  /** SHA-256 of the listing of now; empty when the code is gone. */
  readonly actual: string;
  readonly bad: Listed;
}

interface Found {
  readonly saveThere: boolean;
  readonly directoryThere: boolean;
  readonly manifests: readonly { readonly file: string; readonly text: string }[];
  readonly ledger: readonly string[] | undefined;
  readonly journals: ReadonlyMap<number, { readonly lines: readonly string[]; readonly cut: boolean }>;
  /** Cells whose journal is there and may not be read. */
  readonly unreadable: ReadonlySet<number>;
  readonly heads: ReadonlyMap<number, string>;
  readonly checkpoints: readonly string[];
  /** SHA-256 by path, relative to the experiment's directory. */
  readonly files: ReadonlyMap<string, string>;
  readonly copy: Copy;
}

/** The experiment's own copy of the code, against the listing of the staged code. */
type Copy =
  | { readonly kind: 'not looked at' }
  | { readonly kind: 'missing'; readonly code: string }
  | { readonly kind: 'unknown'; readonly code: string }
  | { readonly kind: 'compared'; readonly code: string; readonly changed: Listed; readonly gone: Listed; readonly added: Listed };

const NONE: Listed = { count: 0, names: [] };
const NOTHING: Found = {
  saveThere: false,
  directoryThere: false,
  manifests: [],
  ledger: undefined,
  journals: new Map(),
  unreadable: new Set(),
  heads: new Map(),
  checkpoints: [],
  files: new Map(),
  copy: { kind: 'not looked at' },
};

interface Answers {
  readonly found: readonly Found[];
  readonly codes: ReadonlyMap<string, StagedCode>;
  readonly endOf: ReadonlyMap<string, number>;
  readonly cost: Pick<AuditCost, 'filesHashed' | 'bytesHashed' | 'clusterSeconds'>;
}

function readAnswers(answers: readonly Answer[], expected: number): Answers {
  const groups: Answer[][] = [];
  const codes = new Map<string, StagedCode>();
  const endOf = new Map<string, number>();
  let cost: Answers['cost'] = { filesHashed: 0, bytesHashed: 0, clusterSeconds: 0 };
  for (const answer of answers) {
    const { key, values } = answer;
    if (key === 'experiment') groups.push([]);
    else if (key === 'code') {
      const [dir = '', recorded = '', actual = '', ...bad] = values;
      codes.set(dir, { recorded, actual, bad: listedOf(bad) });
    } else if (key === 'task-end') {
      const seconds = Number(values[1]);
      if (Number.isFinite(seconds) && seconds > 0) endOf.set(values[0] ?? '', seconds);
    } else if (key === 'cost') {
      const [filesHashed = 0, bytesHashed = 0, nanoseconds = 0] = values.map(Number);
      cost = { filesHashed, bytesHashed, clusterSeconds: nanoseconds / 1e9 };
    } else groups.at(-1)?.push(answer);
  }
  if (groups.length !== expected) throw new Error(`${groups.length} answers to ${expected} questions`);
  return { found: groups.map(foundOf), codes, endOf, cost };
}

function foundOf(answers: readonly Answer[]): Found {
  const of = (key: string) => answers.filter((answer) => answer.key === key).map((answer) => answer.values);
  const [ledger] = of('ledger');
  const journals = of('journal');
  const listed = (key: string) => listedOf(of(key)[0] ?? []);
  const copy = (): Copy => {
    const [missing] = of('copy-missing');
    if (missing !== undefined) return { kind: 'missing', code: missing[0] ?? '' };
    const [compared] = of('copy');
    if (compared === undefined) return { kind: 'not looked at' };
    const code = compared[0] ?? '';
    if (of('copy-unknown').length > 0) return { kind: 'unknown', code };
    return { kind: 'compared', code, changed: listed('copy-changed'), gone: listed('copy-gone'), added: listed('copy-added') };
  };
  return {
    saveThere: of('save').length > 0,
    directoryThere: of('directory').length > 0,
    manifests: of('manifest').map(([file = '', text = '']) => ({ file, text })),
    ledger: ledger !== undefined && ledger.length > 0 ? ledger : undefined,
    journals: new Map(
      journals.filter(([, end]) => end !== 'unreadable').map(([cell, end, ...lines]) => [Number(cell), { lines, cut: end !== 'whole' }]),
    ),
    unreadable: new Set(journals.filter(([, end]) => end === 'unreadable').map(([cell]) => Number(cell))),
    heads: new Map(
      of('heads')
        .flat()
        .map((pair) => pair.split(' '))
        .map(([cell, sum = '']) => [Number(cell), sum]),
    ),
    checkpoints: of('checkpoints').flat(),
    files: new Map(
      of('files')
        .flat()
        .flatMap((line) => {
          const match = /^([0-9a-f]{64}) [ *](.*)$/.exec(line);
          return match === null ? [] : [[match[2] ?? '', match[1] ?? ''] as const];
        }),
    ),
    copy: copy(),
  };
}

function listedOf([number = '0', ...names]: readonly string[]): Listed {
  return { count: Number(number), names: names.map((name) => name.replace(/^\.\//, '')) };
}

function said({ count: all, names }: Listed): string {
  return `${names.join(', ')}${all > names.length ? ` and ${all - names.length} more` : ''}`;
}

/** Directories whose name is the prefix and a number; any that ends in a number where nobody knows the prefix. */
function checkpointsOf(rows: readonly string[], prefix: string | undefined): Map<number, CheckpointEntry[]> {
  const cells = new Map<number, CheckpointEntry[]>();
  for (const row of rows) {
    const match = /^(\d+)(?:\.\d+)? (\d+)(?:\.\d+)? ([epw]) (\d+)\/(.*)$/.exec(row);
    if (match === null) continue;
    const [, modified, touched, state, cell = '', name = ''] = match;
    const before = prefix ?? name.replace(/\d+$/, '');
    const number = name.startsWith(before) ? /^0*(\d{1,18})$/.exec(name.slice(before.length))?.[1] : undefined;
    if (number === undefined || before.startsWith('incomplete.')) continue;
    const entries = cells.get(Number(cell)) ?? [];
    cells.set(Number(cell), entries);
    entries.push({ name, number: Number(number), complete: state === 'w', modified: Number(modified), touched: Number(touched) });
  }
  return cells;
}

// --- the manifests ------------------------------------------------------------------------------------------------------

interface Copies {
  readonly readable: readonly { readonly file: string; readonly text: string; readonly manifest: Manifest }[];
  readonly changed: readonly string[];
}

function readManifests(found: Found): Copies {
  const readable: { file: string; text: string; manifest: Manifest }[] = [];
  const changed: string[] = [];
  for (const { file, text } of found.manifests) {
    try {
      readable.push({ file, text, manifest: parseManifest(text, file) });
    } catch (error) {
      changed.push(messageOf(error));
    }
  }
  const [one, other] = readable;
  if (one !== undefined && other !== undefined && one.text !== other.text) {
    const fields = jsonDifferences(one.manifest, other.manifest, '');
    const shown = fields.slice(0, 5).map(({ path, a, b }) => `${path} is ${b} in ${other.file} and ${a} in ${one.file}`);
    changed.push(
      ...(shown.length > 0 ? shown : [`${one.file} and ${other.file} say the same with other bytes`]),
      ...(fields.length > shown.length ? [`${fields.length - shown.length} more fields differ between the two manifests`] : []),
    );
  }
  return { readable, changed };
}

function jsonDifferences(a: unknown, b: unknown, path: string): { path: string; a: string; b: string }[] {
  if (typeof a === 'object' && a !== null && typeof b === 'object' && b !== null) {
    const at = (value: object, key: string): unknown => (value as Record<string, unknown>)[key];
    const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
    return [...keys].flatMap((key) => jsonDifferences(at(a, key), at(b, key), path === '' ? key : `${path}.${key}`));
  }
  const shown = (value: unknown) => {
    const text = JSON.stringify(value) ?? 'not there';
    return text.length > 100 ? `${text.slice(0, 99)}…` : text;
  };
  return a === b ? [] : [{ path, a: shown(a), b: shown(b) }];
}

/** Those that may be numbers of pull requests: the manifest may hold anything. */
function pullRequestsOf(manifest: Manifest): number[] {
  const numbers: readonly unknown[] = manifest.pullRequests;
  return numbers.filter((number): number is number => typeof number === 'number' && Number.isSafeInteger(number) && number > 0);
}

// --- what the repository gives ------------------------------------------------------------------------------------------

/** The repository, and what has been read of it. Values that failed stay failed. */
interface Source {
  readonly repo: Repo;
  readonly token: string;
  /** Why branches are not known. */
  readonly unknown: string | undefined;
  readonly commits: Map<string, Promise<string | undefined>>;
  readonly configs: Map<string, Promise<RepoConfig>>;
  readonly experiments: Map<string, Promise<Experiment>>;
  readonly codes: Map<string, Promise<Code>>;
  readonly holders: Map<string, Promise<Holders>>;
  readonly subjects: Map<string, Promise<string>>;
}

function once<T>(cache: Map<string, Promise<T>>, key: string, make: () => Promise<T>): Promise<T> {
  const known = cache.get(key) ?? make();
  known.catch(() => {}); // whoever asks gets it
  cache.set(key, known);
  return known;
}

/** Why the commit is not to be had; undefined when it is here. */
function lackOf(source: Source, commit: string, pullRequests: readonly number[]): Promise<string | undefined> {
  return once(source.commits, commit, async () => {
    try {
      await ensureCommit(
        source.repo,
        commit,
        pullRequests.map((number) => `refs/pull/${number}/head`),
        source.token,
      );
      return undefined;
    } catch (error) {
      return messageOf(error);
    }
  });
}

/** What the commit gives when it is computed again. */
interface Recomputed {
  readonly experiment: Experiment;
  readonly code: Code;
  readonly save: string;
  /** Where the manifest is not what the commit gives. */
  readonly different: readonly string[];
}

async function recompute(source: Source, target: AuditTarget, manifest: Manifest): Promise<Recomputed> {
  const { repo } = source;
  const { commit, path } = manifest;
  const overrides: Override[] = manifest.overrides.map((override) => {
    const equals = override.indexOf('=');
    return { path: override.slice(0, equals), value: override.slice(equals + 1), mayAdd: true };
  });
  const first = await once(source.experiments, JSON.stringify([commit, path, overrides]), async () => {
    const config = await once(source.configs, commit, () => repoConfigAt(repo, commit));
    return loadExperiment(repo, commit, config, path, overrides);
  });
  const experiment = asAttempt(first, manifest.attempt);
  const { exclude } = experiment.settings;
  const code = await once(source.codes, JSON.stringify([commit, exclude]), () => codeOf(repo, commit, exclude));
  const subject = await once(source.subjects, commit, () => subjectOf(repo, commit));
  const save = savePathOf(experiment.settings.save.path, target, manifest);
  const launch: LaunchRecord = manifest.launches.at(-1) ?? {
    ...{ launch: 1, command: 'launch', steps: [], overrides: [], slurm: '', sbatchVariables: [], jobScript: '', sbatch: [] },
    ...{ actor: '', runUrl: '', repository: manifest.repository, pullRequest: undefined, at: '' },
  };
  const plan = { launch: launch.launch, tag: '', submissions: [] };
  const expected = manifestOf(experiment, code, { workdir: manifest.workdir, save }, plan, subject, launch, []);
  return { experiment, code, save, different: manifestDifferences(manifest, expected) };
}

/** `{save.path}` as it was expanded: only the start of what the yaml says may have been. */
function savePathOf(written: string, target: AuditTarget, manifest: Manifest): string {
  if (written.startsWith('/')) return written;
  const rest = written.replace(/^[^/]*/, '');
  const parent = (path: string) => path.replace(/\/[^/]*$/, '');
  const recorded = parent(manifest.save);
  return recorded.endsWith(rest) ? recorded : parent(target.saveDirectory);
}

async function reachabilityOf(source: Source, manifest: Manifest, lack: string | undefined): Promise<Reachability> {
  if (source.unknown !== undefined) return NOBODY_KNOWS(source.unknown);
  if (lack !== undefined) return { reachable: false, branches: [], tags: [], pullRequests: [], unknown: undefined };
  try {
    const { branches, tags, pullRequests } = await once(source.holders, manifest.commit, () => holdersOf(source.repo, manifest.commit));
    const own = pullRequests.filter((number) => manifest.pullRequests.includes(number));
    return { reachable: branches.length + tags.length + own.length > 0, branches, tags, pullRequests: own, unknown: undefined };
  } catch (error) {
    return NOBODY_KNOWS(messageOf(error));
  }
}

// --- one experiment -----------------------------------------------------------------------------------------------------

const COMMIT = /^[0-9a-f]{40}$/;

async function auditOne(
  target: AuditTarget,
  found: Found,
  copies: Copies,
  codes: ReadonlyMap<string, StagedCode>,
  endOf: ReadonlyMap<string, number>,
  source: Source,
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
  let reachability = NOBODY_KNOWS('no manifest says which commit it is');
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
    if (!found.journals.has(account.cell) && (unaccounted.length > 0 || found.heads.has(account.cell))) {
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

/** Where comparisons write down what they find. */
interface Findings {
  readonly changed: string[];
  readonly missing: string[];
  readonly notes: string[];
}

interface Choice extends Findings {
  readonly manifest: Manifest;
  readonly recomputed: Recomputed | undefined;
  /** Why the commit is not to be had. */
  readonly lack: string | undefined;
}

/** The manifest to go by: of two that differ the one that is nearer to what its commit gives. */
async function choose(source: Source, target: AuditTarget, copies: Copies): Promise<Choice | undefined> {
  const [one, other] = copies.readable;
  if (one === undefined) return undefined;
  const first = await confront(source, target, one.manifest);
  if (other === undefined || other.text === one.text) return first;
  const second = await confront(source, target, other.manifest);
  const distance = (choice: Choice) => choice.changed.length * 2 + choice.missing.length;
  return distance(second) < distance(first) ? second : first;
}

async function confront(source: Source, target: AuditTarget, manifest: Manifest): Promise<Choice> {
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

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
const OUR_JOB_SCRIPT = sha256(JOB_SCRIPT);

function compareFiles(found: Found, manifest: Manifest, { experiment, save }: Recomputed, to: Findings): void {
  const expected = new Map(filesOf(experiment, save).map((file) => [file.path, sha256(file.content)]));
  const wrong = [...expected].filter(([path, digest]) => found.files.has(path) && found.files.get(path) !== digest).map(([path]) => path);
  const gone = [...expected.keys()].filter((path) => !found.files.has(path));
  if (wrong.length > 0) to.changed.push(`${someOf(wrong)} ${wrong.length === 1 ? 'is' : 'are'} not what the commit and the overrides give`);
  if (gone.length > 0) to.missing.push(someOf(gone));
  const extra = [...found.files.keys()].filter((path) => path.startsWith('configs/') && !expected.has(path));
  if (extra.length > 0) to.notes.push(`files beside the cell configs that nothing of this action made: ${someOf(extra)}`);

  const script = found.files.get('job.sh');
  const launched = manifest.launches.at(-1)?.jobScript;
  if (script === undefined) to.missing.push('job.sh');
  else if (script === launched) {
    if (script !== OUR_JOB_SCRIPT) to.notes.push('job.sh is of another version of the action, the one that made the last launch');
  } else if (script === OUR_JOB_SCRIPT) {
    to.notes.push('job.sh is of this version of the action and not of that of the last launch; a launch that was taken back leaves it so');
  } else to.changed.push('job.sh is not the one that the last launch has staged');
}

function someOf(paths: readonly string[]): string {
  return said({ count: paths.length, names: paths.slice(0, 10) });
}

/** The listing that was recorded is believed when its digest is the one that git gives. */
function compareCode(target: AuditTarget, found: Found, codes: ReadonlyMap<string, StagedCode>, code: Code, to: Findings): void {
  const { copy } = found;
  if (copy.kind === 'not looked at') {
    to.missing.push('the staged code');
    return;
  }
  const own = `${target.experimentDirectory}/code`;
  const staged = codes.get(copy.code) ?? { recorded: '', actual: '', bad: NONE };
  if (staged.recorded !== '' && staged.recorded !== code.digest) {
    to.changed.push(`the listing ${copy.code}.sha256 is not that of the commit's tree`);
  }
  if (staged.actual !== '' && staged.actual !== code.digest) {
    const which = staged.recorded === code.digest && staged.bad.count > 0 ? `: ${said(staged.bad)}` : '';
    to.changed.push(`the staged code ${copy.code} is not the commit's tree${which}`);
  }
  const believed = staged.recorded === '' ? staged.actual : staged.recorded;
  if (copy.kind === 'missing') to.missing.push(`the experiment's own copy of the code, ${own}`);
  else if (copy.kind === 'unknown') to.missing.push(`the staged code ${copy.code} and its listing, with which ${own} would be compared`);
  else if (believed !== code.digest) to.missing.push(`a listing of the commit's tree, with which ${own} would be compared`);
  else {
    if (copy.changed.count > 0) to.changed.push(`${own}, where its jobs start, is not the commit's tree: ${said(copy.changed)}`);
    if (copy.gone.count > 0) to.changed.push(`${own} lacks files of the commit: ${said(copy.gone)}`);
    if (copy.added.count > 0) {
      to.notes.push(`${count(copy.added.count, 'file')} beside the commit's in ${own}, as jobs may make them: ${said(copy.added)}`);
    }
    if (staged.actual === '') to.notes.push(`the shared copy ${copy.code} is gone; the experiment's own was compared with its listing`);
    if (staged.recorded === '') to.notes.push(`the listing ${copy.code}.sha256 is gone; it was made anew`);
  }
}

function accountsOf(found: Found, manifest: Manifest | undefined, endOf: ReadonlyMap<string, number>): CellAccount[] {
  const checkpoints = checkpointsOf(found.checkpoints, manifest?.checkpoints.prefix);
  const cells = new Set([
    ...(manifest?.cells.map((cell) => cell.cell) ?? []),
    ...found.journals.keys(),
    ...found.heads.keys(),
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
        head: found.heads.get(cell),
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
    line.event === 'submitted' && line.launch === launch.launch && line.step !== undefined ? [{ step: line.step, job: line.job }] : [],
  );
  const ran = accounts.flatMap(({ lines }) => lines.filter((line) => line.launch === launch.launch));
  const jobs = new Map((submitted.length > 0 ? submitted : ran).map(({ step, job }) => [job, { step, job }]));
  const { actor, runUrl, at } = launch;
  const pull: unknown = launch.pullRequest;
  return {
    ...{ launch: launch.launch, actor, runUrl, at },
    command: String(launch.command),
    pullRequest: typeof pull === 'number' ? pull : undefined,
    steps: launch.steps.map(Number),
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
      step: task.step,
      job: task.job,
      task: task.task,
      restart: task.restart,
      host: task.host,
      started: timeText(task.started),
      ended: task.ended === undefined ? undefined : timeText(task.ended),
      outcome: task.outcome,
      resumeStep: task.resumeStep,
      checkpoints: foldRuns(checkpoints.map((checkpoint) => checkpoint.number)),
      count: checkpoints.length,
    })),
    unaccounted: account.unaccounted.map(({ checkpoint, why }) => ({ name: checkpoint.name, number: checkpoint.number, why })),
  };
}
