// Answers without a report. test/report/states.test.ts has their whole text.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { renderHelp, renderProblem } from '../../src/report/replies.ts';

test('a very long message is cut to what GitHub takes', () => {
  const body = renderProblem('/launch', ['first', 'x'.repeat(100_000)]);
  assert.ok(Buffer.byteLength(body) <= 65_536);
  assert.match(body, /> first\n/);
  assert.ok(body.endsWith('\n'), 'it ends with a whole line');
});

test('the help ends the sentence, heads its table and says what WHAT means', () => {
  const help = renderHelp('there is no command /x.y', [['/status [WHAT]', 'look again']]);
  assert.match(help, /^There is no command \/x\.y\. These are the commands:$/m);
  assert.match(help, /^\| command \| what it does \|\n\| --- \| --- \|\n\| `\/status \[WHAT\]` \| look again \|$/m);
  assert.match(help, /\n\n`WHAT` is an EXPERIMENT_ID, a name, a commit/);
});
