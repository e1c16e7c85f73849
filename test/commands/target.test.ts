import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from '../../src/base/problem.ts';
import type { ExperimentSummary } from '../../src/chain/manifest.ts';
import type { Listing } from '../../src/cluster/programs/survey.ts';
import { badRecordsOf, isSameExperiment, namedByRecord, pickOne, resolveTarget, targetOf } from '../../src/commands/target.ts';

const A = '1a2b3c4d5e6f'.padEnd(40, 'a');
const B = '9a2b3c4d5e6f'.padEnd(40, 'b');

function summary(id: string, more: Partial<ExperimentSummary> = {}): ExperimentSummary {
  return {
    ...{ id, name: 'smoke', commit: A, path: 'configs/smoke.yaml', attempt: 1, overrides: [], subject: '', chain: [] },
    ...{ repository: 'lab/nano', pullRequests: [], cluster: 'entropy', save: `/ckpt/${id}`, codeName: A },
    checkpoints: { prefix: 'step_', complete: '', offset: 1 },
    ...more,
  };
}
const ids = (found: readonly ExperimentSummary[]) => found.map(({ id }) => id);
const listing = (summaries: ExperimentSummary[], queued: string[] = [], recent: string[] = []): Listing => ({
  ...{ workdir: '/w', summaries, bad: [], queued: new Set(queued), recent: new Set(recent), queue: [], now: 0, distrusted: [] },
});
const NO_REPO = { directory: '/nonexistent', token: '' };

test('what a request is about', () => {
  const of = (target: string | undefined, pullRequest?: number, command: 'status' | 'cancel' = 'status') =>
    targetOf({ target, command }, pullRequest);
  assert.deepEqual(of('#12', 7), { kind: 'pull-request', number: 12 });
  assert.deepEqual(of('smoke', 7), { kind: 'named', text: 'smoke' });
  assert.deepEqual(of(undefined, 7, 'cancel'), { kind: 'pull-request', number: 7 });
  assert.deepEqual(of(undefined), { kind: 'live' });
  assert.deepEqual(of('#x'), { kind: 'named', text: '#x' });
  assert.throws(() => of(undefined, undefined, 'cancel'), /say what to cancel: give the input target, config or pr/);
});

test('an id, a part of a path or address, a name, a directory, a commit', () => {
  const one = summary('smoke-1a2b3c4d5e6f');
  const two = summary('smoke-1a2b3c4d5e6f-0fe9c1', { overrides: ['lr=1'] });
  const other = summary('big-9a2b3c4d5e6f', { name: 'big', path: 'configs/big.yaml', commit: B, save: '/other/big-9a2b3c4d5e6f' });
  const all = [one, two, other];
  for (const [text, expected] of [
    ['smoke-1a2b3c4d5e6f', [one]],
    ['/ckpt/smoke-1a2b3c4d5e6f/0/step_20', [one]],
    ['https://wandb.ai/e/p/groups/smoke-1a2b3c4d5e6f-0fe9c1/workspace', [two]],
    ['https://wandb.ai/e/p/runs/big-9a2b3c4d5e6f-3?nw=x#y', [other]],
    ['big-9a2b3c4d5e6f-12', [other]],
    ['smoke', [one, two]],
    ['configs/big.yaml', [other]],
    ['/ckpt', [one, two]],
    ['/ckpt/', [one, two]],
    ['9a2b', [other]],
    [B, [other]],
    ['9a2', []],
    ['smo', []],
    ['/ck', []],
  ] as const) {
    assert.deepEqual(ids(namedByRecord(all, text, true)), ids(expected), text);
  }
  assert.deepEqual(namedByRecord(all, '/ckpt', false), [], 'a directory means what is inside only if asked for');
});

test('experiments of another repository are out of reach, by every kind of target', async () => {
  const ours = summary('a', { pullRequests: [12] });
  const theirs = summary('b', { repository: 'lab/other', pullRequests: [12] });
  const all = listing([ours, theirs], ['a', 'b']);
  for (const target of [
    { kind: 'live' },
    { kind: 'ids', ids: new Set(['a', 'b']) },
    { kind: 'pull-request', number: 12 },
    { kind: 'named', text: ' smoke ' },
  ] as const) {
    assert.deepEqual(ids(await resolveTarget(all, NO_REPO, 'lab/nano', target, false)), ['a'], target.kind);
  }
});

test('live is what is in the queue or was until lately', async () => {
  const all = listing([summary('a'), summary('b'), summary('c')], ['a'], ['b']);
  assert.deepEqual(ids(await resolveTarget(all, NO_REPO, 'lab/nano', { kind: 'live' }, false)), ['a', 'b']);
});

test('of several chains: the pull request, then the queue, then the commit, then the newest attempt', () => {
  const near: { commit: string; pullRequest: number | undefined } = { commit: A, pullRequest: 12 };
  const pick = (all: ExperimentSummary[], queued: string[] = [], from = near) => pickOne(all, listing(all, queued), 'extend', from).id;
  const mine = summary('mine', { pullRequests: [12] });
  const theirs = summary('theirs', { pullRequests: [13] });
  assert.equal(pick([theirs, mine], ['theirs']), 'mine', 'not the chain of another pull request, though it is in the queue');
  assert.equal(pick([theirs, summary('queued', { name: 'x' })], ['queued']), 'queued');
  assert.equal(pick([summary('then', { commit: B }), summary('now')]), 'now');
  assert.equal(pick([summary('s', { attempt: 1 }), summary('s-a2', { attempt: 2 })]), 's-a2');
  assert.throws(
    () => pick([summary('a', { overrides: ['lr=1'] }), summary('b', { overrides: ['lr=2'] })]),
    /which chain to extend.*: a, b$/,
  );
  assert.throws(() => pick([]), /there is nothing to extend/);
  const byHand = { commit: B, pullRequest: undefined };
  assert.throws(() => pick([theirs, mine, summary('x', { name: 'x' })], [], byHand), /which chain/);
});

test('attempts are the same experiment', () => {
  assert.ok(isSameExperiment(summary('a'), summary('a-a2', { attempt: 2 })));
  for (const other of [{ commit: B }, { name: 'x' }, { overrides: ['lr=1'] }])
    assert.ok(!isSameExperiment(summary('a'), summary('b', other)));
});

test('a record that cannot be read is reported to those whom it concerns', () => {
  const bad = (id: string, repository: string | undefined, pullRequests: unknown[] = []) => ({
    id,
    repository,
    pullRequests,
    problem: new Problem('x'),
  });
  const records = [bad('a', 'lab/nano', [7]), bad('b', undefined), bad('c', 'other/repo', [7]), bad('d', 'lab/nano', ['7', { x: 1 }])];
  const of = (target: Parameters<typeof badRecordsOf>[2], queued: string[] = []) =>
    ids(badRecordsOf({ bad: records, queued: new Set(queued), recent: new Set(['d']) }, 'lab/nano', target) as never);
  assert.deepEqual(of({ kind: 'pull-request', number: 7 }), ['a']);
  assert.deepEqual(of({ kind: 'pull-request', number: 7 }, ['b', 'c']), ['a', 'b'], 'jobs of an unreadable record are in the queue');
  assert.deepEqual(of({ kind: 'live' }, ['a', 'c']), ['a', 'd']);
  assert.deepEqual(of({ kind: 'ids', ids: new Set(['b', 'c']) }), ['b']);
  assert.deepEqual(of({ kind: 'named', text: '/ckpt/d/0/step_1' }), ['d']);
  assert.deepEqual(of({ kind: 'named', text: 'smoke' }), []);
});

const found = (all: readonly ExperimentSummary[], text: string) => namedByRecord(all, text, true).map(({ id }) => id);

test('only # and digits are a pull request; status and audit may look at everything', () => {
  const of = (target: string | undefined, command: 'status' | 'audit' | 'extend' = 'status') => targetOf({ target, command }, undefined);
  for (const text of ['a#12', '#12a', '#1234567890', '']) assert.deepEqual(of(text), { kind: 'named', text });
  assert.deepEqual(of('#7', 'extend'), { kind: 'pull-request', number: 7 });
  assert.deepEqual(of(undefined, 'audit'), { kind: 'live' });
  assert.throws(() => of(undefined, 'extend'), /say what to extend/);
});

test('an id that ends in a number is itself, and not the run of a cell of another one', () => {
  const all = [summary('smoke-1a2b3c4d5e6f'), summary('smoke-1a2b3c4d5e6f-123456', { overrides: ['a=1'] })];
  assert.deepEqual(found(all, 'smoke-1a2b3c4d5e6f-123456'), ['smoke-1a2b3c4d5e6f-123456']);
  assert.deepEqual(found(all, '/ckpt/smoke-1a2b3c4d5e6f-123456/0'), ['smoke-1a2b3c4d5e6f-123456']);
  assert.deepEqual(found(all, 'smoke-1a2b3c4d5e6f-123456-2'), ['smoke-1a2b3c4d5e6f-123456']);
  assert.deepEqual(found(all, 'smoke-1a2b3c4d5e6f-7'), ['smoke-1a2b3c4d5e6f']);
});

test('a directory with several slashes at its end; a commit is hex and nothing else', () => {
  const all = [summary('x-1a2b3c4d5e6f')];
  assert.deepEqual(found(all, '/ckpt//'), ['x-1a2b3c4d5e6f']);
  for (const text of ['1a2bz', 'z1a2b', '1A2B', `${A}a`]) assert.deepEqual(found(all, text), [], text);
  // A commit names every experiment at it, but only if it is not also a name.
  assert.deepEqual(found([...all, summary('y', { name: '1a2b' })], '1a2b'), ['y']);
});

test('by hand, chains of pull requests and others are alike; different experiments are never attempts of one', () => {
  const pick = (...all: ExperimentSummary[]) => pickOne(all, { queued: new Set() }, 'cancel', { commit: 'x', pullRequest: undefined }).id;
  const mixed = [summary('a'), summary('a-a2', { attempt: 2 }), summary('b', { name: 'big', attempt: 3 })];
  assert.throws(() => pick(...mixed), /say which chain to cancel, by its EXPERIMENT_ID: a, a-a2, b$/);
  assert.equal(pick(summary('a'), summary('a-a2', { attempt: 2, pullRequests: [7] })), 'a-a2');
});
