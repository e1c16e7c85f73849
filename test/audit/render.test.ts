import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditCost } from '../../src/audit/program.ts';
import { AUDIT_MARKER, renderAudit } from '../../src/audit/render.ts';
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

/** The rows of the table whose head has these cells; each row as its cells. */
function rowsOf(text: string, head: string): string[][] {
  const [, rows = ''] = text.split(`| ${head} |\n`);
  return rows
    .slice(0, rows.search(/\n(?!\|)|$/))
    .split('\n')
    .slice(1)
    .map((line) => line.slice(2, -2).split(' | '));
}
const FACTS = ' | ';
const LAUNCHES = 'launch | command | by | at (UTC) | job: Slurm id | overrides';
const CHECKPOINTS = 'cell | grid | checkpoints | count | written by task | job | on | from (UTC) | to (UTC)';
const WHY = 'verdict | experiment | commit | why';
const base = audit();
const IDENTITY = base.identity ?? assert.fail();
const [LAUNCH = assert.fail()] = base.launches;
const [CELL = assert.fail()] = base.cells;
const [TASK = assert.fail()] = CELL.tasks;
const incomplete = (...missing: string[]): Audit['verdict'] => ({ kind: 'incomplete', changed: [], missing });

test('a verified audit has no part that is empty', () => {
  const text = rendered([audit()]);
  assert.doesNotMatch(text, /\*\*Changed|\*\*Missing|Notes:/);
  assert.deepEqual(rowsOf(text, FACTS), [
    ['commit', `[\`${IDENTITY.commit}\`](https://github.com/lab/nano/commit/${IDENTITY.commit}) Warm up longer`],
    ...[
      ['config', '`configs/smoke.yaml`'],
      ['overrides', '`train.lr=3e-4`'],
      ['cluster', 'entropy'],
    ],
    ...[
      ['reachable', 'yes: branch `main`; tag `v1`; pull request #12'],
      ['checkpoints', '`/ckpt/smoke-1a2b3c4d5e6f`'],
    ],
    ['experiment', '`/w/experiments/smoke-1a2b3c4d5e6f`'],
  ]);
  assert.deepEqual(rowsOf(text, LAUNCHES), [
    [
      '1',
      'launch',
      'alice, [run 123](https://github.com/lab/nano/actions/runs/123), #12',
      '2026\\-12\\-01 10:02',
      '1: `4711`, 2: `4712`',
      '`chain.n_jobs=2`',
    ],
  ]);
  assert.deepEqual(rowsOf(text, CHECKPOINTS), [
    ['0', '`train.lr=0.1`', '20 to 480 by 20, 499', '25', '`4711_0`', '1', 'n1', '2026-12-01 10:03:00', '2026-12-01 12:03:00'],
  ]);
});

test('what is not known is left out, and nothing is said about it', () => {
  const bare = rendered([audit({ identity: undefined, experimentDirectory: undefined, launches: [], cells: [] })]);
  assert.deepEqual(
    rowsOf(bare, FACTS).map(([key]) => key),
    ['reachable', 'checkpoints'],
  );
  assert.doesNotMatch(bare, /launch \| command/);
  assert.match(bare, /\n\nThere is no complete checkpoint\.\n\n/);
  const plain = rendered([audit({ identity: { ...IDENTITY, overrides: [], attempt: 3, wandb: { group: 'https://w/g', runs: [] } } })]);
  assert.deepEqual(rowsOf(plain, FACTS).slice(2, 6), [
    ['overrides', 'none'],
    ['attempt', '3'],
    ['cluster', 'entropy'],
    ['W&B', 'https:\u200b//w/g'],
  ]);
});

test('the commit is a link only if it is a commit of a repository on a known server', () => {
  const commit = (more: object, launches = [LAUNCH]) =>
    rowsOf(rendered([audit({ launches, identity: { ...IDENTITY, ...more } })]), FACTS)[0]?.[1] ?? '';
  assert.match(
    commit({}, [{ ...LAUNCH, runUrl: 'https://git.lab.edu/lab/nano/actions/runs/1' }]),
    /\(https:\/\/git\.lab\.edu\/lab\/nano\/commit\//,
  );
  for (const [more, launches] of [
    [{ commit: 'x' }],
    [{ repository: 'lab/nano/../evil' }],
    [{ repository: '../lab/nano' }],
    [{ repository: 'a b/c' }],
    [{}, [{ ...LAUNCH, runUrl: '' }]],
    [{}, []],
  ] as const) {
    assert.doesNotMatch(commit(more, launches === undefined ? [LAUNCH] : [...launches]), /\]\(/, JSON.stringify(more));
  }
});

test('which branches and tags lead to the commit', () => {
  const reachable = (more: Partial<Audit['reachability']>) => {
    const none = { reachable: true, branches: [], tags: [], pullRequests: [], unknown: undefined };
    return rowsOf(rendered([audit({ reachability: { ...none, ...more } })]), FACTS).find(([key]) => key === 'reachable')?.[1];
  };
  assert.equal(reachable({ branches: ['a', 'b'] }), 'yes: branch `a`, `b`');
  assert.equal(reachable({ tags: ['1', '2', '3', '4', '5'] }), 'yes: tag `1`, `2`, `3`, `4`, `5`');
  assert.equal(reachable({ tags: ['1', '2', '3', '4', '5', '6', '7'] }), 'yes: tag `1`, `2`, `3`, `4`, `5` and 2 more');
  assert.equal(reachable({ pullRequests: [1, 2] }), 'yes: pull request #1, #2');
  assert.equal(reachable({ reachable: false }), 'no: no branch and no tag leads to the commit');
  assert.equal(reachable({ unknown: `git failed ${'x'.repeat(1000)}` }), `not known: git failed ${'x'.repeat(489)}`);
});

test('a launch from a laptop, and one with many jobs', () => {
  const launches = [
    { ...LAUNCH, runUrl: 'my laptop', pullRequest: undefined, jobs: [], overrides: [] },
    { ...LAUNCH, runUrl: '', jobs: Array.from({ length: 22 }, (_, index) => ({ jobNumber: index + 1, jobId: `${index}` })) },
    { ...LAUNCH, overrides: ['a=1', 'b=2'] },
  ];
  const rows = rowsOf(rendered([audit({ launches })]), LAUNCHES);
  assert.deepEqual(
    rows.map((row) => row[2]),
    ['alice, my laptop', 'alice, #12', 'alice, [run 123](https://github.com/lab/nano/actions/runs/123), #12'],
  );
  assert.deepEqual([rows[0]?.[4], rows[0]?.[5]], ['jobs 1, 2', '']);
  assert.match(rows[1]?.[4] ?? '', /^1: `0`, .*, 20: `19`, … 2 more$/);
  assert.equal(rows[2]?.[5], '`a=1` `b=2`');
});

test('which task wrote which checkpoints, and how it ended', () => {
  const tasks = [
    { ...TASK, restart: 2, outcome: 'killed' as const, checkpoints: [{ first: 1, last: 3, stride: 1 }] },
    { ...TASK, outcome: 'open' as const, ended: undefined, checkpoints: [{ first: 20, last: 40, stride: 20 }] },
    { ...TASK, checkpoints: Array.from({ length: 8 }, (_, first) => ({ first, last: first, stride: 1 })) },
    { ...TASK, checkpoints: Array.from({ length: 9 }, (_, first) => ({ first, last: first, stride: 1 })) },
    { ...TASK, checkpoints: [], count: 0 },
  ];
  const choices = Object.fromEntries(Array.from({ length: 7 }, (_, key) => [`k${key}`, '1']));
  const rows = rowsOf(rendered([audit({ cells: [{ ...CELL, choices, tasks }] })]), CHECKPOINTS);
  assert.equal(rows.length, 4, 'a task without checkpoints has no row');
  assert.deepEqual(
    rows.map((row) => [row[2], row[4], row[8]]),
    [
      ['1 to 3', '`4711_0 restart 2`', 'killed by 2026-12-01 12:03:00'],
      ['20, 40', '`4711_0`', 'no end on record'],
      ['0, 1, 2, 3, 4, 5, 6, 7', '`4711_0`', '2026-12-01 12:03:00'],
      ['0, 1, 2, 3, 4, 5, 6, 7, …', '`4711_0`', '2026-12-01 12:03:00'],
    ],
  );
  assert.equal(rows[0]?.[1], '`k0=1` `k1=1` `k2=1` `k3=1` `k4=1` `k5=1`', 'six choices are enough');
});

test('checkpoints that nobody saved: the first ten', () => {
  const strangers = (number: number) => Array.from({ length: number }, (_, index) => ({ name: `s${index}`, number: index, why: '' }));
  const row = (number: number) =>
    rowsOf(rendered([audit({ cells: [{ ...CELL, tasks: [], unaccounted: strangers(number) }] })]), CHECKPOINTS)[0];
  assert.deepEqual(row(2), ['0', '`train.lr=0.1`', '`s0` `s1`', '2', '**unaccounted for**', '', '', '', '']);
  assert.match(row(10)?.[2] ?? '', /`s9`$/);
  assert.match(row(13)?.[2] ?? '', /`s9` and 3 more$/);
});

test('two hundred rows of checkpoints are shown', () => {
  const cells = (number: number) => Array.from({ length: number }, (_, cell) => ({ ...CELL, cell }));
  assert.equal(rowsOf(rendered([audit({ cells: cells(200) })]), CHECKPOINTS).length, 200);
  assert.doesNotMatch(rendered([audit({ cells: cells(200) })]), /more, in the output/);
  const text = rendered([audit({ cells: cells(201) })]);
  assert.equal(rowsOf(text, CHECKPOINTS).length, 200);
  assert.match(text, /\n\n… and 1 row more, in the output `report`\./);
});

test('findings: thirty of them, each cut where it would fill the page', () => {
  const findings = (number: number) => Array.from({ length: number }, (_, index) => `finding ${index}`);
  const lines = (text: string) => text.split('\n').filter((line) => line.startsWith('- '));
  assert.equal(lines(rendered([audit({ verdict: changed(...findings(30)) })])).length, 30);
  assert.deepEqual(lines(rendered([audit({ verdict: changed(...findings(33)) })])).slice(-2), ['- finding 29', '- … and 3 more']);
  const [long, short] = lines(rendered([audit({ verdict: changed('x'.repeat(2001), 'y'.repeat(2000)) })]));
  assert.deepEqual([long, short], [`- ${'x'.repeat(1999)}…`, `- ${'y'.repeat(2000)}`]);
  assert.match(
    rendered([audit({ verdict: incomplete('a', 'b'), notes: ['n1', 'n2'] })]),
    /: incomplete, 2 records missing\n\n\*\*Missing\*\*\n\n- a\n- b\n\n/,
  );
  assert.match(rendered([audit({ notes: ['n1', 'n2'] })]), /\n\nNotes:\n\n- n1\n- n2\n\n_Cost/);
});

test('several: those with the same verdict by id, and why in a few words', () => {
  const why = (verdict: Audit['verdict']) => rowsOf(rendered([audit({ verdict }), audit()]), WHY)[0]?.[3];
  assert.equal(why(changed('x'.repeat(121))), `${'x'.repeat(119)}…`);
  assert.equal(why(changed('x'.repeat(120))), 'x'.repeat(120));
  assert.equal(why({ kind: 'changed', changed: ['a'], missing: ['b', 'c'] }), 'a and 2 more');
  const rows = rowsOf(rendered([audit({ id: 'b' }), audit({ id: 'a' }), audit({ id: 'c', identity: undefined })]), WHY);
  assert.deepEqual(rows, [
    ['verified', '`a`', '`1a2b3c4d5e6f`', ''],
    ['verified', '`b`', '`1a2b3c4d5e6f`', ''],
    ['verified', '`c`', '', ''],
  ]);
  const text = rendered([audit({ id: 'b' }), audit({ id: 'a' })]);
  assert.match(text, /^### Audit of 2 experiments: 2 verified\n\n_Cost: /, 'kinds that do not occur are not listed');
  assert.match(text, /<\/details>\n\n<details><summary>b: verified<\/summary>\n\n\| {2}\| {2}\|/);
  assert.doesNotMatch(text, /only in the output|more, in the output/);
});

test('the name of a fold shows an id as it is, and formats nothing', () => {
  const text = rendered([audit({ id: 'a & <b>  [c](d) `e` @f' }), audit()]);
  assert.match(text, /<summary>a &amp; &lt;b&gt; &#91;c&#93;\(d\) &#96;e&#96; @\u200bf: verified<\/summary>/);
  assert.match(rendered([audit({ id: '*x*' })]), /^### \\\*x\\\*: verified/);
  assert.match(rendered([audit({ id: '*x' })]), /^### \\\*x: verified/);
  assert.match(rendered([audit({ id: 'x*' })]), /^### x\\\*: verified/);
});

test('a long list of experiments: three thousand rows, and as many folds as fit', () => {
  const many = (number: number) => Array.from({ length: number }, (_, index) => audit({ id: `e${index}`, launches: [], cells: [] }));
  const text = rendered(many(3002), COST, 10_000_000);
  assert.equal(rowsOf(text, WHY).length, 3000);
  assert.match(text, /\n\n… and 2 experiments more, in the output `report`\./);
  const all = rendered(many(10), COST, 100_000);
  assert.equal(all.match(/<details>/g)?.length, 10);
  const size = Buffer.byteLength(all);
  const tight = rendered(many(10), COST, size);
  assert.ok(Buffer.byteLength(tight) <= size);
  assert.equal(tight.match(/<details>/g)?.length, 9, 'room is kept for the notice');
  assert.match(tight, /<\/details>\n\n_The details of 1 experiment are only in the output `report`\._$/);
  const cut = rendered([audit({ notes: Array.from({ length: 30 }, () => 'x'.repeat(1000)) })], COST, 5000);
  assert.ok(cut.endsWith('\n_Cut off here: the output `report` has the rest._\n'));
});

test('what it cost, in a unit that can be read', () => {
  const size = (bytesHashed: number) => /\((.*B)\)/.exec(rendered([audit()], { ...COST, bytesHashed }))?.[1];
  assert.deepEqual([500, 999_999, 1_000_000, 5_600_000_000].map(size), ['0.5 kB', '1,000 kB', '1 MB', '5,600 MB']);
  assert.equal(rendered([], { ...COST, experiments: 0 }).split('\n').length, 3, 'no table of nothing');
});

test('its comment is found again', () => assert.match(AUDIT_MARKER, /^<!-- slurm-chain audit -->$/));
