// Every state that a comment can show: its heading, its jobs, its cells and its advice.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TaskState } from '../../src/chain/state.ts';
import type { CellStatus, ChainStatus, JobStatus } from '../../src/chain/status.ts';
import { renderComment, renderLine, renderSummary, statusDescription } from '../../src/report/render.ts';
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
  [{ kind: 'held', reason: '' }, 'held'],
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
  assert.equal(chainWords(status({ running: undefined })), 'running, job 2 of 2');
  assert.equal(chainWords(status({ state: 'complete', cells: [] })), 'complete: every cell is complete');
  const silent = cell({ failed: true, current: { jobNumber: 2, state: { kind: 'failed' } } });
  assert.equal(chainWords(status({ state: 'failed', cells: [silent] })), 'failed, job 2. Nothing is in the queue, 0 of 1 cell complete');
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

/** The rows of the table whose head has these cells; each row as its cells. */
function rowsOf(body: string, head: string): string[][] {
  const [, rows = ''] = body.split(`| ${head} |\n`);
  const cells = (line: string) => line.slice(2, -2).split(' | ');
  return rows
    .slice(0, rows.search(/\n(?!\|)|$/))
    .split('\n')
    .slice(1)
    .map(cells);
}
const factsOf = (one: Report) =>
  Object.fromEntries(rowsOf(renderComment(one), ' | ').map(([key = '', ...rest]) => [key, rest.join(' | ')]));
/** What is folded under a summary; undefined if nothing is. */
const folded = (body: string, summary: string) => body.split(`<details><summary>${summary}</summary>\n\n`)[1]?.split('\n\n</details>')[0];
const BY = { actor: 'alice', runUrl: 'https://github.com/lab/nano/actions/runs/123', at: '2026-12-01T10:02:03Z' };
const LAUNCHER = { ...BY, repository: 'lab/nano', pullRequest: 1 };

test('the facts at the top of a comment', () => {
  const one = report({
    ...{ state: 'submitted', command: 'launch', overrides: ['train.lr=1', 'a=`b`'], gpuHours: 1234.4, launcher: LAUNCHER },
    slurm: [
      ...([
        ['time', '2-0'],
        ['mem', '8G'],
        ['nodes', '2'],
        ['gpus-per-node', '8'],
        ['gpus', '4'],
        ['gres', 'gpu:1'],
      ] as const),
      ...([
        ['partition', 'h100'],
        ['exclusive', true],
      ] as const),
    ],
    wandb: { group: 'https://wandb.ai/e/p/groups/g/workspace', runs: Array.from({ length: 10 }, (_, run) => `https://wandb.ai/r/${run}`) },
  });
  assert.deepEqual(factsOf(one), {
    commit: '[`1a2b3c4`](https://github.com/lab/nano/commit/1a2b3c4d5e6f0000000000000000000000000000) Try · `a.yaml`',
    overrides: '`train.lr=1` `` a=`b` ``',
    cluster: 'entropy · h100 · gpu:1 · 4 · 8 · 2 nodes · 2\\-0',
    size: '1 cell × 2 jobs · at most 1,234 GPU-hours',
    'W&B': `[group](https://wandb.ai/e/p/groups/g/workspace) · ${Array.from({ length: 8 }, (_, run) => `[cell ${run}](https://wandb.ai/r/${run})`).join(' · ')} · 2 more in the group`,
    'launched by': 'alice, [run 123](https://github.com/lab/nano/actions/runs/123), 2026-12-01 10:02 UTC',
  });
});

test('facts that are missing leave no gap', () => {
  const launcher = { ...LAUNCHER, runUrl: '', repository: '', at: 'yesterday' };
  assert.deepEqual(factsOf(report({ command: 'plan', state: 'planned', cluster: undefined, launcher })), {
    ...{ commit: '`1a2b3c4` Try · `a.yaml`', cluster: 'none configured', size: '1 cell × 2 jobs · no time limit given' },
    'planned by': 'alice, yesterday',
  });
  const runs = [0, 1].map((run) => `https://wandb.ai/r/${run}`);
  assert.equal(factsOf(report({ wandb: { group: '', runs } }))['W&B'], `group · [cell 0](${runs[0]}) · [cell 1](${runs[1]})`);
  const local = { ...LAUNCHER, runUrl: '' };
  assert.match(factsOf(report({ launcher: local }))['commit'] ?? '', /\(https:\/\/github\.com\/lab\/nano\/commit\//);
  const enterprise = { ...LAUNCHER, runUrl: 'https://git.lab.edu/lab/nano/actions/runs/1' };
  assert.match(factsOf(report({ launcher: enterprise }))['commit'] ?? '', /\(https:\/\/git\.lab\.edu\/lab\/nano\/commit\//);
});

test('who extended or continued a chain: the last three, each with its jobs', () => {
  const later = [1, 2, 3, 4].map((number) => ({
    ...{ ...BY, actor: `user${number}`, runUrl: '', command: number === 3 ? 'extend' : 'launch' },
    jobNumbers: [number * 2, number * 2 + 1],
  }));
  assert.deepEqual(rowsOf(renderComment(report({ later })), ' | ').slice(-3), [
    ['continued by', 'user2, 2026-12-01 10:02 UTC, jobs 4 to 5'],
    ['extended by', 'user3, 2026-12-01 10:02 UTC, jobs 6 to 7'],
    ['continued by', 'user4, 2026-12-01 10:02 UTC, jobs 8 to 9'],
  ]);
});

test('the time of the look, while anything may change', () => {
  const asOf = (state: ChainStatus['state']) => factsOf(of({ state }))['as of'];
  assert.deepEqual([asOf('running'), asOf('waiting')], ['2027-01-15 08:00 UTC', '2027-01-15 08:00 UTC']);
  assert.deepEqual([asOf('ended'), asOf('complete'), factsOf(report())['as of']], [undefined, undefined, undefined]);
});

test('the jobs of a launch, before anybody looked at them', () => {
  const sent = (jobNumber: number, cell: number | undefined, jobId: string, after: string[]) => ({
    jobNumber,
    cell,
    jobId,
    after,
    state: 'PENDING',
  });
  const HEAD = 'job | Slurm id | after | tasks | state';
  const arrays = report({ jobs: [sent(1, undefined, '11', []), sent(2, undefined, '12', ['11', '1', '2', '3', '4'])] });
  assert.deepEqual(rowsOf(renderComment(arrays), HEAD), [
    ['1', '`11`', '', '1 cell', 'pending'],
    ['2', '`12`', '`11` `1` `2` `3`', '1 cell', 'waiting for the previous job'],
  ]);
  const perCell = report({ jobs: [sent(1, undefined, '11', []), ...[0, 1, 2].map((cell) => sent(2, cell, `2${cell}`, [`11_${cell}`]))] });
  assert.deepEqual(rowsOf(renderComment(perCell), HEAD)[1], [
    ...['2', '`20` … `22`', 'each cell its own', '3 jobs of one cell', 'waiting for the previous job'],
  ]);
  for (const one of [report(), of({ jobs: [] })]) {
    assert.doesNotMatch(renderComment(one), /\| job \| Slurm id/, 'no table without jobs');
  }
  assert.equal(folded(renderComment(report()), 'chain diagram'), undefined);
  assert.match(folded(renderComment(arrays), 'chain diagram') ?? '', /mermaid/);
  assert.match(folded(renderComment(of({})), 'chain diagram') ?? '', /mermaid/);
});

test('the jobs of a long chain: the first and the last 15', () => {
  const HEAD = 'job | Slurm id | after | cells';
  const jobs = (number: number) => Array.from({ length: number }, (_, index) => job(index + 1, WAITING));
  assert.equal(rowsOf(renderComment(of({ jobs: jobs(30) })), HEAD).length, 30);
  const rows = rowsOf(renderComment(of({ jobs: jobs(35) })), HEAD);
  assert.deepEqual(
    rows.map(([number]) => number),
    [...Array.from({ length: 15 }, (_, index) => String(index + 1)), '…', ...Array.from({ length: 15 }, (_, index) => String(index + 21))],
  );
  assert.deepEqual(rows[15], ['…', '', '', '5 more jobs']);
  const tasks = Array.from({ length: 7 }, (_, exit) => ({ state: { kind: 'failed', exit: exit + 1 } as const, count: 10 - exit }));
  const [[, , , text = ''] = []] = rowsOf(renderComment(of({ jobs: [job(1, FAILED, { tasks })] })), HEAD);
  assert.match(text, /^10 failed, exit code 1, .*, 5 failed, exit code 6, …$/);
  const six = rowsOf(renderComment(of({ jobs: [job(1, FAILED, { tasks: tasks.slice(0, 6) })] })), HEAD);
  assert.match(six[0]?.[3] ?? '', /exit code 6$/);
});

test('the cells of a plan: what each one trains, and for how long', () => {
  const cells = (number: number) =>
    Array.from({ length: number }, (_, index) => ({
      number: index,
      choices: index === 0 ? {} : { lr: String(index) },
      nSteps: index === 0 ? undefined : 5000,
    }));
  const plan = (number: number) => renderComment(report({ state: 'planned', cells: cells(number) }));
  assert.deepEqual(rowsOf(plan(2), 'cell | grid | training steps'), [
    ['0', 'no grid', ''],
    ['1', '`lr=1`', '5,000'],
  ]);
  assert.equal(folded(plan(8), '8 cells'), undefined, 'a few cells are in sight');
  assert.match(folded(plan(9), '9 cells') ?? '', /^\| cell \| grid/);
  assert.match(folded(plan(1031), '1,031 cells') ?? '', /\n\n… and 1,001 more cells, in the summary of the workflow run\.$/);
  assert.doesNotMatch(plan(30), /more cells?, in/);
  assert.match(renderSummary(report({ state: 'planned', cells: cells(1031) })), /\n\| 1030 \| `lr=1030` \| 5,000 \|/);
});

test('the cells of a chain: grid, newest checkpoint, progress, state', () => {
  const HEAD = 'cell | grid | newest checkpoint | progress | state';
  const one = of(
    {
      cells: [
        cell({ number: 0, complete: true, stepsDone: 400 }),
        cell({ number: 1, newest: undefined, stepsDone: 0, secondsLeft: 0 }),
        cell({ number: 2, nSteps: undefined, stepsDone: 1234 }),
        cell({ number: 3, nSteps: undefined, stepsDone: 0 }),
        cell({ number: 4, nSteps: undefined, complete: true }),
        cell({ number: 5, stepsDone: 999 }),
      ],
    },
    { cells: [{ number: 0, choices: { lr: '1' }, nSteps: 400 }] },
  );
  assert.deepEqual(
    rowsOf(renderComment(one), HEAD).map((row) => row.slice(0, 4)),
    [
      ['0', '`lr=1`', '`step_99`', '██████████ 100%'],
      ['1', 'no grid', '', '░░░░░░░░░░ 0%, 0\u00a0s\u00a0left'],
      ['2', 'no grid', '`step_99`', '1,234 steps'],
      ['3', 'no grid', '`step_99`', ''],
      ['4', 'no grid', '`step_99`', '██████████'],
      ['5', 'no grid', '`step_99`', '██████████ 100%'],
    ],
  );
  const many = Array.from({ length: 31 }, (_, number) => cell({ number, complete: number < 3, jobsShort: number === 30 ? 1 : undefined }));
  const body = folded(renderComment(of({ cells: many })), '31 cells, 3 complete') ?? '';
  assert.deepEqual(
    rowsOf(body, HEAD)
      .slice(0, 2)
      .map(([number]) => number),
    ['30', '3'],
    'first those that need more jobs',
  );
  const fitting = folded(renderComment(of({ cells: many.slice(0, 30).reverse() })), '30 cells, 3 complete') ?? '';
  assert.equal(rowsOf(fitting, HEAD)[0]?.[0], '29', 'if all fit, they stay in their order');
});

test('some cells without a checkpoint do not hide those that have one', () => {
  const ended = of({ state: 'ended', cells: [cell(), cell({ number: 1, newest: undefined })] });
  assert.match(renderComment(ended), /To continue from the newest checkpoints/);
});

test('where the checkpoints and the records are', () => {
  const layout = (cells: number) =>
    folded(
      renderComment(report({ cells: report().cells.flatMap((one) => Array.from({ length: cells }, (_, number) => ({ ...one, number }))) })),
      'checkpoint layout',
    );
  assert.equal(
    layout(5),
    [
      ...['```', `/ckpt/${ID}/`, '├── .chain/manifest.json   what was launched', '├── .chain/{cell}.jsonl    every task that ran'],
      ...['├── 0/step_*', '├── 1/step_*', '├── 2/step_*', '└── … 4/step_*', '', `/w/experiments/${ID}/`],
      ...['├── manifest.json  ledger.jsonl  job.sh  run.sh', '├── code/         a copy of the commit, where jobs start'],
      ...['├── configs/      config_{cell}.yaml', '└── logs/         {job}_{Slurm id}_{cell}.out', '```'],
    ].join('\n'),
  );
  assert.match(layout(4) ?? '', /├── 2\/step_\*\n└── … 3\/step_\*\n\n/);
  assert.match(layout(3) ?? '', /├── 1\/step_\*\n└── 2\/step_\*\n\n/);
  assert.match(layout(1) ?? '', /jsonl .*\n└── 0\/step_\*\n\n/);
});

test('notes and the ends of logs', () => {
  const body = renderComment(of({}, { notes: ['a *note*'], logs: [{ file: '1_4711_0.out', text: 'one\ntwo\n' }] }));
  assert.match(body, /^> \[!NOTE\]\n> a \\\*note\\\*$/m);
  assert.equal(folded(body, 'end of 1_4711_0.out'), '```\none\ntwo\n```');
});

test('commands to copy into a shell on the cluster', () => {
  const commands = { queue: 'squeue -j 1', log: 'tail -f x', cancel: 'scancel 3 2 1' };
  assert.match(
    folded(renderComment(report({ commands })), 'on the cluster') ?? '',
    /^```sh\nsqueue -j 1\ntail -f x\nscancel 3 2 1\n```\n\n`scancel` cancels/,
  );
  assert.equal(folded(renderComment(report()), 'on the cluster'), undefined);
});

test('the sbatch calls: all of a plan, and after a launch the first two, as words of a shell', () => {
  const submissions = [1, 2, 3, 4].map((jobNumber) => ({
    ...{ jobNumber, cell: undefined, environment: { CHAIN_STEP: String(jobNumber), NAME: 'a b' } },
    arguments: ['--hold', "--comment=it's", '--array=0-3%2', '--dependency=afterany:@', '--x=é', '--y='],
  }));
  const line = (number: number) =>
    `CHAIN_STEP=${number} NAME='a b' sbatch --parsable --hold '--comment=it'\\''s' --array=0-3%2 --dependency=afterany:@ '--x=é' --y= /w/experiments/${ID}/job.sh`;
  const NOTE = '`@` stands for the id of the previous job.';
  const plan = report({ state: 'planned', submissions });
  assert.equal(folded(renderComment(plan), 'the sbatch calls'), `\`\`\`sh\n${[1, 2, 3, 4].map(line).join('\n')}\n\`\`\`\n\n${NOTE}`);
  const launch = folded(renderComment(report({ state: 'submitted', submissions })), 'sbatch');
  assert.equal(launch, `\`\`\`sh\n${[1, 2].map(line).join('\n')}\n\`\`\`\n\n${NOTE}\n\n… and 2 more jobs like the last.`);
  assert.equal(folded(renderComment(report({ submissions: submissions.slice(0, 2) })), 'sbatch')?.endsWith(NOTE), true);
  assert.doesNotMatch(renderComment(report()), /sbatch/);
});

test('a comment that is too long shows fewer cells, and if that is not enough it is cut', () => {
  const long = 'x'.repeat(50);
  const cells = Array.from({ length: 30 }, (_, number) => ({
    ...{ number, nSteps: 400, choices: Object.fromEntries(Array.from({ length: 60 }, (_, key) => [`${key}${long}`, long])) },
  }));
  const seen = of({ cells: cells.map(({ number }) => cell({ number })) }, { cells });
  assert.match(renderComment(seen), /… and 25 more cells/);
  const notes = Array.from({ length: 70 }, () => 'y'.repeat(1000));
  const cut = renderComment(of({}, { notes }));
  assert.ok(Buffer.byteLength(cut) <= 65_000);
  assert.ok(cut.startsWith(`<!-- slurm-chain ${ID} -->\n\n### `));
  assert.ok(cut.endsWith('\n\n_Cut off here: the summary of the workflow run has the whole report._\n'));
  const summary = renderSummary(of({}, { notes: Array.from({ length: 1100 }, () => 'y'.repeat(1000)) }));
  assert.match(summary, /\n\n> \[!NOTE\]\n/);
  assert.ok(summary.endsWith('\n_Cut off here: the manifest on the cluster has the rest._\n'));
});

test('a cancel that left nothing says so, whether or not anybody looked', () => {
  const left = (more: Partial<Report>) => heading(of({}, { command: 'cancel', state: 'cancelled', ...more }));
  assert.deepEqual([left({}), left({ jobs: queued })], ['cancelled', 'partly cancelled; running, job 1 of 2']);
  assert.equal(heading(report({ command: 'cancel', state: 'cancelled', jobs: queued })), 'cancelled');
});

test('a commit status and a log line without a look at the cluster, and with many cells', () => {
  assert.equal(statusDescription(report({ state: 'alive', command: 'launch' })), 'in the queue already; nothing new was submitted');
  assert.equal(statusDescription(report({ state: 'submitted' })), 'submitted, 2 jobs');
  assert.equal(statusDescription(of({ cells: [cell(), cell({ stepsDone: 300 })] })), 'running, job 1 of 2, 50%');
  assert.equal(statusDescription(of({ cells: [cell()] }, { state: 'complete' })), 'complete: every cell is complete, 25%');
  const cells = (number: number) => Array.from({ length: number }, (_, index) => cell({ number: index }));
  assert.match(renderLine(of({ cells: cells(8) })), /\(cell 0 step_99, cell 1 step_99, .*cell 7 step_99\)$/);
  assert.match(renderLine(of({ cells: cells(9) })), /cell 7 step_99, …\)$/);
});
