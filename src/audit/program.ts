// What src/runtime/audit.sh says about the experiments on a cluster.
import { some } from '../base/text.ts';
import type { ExperimentSummary } from '../chain/manifest.ts';
import type { Answers, AnswerTable } from '../cluster/answers.ts';
import type { Login } from '../cluster/login.ts';
import { call, FRAME_ANSWERS, type Program, runChecked } from '../cluster/shell.ts';
import type { CheckpointEntry } from './attribution.ts';

const ANSWERS = {
  ...FRAME_ANSWERS,
  experiment: ['index'],
  'save-present': ['index'],
  'directory-present': ['index'],
  checkpoints: ['index', 'rows…'],
  released: ['index', 'pairs…'],
  journal: ['index', 'cell', 'end', 'lines…'],
  ledger: ['index', 'lines…'],
  manifest: ['index', 'file', 'text'],
  summary: ['index', 'file', 'text'],
  files: ['index', 'lines…'],
  code: ['dir', 'recorded', 'actual', 'count', 'names…'],
  copy: ['index', 'dir'],
  'copy-changed': ['index', 'count', 'names…'],
  'copy-gone': ['index', 'count', 'names…'],
  'copy-added': ['index', 'count', 'names…'],
  'copy-missing': ['index', 'dir'],
  'copy-unknown': ['index', 'dir'],
  distrusted: ['index', 'what'],
  'task-end': ['taskId', 'seconds'],
  cost: ['files', 'bytes', 'nanoseconds'],
} as const satisfies AnswerTable;

export const AUDIT: Program<typeof ANSWERS> = { parts: ['layout', 'audit'], answers: ANSWERS };

/** An experiment to audit. Its directories are expanded and absolute, and need not exist. */
export interface AuditTarget {
  readonly id: string;
  /** `{workdir}/experiments/{id}`; undefined if it is not known. */
  readonly experimentDirectory: string | undefined;
  /** `{save.path}/{id}` */
  readonly saveDirectory: string;
  /** Name of the staged code, and how to recognise a complete checkpoint, according to the listing. */
  readonly summary: Pick<ExperimentSummary, 'codeName' | 'checkpoints'>;
}

/** What an audit cost. */
export interface AuditCost {
  readonly experiments: number;
  readonly filesHashed: number;
  readonly bytesHashed: number;
  /** Seconds of the program on the login node. */
  readonly clusterSeconds: number;
  /** Seconds in all, with git. */
  readonly seconds: number;
}

/** Paths: how many there are, and the first few. */
export interface PathList {
  readonly count: number;
  readonly names: readonly string[];
}

/** The paths in words. */
export function pathsText({ count, names }: PathList): string {
  return some(names, names.length, count);
}

/** The copy of a commit's code that its experiments share. */
export interface StagedCode {
  /** SHA-256 of the listing that was recorded when the code was staged; empty if it is gone. */
  readonly recorded: string;
  /** SHA-256 of the listing of now; empty if the code is gone. */
  readonly actual: string;
  /** Paths that differ between the two. */
  readonly bad: PathList;
}

/** The experiment's own copy of the code, compared with the listing of the staged code. */
export type CodeCopy =
  | { readonly kind: 'not-examined' }
  | { readonly kind: 'missing'; readonly dir: string }
  /** There is nothing to compare it with. */
  | { readonly kind: 'unknown'; readonly dir: string }
  | { readonly kind: 'compared'; readonly dir: string; readonly changed: PathList; readonly gone: PathList; readonly added: PathList };

interface RecordFile {
  readonly file: string;
  readonly text: string;
}

/** What is on the cluster of one experiment. */
export interface AuditFacts {
  readonly savePresent: boolean;
  readonly directoryPresent: boolean;
  readonly manifests: readonly RecordFile[];
  readonly summaries: readonly RecordFile[];
  readonly ledger: readonly string[] | undefined;
  /** cut: the last line has no line end. */
  readonly journals: ReadonlyMap<number, { readonly lines: readonly string[]; readonly cut: boolean }>;
  /** Cells whose journal exists and may not be read. */
  readonly unreadable: ReadonlySet<number>;
  /** Records that are links or belong to somebody else, and were not read; one line each. */
  readonly distrusted: readonly string[];
  /** Checksum of the journal's last line when the last task released the cell. */
  readonly releasedChecksums: ReadonlyMap<number, string>;
  /** Rows for checkpointsOf. */
  readonly checkpoints: readonly string[];
  /** SHA-256 by path, relative to the experiment's directory. */
  readonly files: ReadonlyMap<string, string>;
  readonly copy: CodeCopy;
}

/** What is on the cluster of all experiments of an audit. */
export interface ClusterFacts {
  readonly experiments: readonly AuditFacts[];
  readonly codes: ReadonlyMap<string, StagedCode>;
  /** When a task without an end stopped, according to Slurm's accounting: seconds since 1970 by task id. */
  readonly taskEnds: ReadonlyMap<string, number>;
  readonly cost: Pick<AuditCost, 'filesHashed' | 'bytesHashed' | 'clusterSeconds'>;
}

/** Examines experiments in one round trip. @param onExamined called after each. @throws Problem when the answer is not complete */
export async function examine(login: Login, targets: readonly AuditTarget[], onExamined: () => void): Promise<ClusterFacts> {
  const answers = await runChecked(
    login,
    AUDIT,
    {
      purpose: 'auditing',
      calls: [
        'audit_begin',
        ...targets.map(({ experimentDirectory = '', saveDirectory, summary }, index) =>
          call('audit_experiment', String(index), experimentDirectory, saveDirectory, summary.codeName, summary.checkpoints.complete),
        ),
        'audit_end',
      ],
      deadlineSeconds: Math.min(4 * 3600, 900 + 20 * targets.length),
    },
    ({ key }) => {
      if (key === 'experiment') onExamined();
    },
  );
  return factsOf(answers, targets.length);
}

/** @param expected the number of experiments. @throws Error when one of them has no complete answer */
export function factsOf(answers: Answers<typeof ANSWERS>, expected: number): ClusterFacts {
  const examined = new Set(answers.all('experiment').map(({ index }) => index));
  if (examined.size !== expected) throw new Error(`the cluster examined ${examined.size} of ${expected} experiments`);
  const grouped = groupAnswers(answers);
  const { files, bytes, nanoseconds } = answers.one('cost');
  return {
    experiments: Array.from({ length: expected }, (_, index) => experimentFacts(grouped, String(index))),
    codes: new Map(
      answers.all('code').map(({ dir, recorded, actual, count, names }) => [dir, { recorded, actual, bad: pathList({ count, names }) }]),
    ),
    taskEnds: new Map(
      answers.all('task-end').flatMap(({ taskId, seconds }) => (/^[1-9]\d{0,10}$/.test(seconds) ? [[taskId, Number(seconds)]] : [])),
    ),
    cost: { filesHashed: Number(files), bytesHashed: Number(bytes), clusterSeconds: Number(nanoseconds) / 1e9 },
  };
}

/** The answers by key and index, so that a thousand experiments do not search all answers a thousand times. */
function groupAnswers(answers: Answers<typeof ANSWERS>) {
  const by = <T extends { readonly index: string }>(all: readonly T[]) => Map.groupBy(all, ({ index }) => index);
  return {
    save: by(answers.all('save-present')),
    directory: by(answers.all('directory-present')),
    checkpoints: by(answers.all('checkpoints')),
    released: by(answers.all('released')),
    journal: by(answers.all('journal')),
    ledger: by(answers.all('ledger')),
    manifest: by(answers.all('manifest')),
    summary: by(answers.all('summary')),
    files: by(answers.all('files')),
    copy: by(answers.all('copy')),
    changed: by(answers.all('copy-changed')),
    gone: by(answers.all('copy-gone')),
    added: by(answers.all('copy-added')),
    missing: by(answers.all('copy-missing')),
    unknown: by(answers.all('copy-unknown')),
    distrusted: by(answers.all('distrusted')),
  };
}

function experimentFacts(grouped: ReturnType<typeof groupAnswers>, index: string): AuditFacts {
  const journals = grouped.journal.get(index) ?? [];
  const ledger = (grouped.ledger.get(index) ?? []).flatMap(({ lines }) => lines);
  const records = (all: readonly RecordFile[]) => all.map(({ file, text }) => ({ file, text }));
  return {
    savePresent: grouped.save.has(index),
    directoryPresent: grouped.directory.has(index),
    manifests: records(grouped.manifest.get(index) ?? []),
    summaries: records(grouped.summary.get(index) ?? []),
    ledger: ledger.length > 0 ? ledger : undefined,
    journals: new Map(
      journals.filter(({ end }) => end !== 'unreadable').map(({ cell, end, lines }) => [Number(cell), { lines, cut: end === 'half' }]),
    ),
    unreadable: new Set(journals.filter(({ end }) => end === 'unreadable').map(({ cell }) => Number(cell))),
    distrusted: (grouped.distrusted.get(index) ?? []).map(({ what }) => what),
    releasedChecksums: new Map(
      (grouped.released.get(index) ?? []).flatMap(({ pairs }) =>
        pairs.map((pair) => [Number(pair.split(' ')[0]), pair.split(' ')[1] ?? ''] as const),
      ),
    ),
    checkpoints: (grouped.checkpoints.get(index) ?? []).flatMap(({ rows }) => rows),
    files: new Map((grouped.files.get(index) ?? []).flatMap(({ lines }) => lines.flatMap(sumLine))),
    copy: copyOf(grouped, index),
  };
}

function copyOf(grouped: ReturnType<typeof groupAnswers>, index: string): CodeCopy {
  const [missing] = grouped.missing.get(index) ?? [];
  if (missing !== undefined) return { kind: 'missing', dir: missing.dir };
  const [unknown] = grouped.unknown.get(index) ?? [];
  if (unknown !== undefined) return { kind: 'unknown', dir: unknown.dir };
  const [copy] = grouped.copy.get(index) ?? [];
  const [changed, gone, added] = [grouped.changed, grouped.gone, grouped.added].map((all) => all.get(index)?.[0]);
  if (copy === undefined || changed === undefined || gone === undefined || added === undefined) return { kind: 'not-examined' };
  return { kind: 'compared', dir: copy.dir, changed: pathList(changed), gone: pathList(gone), added: pathList(added) };
}

/** Path and SHA-256 on a line of sha256sum. */
function sumLine(line: string): (readonly [string, string])[] {
  const [, digest, path] = /^([0-9a-f]{64}) [ *](.*)$/.exec(line) ?? [];
  return digest === undefined || path === undefined ? [] : [[path, digest]];
}

function pathList({ count, names }: { readonly count: string; readonly names: readonly string[] }): PathList {
  return { count: Number(count), names: names.map((name) => name.replace(/^\.\//, '')) };
}

/**
 * The checkpoints of each cell, from rows `mtime ctime STATE CELL/NAME` of audit.sh.
 * @param prefix of their names; without one, every directory whose name ends in a number counts
 */
export function checkpointsOf(rows: readonly string[], prefix: string | undefined): Map<number, CheckpointEntry[]> {
  const cells = new Map<number, CheckpointEntry[]>();
  for (const row of rows) {
    const match = /^(\d{1,11})(?:\.\d+)? (\d{1,11})(?:\.\d+)? ([epw]) (\d{1,7})\/(.*)$/s.exec(row);
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
