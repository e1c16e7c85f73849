// What an audit says about one experiment: its manifest, launches and cells in plain JSON.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CellAccount } from '../../src/audit/attribution.ts';
import { cellOf, identityOf, launchOf } from '../../src/audit/report.ts';
import { parseLedger } from '../../src/chain/ledger.ts';
import type { LaunchRecord, Manifest } from '../../src/chain/manifest.ts';

const T0 = Date.parse('2026-12-01T10:00:00Z') / 1000;

function manifest(more: object = {}): Manifest {
  return {
    ...{ name: 'smoke', commit: 'c0', subject: 'Try', path: 'a.yaml', attempt: 1, overrides: ['a=1'], repository: 'lab/nano' },
    ...{ cluster: 'entropy', wandb: null, cells: [{ cell: 0, choices: { lr: '1' }, nSteps: 500 }], workdir: '/w', ...more },
  } as unknown as Manifest;
}

test('who launched what', () => {
  assert.deepEqual(identityOf(manifest()), {
    ...{ name: 'smoke', commit: 'c0', subject: 'Try', path: 'a.yaml', attempt: 1, overrides: ['a=1'], repository: 'lab/nano' },
    ...{ cluster: 'entropy', wandb: null },
  });
  assert.deepEqual(identityOf(manifest({ wandb: { group: 'g', runs: ['r'] } })).wandb, { group: 'g', runs: ['r'] });
});

const launch = (more: object = {}) =>
  ({
    ...{ launch: 2, command: 'extend', actor: 'alice', runUrl: 'https://x', at: '2026-12-01T10:00:00Z', pullRequest: 12 },
    ...{ steps: [3, 4], overrides: ['chain.n_jobs=2'], ...more },
  }) as unknown as LaunchRecord;
const account = (lines: CellAccount['lines']): CellAccount => ({ cell: 0, tasks: [], unaccounted: [], gaps: [], notes: [], lines });
const submitted = (number: number, step: number, job: string) => JSON.stringify({ event: 'submitted', launch: number, step, job });

test('the jobs of a launch are those of the ledger, and without it those of the journals', () => {
  const ledger = parseLedger([
    submitted(1, 1, '11'),
    submitted(2, 3, '13'),
    submitted(2, 4, '14'),
    JSON.stringify({ event: 'releasing', launch: 2, job: '13' }),
  ]);
  const accounts = [
    account([
      { launch: 1, jobNumber: 1, jobId: '11' },
      { launch: 2, jobNumber: 3, jobId: '13' },
      { launch: 2, jobNumber: 3, jobId: '13' },
    ]),
  ];
  const [third, fourth] = [
    { jobNumber: 3, jobId: '13' },
    { jobNumber: 4, jobId: '14' },
  ];
  assert.deepEqual(launchOf(launch(), ledger, accounts).jobs, [third, fourth]);
  assert.deepEqual(launchOf(launch(), undefined, accounts).jobs, [third]);
  assert.deepEqual(launchOf(launch(), [], accounts).jobs, [third], 'as with a ledger that says nothing about it');
  assert.deepEqual(launchOf(launch(), ledger, []), {
    ...{ launch: 2, command: 'extend', actor: 'alice', runUrl: 'https://x', at: '2026-12-01T10:00:00Z', pullRequest: 12 },
    ...{ jobNumbers: [3, 4], overrides: ['chain.n_jobs=2'], jobs: [third, fourth] },
  });
});

test('a cell with its choices, its tasks and what nobody saved', () => {
  const checkpoint = (number: number) => ({ name: `step_${number}`, number, complete: true, modified: T0, touched: T0 });
  const task = {
    ...{ launch: 1, jobNumber: 1, jobId: '11', taskId: '12', restart: 0, host: 'n1', started: T0, resumeStep: -1, saved: [] },
  } as const;
  const full: CellAccount = {
    ...account([]),
    tasks: [
      { task: { ...task, outcome: 'ended', ended: T0 + 60 }, checkpoints: [checkpoint(20), checkpoint(40)] },
      { task: { ...task, outcome: 'open', ended: undefined }, checkpoints: [] },
    ],
    unaccounted: [{ checkpoint: checkpoint(50), why: 'no task on record has saved it' }],
  };
  const about = {
    launch: 1,
    jobNumber: 1,
    jobId: '11',
    taskId: '12',
    restart: 0,
    host: 'n1',
    resumeStep: -1,
    started: '2026-12-01T10:00:00Z',
  };
  assert.deepEqual(cellOf(full, manifest()), {
    ...{ cell: 0, choices: { lr: '1' }, nSteps: 500 },
    tasks: [
      { ...about, outcome: 'ended', ended: '2026-12-01T10:01:00Z', checkpoints: [{ first: 20, last: 40, stride: 20 }], count: 2 },
      { ...about, outcome: 'open', ended: undefined, checkpoints: [], count: 0 },
    ],
    unaccounted: [{ name: 'step_50', number: 50, why: 'no task on record has saved it' }],
  });
});

test('a cell that the manifest lacks', () => {
  assert.deepEqual(cellOf(account([]), undefined), { cell: 0, choices: {}, nSteps: null, tasks: [], unaccounted: [] });
  assert.deepEqual(cellOf({ ...account([]), cell: 7 }, manifest()).choices, {});
});
