import { isJobId } from './slurm-rows.ts';

/** What every line of a cell's journal says: which task wrote it, and when. src/runtime/journal.sh writes them. */
interface LineOfTask {
  readonly launch: number;
  /** Position in the chain, from 1; `step` in the file. */
  readonly jobNumber: number;
  readonly cell: number;
  /** Slurm's id of the array; `job` in the file. */
  readonly jobId: string;
  /** Slurm's id of the task itself; `task` in the file. */
  readonly taskId: string;
  /** How often Slurm had requeued the task. */
  readonly restart: number;
  readonly host: string;
  /** Seconds since 1970, by the clock of the node. */
  readonly time: number;
  /** Numbers of the complete checkpoints that the task found, as checkpoint_ranges writes them. */
  readonly found: string | undefined;
}

/** The task starts its run. */
export interface StartLine extends LineOfTask {
  readonly event: 'start';
  /** The training step of the checkpoint it resumed from, -1 for none; undefined if the line does not say. */
  readonly resumeStep: number | undefined;
}

/** The run of the task ended. */
export interface EndLine extends LineOfTask {
  readonly event: 'end';
  /** The training step of the newest complete checkpoint, -1 for none; undefined if the line does not say. */
  readonly newestStep: number | undefined;
  /** Numbers of the checkpoints that the task saved, as checkpoint_ranges writes them. */
  readonly saved: string | undefined;
  /** Seconds from the start of the task to its end. */
  readonly seconds: number | undefined;
  readonly exit: number | undefined;
  /** Name of the signal that ended the run, without SIG. */
  readonly signal: string | undefined;
  readonly newCheckpoint: boolean;
  readonly complete: boolean;
}

export type JournalLine =
  | StartLine
  | EndLine
  /** Training was complete already. */
  | (LineOfTask & { readonly event: 'done' })
  /** The stop rule kept the task from starting. */
  | (LineOfTask & { readonly event: 'stopped'; readonly why: 'failures' | 'vanished' })
  /** A signal came before the run began. */
  | (LineOfTask & { readonly event: 'left' });

// ISO 8601 in UTC, as `date -u` writes it in src/runtime/journal.sh.
const UTC = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/;
const LONGEST_HOST = 255; // hostname(7)
const LONGEST_TEXT = 100_000;
// Launches, jobs and cells have at most seven digits; the names of jobs have room for nine.
const MOST = 999_999_999;

/** The lines of a journal. A line that cannot be read is left out; an audit reports it. */
export function parseJournal(lines: readonly string[]): JournalLine[] {
  return lines.flatMap((line) => parseJournalLine(line) ?? []);
}

/** @returns undefined for text that is not a line of a journal */
export function parseJournalLine(line: string): JournalLine | undefined {
  const value = parseObject(line);
  const { launch, step, cell, job, task, restart, host, time } = value;
  if (!isCount(launch) || !isCount(step) || !isCount(cell) || !isCount(restart)) return undefined;
  if (typeof job !== 'string' || !isJobId(job) || typeof task !== 'string' || !isJobId(task)) return undefined;
  if (typeof host !== 'string' || host.length > LONGEST_HOST || typeof time !== 'string' || !UTC.test(time)) return undefined;
  const seconds = Date.parse(time) / 1000;
  if (!Number.isFinite(seconds)) return undefined;
  const about: LineOfTask = {
    ...{ launch, jobNumber: step, cell, jobId: job, taskId: task, restart, host, time: seconds },
    found: textOr(value['found']),
  };
  switch (value['event']) {
    case 'start':
      return { ...about, event: 'start', resumeStep: integerOr(value['resume_step']) };
    case 'end':
      return {
        ...about,
        event: 'end',
        newestStep: integerOr(value['newest_step']),
        saved: textOr(value['saved']),
        seconds: integerOr(value['seconds']),
        exit: integerOr(value['exit']),
        signal: signalOr(value['signal']),
        newCheckpoint: value['new_checkpoint'] === true,
        complete: value['complete'] === true,
      };
    case 'done':
      return { ...about, event: 'done' };
    case 'stopped':
      return { ...about, event: 'stopped', why: value['why'] === 'vanished' ? 'vanished' : 'failures' };
    case 'left':
      return { ...about, event: 'left' };
    default:
      return undefined;
  }
}

/** The JSON object that a line of a record holds; an empty one for any other text. */
export function parseObject(line: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Readonly<Record<string, unknown>>) : {};
  } catch {
    return {};
  }
}

/** Is this the number of a launch, a job or a cell, or how often something happened? */
export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= MOST;
}

function integerOr(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : undefined;
}

/** A name such as KILL or RTMIN+1, or a number. */
function signalOr(value: unknown): string | undefined {
  return typeof value === 'string' && /^[A-Z0-9+-]{1,20}$/.test(value) ? value : undefined;
}

function textOr(value: unknown): string | undefined {
  return typeof value === 'string' && value.length <= LONGEST_TEXT ? value : undefined;
}
