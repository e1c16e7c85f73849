// Names that look like other names. test/commands/target.test.ts has each kind of name.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ExperimentSummary } from '../../src/chain/manifest.ts';
import { namedByRecord, pickOne, targetOf } from '../../src/commands/target.ts';

const A = '1a2b3c4d5e6f'.padEnd(40, 'a');
function summary(id: string, more: Partial<ExperimentSummary> = {}): ExperimentSummary {
  return {
    ...{ id, name: 'smoke', commit: A, path: 'configs/smoke.yaml', attempt: 1, overrides: [], subject: '', chain: [] },
    ...{ repository: 'lab/nano', pullRequests: [], cluster: 'entropy', save: `/ckpt/${id}`, codeName: A },
    checkpoints: { prefix: 'step_', complete: '', offset: 1 },
    ...more,
  };
}
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
