import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseLedger } from '../../../src/chain/ledger.ts';
import type { LaunchRecord, Manifest } from '../../../src/chain/manifest.ts';
import type { SubmitLimit } from '../../../src/cluster/limits.ts';
import type { Probe } from '../../../src/cluster/programs/probe.ts';
import { decide, type LaunchMode, refuseOtherManifest, refuseUnrunnable, refuseWithoutRoom } from '../../../src/commands/launch/decide.ts';
import { parseSource } from '../../../src/experiment/document.ts';
import { experimentFrom } from '../../../src/experiment/experiment.ts';
import { parseRepoConfig } from '../../../src/experiment/repo-config.ts';

const COMMIT = '1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b';
const ID = 'smoke-1a2b3c4d5e6f';
const experiment = experimentFrom(
  parseSource('configs/smoke.yaml', 'run: train\nsave: {path: /ckpt}\nchain: {n_jobs: 3}\n^lr: [1, 2]\n'),
  COMMIT,
  parseRepoConfig(''),
  [],
);
const RUN = 'https://github.com/lab/nano/actions/runs/1';

const launch = (number: number, steps: number[], more: Partial<LaunchRecord> = {}) =>
  ({ launch: number, steps, command: 'launch', runUrl: 'other', ...more }) as LaunchRecord;
const manifest = (...launches: LaunchRecord[]) => ({ launches }) as unknown as Manifest;
/** Jobs of a launch, and whether they were released. */
const ledger = (number: number, steps: number[], released = true) =>
  parseLedger([
    ...steps.map((step) => JSON.stringify({ event: 'submitted', launch: number, step, job: String(4710 + step), after: '', tag: '' })),
    ...(released ? [JSON.stringify({ event: 'releasing', launch: number, job: '4711' })] : []),
  ]);

function seen(more: Partial<Probe> = {}): Probe {
  return {
    ...{ places: { workdir: '/w', savePath: '/ckpt' }, notes: [], slurm: 'slurm 22.05.8', sbatchVariables: [], limits: [] },
    ...{ testOnly: { accepted: true, message: '' }, attempt: 1, codeStaged: false, ledger: [], ledgerLines: 0 },
    ...{ completeCells: 0, queued: false, manifest: undefined },
    ...more,
  };
}
const LAUNCHED = { manifest: manifest(launch(1, [1, 2, 3])), ledger: ledger(1, [1, 2, 3]), ledgerLines: 4 };
function decided(mode: LaunchMode, probe: Partial<Probe> = {}, mayComplete = true) {
  const {
    kind,
    experiment: chosen,
    extend,
    completes,
    notes,
    existing,
  } = decide(experiment, seen(probe), { mode, runUrl: RUN, mayComplete });
  return { kind, id: chosen.id, nJobs: chosen.settings.chain.nJobs, extend, completes, notes, lines: existing.ledgerLines };
}
const NORMAL = { id: ID, nJobs: 3, extend: false, completes: false, notes: [] };

test('launch: a new chain, one that is alive, one that ended early, one that is complete', () => {
  assert.deepEqual(decided('launch'), { ...NORMAL, kind: 'submit', lines: 0 });
  assert.deepEqual(decided('launch', { ...LAUNCHED, queued: true }), { ...NORMAL, kind: 'report', lines: 4 });
  assert.deepEqual(decided('launch', { ...LAUNCHED, completeCells: 1 }), { ...NORMAL, kind: 'submit', lines: 4 });
  assert.deepEqual(decided('launch', { ...LAUNCHED, completeCells: 2 }), { ...NORMAL, kind: 'nothing', lines: 4 });
  // Journals of an experiment that was never launched, as after a restored backup, prove nothing.
  assert.equal(decided('launch', { completeCells: 2 }).kind, 'submit');
});

test('launch adds jobs that were asked for and are missing in a chain that is alive', () => {
  const cut = { manifest: manifest(launch(1, [1, 2, 3, 4, 5])), ledger: ledger(1, [1, 2, 3]), ledgerLines: 4, queued: true };
  const found = decided('launch', cut);
  assert.deepEqual([found.kind, found.nJobs, found.extend, found.completes], ['submit', 2, true, true]);
  assert.match(found.notes.join(), /2 jobs of the chain had not been queued/);
  assert.equal(decided('launch', cut, false).kind, 'report', 'there was no room for them a moment ago');
  assert.equal(decided('launch', { ...cut, queued: false }).nJobs, 3, 'a chain that ended gets its whole length');
  assert.equal(decided('launch', { ...cut, ledger: [] }).kind, 'report', 'without a ledger nobody knows what is missing');
});

test('extend goes behind a chain that is alive, or continues one that ended; a run that is run again asks for nothing more', () => {
  assert.deepEqual(decided('extend', { ...LAUNCHED, queued: true }), { ...NORMAL, kind: 'submit', extend: true, lines: 4 });
  assert.equal(decided('extend', LAUNCHED).extend, true);
  assert.equal(decided('extend', { ...LAUNCHED, completeCells: 2 }).kind, 'nothing');
  assert.equal(decided('extend', { ...LAUNCHED, completeCells: 2, queued: true }).kind, 'submit');
  assert.throws(() => decided('extend'), /there is no chain of smoke-1a2b3c4d5e6f to extend\. Launch it first/);
  const mine = { manifest: manifest(launch(1, [1]), launch(2, [2], { command: 'extend', runUrl: RUN })), queued: true, ledgerLines: 9 };
  const again = decided('extend', { ...mine, ledger: [...ledger(1, [1]), ...ledger(2, [2])] });
  assert.deepEqual([again.kind, again.notes], ['report', ['This workflow run has already extended the chain.']]);
  const refused = decided('extend', { ...mine, ledger: [...ledger(1, [1]), ...ledger(2, [2], false)] });
  assert.equal(refused.kind, 'submit', 'the first try was not released');
});

test('restart starts the next attempt; a run that is run again finds the one that it started', () => {
  const next = decided('restart', { ...LAUNCHED, queued: true });
  assert.deepEqual([next.kind, next.id, next.lines], ['submit', `${ID}-a2`, 0]);
  assert.match(next.notes.join(), /previous attempt, smoke-1a2b3c4d5e6f, is still in the queue/);
  assert.equal(decided('restart').id, ID, 'the first attempt there is');
  const mine = { ...LAUNCHED, attempt: 2, manifest: manifest(launch(1, [1, 2, 3], { command: 'restart', runUrl: RUN })), queued: true };
  assert.deepEqual([decided('restart', mine).kind, decided('restart', mine).id], ['report', `${ID}-a2`]);
});

test('without the address of a workflow run, no launch counts as the same run', () => {
  const mine = { ...LAUNCHED, manifest: manifest(launch(1, [1, 2, 3], { command: 'restart', runUrl: '' })) };
  const again = decide(experiment, seen(mine), { mode: 'restart', runUrl: '', mayComplete: true });
  assert.equal(again.experiment.id, `${ID}-a2`);
});

test('a manifest of another repository or commit is refused', () => {
  const base = { id: ID, repository: 'lab/nano', workdir: '/w', path: 'a', launches: [] } as unknown as Manifest;
  refuseOtherManifest(base, base, 'entropy');
  assert.throws(
    () => refuseOtherManifest({ ...base, repository: 'lab/other' }, base, 'entropy'),
    /was launched from lab\/other.*Nothing was submitted/,
  );
  assert.throws(
    () => refuseOtherManifest({ ...base, path: 'b' }, base, 'entropy'),
    /\(\/w\/experiments\/smoke-1a2b3c4d5e6f\/manifest\.json\) does not match this commit:\npath is "b" in the manifest and "a" at the commit/,
  );
});

test('what sbatch would refuse is refused, with a hint for nodes that are not there', () => {
  refuseUnrunnable({ accepted: true, message: 'fine' }, 'entropy');
  assert.throws(
    () => refuseUnrunnable({ accepted: false, message: 'invalid partition' }, 'entropy'),
    /would refuse this experiment: invalid partition\. Nothing/,
  );
  assert.throws(
    () => refuseUnrunnable({ accepted: false, message: 'Requested node configuration is not available' }, 'entropy'),
    /No partition has such nodes/,
  );
});

test('a chain that submit limits have no room for is refused with the numbers', () => {
  const limit = (most: number, used: number): SubmitLimit => ({
    kind: 'max-submit',
    scope: { kind: 'association', account: 'lab' },
    most,
    used,
  });
  refuseWithoutRoom([limit(6, 0)], experiment, 'entropy');
  assert.throws(() => refuseWithoutRoom([limit(6, 1)], experiment, 'entropy'), {
    message:
      "2 × 3 = 6 tasks do not fit on entropy: MaxSubmitJobs in account lab is 6, and 1 are in the queue. A chain of 2 jobs would fit, and 'partial: keep' queues as many as fit. Nothing was submitted",
  });
  assert.throws(() => refuseWithoutRoom([limit(6, 5)], experiment, 'entropy'), /Not even one job would fit/);
  assert.throws(() => refuseWithoutRoom([limit(6, 9)], experiment, 'entropy'), /Not even one job would fit/);
});
