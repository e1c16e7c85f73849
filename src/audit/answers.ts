// What the cluster says of experiments that are audited, as src/runtime/audit.sh answers it.

import type { Answer } from '../cluster/shell.ts';
import type { CheckpointEntry } from './attribution.ts';

/** An experiment to audit, its places expanded and absolute. */
export interface AuditTarget {
  readonly id: string;
  /** `{workdir}/experiments/{id}`; undefined where nobody knows it. Need not exist. */
  readonly experimentDirectory: string | undefined;
  /** `{save.path}/{id}`; need not exist. */
  readonly saveDirectory: string;
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

/** Paths, the first few of them by name. */
export interface Listed {
  readonly count: number;
  readonly names: readonly string[];
}

export interface StagedCode {
  /** SHA-256 of the listing that was made when it was staged; empty when that is gone. */
  readonly recorded: string;
  /** SHA-256 of the listing of now; empty when the code is gone. */
  readonly actual: string;
  readonly bad: Listed;
}

export interface AuditFacts {
  readonly saveThere: boolean;
  readonly directoryThere: boolean;
  readonly manifests: readonly { readonly file: string; readonly text: string }[];
  readonly ledger: readonly string[] | undefined;
  readonly journals: ReadonlyMap<number, { readonly lines: readonly string[]; readonly cut: boolean }>;
  /** Cells whose journal is there and may not be read. */
  readonly unreadable: ReadonlySet<number>;
  readonly releasedChecksums: ReadonlyMap<number, string>;
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

export const NONE: Listed = { count: 0, names: [] };
export const NO_FACTS: AuditFacts = {
  saveThere: false,
  directoryThere: false,
  manifests: [],
  ledger: undefined,
  journals: new Map(),
  unreadable: new Set(),
  releasedChecksums: new Map(),
  checkpoints: [],
  files: new Map(),
  copy: { kind: 'not looked at' },
};

export interface Answers {
  readonly found: readonly AuditFacts[];
  readonly codes: ReadonlyMap<string, StagedCode>;
  readonly endOf: ReadonlyMap<string, number>;
  readonly cost: Pick<AuditCost, 'filesHashed' | 'bytesHashed' | 'clusterSeconds'>;
}

export function readAnswers(answers: readonly Answer[], expected: number): Answers {
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

function foundOf(answers: readonly Answer[]): AuditFacts {
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
    releasedChecksums: new Map(
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

export function joinNames({ count: all, names }: Listed): string {
  return `${names.join(', ')}${all > names.length ? ` and ${all - names.length} more` : ''}`;
}

/** Directories whose name is the prefix and a number; any that ends in a number where nobody knows the prefix. */
export function checkpointsOf(rows: readonly string[], prefix: string | undefined): Map<number, CheckpointEntry[]> {
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
