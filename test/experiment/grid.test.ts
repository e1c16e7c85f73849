import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSource, textOf, withRoot } from '../../src/experiment/document.ts';
import { gridOf } from '../../src/experiment/grid.ts';

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

for (const [what, text, message] of [
  ['an empty list', 'a: 1\nm: {^lr: []}\n', /^Problem: x\.yaml:2:5: \^m\.lr is an empty list/],
  ['a value that is no list', '^lr: 3\n', /^Problem: x\.yaml:1:1: \^lr must hold a list/],
  ['an anchor that only one choice holds', '^a: [&x 1, 2]\nb: *x\n', /anchor/],
] as const) {
  test(`refused with its place: ${what}`, () => {
    assert.throws(() => cells(text), message);
  });
}
