import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isAlias, isMap, isScalar, type Pair, YAMLMap } from 'yaml';
import {
  keyText,
  nodeFromText,
  pairsOf,
  parseSource,
  placeOf,
  resolved,
  rootOf,
  textOf,
  withRoot,
  type YamlSource,
} from '../../src/experiment/document.ts';
import { refused } from './refused.ts';

const read = (text: string) => parseSource('x.yaml', text);
function mapAt(source: YamlSource, key: string): YAMLMap {
  const map = rootOf(source).get(key, true) as unknown;
  assert.ok(isMap(map));
  return map;
}

test('a document is written back as it was read', () => {
  const text = `# first
a:
  - 1e-10 # why
  - 007
  - 0x1F
  - 123456789012345678901
  - .inf
  - ~
  - TRUE
  - "1"
  - 'it''s'
long: ${'word '.repeat(60)}end

b: {c: [1, 2], d: }
`;
  assert.equal(textOf(read(text)), text.replace('d: }', 'd:}'));
});

test('numbers that a program made are written like any other', () => {
  const source = read('a: 1\n');
  const root = new YAMLMap();
  root.set('b', source.document.createNode(0.5));
  root.set('c', source.document.createNode(true));
  assert.equal(textOf(withRoot(source, root)), 'b: 0.5\nc: true\n');
  assert.equal(textOf(source), 'a: 1\n');
});

for (const [what, text, message] of [
  ['a list that is not closed', 'a: [1\n', 'x.yaml:2:1: not valid yaml: '],
  ['a key twice', 'a: 1\nb: 2\na: 3\n', 'x.yaml:3:1: not valid yaml: Map keys must be unique'],
  ['a tab', 'a:\n\tb: 1\n', 'x.yaml:2:1: not valid yaml: '],
  ['a second document', 'a: 1\n---\nb: 2\n', 'x.yaml:2:1: not valid yaml: the file holds a second document after ---. Keep one'],
] as const) {
  test(`refused with its place: ${what}`, () => {
    refused(() => read(text), message);
  });
}

test('an error of the yaml parser is one line', () => {
  assert.throws(
    () => read('a: 1\nb: 2\na: 3\n'),
    ({ message }: Error) => !message.includes('\n'),
  );
});

test('the top is a mapping, and an empty one if there is nothing', () => {
  assert.equal(rootOf(read('')).items.length, 0);
  assert.equal(rootOf(read('# nothing\n')).items.length, 0);
  assert.equal(rootOf(read('~\n')).items.length, 0);
  assert.equal(rootOf(read('a: 1\n')).items.length, 1);
  refused(() => rootOf(read('\n- a\n')), 'x.yaml:2:1: the top of the file must be a mapping of keys and values');
  refused(() => rootOf(read('text\n')), 'x.yaml:1:1: the top of the file must be a mapping of keys and values');
});

test('a place counts lines and columns from 1; what is not in the file has none', () => {
  const source = read('a: 1\nb:\n  c: two\n');
  assert.deepEqual(placeOf(source, rootOf(source).getIn(['b', 'c'], true) as YAMLMap), { file: 'x.yaml', line: 3, column: 6 });
  assert.equal(placeOf(source, new YAMLMap()), undefined);
  assert.equal(placeOf(source, null), undefined);
});

test('keys are text, whatever their kind', () => {
  const keys = pairsOf(read(''), rootOf(read('a: 1\n2: 1\ntrue: 1\n? [b, c]\n: 1\n'))).map(keyText);
  assert.deepEqual(keys, ['a', '2', 'true', '["b","c"]']);
});

test('an alias is followed, and one that leads nowhere is an error at its place', () => {
  const source = read('a: &x 1\nb: *x\nc: *y\n');
  const value = (key: string) => rootOf(source).get(key, true);
  const followed = resolved(source, value('b'));
  assert.ok(isScalar(followed) && followed.value === 1);
  assert.equal(resolved(source, value('a')), value('a'));
  assert.equal(resolved(source, null), undefined);
  refused(() => resolved(source, value('c')), 'x.yaml:3:4: the alias *y has no anchor &y before it; add the anchor or write the value out');
});

test('merge keys bring in pairs behind those of the mapping', () => {
  const source = read('a: &a {x: 1, <<: {z: 9}}\nb: &b {x: 2, y: 2}\nc:\n  <<: [*a, *b]\n  w: 0\n');
  assert.deepEqual(
    pairsOf(source, mapAt(source, 'c')).map(
      (pair) => `${keyText(pair)}${String((pair as Pair<unknown, { value: unknown }>).value?.value)}`,
    ),
    ['w0', 'x1', 'z9', 'x2', 'y2'],
  );
});

test('only merge keys bring in pairs', () => {
  const source = read('a: {x: {y: 1}, z: [{w: 1}]}\n');
  assert.deepEqual(pairsOf(source, mapAt(source, 'a')).map(keyText), ['x', 'z']);
});

test('a merge key that holds no mapping brings in nothing, and one that merges itself is an error', () => {
  const source = read('a:\n  <<: 1\n  b: 2\n');
  assert.deepEqual(pairsOf(source, mapAt(source, 'a')).map(keyText), ['b']);
  refused(() => read('a: &a\n  <<: *a\n'), 'x.yaml:2:7: the alias *a stands for a value that contains it');
});

test('the same mapping may be merged twice', () => {
  const source = read('a: &a {x: 1}\nb: {<<: [*a, *a]}\n');
  assert.deepEqual(pairsOf(source, mapAt(source, 'b')).map(keyText), ['x', 'x']);
});

test('the value of an override has no place at any depth', () => {
  const node = nodeFromText('override "a=…"', '{b: [1, {c: 2}], d: null}');
  const ranges: unknown[] = [];
  const visit = (one: unknown): void => {
    if (typeof one !== 'object' || one === null) return;
    if ('range' in one) ranges.push(one.range);
    for (const value of Object.values(one)) {
      if (Array.isArray(value)) value.forEach(visit);
      else if (typeof value === 'object' && ['YAMLMap', 'YAMLSeq', 'Scalar', 'Pair'].includes(value?.constructor.name ?? '')) visit(value);
    }
  };
  visit(node);
  assert.deepEqual(ranges.filter(Boolean), []);
  assert.ok(isMap(node));
});

test('an empty override is null, one with an alias is an alias, and one that is not yaml is named', () => {
  const empty = nodeFromText('override "a="', '');
  assert.ok(isScalar(empty) && empty.value === null);
  assert.ok(isAlias(nodeFromText('override "a=*x"', '*x')));
  refused(() => nodeFromText('override "a=[1"', '[1'), 'override "a=[1":1:3: not valid yaml');
});

test('an alias whose anchor is gone cannot be written', () => {
  const source = read('a: &x 1\nb: *x\n');
  const root = rootOf(source).clone() as YAMLMap;
  root.delete('a');
  refused(() => textOf(withRoot(source, root)), 'x.yaml: the config of a cell cannot be written: ');
});
