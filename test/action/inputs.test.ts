import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSecrets } from '../../src/action/inputs.ts';

const read = (text: string) => Object.fromEntries(parseSecrets(text).secrets);

test('one NAME=value in each line, taken as it is', () => {
  assert.deepEqual(read('A=1\n\n  B = two words = 2 \r\nC="quoted"\nD=\'it\'\nE=a"b\nF=x<<y\n'), {
    A: '1',
    B: ' two words = 2 ',
    C: '"quoted"',
    D: "'it'",
    E: 'a"b',
    F: 'x<<y',
  });
});

test('several lines have the form of GITHUB_ENV', () => {
  const pem = '-----BEGIN KEY-----\nabc=\n\nX=y\n "half\n-----END KEY-----';
  assert.deepEqual(read(`A=1\nKEY<<END\n${pem}\nEND\nB=2\n`), { A: '1', KEY: pem, B: '2' });
  assert.deepEqual(read('K<<ghadelimiter_1-a\r\none\r\n  END \r\nghadelimiter_1-a'), { K: 'one\n  END ' });
});

for (const [what, text, message] of [
  ['a value that goes on without =', 'TOK=first\nCANARY', /^line 2 of the input env is not NAME=value/],
  ['a value that goes on and ends in ==', 'TOK=first\nCANARYsecond==', /^line 2 .* looks like the end of a value of several lines/],
  ['a quotation over lines', 'TOK="CANARY\nB=2"', /^line 1 .* begins a quotation that does not end/],
  ['a quotation with text after it', "TOK='CANARY' x", /^line 1 .* begins a quotation that does not end/],
  ['several lines without an end', 'TOK<<END\nCANARY\n END', /^line 1 .* does not end/],
  ['several lines without a word', 'TOK<<\nCANARY\n', /^line 1 .* does not end/],
  ['json over lines', 'SA={\n"CANARY": 1\n}', /^line 2 .* is not NAME=value/],
  ['a variable twice', 'CANARY=1\nCANARY=2', /^line 2 .* gives a variable that a line before gives/],
] as const) {
  test(`refused, and nothing of it shown: ${what}`, () => {
    assert.throws(
      () => parseSecrets(text),
      (error: Error) => {
        assert.match(error.message, message);
        assert.doesNotMatch(error.message, /CANARY|first/);
        return true;
      },
    );
  });
}

test('an empty value is kept, and its line is told', () => {
  const { secrets, empty } = parseSecrets('A=1\nWANDB_API_KEY=\n');
  assert.equal(secrets.get('WANDB_API_KEY'), '');
  assert.deepEqual(empty, [2]);
});
