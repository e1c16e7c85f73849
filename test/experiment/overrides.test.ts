import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSource, textOf } from '../../src/experiment/document.ts';
import { applyOverrides, countsInId, hashOfOverrides, overrideOf, parseOverrides } from '../../src/experiment/overrides.ts';
import { refused } from './refused.ts';

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
  assert.throws(() => apply('a: &x {c: 1}\nb: *x\n', 'b.c=5'), /b is the alias \*x in x\.yaml; override the value at the anchor &x/);
});

test('white space of any kind and amount separates, and nothing is no override', () => {
  assert.deepEqual(parseOverrides(' \n\t '), []);
  assert.deepEqual(
    parseOverrides('\ta=1\r\n\n  b=2 ').map(({ path, value }) => path + value),
    ['a1', 'b2'],
  );
});

test('a quote begins only where a value or an item begins', () => {
  const values = (text: string) => parseOverrides(text).map(({ value }) => value);
  assert.deepEqual(values(`a='x y' b="p q"`), [`'x y'`, `"p q"`]);
  assert.deepEqual(values(`a=["x y", 'p, q'] b={k: "v w"}`), [`["x y", 'p, q']`, `{k: "v w"}`]);
  assert.deepEqual(values(`a=o'neill b=5" c='x'y'z`), [`o'neill`, '5"', `'x'y'z`]);
  assert.deepEqual(values(`a="it's" b='say "x y"'`), [`"it's"`, `'say "x y"'`]);
});

test('a bracket inside a quote does not count, and one that closes too much does not either', () => {
  const values = (text: string) => parseOverrides(text).map(({ value }) => value);
  assert.deepEqual(values(`a="[" b=1`), ['"["', '1']);
  assert.deepEqual(values('a=x] b=1'), ['x]', '1']);
  assert.deepEqual(values('a=[[1, 2], [3]] b={x: {y: 1}}'), ['[[1, 2], [3]]', '{x: {y: 1}}']);
});

test('a value may hold = and anything else', () => {
  assert.deepEqual(parseOverrides('a.b=c=d'), [{ path: 'a.b', value: 'c=d', mayAdd: false }]);
  assert.deepEqual(parseOverrides('+a="x=y z"'), [{ path: 'a', value: '"x=y z"', mayAdd: true }]);
});

test('the document that overrides are applied to does not change', () => {
  const text = 'a: {b: 1}\nc: [1]\n';
  const source = parseSource('x.yaml', text);
  applyOverrides(source, parseOverrides('a.b=2 c.0=3 +d=4'));
  assert.equal(textOf(source), text);
});

test('an item of a list is named by its number', () => {
  assert.equal(apply('a: [{b: 1}, {b: 2}]\n', 'a.1.b=5'), 'a: [{b: 1}, {b: 5}]\n');
  assert.equal(apply('a: [1, 2]\n', 'a.0=5'), 'a: [5, 2]\n');
  assert.equal(apply('a: [&x 1, *x]\n', 'a.0=5'), 'a: [&x 5, *x]\n');
  assert.equal(apply('a: {0: x, 1: y}\n', 'a.0=5'), 'a: {0: 5, 1: y}\n');
  assert.equal(apply('a: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n', 'a.10=x'), 'a: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, x]\n');
  refused(() => apply('a: [1, 2]\n', 'a.2=5'), "override 'a.2': a.2 does not exist in x.yaml");
  refused(() => apply('a: [1, 2]\n', 'a.x=5'), "override 'a.x': a.x does not exist in x.yaml");
  refused(() => apply('a: [1, 2]\n', 'a.1x=5'), "override 'a.1x': a.1x does not exist in x.yaml");
  refused(() => apply('a: [1, 2]\n', 'a.x1=5'), "override 'a.x1': a.x1 does not exist in x.yaml");
});

test('of a key that is there with and without ^, one remains, where the last one was', () => {
  assert.equal(apply('lr: 1\nb: 2\n^lr: [1, 2]\nc: 3\n', 'lr=9'), 'b: 2\nlr: 9\nc: 3\n');
  assert.equal(apply('lr: 1\nb: 2\n^lr: [1, 2]\n', '^lr=[9]'), 'b: 2\n^lr: [9]\n');
  assert.equal(apply('m: {lr: 1, ^lr: [1]}\n', 'm.^lr=[2]'), 'm: {^lr: [2]}\n');
});

test('a ^ inside a key is a letter', () => {
  assert.equal(apply('ab: 2\na^b: 1\n', 'ab=3'), 'ab: 3\na^b: 1\n');
});

test('a path leads through a grid key with or without its ^', () => {
  assert.equal(apply('^m: {a: 1}\n', 'm.a=2'), '^m: {a: 2}\n');
  assert.equal(apply('m: {a: 1}\n', '^m.a=2'), 'm: {a: 2}\n');
  assert.equal(apply('^m: [{a: 1}]\n', 'm.0.a=2'), '^m: [{a: 2}]\n');
});

test('+ also changes what is there, and adds a grid', () => {
  assert.equal(apply('a: 1\n', '+a=2'), 'a: 2\n');
  assert.equal(apply('a: {b: 1}\n', '+a.^c=[1, 2]'), 'a: {b: 1, ^c: [1, 2]}\n');
  assert.equal(apply('', '+^a.b=1'), 'a:\n  b: 1\n');
  refused(() => apply('a: 1\n', '+a.b=2'), "override 'a.b': a.b does not exist in x.yaml, because the value above it holds no keys");
});

test('an empty value is null, and a value may be an alias', () => {
  assert.equal(apply('a: 1\n', 'a='), 'a: null\n');
  assert.equal(apply('a: &x 1\nb: &y 2\n', 'b=*x'), 'a: &x 1\nb: *x\n');
  assert.equal(apply('a: &x 1\nb: &y 2\nc: *y\n', 'b=7'), 'a: &x 1\nb: &y 7\nc: *y\n');
});

test('a collection that replaces one with an anchor gets the anchor', () => {
  assert.equal(apply('a: &x [1]\nb: *x\n', 'a={c: 1}'), 'a: &x {c: 1}\nb: *x\n');
});

test('an override of a manifest may add its path', () => {
  assert.deepEqual(overrideOf('a.b=c=d'), { path: 'a.b', value: 'c=d', mayAdd: true });
});

test('only overrides of the chain leave the id alone', () => {
  const counts = (text: string) => parseOverrides(text).map(countsInId);
  assert.deepEqual(counts('chain.n_jobs=1 chains.x=1 a.chain.x=1 chain=1 +chain.scope=cell'), [false, true, true, true, false]);
});

test('the hash is that of the sorted pairs, and stays what it was', () => {
  assert.equal(hashOfOverrides([]), '');
  // Ids on clusters were made with this hash.
  assert.equal(hashOfOverrides(parseOverrides('b=2 a=1')), '5f13ef');
  for (const order of ['a=1 b=2 c=3', 'c=3 b=2 a=1', 'b=2 c=3 a=1', 'b=2 a=1 c=3']) {
    assert.equal(hashOfOverrides(parseOverrides(order)), hashOfOverrides(parseOverrides('c=3 a=1 b=2')));
  }
  assert.equal(hashOfOverrides([{ path: 'a', value: ' 1 ', mayAdd: false }]), hashOfOverrides(parseOverrides('a=1')));
  assert.notEqual(hashOfOverrides(parseOverrides('a=1.0')), hashOfOverrides(parseOverrides('a=1')));
});

const NO_PATH = 'is not of the form path=value or +path=value, such as trainer.learning_rate=3e-4';
for (const [what, overrides, message] of [
  [
    'a path that is not there',
    'trainer.learning_rat=1',
    "override 'trainer.learning_rat': trainer.learning_rat does not exist in x.yaml; did you mean 'learning_rate'?",
  ],
  [
    'a misspelled key in the middle',
    'trainr.learning_rate=1',
    "override 'trainr.learning_rate': trainr does not exist in x.yaml; did you mean 'trainer'?",
  ],
  ['a misspelled grid', 'grod=1', "override 'grod': grod does not exist in x.yaml; did you mean 'grid'?"],
  ['a path through a value', 'a.b=1', "override 'a.b': a.b does not exist in x.yaml, because the value above it holds no keys"],
  ['no =', 'trainer', `override 'trainer' ${NO_PATH}`],
  ['an empty path', '=1', `override '=1' ${NO_PATH}`],
  ['a + alone', '+=1', `override '+=1' ${NO_PATH}`],
  ['two +', '++a=1', `override '++a=1' ${NO_PATH}`],
  ['an empty segment', 'a..b=1', `override 'a..b=1' ${NO_PATH}`],
  ['a dot at the end', 'a.=1', `override 'a.=1' ${NO_PATH}`],
  ['a dot at the start', '.a=1', `override '.a=1' ${NO_PATH}`],
  ['a ^ alone', '^=1', `override '^=1' ${NO_PATH}`],
  ['a ^ inside a word', 'a.b^c=1', `override 'a.b^c=1' ${NO_PATH}`],
  ['a path twice', 'a=1 +a=2', "override 'a' is given twice; remove one of them"],
  ['an open bracket', 'a=[1, 2', 'the overrides end inside a bracket; close it: a=[1, 2'],
  ['an open quote', 'a="x', 'the overrides end inside a quote; close it: a="x'],
  ['an open brace', ' a={x ', 'the overrides end inside a bracket; close it: a={x'],
  ['a value that is not yaml', 'a=x: y: z', "override 'y:' is not of the form"],
  ['a value that breaks yaml', 'a=[1]2', 'override "a=[1]2":1:4: not valid yaml'],
] as const) {
  test(`refused: ${what}`, () => {
    refused(() => apply('a: 1\n^grid: [1]\ntrainer: {learning_rate: 1}\n', overrides), message);
  });
}
