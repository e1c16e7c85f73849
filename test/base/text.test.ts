import assert from 'node:assert/strict';
import { test } from 'node:test';
import { quote } from '../../src/base/shell-quote.ts';
import { didYouMean } from '../../src/base/spelling.ts';
import { amount, count, some } from '../../src/base/text.ts';

test('numbers and counts for reading', () => {
  assert.deepEqual([amount(1234), amount(0.5), amount(9.96), amount(12.6)], ['1,234', '0.5', '10', '13']);
  assert.deepEqual([count(1, 'job'), count(0, 'job'), count(1000, 'entry', 'entries')], ['1 job', '0 jobs', '1,000 entries']);
});

test('the first few of a list', () => {
  assert.equal(some(['a', 'b'], 3), 'a, b');
  assert.equal(some(['a', 'b', 'c'], 2), 'a, b and 1 more');
  assert.equal(some(['a', 'b'], 2, 7), 'a, b and 5 more');
  assert.equal(some([], 2), '');
});

test('a shell word, whatever is in the text', () => {
  assert.equal(quote(`it's $HOME`), `'it'\\''s $HOME'`);
  assert.throws(() => quote('a\0b'), RangeError);
});

test('a suggestion only for what is close', () => {
  assert.equal(didYouMean('partion', ['partition', 'time']), "; did you mean 'partition'?");
  assert.equal(didYouMean('zzzzzz', ['partition', 'time']), '');
});
