// Every state that a comment can show: its heading, its jobs, its cells and its advice.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TaskState } from '../../src/chain/state.ts';
import type { CellStatus, ChainStatus, JobStatus } from '../../src/chain/status.ts';
import { renderComment, renderLine, statusDescription } from '../../src/report/render.ts';
import { renderHelp, renderProblem } from '../../src/report/replies.ts';
import type { Report } from '../../src/report/report.ts';
import { cellWords, chainWords, stateWords } from '../../src/report/words.ts';

const NOW = 1_800_000_000;
const ID = 'smoke-1a2b3c4d5e6f';
const RUNNING: TaskState = { kind: 'running', node: 'n1', since: NOW - 3700 };
const WAITING: TaskState = { kind: 'waiting-for-job' };
const FAILED: TaskState = { kind: 'failed', exit: 3 };

function cell(more: Partial<CellStatus> = {}): CellStatus {
  return {
    ...{ number: 0, newest: 'step_99', stepsDone: 100, nSteps: 400, complete: false, current: { jobNumber: 1, state: RUNNING } },
    ...{ stoppedLater: false, failed: false, log: undefined, secondsLeft: undefined, jobsShort: undefined },
    ...more,
  };
}
const job = (jobNumber: number, state: TaskState, more: Partial<JobStatus> = {}): JobStatus => ({
  ...{ jobNumber, cell: undefined, jobId: String(4710 + jobNumber), after: jobNumber === 1 ? [] : [String(4709 + jobNumber)] },
  ...{ tasks: [{ state, count: 2 }], alive: true },
  ...more,
});
function status(more: Partial<ChainStatus> = {}): ChainStatus {
  return {
    ...{ state: 'running', running: { first: 1, last: 1 }, next: undefined, at: NOW, lastJob: 2, wantedJobs: 2, extendBy: 0 },
    jobs: [job(1, RUNNING), job(2, WAITING)],
    cells: [cell()],
    ...more,
  };
}
function report(more: Partial<Report> = {}): Report {
  return {
    ...{
      command: 'status',
      state: 'running',
      id: ID,
      name: 'smoke',
      commit: '1a2b3c4d5e6f'.padEnd(40, '0'),
      subject: 'Try',
      path: 'a.yaml',
    },
    ...{ overrides: [], cluster: 'entropy', slurm: [], cells: [{ number: 0, choices: {}, nSteps: 400 }], jobCount: 2, gpuHours: undefined },
    ...{ jobs: [], places: { experiment: `/w/experiments/${ID}`, checkpoints: `/ckpt/${ID}` }, wandb: undefined, later: [] },
    launcher: { actor: 'alice', runUrl: '', repository: 'lab/nano', pullRequest: undefined, at: '2026-12-01T10:02:03Z' },
    ...{ pullRequests: [], commands: undefined, submissions: [], notes: [] },
    ...more,
  };
}
const of = (chain: Partial<ChainStatus>, more: Partial<Report> = {}) => {
  const seen = status(chain);
  return report({ state: seen.state, status: seen, ...more });
};
const heading = (one: Report) => /^### smoke-1a2b3c4d5e6f: (.*)$/m.exec(renderComment(one))?.[1];
const queued = [{ jobNumber: 1, cell: undefined, jobId: '4711', after: [], state: 'PENDING' }];

for (const [what, one, expected] of [
  ['planned', report({ command: 'plan', state: 'planned' }), 'planned, 2 jobs; nothing was submitted'],
  ['one job planned', report({ command: 'plan', state: 'planned', jobCount: 1 }), 'planned, 1 job; nothing was submitted'],
  ['submitted', report({ command: 'launch', state: 'submitted' }), 'submitted, 2 jobs'],
  ['extended', report({ command: 'launch', state: 'extended', jobCount: 5 }), 'extended to 5 jobs'],
  ['in the queue already', of({}, { command: 'launch', state: 'alive' }), 'running, job 1 of 2; nothing new was submitted'],
  ['in the queue, not asked', report({ command: 'launch', state: 'alive' }), 'in the queue already; nothing new was submitted'],
  ['running', of({}), 'running, job 1 of 2'],
  ['two jobs running', of({ running: { first: 1, last: 2 } }), 'running, jobs 1 to 2 of 2'],
  ['some not queued', of({ wantedJobs: 5 }), 'running, job 1 of 2 (5 were asked for)'],
  [
    'waiting',
    of({ state: 'waiting', running: undefined, next: { jobNumber: 2, state: { kind: 'pending', reason: 'Resources' } } }),
    'job 2 of 2: waiting for resources (Resources: no resources are free)',
  ],
  ['complete', of({ state: 'complete', cells: [cell({ complete: true })] }), 'complete: every cell is complete'],
  ['complete at a launch', of({ state: 'complete' }, { command: 'launch' }), 'complete: every cell is complete, nothing was submitted'],
  ['ended', of({ state: 'ended' }), 'ended before training was complete: nothing is in the queue, 0 of 1 cell complete'],
  [
    'failed',
    of({ state: 'failed', cells: [cell({ failed: true, current: { jobNumber: 2, state: FAILED } }), cell({ complete: true })] }),
    'failed, job 2: exit code 3. Nothing is in the queue, 1 of 2 cells complete',
  ],
  [
    'out of memory',
    of({ state: 'failed', cells: [cell({ failed: true, current: { jobNumber: 1, state: { kind: 'out-of-memory' } } })] }),
    'failed, job 1: out of memory. Nothing is in the queue, 0 of 1 cell complete',
  ],
  ['cancelled', report({ command: 'cancel', state: 'cancelled' }), 'cancelled'],
  ['partly cancelled', of({}, { command: 'cancel', state: 'cancelled', jobs: queued }), 'partly cancelled; running, job 1 of 2'],
  ['unknown', of({ state: 'unknown' }), 'squeue does not answer, so it is not known what runs'],
] as const) {
  test(`the heading of a chain: ${what}`, () => assert.equal(heading(one), expected));
}

for (const [state, words] of [
  [{ kind: 'waiting-for-throttle' }, 'waiting for other cells (max_concurrent_jobs)'],
  [{ kind: 'pending', reason: 'None' }, 'waiting for resources'],
  [{ kind: 'pending', reason: '' }, 'waiting for resources'],
  [
    { kind: 'held', reason: 'JobHeldUser' },
    'held (JobHeldUser: by its owner, or by a launch that was interrupted; launch again to settle it)',
  ],
  [{ kind: 'held', reason: 'DependencyNeverSatisfied' }, 'held (DependencyNeverSatisfied: its dependency can never be satisfied)'],
  [{ kind: 'running', node: '', since: undefined }, 'running'],
  [{ kind: 'running', node: '', since: NOW + 9 }, 'running for 0 s'],
  [{ kind: 'suspended', reason: 'None', since: NOW }, 'suspended'],
  [{ kind: 'suspended', reason: 'Gang', since: NOW }, 'suspended (Gang)'],
  [{ kind: 'failed' }, 'failed'],
  [{ kind: 'failed', signal: 'KILL' }, 'failed, signal KILL'],
  [{ kind: 'cancelled' }, 'cancelled'],
  [{ kind: 'cancelled', beforeRun: true }, 'cancelled before its run began'],
  [{ kind: 'stopped', why: 'vanished' }, 'stopped by the stop rule (its checkpoints are gone)'],
  [{ kind: 'unknown', why: { kind: 'slurm-state', state: 'REVOKED' } }, 'not known: Slurm says REVOKED'],
] as const satisfies readonly (readonly [TaskState, string])[]) {
  test(`a task is ${words}`, () => assert.equal(stateWords(state, NOW), words));
}

test('a cell in words', () => {
  assert.equal(cellWords(cell(), NOW), 'job 1: running for 1 h 1 min on n1');
  assert.equal(cellWords(cell({ complete: true }), NOW), 'complete');
  assert.equal(cellWords(cell({ current: undefined }), NOW), 'nothing was queued');
  const stopped = cell({ failed: true, stoppedLater: true, current: { jobNumber: 2, state: FAILED } });
  assert.equal(cellWords(stopped, NOW), 'job 2: failed, exit code 3; the stop rule ended the later jobs');
});

const drawn = (state: TaskState, alive = false) => /:::(\w+)/.exec(renderComment(of({ jobs: [job(1, state, { alive })] })))?.[1];

test('a job is drawn as what it is: every kind of failure is red', () => {
  assert.equal(drawn(RUNNING, true), 'running');
  assert.equal(drawn(WAITING, true), 'waiting');
  assert.equal(drawn({ kind: 'time-limit' }), 'ended');
  assert.equal(drawn({ kind: 'finished' }), 'ended');
  const failures: TaskState[] = [
    FAILED,
    { kind: 'out-of-memory' },
    { kind: 'node-failure' },
    { kind: 'cell-taken' },
    { kind: 'stopped', why: 'failures' },
  ];
  for (const state of failures) assert.equal(drawn(state), 'failed', state.kind);
});

test('what a job did: its states, the most frequent first, running without its node', () => {
  const tasks = [
    { state: FAILED, count: 1 },
    { state: RUNNING, count: 3 },
    { state: { ...RUNNING, node: 'n2' }, count: 2 },
  ];
  assert.match(renderComment(of({ jobs: [job(1, RUNNING, { tasks })] })), /^\| 1 \| `4711` \| {2}\| 5 running, 1 failed, exit code 3 \|$/m);
});

test('advice: what to type, with the id that cannot mean another chain', () => {
  const tip = (one: Report) => [...renderComment(one).matchAll(/^> \[!TIP\]\n> (.*)$/gm)].map(([, text]) => text);
  assert.deepEqual(tip(of({})), []);
  assert.deepEqual(tip(of({ extendBy: 3 })), [`At this pace the jobs in the queue are not enough. To add 3 jobs: \`/extend ${ID} 3\``]);
  assert.deepEqual(tip(of({ state: 'ended', extendBy: 2 })), [`To continue from the newest checkpoints: \`/extend ${ID} 2\``]);
  assert.match(
    tip(of({ state: 'failed', cells: [cell({ newest: undefined })] })).join(),
    /^Nothing was saved\. Fix the cause, push, and launch again/,
  );
  assert.match(tip(of({ wantedJobs: 5 })).join(), /no room for 3 jobs of the chain\. Launch again/);
  assert.deepEqual(tip(of({ state: 'complete', extendBy: 3 })), []);
  assert.deepEqual(tip(of({ state: 'unknown', extendBy: 3 })), []);
  assert.deepEqual(tip(of({ lastJob: 0, wantedJobs: 5 })), [], 'without a ledger nobody knows what is missing');
});

test('progress: a bar with the time that is left, cells that need somebody first', () => {
  const body = renderComment(of({ cells: [cell({ secondsLeft: 9000 })] }));
  assert.match(body, /\| `step_99` \| ██░░░░░░░░ 25%, 2\u00a0h\u00a030\u00a0min\u00a0left \|/);
  const many = Array.from({ length: 40 }, (_, number) => cell({ number, complete: number < 35, failed: number === 38 }));
  const rows = [...renderComment(of({ cells: many })).matchAll(/^\| (\d+) \| no grid /gm)].map(([, number]) => Number(number));
  assert.equal(rows.length, 30);
  assert.deepEqual(rows.slice(0, 6), [38, 35, 36, 37, 39, 0]);
});

test('a commit status and a log line say the same in short', () => {
  assert.equal(statusDescription(of({})), 'running, job 1 of 2, 25%');
  assert.equal(statusDescription(of({}, { state: 'alive', command: 'launch' })), 'running, job 1 of 2, 25%');
  assert.equal(statusDescription(of({ cells: [cell({ nSteps: undefined })] })), 'running, job 1 of 2');
  assert.equal(statusDescription(of({ state: 'complete', cells: [cell({ complete: true })] })), 'complete: every cell is complete');
  assert.equal(renderLine(of({})), `${ID}: running, job 1 of 2 (cell 0 step_99)`);
  assert.equal(renderLine(report({ command: 'plan', state: 'planned' })), `${ID}: planned, 2 jobs; nothing was submitted`);
  assert.match(renderLine(of({ cells: Array.from({ length: 9 }, () => cell({ newest: undefined })) })), /cell 0 none, …\)$/);
});

test('the chain in words never depends on what is missing', () => {
  assert.equal(chainWords(status({ state: 'waiting', running: undefined })), 'waiting');
  assert.equal(chainWords(status({ state: 'failed', cells: [] })), 'failed. Nothing is in the queue, 0 of 0 cells complete');
});

test('answers without a report', () => {
  const problem = renderProblem('/extend `x`', ['one', 'two']);
  assert.match(
    problem,
    /^<!-- slurm-chain problem -->\n\n### Not done: `` \/extend `x` ``\n\n> \[!CAUTION\]\n> one\n\n> \[!CAUTION\]\n> two\n\nTry again after fixing this\.$/,
  );
  const help = renderHelp("there is no command /x; did you mean 'status'?", [['/status [WHAT]', 'look again']]);
  assert.match(help, /^<!-- slurm-chain help -->\n\nThere is no command \/x; did you mean 'status'\? These are the commands:/);
  assert.match(renderHelp('there is no command /x', []), /\/x\. These are/);
  assert.match(help, /\| `\/status \[WHAT\]` \| look again \|/);
});
