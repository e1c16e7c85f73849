import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { lookBack, redact, spellingsOf } from '../../src/base/redact.ts';
import { quote } from '../../src/base/shell-quote.ts';
import { SECRETS, spelledByPrograms } from '../support/secrets.ts';

test('secrets are replaced, each line of one by itself', () => {
  assert.equal(redact('key=hunter2 and hunter22', ['hunter2', 'hunter22']), 'key=*** and ***');
  assert.equal(redact('x abcdef y', ['BEGIN\nabcdef\nEND']), 'x *** y');
  assert.equal(redact('BEGIN\nabcdef\nEND', ['BEGIN\nabcdef\nEND']), '***');
  assert.equal(redact('abcdef', ['  abcdef\r\n']), '***');
  assert.equal(redact('twice abcdef abcdef', ['abcdef']), 'twice *** ***');
  assert.equal(redact('abcdefabcdef', ['abcdef']), '******');
  assert.equal(redact('nothing', []), 'nothing');
  assert.equal(redact('', ['abcdef']), '');
});

test('values of fewer than four characters stay', () => {
  assert.equal(redact('a yes no 123 1234', ['yes', '', 'a', '1234']), 'a yes no 123 ***');
});

test('what is no secret stays as it is, colours and all', () => {
  const log = '\u001b[32mstep 10\u001b[0m loss=0.5 "it\'s" \\ a/b %20 c2VjcmV0\nnext line\r\n';
  assert.equal(redact(log, ['correct horse battery staple', 'hunter2']), log);
  // Short secrets are not looked for across line ends and quotes.
  assert.equal(redact('hun\nter2 hun"ter2', ['hunter2']), 'hun\nter2 hun"ter2');
});

for (const secret of SECRETS) {
  test(`no spelling of ${JSON.stringify(secret)} is left`, () => {
    for (const [how, spelled] of spelledByPrograms(secret)) {
      const shown = redact(`before ${spelled} after`, [secret]);
      assert.ok(shown.includes('***'), `${how}: ${shown}`);
      assert.match(shown, /^before .*after$/s, how);
      // The letters of base64 that its neighbours have a part in, quotes and the like.
      // biome-ignore lint/suspicious/noControlCharactersInRegex: colour codes
      const left = shown.slice('before'.length, -'after'.length).replace(/[\s'"$+\\*\u001b]|\[\d*m/g, '');
      assert.ok(left.length <= 12, `${how}: ${spelled} gives ${shown}`);
    }
  });
}

test('a secret that is cut at the start or the end of the text', () => {
  const secret = 'correct-horse-battery-staple';
  assert.equal(redact('horse-battery-staple\nnext', [secret]), '***\nnext');
  assert.equal(redact('begin correct-horse-b', [secret]), 'begin ***');
  assert.equal(redact(`${Buffer.from(secret).toString('base64').slice(10)} next`, [secret]).includes('0YXBsZQ'), false);
  assert.equal(redact('staple', [secret]), 'staple', 'too short to tell');
});

test('a secret of 10 KB is found in every spelling', () => {
  const secret = Array.from({ length: 10_000 }, (_, index) => 'ab"c\'é '[index % 7]).join('');
  for (const spelled of [secret, JSON.stringify(secret), quote(secret), Buffer.from(secret).toString('base64')]) {
    const shown = redact(`x ${spelled} y`, [secret]);
    assert.ok(shown.length < 30, shown.slice(0, 100));
    assert.ok(Buffer.byteLength(spelled) <= lookBack([secret]));
  }
});

test('the look back covers the longest spelling', () => {
  for (const secret of SECRETS) {
    for (const spelled of spellingsOf(secret)) assert.ok(Buffer.byteLength(spelled) <= lookBack([secret]), spelled);
  }
  assert.equal(lookBack([]), 1000);
});

test('what bash prints of a secret', () => {
  for (const secret of SECRETS) {
    for (const locale of ['C', 'C.UTF-8']) {
      const traced = execFileSync('bash', ['-c', 'set -x; : "$1"; printf %q "$1"', '-', secret], {
        encoding: 'utf8',
        env: { LC_ALL: locale, PATH: process.env['PATH'] },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      assert.match(redact(traced, [secret]), /^[$'\\]*\*\*\*'?$/, traced);
    }
  }
});
