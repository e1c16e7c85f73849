import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChainStatus } from '../../src/chain/status.ts';
import { waitFor } from '../../src/commands/wait.ts';
import type { Report } from '../../src/report/report.ts';

const report = (state: ChainStatus['state'], id = 'a') =>
  ({
    ...{ id, state, jobCount: 2, jobs: [] },
    status: { state, running: { first: 1, last: 1 }, next: undefined, at: 0, jobs: [], cells: [], lastJob: 2, wantedJobs: 2, extendBy: 0 },
  }) as unknown as Report;

/** A look that gives one of these after the other, and the last one for ever. */
function looks(...all: (readonly Report[] | Error)[]): { look: () => Promise<readonly Report[]>; times: () => number } {
  let times = 0;
  const look = async () => {
    const seen = all[Math.min(times, all.length - 1)] ?? [];
    times += 1;
    if (seen instanceof Error) throw seen;
    return seen;
  };
  return { look, times: () => times };
}
const options = (look: () => Promise<readonly Report[]>, lines: string[] = []) => ({
  ...{ look, expected: 1, timeoutSeconds: 60, signal: new AbortController().signal, firstPauseSeconds: 0.001 },
  progress: (line: string) => lines.push(line),
});

test('started is reached by a task that runs, finished only by the end', async () => {
  const started = looks([report('waiting')], [report('running')]);
  assert.equal((await waitFor({ ...options(started.look), goal: 'started' })).end, 'reached');
  assert.equal(started.times(), 2);
  for (const end of ['complete', 'ended', 'failed'] as const) {
    const finished = looks([report('running')], [report('unknown')], [report(end)]);
    const { reports } = await waitFor({ ...options(finished.look), goal: 'finished' });
    assert.deepEqual([finished.times(), reports[0]?.state], [3, end]);
  }
});

test('all chains have to be there', async () => {
  const both = looks(
    [report('complete', 'a')],
    [report('complete', 'a'), report('running', 'b')],
    [report('complete', 'a'), report('ended', 'b')],
  );
  await waitFor({ ...options(both.look), goal: 'finished', expected: 2 });
  assert.equal(both.times(), 3);
});

test('it says something only when something changed, and a failed look does not end the wait', async () => {
  const lines: string[] = [];
  const seen = looks([report('running')], [report('running')], new Error('no route to host'), [report('complete')]);
  await waitFor({ ...options(seen.look, lines), goal: 'finished' });
  assert.equal(lines.length, 3, lines.join('\n'));
  assert.equal(lines[1], 'no route to host');
});

test('it gives up after its time, with what it saw last', async () => {
  const seen = looks([report('running')]);
  const { end, reports } = await waitFor({ ...options(seen.look), goal: 'finished', timeoutSeconds: 0.05 });
  assert.deepEqual([end, reports[0]?.state], ['timed-out', 'running']);
});

test('an interruption ends it at once', async () => {
  const interruption = new AbortController();
  const seen = looks([report('running')]);
  const waiting = waitFor({ ...options(seen.look), goal: 'finished', signal: interruption.signal, firstPauseSeconds: 3600 });
  interruption.abort();
  assert.equal((await waiting).end, 'interrupted');
});
