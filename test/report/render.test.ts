import assert from 'node:assert/strict';
import { test } from 'node:test';
import { marked } from 'marked';
import { block, capped, code, plain } from '../../src/report/markdown.ts';
import { markerOf, renderComment, renderSummary } from '../../src/report/render.ts';
import { renderProblem } from '../../src/report/replies.ts';
import type { Report } from '../../src/report/report.ts';

function report(cells: number, extra: Partial<Report> = {}): Report {
  return {
    command: 'launch',
    state: 'submitted',
    id: 'smoke-1a2b3c4d5e6f',
    name: 'smoke',
    commit: '1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b',
    subject: 'Warm up longer',
    path: 'configs/smoke.yaml',
    overrides: [],
    cluster: 'entropy',
    slurm: [
      ['partition', 'h100'],
      ['time', '2-00:00:00'],
    ],
    cells: Array.from({ length: cells }, (_, number) => ({
      number,
      choices: { 'model.lr': `${number}e-3`, note: 'x'.repeat(500) },
      nSteps: 500,
    })),
    jobCount: 3,
    gpuHours: 576,
    jobs: [1, 2, 3].map((step) => ({
      jobNumber: step,
      cell: undefined,
      jobId: String(4710 + step),
      after: step === 1 ? [] : [String(4709 + step)],
      state: 'PENDING',
    })),
    places: { experiment: '/w/experiments/smoke-1a2b3c4d5e6f', checkpoints: '/ckpt/smoke-1a2b3c4d5e6f' },
    wandb: {
      group: 'https://wandb.ai/e/p/groups/g/workspace',
      runs: Array.from({ length: cells }, (_, cell) => `https://wandb.ai/e/p/runs/${cell}`),
    },
    launcher: {
      actor: 'alice',
      runUrl: 'https://github.com/lab/nano/actions/runs/123',
      repository: 'lab/nano',
      pullRequest: 1,
      at: '2026-12-01T10:02:03Z',
    },
    commands: { queue: 'squeue -j 1', log: 'tail -f x', cancel: 'scancel 3 2 1' },
    submissions: [1, 2, 3].map((step) => ({
      jobNumber: step,
      cell: undefined,
      environment: { CHAIN_STEP: String(step) },
      arguments: ['--hold', "--comment=it's"],
    })),
    pullRequests: [1],
    later: [],
    notes: [],
    ...extra,
  };
}

test('the comment starts with its marker and says what a person looks for', () => {
  const body = renderComment(report(4));
  assert.ok(body.startsWith(markerOf('smoke-1a2b3c4d5e6f')));
  for (const wanted of [
    'submitted, 3 jobs',
    '4 cells × 3 jobs · at most 576 GPU-hours',
    '`4712` | `4711`',
    'scancel 3 2 1',
    '/ckpt/smoke-1a2b3c4d5e6f/',
    '[cell 3](https://wandb.ai/e/p/runs/3)',
    'j4711 -- afterany --> j4712',
    '2026-12-01 10:02 UTC',
  ]) {
    assert.ok(body.includes(wanted), wanted);
  }
});

for (const cells of [1, 100, 1000, 20_000]) {
  test(`a comment on ${cells} cells is one GitHub takes, with every fold closed`, () => {
    const body = renderComment(report(cells));
    assert.ok(body.length <= 65_536 && Buffer.byteLength(body) <= 65_536, String(body.length));
    assert.equal(body.match(/<details>/g)?.length, body.match(/<\/details>/g)?.length);
    assert.equal((body.match(/^```/gm)?.length ?? 0) % 2, 0);
    assert.ok(Buffer.byteLength(renderSummary(report(cells))) < 1024 * 1024);
  });
}

test('text from outside formats nothing, mentions nobody and closes no cell', () => {
  const nasty = '| @everyone <script>alert(1)</script> **b** `c` [x](https://evil) <!-- y -->\n| new row |';
  const body = renderComment(report(1, { subject: nasty, notes: [nasty], overrides: [`a=\`|${nasty}`] }));
  const row = body.split('\n').find((line) => line.startsWith('| commit')) ?? '';
  // GitHub looks for mentions in the text of the page that is not code.
  const prose = String(marked.parse(body, { gfm: true, async: false })).replace(/<code[^>]*>[\s\S]*?<\/code>/g, '');
  assert.match(prose, /@\u200beveryone/);
  assert.doesNotMatch(prose, /@everyone/);
  assert.ok(!row.includes('<script>'));
  assert.equal(row.replaceAll('\\|', '').split('|').length, 4);
  assert.ok(!row.includes('](https://evil)'));
  assert.equal(code('a`b'), '`` a`b ``');
  assert.equal(plain('a\nb'), 'a b');
  assert.ok(!renderProblem('launch', [nasty]).includes('<script>'));
});

test('cutting keeps whole lines, whole characters, and says so', () => {
  assert.equal(capped('short', 10, '!'), 'short');
  const cut = capped('ééé\nééé\nééé\n', 18, '[cut]');
  assert.equal(cut, 'ééé\n[cut]');
});

test('characters that nobody sees are written out in every kind of text', () => {
  const hidden = 'ab\u202ecd\u2066e\u200ff\u061cg\u001b[31mh\u0007';
  for (const shown of [plain(hidden), code(hidden), block(hidden)]) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it looks for control characters
    assert.doesNotMatch(shown, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/);
    assert.match(shown, /u202e/);
  }
  assert.equal(code('a\u202eb'), '`a\\u202eb`');
  // A carriage return ends a line in Markdown, so a bar of progress becomes lines.
  assert.equal(block('1%\r2%\r\n'), '```\n1%\n2%\n```');
  assert.equal(block('a\tb'), '```\na\tb\n```');
});
