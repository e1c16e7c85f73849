import { createHash } from 'node:crypto';
import type { LedgerLine } from '../chain/ledger.ts';
import type { Manifest } from '../chain/manifest.ts';

/** Numbers from first to last, each `stride` behind the one before. */
export interface NumberRange {
  readonly first: number;
  readonly last: number;
  readonly stride: number;
}

/** A checkpoint directory as the cluster shows it. */
export interface CheckpointEntry {
  readonly name: string;
  readonly number: number;
  /** Not empty, and with the file in it that save.complete names. */
  readonly complete: boolean;
  /** When something in the directory itself last changed, seconds since 1970 (mtime). */
  readonly modified: number;
  /** When the directory was last written, renamed or given other rights, seconds since 1970 (ctime; nobody can set it). */
  readonly touched: number;
}

/** What is on record of one cell, and what is there. */
export interface CellRecord {
  readonly cell: number;
  /** Lines of its journal without their ends, undefined when there is no journal. */
  readonly journal: readonly string[] | undefined;
  /** The last line has no end: its task was writing it, or was killed over it. */
  readonly cut: boolean;
  /** The sum of the last line when the last task that came to its end let go of the cell; undefined where nobody says. */
  readonly releasedChecksum: string | undefined;
  readonly checkpoints: readonly CheckpointEntry[];
}

/** One task that ran, from its start to its end or to what came after it. */
export interface RecordedTask {
  readonly launch: number;
  readonly jobNumber: number;
  /** Slurm's id of the array, and of the task itself. */
  readonly jobId: string;
  readonly taskId: string;
  readonly restart: number;
  readonly host: string;
  /** Seconds since 1970. */
  readonly started: number;
  /** undefined when it has no end on record and nothing came after it. */
  readonly ended: number | undefined;
  /**
   * ended: it said so itself. killed: it did not, and something came after it. open: it did not, and it may still run.
   */
  readonly outcome: 'ended' | 'killed' | 'open';
  readonly resumeStep: number;
  readonly saved: readonly NumberRange[];
}

export interface TaskCheckpoints {
  readonly task: RecordedTask;
  /** Those of its checkpoints that are still there, lowest first. */
  readonly checkpoints: readonly CheckpointEntry[];
}

export interface CellAccount {
  readonly cell: number;
  readonly tasks: readonly TaskCheckpoints[];
  /** Checkpoints that no journaled task accounts for. */
  readonly unaccounted: readonly { readonly checkpoint: CheckpointEntry; readonly why: string }[];
  /** Where the journal does not hold together. */
  readonly gaps: readonly string[];
  /** Worth knowing, and no sign that anything was changed. */
  readonly notes: readonly string[];
  /** Every task that has a line, those that only looked included. */
  readonly lines: readonly Pick<RecordedTask, 'launch' | 'jobNumber' | 'jobId'>[];
}

/** Clocks of nodes and file servers differ, and the last write of a task may come after it wrote down its end. Seconds. */
export const SLACK_SECONDS = 300;

interface Line {
  readonly number: number;
  readonly event: string;
  readonly value: Readonly<Record<string, unknown>>;
  readonly time: number;
}

/**
 * Which task wrote which checkpoint of a cell, and what does not fit.
 *
 * A task accounts for the numbers its `end` line names; a task without an end (killed, which is normal) for those above
 * what it resumed from that the next line found. Of the last one, when it has no end, nothing is known but that numbers go
 * up: it accounts for everything above.
 * @param endOf when Slurm's accounting says a task without an end stopped, seconds since 1970, by task id
 */
export function accountFor(record: CellRecord, endOf: ReadonlyMap<string, number> = new Map()): CellAccount {
  const { lines, gaps, notes } = checkedLines(record);
  const tasks: RecordedTask[] = [];
  let open: RecordedTask | undefined;
  // What the last line that says so left as the newest one.
  let newest: { readonly step: number; readonly line: number } | undefined;

  for (const line of lines) {
    const found = parseRanges(line.value['found']);
    const resume = line.event === 'start' ? numberOf(line.value['resume_step']) : undefined;
    if (open !== undefined && (line.event === 'start' || found !== undefined)) {
      const { resumeStep } = open;
      const mine = (found ?? (resume === undefined ? [] : [{ first: resumeStep + 1, last: resume, stride: 1 }]))
        .map((run) => above(run, resumeStep))
        .filter((run) => run !== undefined);
      tasks.push({ ...open, outcome: 'killed', ended: line.time, saved: mine });
      newest = { step: Math.max(resumeStep, ...mine.map((run) => run.last)), line: line.number };
      open = undefined;
    }
    if (line.event === 'start') {
      if (resume === undefined) {
        gaps.push(`line ${line.number} of its journal does not say what it resumed from`);
        continue;
      }
      if (newest !== undefined && resume !== newest.step) {
        gaps.push(
          `line ${line.number} of its journal resumes from ${stepName(resume)}, and line ${newest.line} leaves ${stepName(newest.step)} as the newest checkpoint`,
        );
      } else if (newest === undefined && resume >= 0) {
        gaps.push(`line ${line.number} of its journal resumes from ${stepName(resume)}, which nobody before it has saved`);
      }
      open = { ...nameOf(line), started: line.time, ended: undefined, outcome: 'open', resumeStep: resume, saved: [] };
      newest = { step: resume, line: line.number };
    } else if (line.event === 'end') {
      const last = numberOf(line.value['newest_step']);
      const name = nameOf(line);
      if (open === undefined || open.taskId !== name.taskId || open.restart !== name.restart || last === undefined) {
        gaps.push(`line ${line.number} of its journal is the end of job ${taskName(name, record.cell)}, whose start is not on record`);
        continue;
      }
      const saved = parseRanges(line.value['saved']) ?? (last > open.resumeStep ? [{ first: open.resumeStep + 1, last, stride: 1 }] : []);
      tasks.push({ ...open, outcome: 'ended', ended: line.time, saved });
      newest = { step: last, line: line.number };
      open = undefined;
    }
  }
  if (open !== undefined) {
    const ended = endOf.get(open.taskId);
    tasks.push({ ...open, ended, outcome: ended === undefined ? 'open' : 'killed' });
    notes.push(
      `cell ${record.cell}: job ${taskName(open, record.cell)} has a start and no end on record: ${ended === undefined ? 'it is running or was killed' : 'it was killed'}; what is newer than ${stepName(open.resumeStep)} is taken for its own`,
    );
  }
  return { cell: record.cell, ...attribute(record, tasks, notes), gaps, notes, lines: lines.map(nameOf) };
}

function attribute(record: CellRecord, tasks: readonly RecordedTask[], notes: string[]): Pick<CellAccount, 'tasks' | 'unaccounted'> {
  const byTask = tasks.map((task) => ({ task, holds: membership(task.saved), checkpoints: [] as CheckpointEntry[] }));
  const unaccounted: { checkpoint: CheckpointEntry; why: string }[] = [];
  const halves: CheckpointEntry[] = [];
  const later: CheckpointEntry[] = [];
  const touched: CheckpointEntry[] = [];
  const last = tasks.at(-1);
  // Nothing on record says what the last task saved when it did not come to its end.
  const free = last !== undefined && last.outcome !== 'ended' && last.saved.length === 0 ? last : undefined;
  for (const checkpoint of record.checkpoints.toSorted((a, b) => a.number - b.number)) {
    if (!checkpoint.complete) {
      halves.push(checkpoint);
      continue;
    }
    // A number that was saved twice is the later task's.
    const index = byTask.findLastIndex((one) => one.holds(checkpoint.number) || (one.task === free && checkpoint.number > free.resumeStep));
    const owner = byTask[index];
    if (owner === undefined) {
      unaccounted.push({ checkpoint, why: tasks.length === 0 ? 'no task is on record' : 'no task on record has saved it' });
      continue;
    }
    const within = (task: RecordedTask, time: number) =>
      time >= task.started - SLACK_SECONDS && time <= (task.ended ?? Number.POSITIVE_INFINITY) + SLACK_SECONDS;
    if (within(owner.task, checkpoint.modified)) {
      if (!byTask.slice(index).some(({ task }) => within(task, checkpoint.touched))) touched.push(checkpoint);
    } else if (byTask.slice(index + 1).some(({ task }) => within(task, checkpoint.modified))) later.push(checkpoint);
    else {
      unaccounted.push({
        checkpoint,
        why: `it was last written at ${timeText(checkpoint.modified)}, and job ${taskName(owner.task, record.cell)}, which has saved this number, ran from ${timeText(owner.task.started)} to ${owner.task.ended === undefined ? 'now' : timeText(owner.task.ended)}`,
      });
      continue;
    }
    owner.checkpoints.push(checkpoint);
  }
  const say = (entries: readonly CheckpointEntry[], what: string) => {
    if (entries.length > 0) notes.push(`cell ${record.cell}: ${namesOf(entries)} ${what}`);
  };
  say(halves, 'not complete; nothing resumes from an incomplete one');
  say(later, 'written to again by a later task of the chain');
  say(
    touched,
    `renamed, given other rights or copied in with its times after the job that saved ${touched.length === 1 ? 'it' : 'them'} had ended; what is inside may be another`,
  );
  return { tasks: byTask.map(({ task, checkpoints }) => ({ task, checkpoints })), unaccounted };
}

/** The lines of a journal, with what is wrong with them as lines. */
function checkedLines(record: CellRecord): { lines: Line[]; gaps: string[]; notes: string[] } {
  const gaps: string[] = [];
  const notes: string[] = [];
  const lines: Line[] = [];
  const texts = record.journal ?? [];
  const whole = record.cut ? texts.slice(0, -1) : texts;
  if (record.cut)
    notes.push(`cell ${record.cell}: the last line of its journal is half-written; its task was killed over it, or is writing it`);
  const sums = new Set<string>();
  let previous = '';
  for (const [index, text] of whole.entries()) {
    const number = index + 1;
    const match = /^(.*),"sum":"([0-9a-f]{16})"\}$/s.exec(text);
    const sum = match?.[2] ?? '';
    if (match === null) gaps.push(`line ${number} of its journal has no sum`);
    else if (checksumOf(previous, `${match[1]}}`) !== sum) {
      gaps.push(
        `line ${number} of its journal does not go with its sum: it was edited, or a line before it was edited, put in or taken out`,
      );
    }
    previous = sum;
    sums.add(sum);
    const line = lineOf(text, number);
    if (line === undefined) gaps.push(`line ${number} of its journal cannot be read`);
    else if (line.value['cell'] !== record.cell)
      gaps.push(`line ${number} of its journal is of cell ${JSON.stringify(line.value['cell'])}`);
    else lines.push(line);
  }
  if (record.releasedChecksum !== undefined && record.releasedChecksum !== '' && !sums.has(record.releasedChecksum)) {
    gaps.push(
      record.journal === undefined
        ? 'its journal is gone'
        : 'the line that was the last one of its journal when the last task let go of the cell is not in it: lines were taken out or edited',
    );
  }
  return { lines, gaps, notes };
}

/** The sum a line must have, as src/runtime/journal.sh makes it. @param line as it is without its sum */
export function checksumOf(previous: string, line: string): string {
  return createHash('sha256')
    .update(previous + line)
    .digest('hex')
    .slice(0, 16);
}

function lineOf(text: string, number: number): Line | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const fields = value as Readonly<Record<string, unknown>>;
  const { event, launch, step, job, task, restart, host, time } = fields;
  const seconds = typeof time === 'string' ? Date.parse(time) / 1000 : Number.NaN;
  const sound =
    typeof event === 'string' &&
    [launch, step, restart].every((one) => typeof one === 'number') &&
    [job, task, host].every((one) => typeof one === 'string') &&
    Number.isFinite(seconds);
  return sound ? { number, event, value: fields, time: seconds } : undefined;
}

function nameOf({ value }: Line): Pick<RecordedTask, 'launch' | 'jobNumber' | 'jobId' | 'taskId' | 'restart' | 'host'> {
  return {
    launch: Number(value['launch']),
    jobNumber: Number(value['step']),
    jobId: String(value['job']),
    taskId: String(value['task']),
    restart: Number(value['restart']),
    host: String(value['host']),
  };
}

/** `20-480/20,499` as checkpoint_ranges of src/runtime/checkpoints.sh writes it; undefined for what is not of that form. */
export function parseRanges(text: unknown): NumberRange[] | undefined {
  if (typeof text !== 'string') return undefined;
  if (text === '') return [];
  const runs: NumberRange[] = [];
  for (const piece of text.split(',')) {
    const match = /^(\d{1,18})(?:-(\d{1,18})\/(\d{1,18}))?$/.exec(piece);
    if (match === null) return undefined;
    const first = Number(match[1]);
    const last = Number(match[2] ?? match[1]);
    const stride = Number(match[3] ?? 1);
    if (last < first || stride < 1) return undefined;
    runs.push({ first, last, stride });
  }
  return runs;
}

/** The part of a run that lies above a number. */
function above(run: NumberRange, limit: number): NumberRange | undefined {
  if (run.last <= limit) return undefined;
  if (run.first > limit) return run;
  return { ...run, first: run.first + (Math.floor((limit - run.first) / run.stride) + 1) * run.stride };
}

function membership(runs: readonly NumberRange[]): (number: number) => boolean {
  return (number) => runs.some((run) => number >= run.first && number <= run.last && (number - run.first) % run.stride === 0);
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) ? value : undefined;
}

function stepName(step: number): string {
  return step < 0 ? 'no checkpoint' : `checkpoint ${step}`;
}

/** `4711_3`, and which restart where it was requeued. */
export function taskName({ jobId, restart }: Pick<RecordedTask, 'jobId' | 'restart'>, cell: number): string {
  return `${jobId}_${cell}${restart > 0 ? ` (restart ${restart})` : ''}`;
}

export function timeText(seconds: number): string {
  return new Date(seconds * 1000).toISOString().replace(/\.\d+Z$/, 'Z');
}

function namesOf(entries: readonly CheckpointEntry[]): string {
  const names = entries.slice(0, 5).map((entry) => entry.name);
  const more = entries.length - names.length;
  return `${names.join(', ')}${more > 0 ? ` and ${more} more` : ''} ${entries.length === 1 ? 'is' : 'are'}`;
}

/** Numbers as runs of one distance, lowest first. */
export function foldRanges(numbers: readonly number[]): NumberRange[] {
  const runs: { first: number; last: number; stride: number; count: number }[] = [];
  for (const number of [...new Set(numbers)].sort((a, b) => a - b)) {
    const run = runs.at(-1);
    if (run?.count === 1 || (run !== undefined && number - run.last === run.stride)) {
      run.stride = number - run.last;
      run.last = number;
      run.count += 1;
    } else runs.push({ first: number, last: number, stride: 1, count: 1 });
  }
  return runs.map(({ first, last, stride }) => ({ first, last, stride }));
}

/** What ledger, manifest and journals say of each other. */
export interface RecordsAccount {
  readonly changed: readonly string[];
  readonly missing: readonly string[];
  readonly notes: readonly string[];
}

/**
 * Compares the three records of what was submitted.
 * @param ledger undefined when it is gone; unreadable lines left out
 * @param unreadable how many those are
 */
export function compareRecords(
  manifest: Pick<Manifest, 'launches'>,
  ledger: readonly LedgerLine[] | undefined,
  unreadable: number,
  accounts: readonly Pick<CellAccount, 'cell' | 'lines'>[],
): RecordsAccount {
  const changed: string[] = [];
  const missing: string[] = [];
  const notes: string[] = [];
  const launches = new Map(manifest.launches.map((launch) => [launch.launch, launch]));
  const journaled = new Map<string, { launch: number; jobNumber: number; jobId: string; cell: number }>();
  for (const { cell, lines } of accounts) {
    for (const line of lines) journaled.set(`${line.launch} ${line.jobNumber} ${line.jobId}`, { ...line, cell });
  }
  for (const { launch, jobNumber, jobId, cell } of journaled.values()) {
    const record = launches.get(launch);
    if (record === undefined)
      changed.push(`the journal of cell ${cell} has job ${jobId} of launch ${launch}, which the manifest does not know`);
    else if (!record.steps.includes(jobNumber)) {
      changed.push(
        `the journal of cell ${cell} has job ${jobId} of step ${jobNumber}, which launch ${launch} in the manifest did not ask for`,
      );
    }
  }
  if (ledger === undefined) return { changed, missing, notes };
  if (unreadable > 0) notes.push(`${unreadable} of the ledger's lines cannot be read; a full disk or a kill leaves such`);

  const released = new Set(ledger.filter((line) => line.event === 'releasing').map((line) => line.launch));
  for (const launch of released) {
    if (!launches.has(launch)) changed.push(`the ledger has launch ${launch}, which the manifest does not know`);
  }
  // A ledger that went with workdir is begun anew by the next launch.
  const begins = Math.min(...ledger.map((line) => line.launch));
  for (const launch of launches.keys()) {
    if (launch < begins) missing.push(`the ledger from before launch ${begins}`);
    else if (!released.has(launch)) notes.push(`launch ${launch} was never let go: nothing of it has run`);
  }
  const jobs = new Map(ledger.filter((line) => line.event === 'submitted').map((line) => [line.jobId, line]));
  for (const { launch, jobNumber, jobId } of jobs.values()) {
    const record = launches.get(launch);
    if (jobNumber !== undefined && record !== undefined && released.has(launch) && !record.steps.includes(jobNumber)) {
      changed.push(`the ledger has step ${jobNumber} of launch ${launch} (job ${jobId}), which the manifest does not know`);
    }
  }
  for (const { launch, jobNumber, jobId, cell } of journaled.values()) {
    if (launch < begins) continue;
    const line = jobs.get(jobId);
    if (line === undefined) changed.push(`the journal of cell ${cell} has job ${jobId}, which the ledger does not know`);
    else if (line.launch !== launch || (line.jobNumber !== undefined && line.jobNumber !== jobNumber)) {
      changed.push(
        `job ${jobId} is step ${jobNumber} of launch ${launch} in the journal of cell ${cell}, and step ${line.jobNumber ?? '?'} of launch ${line.launch} in the ledger`,
      );
    } else if (!released.has(launch)) {
      changed.push(`the journal of cell ${cell} has job ${jobId} of launch ${launch}, which the ledger never let go`);
    }
  }
  return { changed: [...new Set(changed)], missing: [...new Set(missing)], notes: [...new Set(notes)] };
}
