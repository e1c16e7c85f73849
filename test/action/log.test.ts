import assert from 'node:assert/strict';
import { test } from 'node:test';
import { harmless } from '../../src/action/log.ts';

/** Does the runner take a line for a command? As actions/runner, src/Runner.Common/ActionCommand.cs does. */
const isCommand = (line: string) => line.trimStart().startsWith('::') || line.includes('##[');

for (const text of [
  '::error file=x,line=1::forged',
  '  ::add-mask::launch',
  'fine\n::stop-commands::tok',
  'fine\r::set-output name=state::forged',
  'fine\r\n\t::error::x',
  ':::error::x',
  '::::error::x',
  'label ##[set-output name=x]',
  '##[##[error]x',
  '####[error]x',
  '\u00a0::error::x',
]) {
  test(`no command: ${JSON.stringify(text)}`, () => {
    const lines = harmless(text).split(/\r\n|\r|\n/);
    assert.deepEqual(lines.filter(isCommand), []);
    for (const line of lines.slice(1)) assert.match(line, /^ {2}/);
  });
}

test('other text stays as it is', () => {
  for (const text of ['', 'job 1: 42 (1 of 2)', 'a::b', 'x: y', '# [1]', 'tab\there', 'Ł π 猫 ‍']) assert.equal(harmless(text), text);
});

test('characters that nobody sees are written out', () => {
  assert.equal(harmless('a\u202eb\u0007c\u001b[31md'), 'a\\u202eb\\u0007c\\u001b[31md');
});
