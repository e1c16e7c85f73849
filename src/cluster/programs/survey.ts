import { messageOf, Problem } from '../../base/problem.ts';
import { type JournalLine, parseJournal } from '../../chain/journal.ts';
import { type LedgerLine, parseLedger } from '../../chain/ledger.ts';
import { type Manifest, parseManifest } from '../../chain/manifest.ts';
import type { AccountingRow, QueueRow } from '../../chain/state.ts';
import type { Cluster } from '../../experiment/repo-config.ts';
import type { Connection } from '../connection.ts';
import { type Answer, call, runChecked } from '../shell.ts';

/** What every experiment under a workdir says of itself at first look. */
export type ExperimentSummary = Pick<
  Manifest,
  'id' | 'name' | 'commit' | 'path' | 'attempt' | 'overrides' | 'chain' | 'subject' | 'repository' | 'pullRequests' | 'cluster' | 'save'
>;

/** The experiments under a workdir, and the queue of the account. */
export interface Listing {
  /** Expanded. */
  readonly workdir: string;
  readonly summaries: readonly ExperimentSummary[];
  /** Ids of those with jobs in the queue. */
  readonly queued: ReadonlySet<string>;
  /** Ids of those whose logs were written to lately. */
  readonly recent: ReadonlySet<string>;
  /** undefined when squeue did not answer; an empty list then means nothing. */
  readonly queue: readonly QueueRow[] | undefined;
  /** Seconds since 1970 by the cluster's clock. */
  readonly now: number;
}

/** How far a cell is, by what is in its directory. */
export interface CellOnDisk {
  readonly newest: string | undefined;
  readonly newestStep: number | undefined;
  /** Seconds since 1970. */
  readonly savedAt: number | undefined;
  readonly completeFile: boolean;
}

/** Everything on the cluster about one experiment. */
export interface Surveyed {
  readonly manifest: Manifest;
  readonly ledger: readonly LedgerLine[];
  readonly journals: ReadonlyMap<number, readonly JournalLine[]>;
  readonly cells: ReadonlyMap<number, CellOnDisk>;
}

export interface Survey {
  readonly experiments: readonly Surveyed[];
  /** Why what was asked for is not among them, one line each. */
  readonly missing: readonly string[];
  /** undefined when sacct did not answer, or keeps no records. */
  readonly accounting: readonly AccountingRow[] | undefined;
}

/** @param minutes what counts as lately */
export async function listExperiments(connection: Connection, cluster: Cluster, minutes: number): Promise<Listing> {
  const answers = await runChecked(connection, {
    purpose: 'listing the experiments',
    parts: ['checkpoints', 'survey'],
    prelude: cluster.prelude,
    calls: [call('list_experiments', cluster.workdir, String(minutes))],
    deadlineSeconds: 300,
  });
  const all = (key: string) => answers.filter((answer) => answer.key === key).map((answer) => answer.values);
  const rows = all('queue').map(([row = '']) => queueRow(row));
  const summaries = all('head').flatMap(([, text = '']) => parseSummary(text) ?? []);
  return {
    workdir: all('workdir')[0]?.[0] ?? '',
    summaries,
    queued: new Set(rows.map((row) => row.name.replace(/\.l\d+-[0-9a-f]+\.s\d+(\.c\d+)?$/, ''))),
    recent: new Set(all('recent').map(([id = '']) => id)),
    queue: all('queue-unknown').length > 0 ? undefined : rows,
    now: Number(all('now')[0]?.[0] ?? 0),
  };
}

/** Experiments by the records beside their checkpoints, which outlive a workdir that was purged. */
export interface SavedManifests {
  /** The paths that were asked for, expanded. */
  readonly places: readonly string[];
  readonly summaries: readonly ExperimentSummary[];
}

/** @param paths each a save.path, an experiment's directory under one, or anything inside that; may start with ~/ or $NAME/ */
export async function listSavedManifests(connection: Connection, cluster: Cluster, paths: readonly string[]): Promise<SavedManifests> {
  const answers = await runChecked(connection, {
    purpose: 'listing the records beside checkpoints',
    parts: ['checkpoints', 'survey'],
    prelude: cluster.prelude,
    calls: [call('list_records', ...paths)],
    deadlineSeconds: 300,
  });
  const values = (key: string) => answers.filter((answer) => answer.key === key).map((answer) => answer.values);
  return {
    places: values('place').map(([path = '']) => path),
    summaries: values('head').flatMap(([, text = '']) => parseSummary(text) ?? []),
  };
}

/** @param ids each with the path of the manifest beside its checkpoints, or '' */
export async function survey(connection: Connection, cluster: Cluster, ids: ReadonlyMap<string, string>): Promise<Survey> {
  const answers = await runChecked(connection, {
    purpose: 'looking at experiments',
    parts: ['checkpoints', 'survey'],
    prelude: cluster.prelude,
    calls: [
      call('expand_path', 'workdir', cluster.workdir),
      'WORKDIR=$EXPANDED',
      ...[...ids].map(([id, copy]) => call('look_at', id, copy)),
      'ask_accounting',
    ],
    deadlineSeconds: 600,
  });
  const groups: { id: string; answers: Answer[] }[] = [];
  for (const answer of answers) {
    if (answer.key === 'experiment') groups.push({ id: answer.values[0] ?? '', answers: [] });
    else groups.at(-1)?.answers.push(answer);
  }
  const experiments: Surveyed[] = [];
  const missing: string[] = [];
  for (const group of groups) {
    try {
      experiments.push(surveyedOf(group.id, group.answers, cluster));
    } catch (error) {
      missing.push(messageOf(error));
    }
  }
  const users = new Map(answers.filter((answer) => answer.key === 'user').map(({ values: [uid = '', name = ''] }) => [uid, name]));
  const accounting = answers.filter((answer) => answer.key === 'accounting').map(({ values: [row = ''] }) => accountRow(row, users));
  return { experiments, missing, accounting: answers.some((answer) => answer.key === 'accounting-unknown') ? undefined : accounting };
}

/** The last bytes of some logs of an experiment by file name, without the secrets its jobs were given. */
export async function tailLogs(
  connection: Connection,
  cluster: Cluster,
  id: string,
  files: readonly string[],
  bytes: number,
): Promise<ReadonlyMap<string, string>> {
  const answers = await runChecked(connection, {
    purpose: 'reading logs',
    parts: ['checkpoints', 'survey'],
    prelude: cluster.prelude,
    calls: [call('expand_path', 'workdir', cluster.workdir), 'WORKDIR=$EXPANDED', call('tail_logs', id, String(bytes), ...files)],
    deadlineSeconds: 120,
  });
  return new Map(
    answers.filter((answer) => answer.key === 'log').map(({ values: [file = '', text = ''] }) => [file, text.replace(/^\uFFFD+/, '')]),
  );
}

function surveyedOf(id: string, answers: readonly Answer[], cluster: Cluster): Surveyed {
  const all = (key: string) => answers.filter((answer) => answer.key === key).map((answer) => answer.values);
  const [file, text] = all('manifest')[0] ?? [];
  if (file === undefined || text === undefined) throw new Problem(`there is no manifest of ${id} on ${cluster.name}`);
  const journals = new Map<number, string[]>();
  for (const [cell = '', line = ''] of all('journal')) journals.set(Number(cell), [...(journals.get(Number(cell)) ?? []), line]);
  return {
    manifest: parseManifest(text, `${file} on ${cluster.name}`),
    ledger: parseLedger(all('ledger').map(([line = '']) => line)),
    journals: new Map([...journals].map(([cell, lines]) => [cell, parseJournal(lines)])),
    cells: new Map(
      all('cell').map(([cell = '', newest = '', step = '', savedAt = '', complete = '']) => [
        Number(cell),
        {
          newest: newest || undefined,
          newestStep: step === '' ? undefined : Number(step),
          savedAt: savedAt === '' ? undefined : Number(savedAt),
          completeFile: complete !== '',
        },
      ]),
    ),
  };
}

function parseSummary(text: string): ExperimentSummary | undefined {
  try {
    const head = JSON.parse(text) as Partial<ExperimentSummary> | null;
    return typeof head?.id === 'string' &&
      typeof head.commit === 'string' &&
      typeof head.name === 'string' &&
      Array.isArray(head.pullRequests) &&
      Array.isArray(head.overrides) &&
      Array.isArray(head.chain)
      ? (head as ExperimentSummary)
      : undefined;
  } catch {
    return undefined; // a closer look at this one says what is wrong with it
  }
}

function queueRow(row: string): QueueRow {
  const [job = '', cells = '', state = '', reason = '', start = '', node = '', dependency = '', name = ''] = row.split('|');
  return { jobId: job, cells: tasksOf(cells), state, reason, start: secondsOf(start), node, dependency, name };
}

function accountRow(row: string, users: ReadonlyMap<string, string>): AccountingRow {
  const [id = '', name = '', state = '', exit = '', start = '', end = '', node = ''] = row.split('|');
  const [job = '', cells = ''] = id.split('_');
  const by = /^CANCELLED by (\d+)/.exec(state)?.[1];
  return {
    jobId: job,
    cells: tasksOf(cells.replace(/[[\]]/g, '')),
    name,
    state: state.replace(/ by \d+$/, ''),
    by: by === undefined ? undefined : users.get(by) || `user ${by}`,
    exit,
    start: secondsOf(start),
    end: secondsOf(end),
    node,
  };
}

function secondsOf(text: string): number | undefined {
  return /^\d+$/.test(text) && text !== '0' ? Number(text) : undefined;
}

/** Task numbers of `3`, `0-7%4`, `1,5-6`, `0-10:2` (squeue(1), %K; sbatch(1), --array). */
export function tasksOf(text: string): number[] {
  return text
    .replace(/%\d+$/, '')
    .split(',')
    .flatMap((part) => {
      const [, from, to = from, stride = '1'] = /^(\d+)(?:-(\d+))?(?::(\d+))?$/.exec(part.trim()) ?? [];
      if (from === undefined) return [];
      const length = Math.floor((Number(to) - Number(from)) / Number(stride)) + 1;
      return Array.from({ length: Math.min(Math.max(length, 0), 5_000_000) }, (_, index) => Number(from) + index * Number(stride));
    });
}
