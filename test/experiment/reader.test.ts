// How the reader walks a schema; what it makes of our own files is in settings.test.ts and repo-config.test.ts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as v from 'valibot';
import { parseSource, rootOf } from '../../src/experiment/document.ts';
import { findKey, type Layer, type Layers, readLayers } from '../../src/experiment/reader.ts';
import { list, mapping, must, oneOf, section, whole, word } from '../../src/experiment/values.ts';
import { refused } from './refused.ts';

function layer(text: string, file = 'x.yaml'): Layer {
  const source = parseSource(file, text);
  return { source, map: rootOf(source) };
}

function layersOf(...texts: readonly [string, ...string[]]): Layers {
  const [first, ...others] = texts.map((text, index) => layer(text, `${'xyz'[index]}.yaml`));
  assert.ok(first);
  return [first, ...others];
}

const schema = v.object({
  number_or_word: v.optional(v.pipe(v.union([whole(1, 9), oneOf('auto')]), must('a whole number or auto'))),
  text_or_flag: v.optional(v.union([v.boolean(), word])),
  one_or_all: v.optional(
    v.pipe(v.union([list(word, 'words'), section({ all_of: list(word, 'words') })]), must('words, or {all_of: words}')),
  ),
  all_or_one: v.optional(v.union([section({ all_of: list(word, 'words') }), list(word, 'words')])),
  named_or_text: v.optional(v.union([mapping(v.string(), whole(1, 9)), word])),
  perhaps: v.optional(section({ needed: v.pipe(word, v.description('Needed.')), more: v.optional(whole(1, 9), 3) })),
  named: mapping(v.string(), whole(1, 9)),
});
const readAs = (...texts: readonly [string, ...string[]]) => readLayers(schema, layersOf(...texts));

test('what is not given is left out, and a mapping is empty', () => {
  assert.deepEqual(readAs(''), { named: new Map() });
});

test('of several kinds, the one that fits the value is taken', () => {
  assert.equal(readAs('number_or_word: 3').number_or_word, 3);
  assert.equal(readAs('number_or_word: auto').number_or_word, 'auto');
  assert.equal(readAs('text_or_flag: true').text_or_flag, true);
  assert.equal(readAs('text_or_flag: "true"').text_or_flag, 'true');
  assert.equal(readAs('text_or_flag: 0x10').text_or_flag, '0x10');
  assert.deepEqual(readAs('one_or_all: [a, 1.0]').one_or_all, ['a', '1.0']);
  assert.deepEqual(readAs('one_or_all: {all_of: a}').one_or_all, { allOf: ['a'] });
  assert.deepEqual(readAs('named_or_text: {a: 1}').named_or_text, new Map([['a', 1]]));
  assert.equal(readAs('named_or_text: 1').named_or_text, '1');
});

test('a section that may be missing is missing, and has its own defaults if it is there', () => {
  assert.equal(readAs('perhaps: null').perhaps, undefined);
  assert.deepEqual(readAs('perhaps: {needed: a}').perhaps, { needed: 'a', more: 3 });
  assert.deepEqual(readAs('perhaps: {needed: a}', 'perhaps: {needed: b, more: 4}').perhaps, { needed: 'a', more: 4 });
});

test('each key comes from the first layer that gives it', () => {
  assert.deepEqual(
    [...readAs('named: {b: 1, c: null}', 'named: {a: 2, b: 2}', 'named: {c: 3, a: 3}').named],
    [
      ['b', 1],
      ['c', 3],
      ['a', 2],
    ],
  );
  assert.equal(readAs('', 'number_or_word: 2', 'number_or_word: 3').number_or_word, 2);
});

test('a key is found in the first layer that gives it', () => {
  const layers = layersOf('a: null\nb: 1\n', 'a: 2\nb: 2\n');
  assert.deepEqual(findKey(layers, 'a')?.place, { file: 'y.yaml', line: 1, column: 4 });
  assert.deepEqual(findKey(layers, 'b')?.keyPlace, { file: 'x.yaml', line: 2, column: 1 });
  assert.equal(findKey(layers, 'c'), undefined);
  assert.equal(findKey(layersOf('a:\n'), 'a'), undefined);
});

for (const [text, message] of [
  ['number_or_word: 0', 'x.yaml:1:17: number_or_word is "0"; it must be a whole number from 1 to 9'],
  ['number_or_word: all', 'x.yaml:1:17: number_or_word is "all"; it must be a whole number or auto'],
  ['number_or_word: [1]', 'x.yaml:1:17: number_or_word is "a list"; it must be a whole number or auto'],
  ['number_or_word: {a: 1}', 'x.yaml:1:17: number_or_word is "a mapping"; it must be a whole number or auto'],
  ['text_or_flag: ""', 'x.yaml:1:15: text_or_flag is ""; it must be one line of text'],
  ['one_or_all: [a, [b]]', 'x.yaml:1:17: one_or_all[1] is "a list"; it must be one line of text'],
  ['all_or_one: [a, [b]]', 'x.yaml:1:17: all_or_one[1] is "a list"; it must be one line of text'],
  ['all_or_one: {al_of: a}', "x.yaml:1:14: unknown key 'al_of' under all_or_one; did you mean 'all_of'?"],
  ['named_or_text: {a: 0}', 'x.yaml:1:20: named_or_text.a is "0"; it must be a whole number from 1 to 9'],
  ['one_or_all: {al_of: a}', "x.yaml:1:14: unknown key 'al_of' under one_or_all; did you mean 'all_of'?"],
  ['one_or_all: {}', 'x.yaml:1:1: there is no one_or_all.all_of. '],
  ['one_or_all: {all_of: [a, {b: c}]}', 'x.yaml:1:26: one_or_all.all_of[1] is "a mapping"; it must be one line of text'],
  ['perhaps: {more: 1}', 'x.yaml:1:1: there is no perhaps.needed. Needed.'],
  ['perhaps: a', 'x.yaml:1:10: perhaps must hold keys and values'],
  ['named: {a: 0}', 'x.yaml:1:12: named.a is "0"; it must be a whole number from 1 to 9'],
  ['named: {a: {b: 1}}', 'x.yaml:1:12: named.a is "a mapping"; it must be a whole number from 1 to 9'],
] as const) {
  test(`${text} is refused`, () => {
    refused(() => readAs(text), message);
  });
}

test('a fault is named in the layer that has it', () => {
  refused(() => readAs('named: {a: 1}', 'named: {b: 0}'), 'y.yaml:1:12: named.b is "0"');
  refused(() => readAs('named: {a: 1}', 'named: a'), 'y.yaml:1:8: named must hold keys and values');
});

test('a schema of a kind that the reader does not know is a fault of the program', () => {
  assert.throws(() => readLayers(v.object({ a: v.tuple([v.string()]) }), layersOf('a: [b]')), /^TypeError: the reader does not know/);
});
