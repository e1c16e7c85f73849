import assert from 'node:assert/strict';
import { test } from 'node:test';
import { experimentId, slugOf, wandbRunId } from '../../src/experiment/identity.ts';
import { hashOfOverrides, parseOverrides } from '../../src/experiment/overrides.ts';

const COMMIT = '1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b';
const hash = (text: string) => hashOfOverrides(parseOverrides(text));

test('name, first twelve of the commit, overrides, attempt', () => {
  assert.equal(experimentId('chain_smoke', COMMIT), 'chain_smoke-1a2b3c4d5e6f');
  assert.match(experimentId('chain_smoke', COMMIT, hash('lr=1')), /^chain_smoke-1a2b3c4d5e6f-[0-9a-f]{6}$/);
  assert.equal(experimentId('chain_smoke', COMMIT, '', 2), 'chain_smoke-1a2b3c4d5e6f-a2');
  assert.match(experimentId('chain_smoke', COMMIT, hash('lr=1'), 12), /^chain_smoke-1a2b3c4d5e6f-[0-9a-f]{6}-a12$/);
});

test('every id fits W&B and every file system, whatever the name', () => {
  for (const name of [
    'a',
    'x'.repeat(500),
    'été à Kraków',
    '../../etc/passwd',
    '-rf',
    '日本語',
    ' ',
    'a b\nc',
    '$(touch x)',
    '.hidden',
    "o'neill",
  ]) {
    for (const id of [experimentId(name, COMMIT), experimentId(name, COMMIT, 'abcdef', 99)]) {
      assert.match(id, /^[A-Za-z0-9][A-Za-z0-9._-]*$/);
      assert.ok(wandbRunId(id, 4_000_000).length <= 64, id);
    }
  }
});

test('names that would be cut or slugged alike stay apart', () => {
  const names = [`${'n'.repeat(60)}a`, `${'n'.repeat(60)}b`, 'a b', 'a/b', 'a-b', 'a  b', 'A-b', 'a_b', 'é', 'e', '.a', 'a'];
  assert.equal(new Set(names.map(slugOf)).size, names.length);
});

test('an ordinary name is kept as it is', () => {
  for (const name of ['llama_300m.v2', 'Chain-Smoke', 'a'.repeat(32)]) assert.equal(slugOf(name), name);
});

test('the order of overrides does not matter, their values do, and chain.* never does', () => {
  assert.equal(hash('a=1 b=2'), hash('b=2 a=1'));
  assert.notEqual(hash('a=1 b=2'), hash('a=1 b=3'));
  assert.notEqual(hash('a=1'), hash('b=1'));
  assert.equal(hash('a=1 chain.n_jobs=9'), hash('a=1'));
  assert.equal(hash('chain.n_jobs=9'), '');
  assert.equal(hash('+a=1'), hash('a=1'));
});

test('a commit that is not whole is refused', () => {
  for (const commit of ['1a2b3c', `${COMMIT}0`, `x${COMMIT}`, COMMIT.toUpperCase(), '']) {
    assert.throws(() => experimentId('a', commit), { name: 'RangeError', message: `'${commit}' is not a whole commit id` });
  }
});

test('an attempt is a whole number from 1 to 99', () => {
  assert.match(experimentId('a', COMMIT, '', 99), /-a99$/);
  for (const attempt of [0, -1, 1.5, 100, Number.NaN]) {
    assert.throws(() => experimentId('a', COMMIT, '', attempt), { name: 'RangeError', message: `attempt ${attempt} is not from 1 to 99` });
  }
});

test('the longest id has 56 characters, and what follows the name does not change how the name is shortened', () => {
  const name = 'n'.repeat(100);
  const long = experimentId(name, COMMIT, '012345', 99);
  assert.equal(long.length, 56);
  assert.equal(long, `${experimentId(name, COMMIT)}-012345-a99`);
  assert.equal(slugOf('n'.repeat(33)).length, 32);
});

// Ids on clusters were made like this.
for (const [name, slug] of [
  ['a b', 'a-b-c8687a'],
  ['été', 'e-te-bd010c'],
  ['..a', 'a-f76a4d'],
  ['-_.', 'x-1ed0d4'],
  ['日本語', 'x-77710a'],
  ['a///b', 'a-b-7f2a98'],
  [`${'x'.repeat(22)}.-_${'y'.repeat(20)}`, `${'x'.repeat(22)}-e67c84`],
] as const) {
  test(`the part of an id that comes from ${JSON.stringify(name)} stays what it was`, () => {
    assert.equal(slugOf(name), slug);
  });
}

test('the run id of a cell', () => {
  assert.equal(wandbRunId('x-1a2b3c4d5e6f', 7), 'x-1a2b3c4d5e6f-7');
});
