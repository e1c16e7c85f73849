// The chain diagram of the comment, read by the mermaid that GitHub draws it with.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import DOMPurify from 'dompurify';
import mermaid from 'mermaid';
import type { ChainStatus, JobStatus } from '../../src/chain/status.ts';
import { renderComment } from '../../src/report/render.ts';
import type { Report } from '../../src/report/report.ts';

// The grammar is what is asked about. What it cleans labels with needs a browser, and labels here are our own words.
Object.assign(DOMPurify, { addHook: () => {}, sanitize: (text: string) => text });

const step = (number: number, more: Partial<JobStatus> = {}): JobStatus => ({
  jobNumber: number,
  cell: undefined,
  jobId: String(4710 + number),
  after: number === 1 ? [] : [String(4709 + number)],
  tasks: [{ state: number === 1 ? { kind: 'running', node: '', since: undefined } : { kind: 'waiting-for-job' }, count: 2 }],
  alive: true,
  ...more,
});

function diagramOf(steps: readonly JobStatus[] | undefined): string {
  const status: ChainStatus | undefined = steps && {
    state: 'running',
    running: { first: 1, last: 1 },
    next: undefined,
    at: 0,
    jobs: steps,
    cells: [],
    extendBy: 0,
    lastJob: 3,
    wantedJobs: 3,
  };
  const report: Report = {
    command: 'status',
    state: 'running',
    ...{ id: 'smoke-1a2b3c4d5e6f', name: 'smoke', commit: '1a2b3c4d5e6f', subject: '', path: 'configs/smoke.yaml', overrides: [] },
    ...{
      cluster: 'entropy',
      slurm: [],
      cells: [],
      jobCount: 3,
      gpuHours: undefined,
      wandb: undefined,
      pullRequests: [],
      later: [],
      notes: [],
    },
    jobs: [1, 2].map((number) => ({ ...step(number), state: 'PENDING' })),
    places: { experiment: '/w/e', checkpoints: '/c/e' },
    launcher: { actor: 'alice', runUrl: '', repository: 'lab/nano', pullRequest: undefined, at: '' },
    commands: undefined,
    submissions: [],
    ...(status && { status }),
  };
  return /```mermaid\n([\s\S]*?)```/.exec(renderComment(report))?.[1] ?? assert.fail('there is no diagram');
}

for (const [what, steps] of [
  ['one step', [step(1)]],
  ['three steps', [1, 2, 3].map((number) => step(number))],
  ['a step behind several jobs', [step(1, { cell: 0 }), step(2, { cell: 1, after: [] }), step(3, { after: ['4711', '4712'] })]],
  ['more jobs than are drawn', Array.from({ length: 300 }, (_, index) => step(index + 1, { cell: index % 100 }))],
  ['steps that have ended', [step(1, { alive: false, tasks: [{ state: { kind: 'failed', exit: 1 }, count: 1 }] }), step(2)]],
  ['jobs nobody has looked at yet', undefined],
] as const) {
  test(`mermaid reads the diagram of ${what}`, async () => {
    const diagram = diagramOf(steps);
    assert.equal((await mermaid.parse(diagram)).diagramType, 'flowchart-v2');
    await assert.rejects(mermaid.parse(diagram.replace('"]', '"')), /Parse error/, 'and would not read a broken one');
  });
}

/** The lines of a diagram that draw nodes and arrows. */
const lines = (steps: readonly JobStatus[] | undefined) =>
  diagramOf(steps)
    .split('\n')
    .filter((line) => line.startsWith('  ') && !line.startsWith('  classDef'))
    .map((line) => line.trim());
const ended = (number: number, more: Partial<JobStatus> = {}) =>
  step(number, { alive: false, tasks: [{ state: { kind: 'finished' }, count: 1 }], ...more });

test('one node for each job, one arrow for each job that it waits for', () => {
  assert.deepEqual(lines([step(1), step(2, { cell: 0 }), step(3, { cell: 7, after: ['4711', '99'] })]), [
    'j4711["job 1<br/>4711"]:::running',
    'j4712["job 2, cell 0<br/>4712"]:::waiting',
    'j4713["job 3, cell 7<br/>4713"]:::waiting',
    'j4711 -- afterany --> j4712',
    'j4711 -- afterany --> j4713', // 99 is not drawn
  ]);
  assert.deepEqual(lines(undefined), [
    'j4711["job 1<br/>4711"]:::waiting',
    'j4712["job 2<br/>4712"]:::waiting',
    'j4711 -- afterany --> j4712',
  ]);
});

test('of a long chain the newest 40 jobs are drawn', () => {
  const drawn = lines(Array.from({ length: 41 }, (_, index) => step(index + 1)));
  assert.equal(drawn.filter((line) => line.startsWith('j47') && line.includes('["')).length, 40);
  assert.equal(drawn[0], 'j4712["job 2<br/>4712"]:::waiting');
  assert.equal(drawn[40], 'j4712 -- afterany --> j4713', 'no arrow comes from a job that is not drawn');
});

test('with more than 40 jobs of single cells, one node stands for all jobs of one number', () => {
  const perCell = (number: number, cells: number) =>
    Array.from({ length: cells }, (_, cell) => step(number, { cell, jobId: `${number}${cell}`, after: [] }));
  assert.equal(lines(perCell(1, 40)).length, 40);
  assert.deepEqual(lines([step(1), ...perCell(2, 30), ...perCell(3, 20)]), [
    's1["job 1<br/>1 cells"]:::running',
    's2["job 2<br/>30 cells"]:::waiting',
    's3["job 3<br/>20 cells"]:::waiting',
    's1 -- afterany --> s2',
    's2 -- afterany --> s3',
  ]);
  const many = lines(Array.from({ length: 45 }, (_, index) => perCell(index + 1, 1)).flat());
  assert.deepEqual([many.length, many[0], many.at(-1)], [79, 's6["job 6<br/>1 cells"]:::waiting', 's44 -- afterany --> s45']);
});

test('a node has the colour of what its tasks do', () => {
  const failed = { state: { kind: 'failed', exit: 1 }, count: 1 } as const;
  const done = { state: { kind: 'finished' }, count: 1 } as const;
  const runs = { state: { kind: 'running', node: '', since: undefined }, count: 1 } as const;
  for (const [job, colour] of [
    [step(1, { tasks: [done, runs, failed] }), 'running'],
    [step(1, { tasks: [done, failed], alive: true }), 'waiting'],
    [ended(1, { tasks: [done, failed] }), 'failed'],
    [ended(1), 'ended'],
  ] as const) {
    assert.match(lines([job]).join(), new RegExp(`:::${colour}$`));
    assert.match(diagramOf([job]), new RegExp(`^  classDef ${colour} fill:#`, 'm'), 'and the colour is defined');
  }
  const grouped = [...Array.from({ length: 40 }, (_, cell) => ended(1, { cell })), step(1, { cell: 40, tasks: [] })];
  assert.deepEqual(lines(grouped), ['s1["job 1<br/>41 cells"]:::waiting'], 'some of its jobs are still to come');
});
