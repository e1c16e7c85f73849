import { messageOf, Problem } from '../../base/problem.ts';
import { parseJobName } from '../../chain/job-name.ts';
import { type JournalLine, parseJournal, parseObject } from '../../chain/journal.ts';
import { ownerOfRecord } from '../../chain/layout.ts';
import { type LedgerLine, parseLedger } from '../../chain/ledger.ts';
import { type ExperimentSummary, type Manifest, parseManifest, parseSummary } from '../../chain/manifest.ts';
import {
  ACCOUNTING_FORMAT,
  parseAccountingRow,
  parseQueueRow,
  QUEUE_FORMAT,
  type QueueRow,
  type SlurmRows,
} from '../../chain/slurm-rows.ts';
import type { CellOnDisk } from '../../chain/status.ts';
import { checkpointArguments } from '../../chain/task.ts';
import type { Answers, AnswerTable } from '../answers.ts';
import type { Login } from '../login.ts';
import { call, FRAME_ANSWERS, type Program, runChecked } from '../shell.ts';

const ANSWERS = {
  ...FRAME_ANSWERS,
  workdir: ['path'],
  now: ['seconds'],
  queue: ['row'],
  'queue-silent': ['message'],
  summary: ['file', 'text'],
  recent: ['id'],
  place: ['path'],
  manifest: ['id', 'file', 'text'],
  ledger: ['id', 'line'],
  journal: ['id', 'cell', 'line'],
  cell: ['id', 'cell', 'newest', 'newestStep', 'savedAt', 'completeFile'],
  accounting: ['row'],
  'accounting-silent': ['message'],
  user: ['uid', 'name'],
  log: ['file', 'text'],
  distrusted: ['id', 'what'],
} as const satisfies AnswerTable;

export const SURVEY: Program<typeof ANSWERS> = {
  parts: ['layout', 'checkpoints', 'survey'],
  answers: ANSWERS,
};

/** The experiments under a workdir, and the queue of the account. */
export interface Listing {
  /** Expanded. */
  readonly workdir: string;
  readonly summaries: readonly ExperimentSummary[];
  /** Records that cannot be read. */
  readonly bad: readonly BadRecord[];
  /** Ids of the experiments with jobs in the queue. */
  readonly queued: ReadonlySet<string>;
  /** Ids of the experiments whose logs changed lately. */
  readonly recent: ReadonlySet<string>;
  /** undefined when squeue did not answer. */
  readonly queue: readonly QueueRow[] | undefined;
  /** Seconds since 1970, by the cluster's clock. */
  readonly now: number;
  /** Records that are links or belong to somebody else, and were not read; one line each. */
  readonly distrusted: readonly string[];
}

/** @param minutes how old a log may be to count as recent */
export async function listExperiments(login: Login, minutes: number): Promise<Listing> {
  const answers = await runChecked(login, SURVEY, {
    purpose: 'listing the experiments',
    calls: [call('list_experiments', login.cluster.workdir, String(minutes), QUEUE_FORMAT)],
    deadlineSeconds: 300,
  });
  const rows = answers.all('queue').flatMap(({ row }) => parseQueueRow(row) ?? []);
  return {
    workdir: answers.one('workdir').path,
    ...summariesOf(answers, login.cluster.name),
    queued: new Set(rows.flatMap((row) => parseJobName(row.name)?.experimentId ?? [])),
    recent: new Set(answers.all('recent').map(({ id }) => id)),
    queue: answers.has('queue-silent') ? undefined : rows,
    now: Number(answers.one('now').seconds),
    distrusted: distrustedIn(answers),
  };
}

function distrustedIn(answers: Answers<typeof ANSWERS>): string[] {
  return answers.all('distrusted').map(({ what }) => what);
}

/** A record that is not as any launch writes it. */
export interface BadRecord {
  /** Name of the experiment's directory. */
  readonly id: string;
  /** What is wrong with it, and where it is. */
  readonly problem: Problem;
  /** What it says about where it belongs, as far as it says anything. Good only for deciding whom to tell. */
  readonly repository: string | undefined;
  readonly pullRequests: readonly unknown[];
}

function summariesOf(answers: Answers<typeof ANSWERS>, clusterName: string): Pick<Listing, 'summaries' | 'bad'> {
  const summaries: ExperimentSummary[] = [];
  const bad: BadRecord[] = [];
  for (const { file, text } of answers.all('summary')) {
    const id = ownerOfRecord(file);
    try {
      const summary = parseSummary(text, `${file} on ${clusterName}`);
      if (summary.id !== id) throw new Problem(`${file} on ${clusterName} belongs to ${summary.id}, not to ${id}`);
      summaries.push(summary);
    } catch (error) {
      const { repository, pullRequests } = parseObject(text);
      bad.push({
        id,
        problem: error instanceof Problem ? error : new Problem(messageOf(error)),
        repository: typeof repository === 'string' ? repository : undefined,
        pullRequests: Array.isArray(pullRequests) ? pullRequests : [],
      });
    }
  }
  return { summaries, bad };
}

/** Experiments by the records beside their checkpoints, which outlive a workdir that was purged. */
export interface SavedExperiments {
  /** The paths that were asked for, expanded, in the same order; '' for one that cannot be expanded. */
  readonly places: readonly string[];
  readonly summaries: readonly ExperimentSummary[];
  readonly bad: readonly BadRecord[];
  /** As in Listing. */
  readonly distrusted: readonly string[];
}

/** @param paths each is a save.path, or something inside one; may start with ~/ or $NAME/ */
export async function listSaved(login: Login, paths: readonly string[]): Promise<SavedExperiments> {
  const answers = await runChecked(login, SURVEY, {
    purpose: 'listing the records beside checkpoints',
    calls: [call('list_saved', ...paths)],
    deadlineSeconds: 300,
  });
  return {
    places: answers.all('place').map(({ path }) => path),
    ...summariesOf(answers, login.cluster.name),
    distrusted: distrustedIn(answers),
  };
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
  /** Why an experiment that was asked for is not among them, one line each. */
  readonly missing: readonly string[];
  readonly accounting: SlurmRows['accounting'];
}

/** What look_at needs to know about an experiment. */
export type SurveyTarget = Pick<ExperimentSummary, 'id' | 'save' | 'checkpoints'>;

/** Looks at experiments: one round trip, and one call of sacct. */
export async function survey(login: Login, targets: readonly SurveyTarget[]): Promise<Survey> {
  const answers = await runChecked(login, SURVEY, {
    purpose: 'looking at experiments',
    calls: [
      call('use_workdir', login.cluster.workdir),
      ...targets.map(({ id, save, checkpoints }) => call('look_at', id, save, ...checkpointArguments(checkpoints))),
      call('ask_accounting', ACCOUNTING_FORMAT),
    ],
    deadlineSeconds: 600,
  });
  const experiments: Surveyed[] = [];
  const missing = answers.all('distrusted').map(({ id, what }) => `${id}: ${what}`);
  for (const one of byExperiment(answers, targets)) {
    try {
      experiments.push(surveyedOf(one, login.cluster.name));
    } catch (error) {
      missing.push(messageOf(error));
    }
  }
  const users = new Map(answers.all('user').map(({ uid, name }) => [uid, name]));
  const rows = answers.all('accounting').flatMap(({ row }) => parseAccountingRow(row, users) ?? []);
  return { experiments, missing, accounting: answers.has('accounting-silent') ? undefined : rows };
}

/** The answers about one experiment. */
interface ExperimentAnswers {
  readonly id: string;
  manifest: { readonly file: string; readonly text: string } | undefined;
  readonly ledger: string[];
  readonly journals: Map<number, string[]>;
  readonly cells: Map<number, CellOnDisk>;
}

function byExperiment(answers: Answers<typeof ANSWERS>, targets: readonly SurveyTarget[]): ExperimentAnswers[] {
  const found = new Map<string, ExperimentAnswers>(
    targets.map(({ id }) => [id, { id, manifest: undefined, ledger: [], journals: new Map(), cells: new Map() }]),
  );
  for (const { id, file, text } of answers.all('manifest')) {
    const one = found.get(id);
    if (one !== undefined) one.manifest = { file, text };
  }
  for (const { id, line } of answers.all('ledger')) found.get(id)?.ledger.push(line);
  for (const { id, cell, line } of answers.all('journal')) {
    if (!isCellNumber(cell)) continue;
    const journals = found.get(id)?.journals;
    const lines = journals?.get(Number(cell)) ?? [];
    lines.push(line);
    journals?.set(Number(cell), lines);
  }
  for (const { id, cell, newest, newestStep, savedAt, completeFile } of answers.all('cell')) {
    if (!isCellNumber(cell)) continue;
    found.get(id)?.cells.set(Number(cell), {
      newest: newest || undefined,
      newestStep: newestStep === '' ? undefined : Number(newestStep),
      savedAt: savedAt === '' ? undefined : Number(savedAt),
      completeFile: completeFile !== '',
    });
  }
  return [...found.values()];
}

/** The name of a journal may be anything. */
function isCellNumber(text: string): boolean {
  return /^(0|[1-9]\d{0,6})$/.test(text);
}

function surveyedOf({ id, manifest, ledger, journals, cells }: ExperimentAnswers, clusterName: string): Surveyed {
  if (manifest === undefined) throw new Problem(`there is no manifest of ${id} on ${clusterName}`);
  const where = `${manifest.file} on ${clusterName}`;
  const found = parseManifest(manifest.text, where);
  if (found.id !== id) throw new Problem(`${where} belongs to ${found.id}, not to ${id}`);
  return {
    manifest: found,
    ledger: parseLedger(ledger),
    journals: new Map([...journals].map(([cell, lines]) => [cell, parseJournal(lines)])),
    cells,
  };
}

/** The last bytes of logs of an experiment by file name, without the secrets that its jobs were given. */
export async function tailLogs(login: Login, id: string, files: readonly string[], bytes: number): Promise<ReadonlyMap<string, string>> {
  const answers = await runChecked(login, SURVEY, {
    purpose: 'reading logs',
    calls: [call('use_workdir', login.cluster.workdir), call('tail_logs', id, String(bytes), ...files)],
    deadlineSeconds: 120,
  });
  // The cut may fall inside a character.
  return new Map(answers.all('log').map(({ file, text }) => [file, text.replace(/^\uFFFD+/, '')]));
}
