import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditCost } from '../../src/audit/program.ts';
import { renderAudit } from '../../src/audit/render.ts';
import type { Audit } from '../../src/audit/report.ts';

const COST: AuditCost = { experiments: 1, filesHashed: 1234, bytesHashed: 5_600_000, clusterSeconds: 2.25, seconds: 3.5 };

function audit(fields: Partial<Audit> = {}): Audit {
  return {
    id: 'smoke-1a2b3c4d5e6f',
    experimentDirectory: '/w/experiments/smoke-1a2b3c4d5e6f',
    saveDirectory: '/ckpt/smoke-1a2b3c4d5e6f',
    verdict: { kind: 'verified', changed: [], missing: [] },
    identity: {
      name: 'smoke',
      commit: '1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b',
      subject: 'Warm up longer',
      path: 'configs/smoke.yaml',
      attempt: 1,
      overrides: ['train.lr=3e-4'],
      repository: 'lab/nano',
      cluster: 'entropy',
      wandb: null,
    },
    launches: [
      {
        launch: 1,
        command: 'launch',
        actor: 'alice',
        runUrl: 'https://github.com/lab/nano/actions/runs/123',
        pullRequest: 12,
        at: '2026-12-01T10:02:03Z',
        jobNumbers: [1, 2],
        overrides: ['chain.n_jobs=2'],
        jobs: [
          { jobNumber: 1, jobId: '4711' },
          { jobNumber: 2, jobId: '4712' },
        ],
      },
    ],
    cells: [
      {
        cell: 0,
        choices: { 'train.lr': '0.1' },
        nSteps: 500,
        tasks: [
          {
            launch: 1,
            jobNumber: 1,
            jobId: '4711',
            taskId: '4711',
            restart: 0,
            host: 'n1',
            started: '2026-12-01T10:03:00Z',
            ended: '2026-12-01T12:03:00Z',
            outcome: 'ended',
            resumeStep: -1,
            checkpoints: [
              { first: 20, last: 480, stride: 20 },
              { first: 499, last: 499, stride: 1 },
            ],
            count: 25,
          },
        ],
        unaccounted: [],
      },
    ],
    reachability: { reachable: true, branches: ['main'], tags: ['v1'], pullRequests: [12], unknown: undefined },
    notes: [],
    ...fields,
  };
}
const rendered = (audits: readonly Audit[], cost: AuditCost = COST, most?: number) => renderAudit({ audits, cost }, most);
const changed = (...findings: string[]): Audit['verdict'] => ({ kind: 'changed', changed: findings, missing: [] });

test('one audit: the verdict first, then what was asked', () => {
  const text = rendered([audit()], COST);
  assert.ok(text.startsWith('### smoke-1a2b3c4d5e6f: verified\n'));
  for (const wanted of [
    '[`1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b`](https://github.com/lab/nano/commit/1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b) Warm up longer',
    '`configs/smoke.yaml`',
    '`train.lr=3e-4`',
    'yes: branch `main`; tag `v1`; pull request #12',
    '| 0 | `train.lr=0.1` | 20 to 480 by 20, 499 | 25 | `4711_0` | 1 | n1 |',
    'alice, [run 123](https://github.com/lab/nano/actions/runs/123), #12',
    '1: `4711`, 2: `4712`',
    '1 experiment, 1,234 files hashed (5.6 MB), 2.3 s on the cluster, 3.5 s in all',
  ]) {
    assert.ok(text.includes(wanted), `${wanted}\n---\n${text}`);
  }
});

test('findings, missing things and strangers are named', () => {
  const text = rendered(
    [
      audit({
        verdict: { kind: 'changed', changed: ['a: b'], missing: ['the ledger'] },
        cells: [{ cell: 3, choices: {}, nSteps: null, tasks: [], unaccounted: [{ name: 'step_50', number: 50, why: 'x' }] }],
        reachability: { reachable: false, branches: [], tags: [], pullRequests: [], unknown: undefined },
      }),
    ],
    COST,
  );
  assert.match(text, /^### .*: changed, 1 finding\n\n\*\*Changed\*\*\n\n- a: b\n\n\*\*Missing\*\*\n\n- the ledger/);
  assert.match(text, /\| 3 \| {2}\| `step_50` \| 1 \| \*\*unaccounted for\*\*/);
  assert.match(text, /no: no branch and no tag leads to the commit/);
});

test('several: the worst first, each folded', () => {
  const text = rendered(
    [
      audit({ id: 'good' }),
      audit({ id: 'half', verdict: { kind: 'incomplete', changed: [], missing: ['the ledger'] } }),
      audit({ id: 'bad', verdict: changed('one', 'two') }),
    ],
    { ...COST, experiments: 3 },
  );
  assert.ok(text.startsWith('### Audit of 3 experiments: 1 changed, 1 incomplete, 1 verified\n'));
  const rows = text.split('\n').filter((row) => /^\| (changed|incomplete|verified) /.test(row));
  assert.deepEqual(
    rows.map((row) => row.split(' | ')[1]),
    ['`bad`', '`half`', '`good`'],
  );
  assert.match(rows[0] ?? '', /one and 1 more/);
  assert.equal(text.match(/<details>/g)?.length, 3);
});

test('a thousand fit, folds are closed, and it says what is left out', () => {
  const many = Array.from({ length: 1000 }, (_, index) =>
    audit({ id: `e-${index}`, verdict: changed(...Array.from({ length: 40 }, (_, line) => `finding ${line} ${'x'.repeat(100)}`)) }),
  );
  for (const most of [1_000_000, 65_000]) {
    const text = rendered(many, { ...COST, experiments: 1000 }, most);
    assert.ok(Buffer.byteLength(text) <= most, String(Buffer.byteLength(text)));
    assert.equal(text.match(/<details>/g)?.length ?? 0, text.match(/<\/details>/g)?.length ?? 0);
  }
  assert.match(rendered(many, COST), /The details of \d+ experiments are only in the output `report`/);
  const cells = Array.from({ length: 5000 }, (_, cell) => ({ ...(audit().cells[0] ?? assert.fail()), cell }));
  const wide = rendered([audit({ cells })], COST);
  assert.match(wide, /and 4,800 rows more/);
  assert.match(rendered([], { ...COST, experiments: 0 }), /there are none/);
});

test('text from outside formats nothing, mentions nobody and closes no cell', () => {
  const nasty = '| @everyone <script>alert(1)</script> **b** [x](https://evil) <!-- y -->\n| new row | `c`';
  const base = audit();
  const [launch] = base.launches;
  const [cell] = base.cells;
  const nastyOne = audit({
    id: nasty,
    verdict: changed(nasty),
    notes: [nasty],
    identity: {
      ...(base.identity ?? assert.fail()),
      subject: nasty,
      path: nasty,
      commit: nasty,
      repository: nasty,
      overrides: [nasty],
      cluster: nasty,
    },
    launches: [
      { ...(launch ?? assert.fail()), actor: nasty, runUrl: `https://x/](${nasty}`, command: nasty, at: nasty, overrides: [nasty] },
    ],
    cells: [{ ...(cell ?? assert.fail()), choices: { [nasty]: nasty }, unaccounted: [{ name: nasty, number: 1, why: nasty }] }],
    reachability: { reachable: true, branches: [nasty], tags: [nasty], pullRequests: [], unknown: undefined },
  });
  for (const text of [rendered([nastyOne], COST), rendered([nastyOne, audit()], COST)]) {
    // What stands in code is shown as it is; a run of backticks longer than any in it opens and closes it.
    const outside = text.replace(/(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)/g, '');
    assert.ok(!/(?<!\\)<(script|!--)/.test(outside), outside);
    assert.ok(!/@everyone/.test(outside));
    assert.ok(!/(?<!\\)\]\(https:\/\/evil/.test(outside), outside);
    assert.ok(!/^\| new row/m.test(text));
  }
});
