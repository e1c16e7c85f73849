import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSource, textOf, withRoot } from '../../src/experiment/document.ts';
import { gridOf } from '../../src/experiment/grid.ts';
import { refused } from './refused.ts';

function cells(text: string): { texts: string[]; choices: Record<string, string>[] } {
  const source = parseSource('x.yaml', text);
  const grid = gridOf(source);
  const all = Array.from({ length: grid.size }, (_, number) => grid.cell(number));
  return { texts: all.map((cell) => textOf(withRoot(source, cell.root))), choices: all.map((cell) => Object.fromEntries(cell.choices)) };
}

test('a document without a grid is one cell, written as it was', () => {
  const text = `# a comment
name: t # another
tiny: 1e-10
octal: 007
big: 123456789012345678901234567890
hex: 0x1F
quoted: "1"
single: 'it''s'
nothing: ~
yes_word: TRUE
list: [1, {^not: searched}]

model:
  # about the layers
  layers: 12
text: |
  two
  lines
`;
  assert.deepEqual(cells(text).texts, [text]);
});

test('normal keys come before ^ keys, each in document order, the last one fastest', () => {
  const { choices } = cells('^a: [1, 2]\nsub: {^b: [x, y]}\n^c: [7, 8]\n');
  assert.deepEqual(
    choices.map((choice) => `${choice['sub.b']}${choice['a']}${choice['c']}`),
    ['x17', 'x18', 'x27', 'x28', 'y17', 'y18', 'y27', 'y28'],
  );
});

test('a chosen mapping may hold a grid of its own', () => {
  const { choices, texts } = cells('^opt:\n  - name: adam\n    ^wd: [0.1, 0.20]\n  - name: sgd\nafter: 1 # kept\n');
  assert.deepEqual(
    choices.map((choice) => choice['opt.wd']),
    ['0.1', '0.20', undefined],
  );
  assert.equal(texts[1], 'opt:\n  name: adam\n  wd: 0.20\nafter: 1 # kept\n');
  assert.equal(texts[2], 'opt:\n  name: sgd\nafter: 1 # kept\n');
});

test('a key that is present with and without ^ counts as the ^ one', () => {
  assert.deepEqual(cells('lr: 5\n^lr: [1e-3, 3e-4]\n').texts, ['lr: 1e-3\n', 'lr: 3e-4\n']);
});

test('values keep their spelling and quoting', () => {
  assert.deepEqual(cells('^v: [1e-3, "007", 007, \'a\', 123456789012345678901, null, [1, 2]]\n').texts, [
    'v: 1e-3\n',
    'v: "007"\n',
    'v: 007\n',
    "v: 'a'\n",
    'v: 123456789012345678901\n',
    'v: null\n',
    'v: [1, 2]\n',
  ]);
});

test('a grid in a deep mapping leaves comments and everything beside it alone', () => {
  const { texts } = cells('a:\n  # why\n  b:\n    ^c: [1, 2] # which\n    d: 0x10 # that\n');
  assert.equal(texts[1], 'a:\n  # why\n  b:\n    c: 2\n    d: 0x10 # that\n');
});

test('a big grid is counted, not made', () => {
  const source = parseSource('x.yaml', `${Array.from({ length: 12 }, (_, key) => `^k${key}: [1, 2, 3, 4, 5]`).join('\n')}\n`);
  assert.throws(() => gridOf(source), /^Problem: x\.yaml: the grid has 244,140,625 cells/);
});

test('a grid of exactly the largest size is allowed', () => {
  const list = (length: number) => `[${Array.from({ length }, (_, value) => value).join(', ')}]`;
  const source = (size: number) => parseSource('x.yaml', `^a: ${list(size)}\n^b: ${list(100)}\n`);
  assert.equal(gridOf(source(1000)).size, 100_000);
  assert.equal(gridOf(source(1000)).cell(99_999).choices.get('b'), '99');
  refused(() => gridOf(source(1001)), 'x.yaml: the grid has 100,100 cells; at most 100,000 are allowed');
});

test('cells are numbered from 0', () => {
  const grid = gridOf(parseSource('x.yaml', '^a: [1, 2]\n'));
  assert.deepEqual(
    [0, 1].map((number) => grid.cell(number).number),
    [0, 1],
  );
});

test('a grid inside a mapping that an alias stands for counts where the alias is', () => {
  const { choices, texts } = cells('a: &a {^x: [1, 2]}\nb: *a\n');
  assert.deepEqual(
    choices.map((choice) => `${choice['a.x']}${choice['b.x']}`),
    ['11', '12', '21', '22'],
  );
  assert.match(texts[1] ?? '', /b: .*\{x: 2\}/);
});

test('a list of mappings behind aliases is a grid like any other', () => {
  const { choices } = cells('small: &s {n: 1}\nbig: &b {^n: [2, 3]}\n^m: [*s, *b]\n');
  assert.deepEqual(
    choices.map((choice) => [choice['big.n'], choice['m'], choice['m.n']]),
    [
      ['2', '{"n":1}', undefined],
      ['2', '{"n":2}', '2'],
      ['2', '{"n":3}', '3'],
      ['3', '{"n":1}', undefined],
      ['3', '{"n":2}', '2'],
      ['3', '{"n":3}', '3'],
    ],
  );
});

test('grids of several depths are one product', () => {
  const { choices } = cells('a: {b: {^c: [1, 2], d: {^e: [3, 4]}}}\n');
  assert.deepEqual(
    choices.map((choice) => `${choice['a.b.d.e']}${choice['a.b.c']}`),
    ['31', '32', '41', '42'],
  );
});

test('a choice of several lines is shown on one', () => {
  const { choices } = cells('^a:\n  - |\n    x\n    y\n  - "x\n\n    y"\n  - [1, {b: 2}]\n  - {c: 3}\n');
  assert.deepEqual(
    choices.map((choice) => choice['a']),
    ['x\ny\n', 'x\ny', '[1,{"b":2}]', '{"c":3}'],
  );
});

test('comments and blank lines before a key of the grid stay, those between its values go', () => {
  const { texts } = cells('a: 1\n\n# why\n^b:\n  # first\n  - x: 1\n\n  # second\n  - y: 2\n\n^c: [3]\n');
  assert.equal(texts[1], 'a: 1\n\n# why\nb:\n  y: 2\n\nc: 3\n');
});

test('blank lines and comments between the values of a grid go', () => {
  assert.deepEqual(cells('^b:\n  - 1\n\n  - 2\n').texts, ['b: 1\n', 'b: 2\n']);
  assert.deepEqual(cells('^b:\n  - 1\n  # c\n  - 2\n').texts, ['b: 1\n', 'b: 2\n']);
});

test('only a key with ^ hides the key without it', () => {
  assert.deepEqual(cells('xlr: 1\nlr: 2\n').texts, ['xlr: 1\nlr: 2\n']);
});

test('a null beside a grid stays a null, and ^ alone is a key like any other', () => {
  assert.deepEqual(cells('{a, ^b: [1], ^: [2]}\n').texts, ['{a: null, b: 1, ^: [2]}\n']);
});

test('keys of any kind are names', () => {
  const { choices } = cells('1: {^2: [a, b]}\ntrue: {^no: [c]}\n');
  assert.deepEqual(choices[1], { '1.2': 'b', 'true.no': 'c' });
});

test('cells share the nodes that no grid touches', () => {
  const grid = gridOf(parseSource('x.yaml', 'a: {b: 1}\n^c: [1, 2]\nd: {^e: [3], f: {g: 4}}\n'));
  const [first, second] = [grid.cell(0).root, grid.cell(1).root];
  assert.equal(first.get('a', true), second.get('a', true));
  assert.equal(first.getIn(['d', 'f'], true), second.getIn(['d', 'f'], true));
  assert.notEqual(first.get('c', true), second.get('c', true));
});

for (const [what, text, message] of [
  [
    'an empty list',
    'a: 1\nm: {^lr: []}\n',
    /^Problem: x\.yaml:2:5: \^m\.lr is an empty list, so the grid would have no cells; add a value/,
  ],
  ['a value that is no list', '^lr: 3\n', /^Problem: x\.yaml:1:1: \^lr must hold a list, one value for each cell/],
  [
    'an anchor that only one choice holds',
    '^a: [&x 1, 2]\nb: *x\n',
    /^Problem: x\.yaml: the config of a cell cannot be written: .*anchor \(&name\)/,
  ],
  ['an alias without an anchor', 'a: {b: *x}\n', /^Problem: x\.yaml:1:8: the alias \*x has no anchor &x/],
  ['a mapping that contains itself', 'a: &a {b: {c: *a}}\n', /^Problem: x\.yaml:1:15: the alias \*a stands for a value that contains it/],
] as const) {
  test(`refused with its place: ${what}`, () => {
    assert.throws(() => cells(text), message);
  });
}
