import assert from 'node:assert/strict';
import { test } from 'node:test';
import { redact } from '../../src/base/redact.ts';

test('secrets are replaced, the longest first, each line of one by itself', () => {
  assert.equal(redact('key=hunter2 and hunter22', ['hunter2', 'hunter22']), 'key=*** and ***');
  assert.equal(redact('BEGIN\nabcdef\nEND', ['BEGIN\nabcdef\nEND']), '***\n***\nEND');
  assert.equal(redact('abcdef', ['  abcdef\r\n']), '***');
  assert.equal(redact('twice abcdef abcdef', ['abcdef']), 'twice *** ***');
});

test('values of fewer than four characters stay', () => {
  assert.equal(redact('a yes no 123 1234', ['yes', '', 'a', '1234']), 'a yes no 123 ***');
});
