// States in plain English. Everywhere else they are data.
import { count } from '../base/text.ts';
import type { TaskState } from '../chain/state.ts';
import type { CellStatus, ChainStatus } from '../chain/status.ts';

/** What a task is doing, or how it ended. @param now seconds since 1970, for how long it has been running */
export function stateWords(state: TaskState, now: number): string {
  switch (state.kind) {
    case 'waiting-for-job':
      return 'waiting for the previous job';
    case 'waiting-for-throttle':
      return 'waiting for other cells (max_concurrent_jobs)';
    case 'pending':
      return withDetail('waiting for resources', reasonWords(state.reason));
    case 'held':
      return withDetail('held', reasonWords(state.reason));
    case 'running': {
      const duration = state.since === undefined ? '' : ` for ${durationWords(Math.max(0, now - state.since))}`;
      return `running${duration}${state.node === '' ? '' : ` on ${state.node}`}`;
    }
    case 'suspended':
      return withDetail('suspended', reasonWords(state.reason));
    case 'finished':
      return 'finished';
    case 'nothing-to-do':
      return 'nothing left to do';
    case 'time-limit':
      return 'reached the time limit';
    case 'failed': {
      const cause = failureCause(state);
      return cause === '' ? 'failed' : `failed, ${cause}`;
    }
    case 'out-of-memory':
      return 'out of memory';
    case 'preempted':
      return 'preempted';
    case 'node-failure':
      return 'lost its node';
    case 'cancelled':
      if (state.beforeRun) return 'cancelled before its run began';
      return state.by === undefined ? 'cancelled' : `cancelled by ${state.by}`;
    case 'not-needed':
      return 'not needed any more';
    case 'stopped':
      return withDetail('stopped by the stop rule', stopWords(state.why));
    case 'cell-taken':
      return 'found the cell taken (another task holds it)';
    case 'unknown':
      return `not known: ${unknownWords(state)}`;
    default:
      return state satisfies never;
  }
}

function withDetail(words: string, detail: string): string {
  return detail === '' ? words : `${words} (${detail})`;
}

/** `exit code 1`, `signal KILL`, or nothing. */
function failureCause({ exit, signal }: Extract<TaskState, { kind: 'failed' }>): string {
  if (signal !== undefined) return `signal ${signal}`;
  return exit === undefined ? '' : `exit code ${exit}`;
}

function stopWords(why: Extract<TaskState, { kind: 'stopped' }>['why']): string {
  switch (why) {
    case 'failures':
      return 'too many failures without a new checkpoint';
    case 'vanished':
      return 'its checkpoints are gone';
    default:
      return why satisfies never;
  }
}

function unknownWords({ why }: Extract<TaskState, { kind: 'unknown' }>): string {
  switch (why.kind) {
    case 'no-answer':
      return 'squeue did not answer';
    case 'no-record':
      return 'it left the queue, and no record says how it ended';
    case 'no-end':
      return `it started at ${new Date(why.started * 1000).toISOString().replace(/\.\d+Z$/, 'Z')} on ${why.host}, and no record says how it ended`;
    case 'slurm-state':
      return `Slurm says ${why.state}`;
    default:
      return why satisfies never;
  }
}

// Slurm's reasons are those of squeue(1), JOB REASON CODES.
const REASONS: Readonly<Record<string, string>> = {
  JobHeldUser: 'by its owner, or by a launch that was interrupted; launch again to settle it',
  JobHeldAdmin: 'by an administrator',
  BeginTime: 'it may not begin yet; after a requeue that takes two minutes',
  Priority: 'other jobs come first',
  Resources: 'no resources are free',
  DependencyNeverSatisfied: 'its dependency can never be satisfied',
};

function reasonWords(reason: string): string {
  if (reason === 'None' || reason === '') return '';
  const words = REASONS[reason];
  return words === undefined ? reason : `${reason}: ${words}`;
}

/** What a cell is doing. @param now seconds since 1970 */
export function cellWords({ complete, current, stoppedLater }: CellStatus, now: number): string {
  if (complete) return 'complete';
  if (current === undefined) return 'nothing was queued';
  const later = stoppedLater ? '; the stop rule ended the later jobs' : '';
  return `job ${current.jobNumber}: ${stateWords(current.state, now)}${later}`;
}

/** What a chain is doing, in one line. */
export function chainWords(status: ChainStatus): string {
  const { state, running, next, lastJob, wantedJobs, at } = status;
  const of = wantedJobs > lastJob ? `${lastJob} (${wantedJobs} were asked for)` : String(lastJob);
  const complete = `${status.cells.filter((cell) => cell.complete).length} of ${count(status.cells.length, 'cell')} complete`;
  switch (state) {
    case 'complete':
      return 'complete: every cell is complete';
    case 'running': {
      const { first, last } = running ?? { first: lastJob, last: lastJob };
      return `running, ${first === last ? `job ${first}` : `jobs ${first} to ${last}`} of ${of}`;
    }
    case 'waiting':
      return next === undefined ? 'waiting' : `job ${next.jobNumber} of ${of}: ${stateWords(next.state, at)}`;
    case 'unknown':
      return 'squeue does not answer, so it is not known what runs';
    case 'failed':
      return `failed${failedJob(status)}. Nothing is in the queue, ${complete}`;
    case 'ended':
      return `ended before training was complete: nothing is in the queue, ${complete}`;
    default:
      return state satisfies never;
  }
}

/** `, job 2: exit code 1` of the first cell that failed. */
function failedJob({ cells, at }: ChainStatus): string {
  const failed = cells.find((cell) => cell.failed)?.current;
  if (failed === undefined) return '';
  const cause = failed.state.kind === 'failed' ? failureCause(failed.state) : stateWords(failed.state, at);
  return `, job ${failed.jobNumber}${cause === '' ? '' : `: ${cause}`}`;
}

/** `3 d 4 h`, `2 h 5 min`, `40 s`: the two largest units. */
export function durationWords(seconds: number): string {
  const whole = Math.round(seconds);
  const parts: [number, string][] = [
    [Math.floor(whole / 86_400), 'd'],
    [Math.floor((whole % 86_400) / 3600), 'h'],
    [Math.floor((whole % 3600) / 60), 'min'],
    [whole % 60, 's'],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  if (first < 0) return '0 s';
  return parts
    .slice(first, first + (first >= 2 ? 1 : 2))
    .filter(([value]) => value > 0)
    .map(([value, unit]) => `${value} ${unit}`)
    .join(' ');
}
