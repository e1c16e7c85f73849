import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSource, textOf } from '../../src/experiment/document.ts';
import { applyOverrides, parseOverrides } from '../../src/experiment/overrides.ts';

function apply(text: string, overrides: string): string {
  const source = parseSource('x.yaml', text);
  return textOf(applyOverrides(source, parseOverrides(overrides)));
}

test('splits at white space, but not inside quotes and brackets', () => {
  assert.deepEqual(
    parseOverrides(`a.b=3e-4  note="two words, it's fine" +c.^d=[1, 2]\ne={x: 1, y: [2, 3]} f=don't g=`).map(({ path, value, mayAdd }) => [
      path,
      value,
      mayAdd,
    ]),
    [
      ['a.b', '3e-4', false],
      ['note', '"two words, it\'s fine"', false],
      ['c.^d', '[1, 2]', true],
      ['e', '{x: 1, y: [2, 3]}', false],
      ['f', "don't", false],
      ['g', '', false],
    ],
  );
});

test('a value is typed as yaml and everything else stays as written', () => {
  assert.equal(apply('a:\n  b: 1 # one\n  c: 007\n', 'a.b=3e-4'), 'a:\n  b: 3e-4\n  c: 007\n');
  assert.equal(apply('a: 1\n', 'a="1"'), 'a: "1"\n');
  assert.equal(apply('a: [1, 2, 3]\n', 'a.1=5'), 'a: [1, 5, 3]\n');
  assert.equal(apply('a: 1\n', 'a={x: [1, 2]}'), 'a: {x: [1, 2]}\n');
});

test('a path names a grid with and without its ^', () => {
  assert.equal(apply('m: {^lr: [1, 2]}\n', 'm.lr=3'), 'm: {lr: 3}\n');
  assert.equal(apply('m: {lr: 1}\n', 'm.^lr=[3, 4]'), 'm: {^lr: [3, 4]}\n');
  assert.equal(apply('lr: 1\n^lr: [1, 2]\n', 'lr=3'), 'lr: 3\n');
});

test('+ adds, with the mappings on the way', () => {
  assert.equal(apply('a: 1\n', '+b.c.d=2'), 'a: 1\nb:\n  c:\n    d: 2\n');
});

test('an anchor goes with the place, so what is an alias of it follows', () => {
  assert.equal(apply('a: &x 1\nb: *x\n', 'a=5'), 'a: &x 5\nb: *x\n');
  assert.equal(apply('a: &x {c: 1}\nb: *x\n', 'a.c=5'), 'a: &x {c: 5}\nb: *x\n');
  assert.equal(apply('a: &x 1\nb: *x\n', 'b=5'), 'a: &x 1\nb: 5\n');
  assert.throws(() => apply('a: &x {c: 1}\nb: *x\n', 'b.c=5'), /b is the alias \*x in x\.yaml; override what the anchor &x stands for/);
});

for (const [what, overrides, message] of [
  [
    'a path that is not there',
    'trainer.learning_rat=1',
    /trainer\.learning_rat does not exist in x\.yaml; did you mean 'learning_rate'\?\. Write \+trainer\.learning_rat=…/,
  ],
  ['a path through a value', 'a.b=1', /what is above it holds no keys/],
  ['no =', 'trainer', /not of the form path=value/],
  ['an empty path', '=1', /not of the form/],
  ['a path twice', 'a=1 a=2', /given twice/],
  ['an open bracket', 'a=[1, 2', /end inside a bracket/],
  ['an open quote', 'a="x', /end inside a quote/],
  ['a value that is no yaml', 'a={x', /end inside a bracket/],
] as const) {
  test(`refused: ${what}`, () => {
    assert.throws(() => apply('a: 1\ntrainer: {learning_rate: 1}\n', overrides), message);
  });
}
