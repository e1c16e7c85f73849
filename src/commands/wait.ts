import { messageOf } from '../base/problem.ts';
import { renderLine } from '../report/render.ts';
import type { Report } from '../report/report.ts';

// Gently: what a person waits for takes hours, and the controller serves everybody.
const FIRST_PAUSE_SECONDS = 10;
const LONGEST_PAUSE_SECONDS = 300;

/** How a wait ended. */
export type Waited = 'reached' | 'timed out' | 'interrupted';

/**
 * Looks again and again until the chains have started or finished, with longer and longer pauses, and says so only when
 * something changed.
 * @param look one look at all of them
 * @param wanted how many chains there are
 * @param timeoutSeconds after which it gives up waiting; the jobs go on
 */
export async function waitFor(
  goal: 'started' | 'finished',
  look: () => Promise<readonly Report[]>,
  wanted: number,
  timeoutSeconds: number,
  signal: AbortSignal,
  progress: (line: string) => void,
): Promise<{ readonly reports: readonly Report[]; readonly how: Waited }> {
  const end = Date.now() + timeoutSeconds * 1000;
  let said = '';
  let reports: readonly Report[] = [];
  for (let pause = FIRST_PAUSE_SECONDS; ; pause = Math.min(pause * 1.5, LONGEST_PAUSE_SECONDS)) {
    let line: string;
    try {
      reports = await look();
      line = reports.map(renderLine).join('; ');
    } catch (error) {
      // A login node that does not answer for a while ends no wait.
      reports = [];
      line = messageOf(error);
    }
    if (line !== said) progress(line);
    said = line;
    if (reports.length === wanted && reports.every((report) => isReached(goal, report))) return { reports, how: 'reached' };
    if (signal.aborted) return { reports, how: 'interrupted' };
    const left = end - Date.now();
    if (left <= 0) return { reports, how: 'timed out' };
    await sleep(Math.min(pause * 1000, left), signal);
    if (signal.aborted) return { reports, how: 'interrupted' };
  }
}

function isReached(goal: 'started' | 'finished', { status }: Report): boolean {
  const state = status?.state;
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

function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener('abort', done);
    if (signal.aborted) done();
  });
}
