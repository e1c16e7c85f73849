import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf, Problem } from '../base/problem.ts';
import { renderLine } from '../report/render.ts';
import type { Report } from '../report/report.ts';
import { cancelOutcome } from './cancel.ts';
import { matchingClusters } from './clusters.ts';
import type { Context } from './context.ts';
import type { Outcome } from './outcome.ts';
import { status } from './status.ts';

// A chain takes hours, and the controller serves everybody, so the pauses grow.
const FIRST_PAUSE_SECONDS = 10;
const LONGEST_PAUSE_SECONDS = 300;

export type WaitGoal = 'started' | 'finished';

/** How a wait ended. */
export type WaitEnd = 'reached' | 'timed-out' | 'interrupted';

/**
 * Waits for chains, and reports how they stand at the end.
 * @param ids EXPERIMENT_IDs
 * @param timeoutSeconds after which it stops waiting; the jobs go on
 * @param cancelWhenInterrupted cancel the chains if the workflow run is cancelled
 */
export async function* waitForChains(
  context: Context,
  ids: ReadonlySet<string>,
  {
    goal,
    timeoutSeconds,
    cancelWhenInterrupted,
  }: {
    readonly goal: WaitGoal;
    readonly timeoutSeconds: number;
    readonly cancelWhenInterrupted: boolean;
  },
): AsyncGenerator<Outcome> {
  const { log, signal } = context;
  if (ids.size === 0) return;
  const target = { kind: 'ids', ids } as const;
  const look = async () => {
    const seen: Report[] = [];
    for await (const { login, listing, matches } of matchingClusters(context, { overrides: [] }, target)) {
      seen.push(...(await status(login, listing, matches, context.hidden)).reports);
    }
    return seen;
  };
  const { reports, end } = await waitFor({ goal, look, expected: ids.size, timeoutSeconds, signal, progress: log.info });
  if (end === 'timed-out') log.warning(`still not ${goal} after ${timeoutSeconds / 60} minutes; the jobs go on`);
  if (end === 'interrupted' && cancelWhenInterrupted) {
    log.warning('the workflow run was cancelled, and with it the jobs (cancel-jobs-on-cancel)');
    const by = `cancelled-workflow-run ${context.launcher.runUrl}`;
    for await (const { login, listing, matches } of matchingClusters(context, { overrides: [] }, target)) {
      for (const summary of matches) {
        const order = { summary, workdir: listing.workdir, job: undefined, cell: undefined, by, hidden: context.hidden };
        yield await cancelOutcome(login, order);
      }
    }
  } else {
    for (const report of reports) yield { kind: 'chain', report };
  }
  if (reports.some((report) => report.state === 'failed')) {
    yield { kind: 'problem', error: new Problem('a chain failed; its report says where') };
  }
}

/**
 * Looks until the chains have started or finished, with growing pauses. Says something only when something changed.
 * @param look one look at all chains
 * @param expected the number of chains
 */
export async function waitFor({
  goal,
  look,
  expected,
  timeoutSeconds,
  signal,
  progress,
  firstPauseSeconds = FIRST_PAUSE_SECONDS,
}: {
  readonly goal: WaitGoal;
  readonly look: () => Promise<readonly Report[]>;
  readonly expected: number;
  readonly timeoutSeconds: number;
  readonly signal: AbortSignal;
  readonly progress: (line: string) => void;
  /** Tests shorten it. */
  readonly firstPauseSeconds?: number;
}): Promise<{ readonly reports: readonly Report[]; readonly end: WaitEnd }> {
  const deadline = Date.now() + timeoutSeconds * 1000;
  let said = '';
  for (let pause = firstPauseSeconds; ; pause = Math.min(pause * 1.5, LONGEST_PAUSE_SECONDS)) {
    const { reports, line } = await lookOnce(look);
    if (line !== said) progress(line);
    said = line;
    if (reports.length === expected && reports.every((report) => isReached(goal, report))) return { reports, end: 'reached' };
    const left = deadline - Date.now();
    if (!signal.aborted && left <= 0) return { reports, end: 'timed-out' };
    await sleep(Math.min(pause * 1000, left), undefined, { signal }).catch(() => {});
    if (signal.aborted) return { reports, end: 'interrupted' };
  }
}

/** A login node that does not answer for a while does not end the wait. */
async function lookOnce(look: () => Promise<readonly Report[]>): Promise<{ reports: readonly Report[]; line: string }> {
  try {
    const reports = await look();
    return { reports, line: reports.map(renderLine).join('; ') };
  } catch (error) {
    return { reports: [], line: messageOf(error) };
  }
}

function isReached(goal: WaitGoal, { status: chain }: Report): boolean {
  const state = chain?.state;
  switch (state) {
    case 'complete':
    case 'ended':
    case 'failed':
      return true;
    case 'running':
      return goal === 'started';
    case 'waiting':
    case 'unknown':
    case undefined:
      return false;
    default:
      return state satisfies never;
  }
}
