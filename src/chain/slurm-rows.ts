import { MOST_CELLS } from '../experiment/grid.ts';

/** One row of squeue: an array, or those of its tasks that share a state. */
export interface QueueRow {
  /** Id of the array. */
  readonly jobId: string;
  readonly cells: readonly number[];
  readonly state: string;
  readonly reason: string;
  /** When it started or is expected to start. Seconds since 1970. */
  readonly start: number | undefined;
  readonly node: string;
  readonly name: string;
}

/** One row of sacct. */
export interface AccountingRow {
  /** Id of the array. */
  readonly jobId: string;
  readonly cells: readonly number[];
  readonly name: string;
  readonly state: string;
  /** The user who cancelled it. */
  readonly by: string | undefined;
  /** `exit:signal` */
  readonly exit: string;
  /** Seconds since 1970. */
  readonly start: number | undefined;
  readonly end: number | undefined;
  readonly node: string;
}

/** What Slurm says about some jobs. */
export interface SlurmRows {
  /** undefined when squeue did not answer. */
  readonly queue: readonly QueueRow[] | undefined;
  /** undefined when sacct did not answer, or keeps no records. */
  readonly accounting: readonly AccountingRow[] | undefined;
}

/** The format of squeue that parseQueueRow reads (squeue(1), --format). */
export const QUEUE_FORMAT = '%F|%K|%T|%r|%S|%N|%j';

/** @returns undefined for a line that is not such a row */
export function parseQueueRow(line: string): QueueRow | undefined {
  const fields = fieldsOf(line);
  if (fields === undefined) return undefined;
  const [jobId, cells, state, reason, start, node, name] = fields;
  if (!isJobId(jobId) || !isState(state) || [reason, node, name].some(isTooLong)) return undefined;
  return { jobId, cells: parseTaskList(cells), state, reason, start: secondsOf(start), node, name };
}

/** The fields of sacct that parseAccountingRow reads (sacct(1), --format). */
export const ACCOUNTING_FORMAT = 'JobID,JobName,State,ExitCode,Start,End,NodeList';

/**
 * @param users names by user id, because sacct prints `CANCELLED by 1001`
 * @returns undefined for a line that is not such a row
 */
export function parseAccountingRow(line: string, users: ReadonlyMap<string, string>): AccountingRow | undefined {
  const fields = fieldsOf(line);
  if (fields === undefined) return undefined;
  const [id, name, state, exit, start, end, node] = fields;
  const [jobId = '', cells = ''] = id.split('_');
  if (!isJobId(jobId) || !isState(state.replace(/ by \d+$/, '')) || !/^(\d{1,9}:\d{1,9})?$/.test(exit) || [name, node].some(isTooLong))
    return undefined;
  const by = /^CANCELLED by (\d+)$/.exec(state)?.[1];
  return {
    jobId,
    cells: parseTaskList(cells.replace(/[[\]]/g, '')),
    name,
    state: state.replace(/ by \d+$/, ''),
    by: by === undefined ? undefined : users.get(by) || `user ${by}`,
    exit,
    start: secondsOf(start),
    end: secondsOf(end),
    node,
  };
}

type Fields = readonly [string, string, string, string, string, string, string];

/** Both programs are asked for seven fields. */
function fieldsOf(line: string): Fields | undefined {
  const fields = line.split('|');
  return fields.length === 7 ? (fields as unknown as Fields) : undefined;
}

/** Is this an id that Slurm gives to a job? Job ids have 26 bits (slurm.conf(5), MaxJobId); federations use more. */
export function isJobId(text: string): boolean {
  return /^[1-9]\d{0,14}$/.test(text);
}

/** A word such as RUNNING, which sacct may cut off with a +. A new version of Slurm may have others. */
function isState(text: string): boolean {
  return /^[A-Z][A-Z_]{0,40}\+?$/.test(text);
}

// A list of nodes is the longest of the texts.
function isTooLong(text: string): boolean {
  return text.length > 20_000;
}

/** Times come as seconds since 1970 (SLURM_TIME_FORMAT=%s); Slurm prints other words for times that it does not know. */
function secondsOf(text: string): number | undefined {
  return /^[1-9]\d{0,10}$/.test(text) ? Number(text) : undefined;
}

// No grid has more cells, so a task with a higher number is not ours.
const MOST_TASKS = MOST_CELLS;

/** Task numbers of `3`, `0-7%4`, `1,5-6` or `0-10:2` (squeue(1), %K; sbatch(1), --array); other text has none. */
export function parseTaskList(text: string): number[] {
  const tasks: number[] = [];
  for (const part of text.replace(/%\d+$/, '').split(',')) {
    const [, from, to = from, stride = '1'] = /^(\d{1,7})(?:-(\d{1,7}))?(?::([1-9]\d{0,6}))?$/.exec(part.trim()) ?? [];
    if (from === undefined) continue;
    const last = Math.min(Number(to), MOST_TASKS - 1);
    for (let task = Number(from); task <= last && tasks.length < MOST_TASKS; task += Number(stride)) tasks.push(task);
  }
  return tasks;
}
