import { createHash } from 'node:crypto';
import { greatest } from '../base/numbers.ts';
import { some } from '../base/text.ts';
import { type EndLine, type JournalLine, parseJournalLine, type StartLine } from '../chain/journal.ts';
import { above, contains, type NumberRange, parseRanges } from './ranges.ts';

/** A checkpoint directory on the cluster. */
export interface CheckpointEntry {
  readonly name: string;
  readonly number: number;
  /** It is not empty, and has the file that save.complete names. */
  readonly complete: boolean;
  /** When an entry of the directory last changed (mtime). Seconds since 1970. */
  readonly modified: number;
  /** When the directory was last written, renamed or got other modes (ctime; no program can set it). Seconds since 1970. */
  readonly touched: number;
}

/** The records of one cell, and its checkpoints. */
export interface CellRecord {
  readonly cell: number;
  /** Lines of its journal without line ends; undefined if there is no journal. */
  readonly journal: readonly string[] | undefined;
  /** The last line has no line end: a task is writing it, or was killed meanwhile. */
  readonly cut: boolean;
  /** Checksum of the last journal line, which the last task saved in the lock; undefined if no lock has one. */
  readonly releasedChecksum: string | undefined;
  readonly checkpoints: readonly CheckpointEntry[];
}

/** A task that ran, from its start to its end or to the next line after it. */
export interface RecordedTask {
  readonly launch: number;
  readonly jobNumber: number;
  readonly jobId: string;
  readonly taskId: string;
  readonly restart: number;
  readonly host: string;
  /** Seconds since 1970. */
  readonly started: number;
  /** undefined if it has no end on record, and no line follows it. */
  readonly ended: number | undefined;
  /** ended: it wrote its end. killed: it did not, and another line follows. open: it did not, and it may still run. */
  readonly outcome: 'ended' | 'killed' | 'open';
  /** The checkpoint that it resumed from, -1 for none. */
  readonly resumeStep: number;
  readonly saved: readonly NumberRange[];
}

export interface TaskCheckpoints {
  readonly task: RecordedTask;
  /** Its checkpoints that are still there, lowest first. */
  readonly checkpoints: readonly CheckpointEntry[];
}

export interface CellAccount {
  readonly cell: number;
  readonly tasks: readonly TaskCheckpoints[];
  /** Checkpoints that no task on record has saved. */
  readonly unaccounted: readonly { readonly checkpoint: CheckpointEntry; readonly why: string }[];
  /** Where the journal contradicts itself. */
  readonly gaps: readonly string[];
  /** Facts that do not speak against the cell. */
  readonly notes: readonly string[];
  /** Every task that wrote a line, with those that did not run. */
  readonly lines: readonly Pick<RecordedTask, 'launch' | 'jobNumber' | 'jobId'>[];
}

/** Clocks of nodes and file servers differ, and a task may write after it has recorded its end. Seconds. */
export const SLACK_SECONDS = 300;

interface NumberedLine {
  /** From 1. */
  readonly number: number;
  readonly line: JournalLine;
}

/**
 * Which task wrote which checkpoint of a cell, and what does not fit.
 *
 * A task owns the checkpoints that its `end` line names. If it has no `end` line (it was killed), it owns the checkpoints newer
 * than its resume point that the next journal line lists. If it is also the last task, it owns every newer checkpoint.
 * @param taskEnds when Slurm's accounting says that a task without an end stopped: seconds since 1970, by task id
 */
export function accountFor(record: CellRecord, taskEnds: ReadonlyMap<string, number> = new Map()): CellAccount {
  const { lines, gaps, notes } = checkedLines(record);
  const { tasks, open, gaps: contradictions } = tasksOf(lines, record.cell);
  const all = [...tasks];
  if (open !== undefined) {
    const ended = taskEnds.get(open.taskId);
    all.push({ ...open, ended, outcome: ended === undefined ? 'open' : 'killed' });
    notes.push(
      `cell ${record.cell}: task ${taskName(open, record.cell)} has a start and no end on record: ${ended === undefined ? 'it is running or was killed' : 'it was killed'}; checkpoints newer than ${checkpointName(open.resumeStep)} count as its own`,
    );
  }
  const { tasks: owners, unaccounted, notes: more } = attribute(record, all);
  return {
    cell: record.cell,
    tasks: owners,
    unaccounted,
    gaps: [...gaps, ...contradictions],
    notes: [...notes, ...more],
    lines: lines.map(({ line }) => ({ launch: line.launch, jobNumber: line.jobNumber, jobId: line.jobId })),
  };
}

/** The tasks that a journal records, and where it contradicts itself. */
function tasksOf(
  lines: readonly NumberedLine[],
  cell: number,
): { readonly tasks: readonly RecordedTask[]; readonly open: RecordedTask | undefined; readonly gaps: readonly string[] } {
  const tasks: RecordedTask[] = [];
  const gaps: string[] = [];
  let open: RecordedTask | undefined;
  // The newest checkpoint according to the latest line that mentions one.
  let newest: { readonly step: number; readonly line: number } | undefined;
  for (const { number, line } of lines) {
    const found = parseRanges(line.found);
    if (open !== undefined && (line.event === 'start' || found !== undefined)) {
      const saved = savedByKilled(open, found, line);
      tasks.push({ ...open, outcome: 'killed', ended: line.time, saved });
      newest = {
        step: greatest(
          saved.map((range) => range.last),
          open.resumeStep,
        ),
        line: number,
      };
      open = undefined;
    }
    if (line.event === 'start') {
      const gap = gapAtStart(line, number, newest);
      if (gap !== undefined) gaps.push(gap);
      if (line.resumeStep === undefined) continue;
      open = startedTask(line, line.resumeStep);
    } else if (line.event === 'end') {
      if (open === undefined || open.taskId !== line.taskId || open.restart !== line.restart || line.newestStep === undefined) {
        gaps.push(`line ${number} of its journal is the end of task ${taskName(line, cell)}, whose start is not on record`);
        continue;
      }
      tasks.push({ ...open, outcome: 'ended', ended: line.time, saved: savedByEnd(open, line, line.newestStep) });
      newest = { step: line.newestStep, line: number };
      open = undefined;
    }
  }
  return { tasks, open, gaps };
}

function startedTask(line: StartLine, resumeStep: number): RecordedTask {
  const { launch, jobNumber, jobId, taskId, restart, host, time } = line;
  return {
    ...{ launch, jobNumber, jobId, taskId, restart, host },
    ...{ started: time, ended: undefined, outcome: 'open', resumeStep, saved: [] },
  };
}

function savedByEnd(open: RecordedTask, line: EndLine, newestStep: number): NumberRange[] {
  const upTo = newestStep > open.resumeStep ? [{ first: open.resumeStep + 1, last: newestStep, stride: 1 }] : [];
  return parseRanges(line.saved) ?? upTo;
}

/** What a task without an end saved, according to the line after it. */
function savedByKilled(open: RecordedTask, found: readonly NumberRange[] | undefined, next: JournalLine): NumberRange[] {
  const resume = next.event === 'start' ? next.resumeStep : undefined;
  const listed = found ?? (resume === undefined ? [] : [{ first: open.resumeStep + 1, last: resume, stride: 1 }]);
  return listed.flatMap((range) => above(range, open.resumeStep) ?? []);
}

function gapAtStart(
  line: StartLine,
  number: number,
  newest: { readonly step: number; readonly line: number } | undefined,
): string | undefined {
  const resume = line.resumeStep;
  if (resume === undefined) return `line ${number} of its journal does not say which checkpoint the task resumed from`;
  if (newest === undefined) {
    return resume >= 0
      ? `line ${number} of its journal resumes from ${checkpointName(resume)}, which no task before it has saved`
      : undefined;
  }
  if (resume === newest.step) return undefined;
  return `line ${number} of its journal resumes from ${checkpointName(resume)}, but according to line ${newest.line} the newest one is ${checkpointName(newest.step)}`;
}

function attribute(
  record: CellRecord,
  tasks: readonly RecordedTask[],
): Pick<CellAccount, 'tasks' | 'unaccounted'> & { readonly notes: readonly string[] } {
  const owners = tasks.map((task) => ({ task, checkpoints: [] as CheckpointEntry[] }));
  const unaccounted: { checkpoint: CheckpointEntry; why: string }[] = [];
  const incomplete: CheckpointEntry[] = [];
  const rewritten: CheckpointEntry[] = [];
  const touchedLater: CheckpointEntry[] = [];
  const last = tasks.at(-1);
  // No line says what the last task saved if it did not write its end.
  const openEnded = last !== undefined && last.outcome !== 'ended' && last.saved.length === 0 ? last : undefined;
  const owns = (task: RecordedTask, number: number) =>
    contains(task.saved, number) || (task === openEnded && number > openEnded.resumeStep);
  for (const checkpoint of record.checkpoints.toSorted((a, b) => a.number - b.number)) {
    if (!checkpoint.complete) {
      incomplete.push(checkpoint);
      continue;
    }
    // If two tasks saved the same number, it is the later one's.
    const index = owners.findLastIndex(({ task }) => owns(task, checkpoint.number));
    const owner = owners[index];
    if (owner === undefined) {
      unaccounted.push({ checkpoint, why: tasks.length === 0 ? 'no task is on record' : 'no task on record has saved it' });
      continue;
    }
    const later = owners.slice(index + 1);
    if (ranAt(owner.task, checkpoint.modified)) {
      if (![owner, ...later].some(({ task }) => ranAt(task, checkpoint.touched))) touchedLater.push(checkpoint);
    } else if (later.some(({ task }) => ranAt(task, checkpoint.modified))) rewritten.push(checkpoint);
    else {
      unaccounted.push({ checkpoint, why: writtenOutside(checkpoint, owner.task, record.cell) });
      continue;
    }
    owner.checkpoints.push(checkpoint);
  }
  const note = (entries: readonly CheckpointEntry[], one: string, many: string) =>
    entries.length === 0 ? [] : [`cell ${record.cell}: ${namesOf(entries)} ${entries.length === 1 ? one : many}`];
  return {
    tasks: owners,
    unaccounted,
    notes: [
      ...note(incomplete, 'is not complete; no task resumes from it', 'are not complete; no task resumes from them'),
      ...note(rewritten, 'was written to again by a later task of the chain', 'were written to again by a later task of the chain'),
      ...note(
        touchedLater,
        'changed after the task that saved it had ended (ctime is later); its contents may have been replaced',
        'changed after the tasks that saved them had ended (ctime is later); their contents may have been replaced',
      ),
    ],
  };
}

function ranAt(task: RecordedTask, time: number): boolean {
  return time >= task.started - SLACK_SECONDS && time <= (task.ended ?? Number.POSITIVE_INFINITY) + SLACK_SECONDS;
}

function writtenOutside(checkpoint: CheckpointEntry, task: RecordedTask, cell: number): string {
  const end = task.ended === undefined ? 'now' : timeText(task.ended);
  return `it was last written at ${timeText(checkpoint.modified)}, but task ${taskName(task, cell)}, which saved this number, ran from ${timeText(task.started)} to ${end}`;
}

/** The lines of a journal, and what is wrong with them. */
function checkedLines(record: CellRecord): { lines: NumberedLine[]; gaps: string[]; notes: string[] } {
  const gaps: string[] = [];
  const notes: string[] = [];
  const lines: NumberedLine[] = [];
  const texts = record.journal ?? [];
  const whole = record.cut ? texts.slice(0, -1) : texts;
  if (record.cut) {
    notes.push(`cell ${record.cell}: the last line of its journal is incomplete; a task is writing it, or was killed meanwhile`);
  }
  const checksums = new Set<string>();
  let previous = '';
  for (const [index, text] of whole.entries()) {
    const number = index + 1;
    const match = /^(.*),"sum":"([0-9a-f]{16})"\}$/s.exec(text);
    const checksum = match?.[2] ?? '';
    if (match === null) gaps.push(`line ${number} of its journal has no checksum`);
    else if (checksumOf(previous, `${match[1]}}`) !== checksum) {
      gaps.push(`line ${number} of its journal does not match its checksum: it, or the line before it, was edited, inserted or removed`);
    }
    previous = checksum;
    checksums.add(checksum);
    const line = parseJournalLine(text);
    if (line === undefined) gaps.push(`line ${number} of its journal cannot be read`);
    else if (line.cell !== record.cell) gaps.push(`line ${number} of its journal belongs to cell ${line.cell}`);
    else lines.push({ number, line });
  }
  const { releasedChecksum } = record;
  if (releasedChecksum !== undefined && releasedChecksum !== '' && !checksums.has(releasedChecksum)) {
    gaps.push(
      record.journal === undefined
        ? 'its journal is gone'
        : 'its journal lacks the line that was the last one when the last task released the cell: lines were removed or edited',
    );
  }
  return { lines, gaps, notes };
}

/** The checksum of a journal line, as src/runtime/journal.sh computes it. @param line without its checksum */
export function checksumOf(previous: string, line: string): string {
  return createHash('sha256')
    .update(previous + line)
    .digest('hex')
    .slice(0, 16);
}

function checkpointName(step: number): string {
  return step < 0 ? 'no checkpoint' : `checkpoint ${step}`;
}

/** `4711_3`, and `(restart 2)` if it was requeued. */
export function taskName({ jobId, restart }: Pick<RecordedTask, 'jobId' | 'restart'>, cell: number): string {
  return `${jobId}_${cell}${restart > 0 ? ` (restart ${restart})` : ''}`;
}

/** ISO 8601, UTC. @param seconds since 1970 */
export function timeText(seconds: number): string {
  return new Date(seconds * 1000).toISOString().replace(/\.\d+Z$/, 'Z');
}

function namesOf(entries: readonly CheckpointEntry[]): string {
  const names = entries.map((entry) => entry.name);
  return some(names, 5);
}
