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
