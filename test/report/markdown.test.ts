// Text from outside in Markdown. A renderer of GitHub's dialect says what a reader would see.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { marked } from 'marked';
import { block, capped, choicesText, code, details, isWebAddress, link, plain, table } from '../../src/report/markdown.ts';

const html = (markdown: string) => String(marked.parse(markdown, { gfm: true, async: false }));
/** What a reader sees of some Markdown, as text. */
const seen = (markdown: string) =>
  html(markdown)
    .replace(/<[^>]*>/g, '')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&')
    .trim();

for (const text of [
  '# no heading',
  '- no list',
  '+ no list',
  '* no list',
  '> no quote',
  '**not bold** and __not bold__ and ~~not gone~~',
  'a_b_c and *x*',
  '[no link](https-evil)',
  '![no image](x)',
  '`no code`',
  'a | b | c',
  '<b>no tag</b> & &lt; no entity',
  '$no$ formula, {no} brace (no) bracket',
  'a \\ backslash, \\* and \\\\',
  'first\n\n# second line',
  '---',
  '===',
]) {
  test(`plain text is shown as it is, on one line: ${JSON.stringify(text)}`, () => {
    const shown = plain(text);
    assert.ok(!shown.includes('\n'));
    assert.equal(seen(shown), text.replace(/\s+/g, ' '));
    assert.ok(/^<p>[^<]*<\/p>$/.test(html(shown).trim()), `it formats nothing: ${html(shown)}`);
  });
}

test('plain text mentions nobody, links nowhere, and closes no table cell', () => {
  for (const text of [
    '@alice',
    'see https://evil.example/x',
    'HTTP://x and http://evil.example',
    'www.evil.example',
    'WWW.evil.example',
    '_http://evil.example',
    '1ftp://evil.example',
    '_www.evil.example',
  ]) {
    assert.doesNotMatch(html(plain(text)), /<a |@alice|:\/\/e|www\.e/i, text);
    assert.equal(seen(plain(text)).replaceAll('\u200b', ''), text);
  }
  assert.equal(plain('  a \t b  '), 'a b', 'no indented code, and no empty ends');
  assert.equal(html(table(['x'], [[plain('a | b')]])).match(/<td>/g)?.length, 1);
});

test('code shows any text on one line, also in a table', () => {
  for (const text of ['a', 'a`b', '`a', '``a`', 'a  b', '<b> *x* @alice', 'a\\b']) {
    assert.equal(html(code(text)).match(/<code>/g)?.length, 1, text);
    assert.equal(seen(code(text)), text.replace(/\s+/g, ' '), text);
  }
  assert.equal(code(' a\n\n b '), '`a b`');
  assert.deepEqual([code(''), code(' \n ')], ['', ''], 'no empty pair of backticks, which would open a longer one');
  const cells = html(table(['x', 'y'], [[code('a | b'), '2']]));
  assert.equal(cells.match(/<td>/g)?.length, 2);
  assert.match(cells, /<code>a \| b<\/code>/);
});

test('a block keeps its lines, and nothing in it ends it', () => {
  assert.equal(block('one\ntwo\n\n'), '```\none\ntwo\n```');
  assert.equal(block('x', 'sh'), '```sh\nx\n```');
  for (const text of ['```\n# out', 'a ````` b', '`']) assert.match(html(block(text)), /^<pre><code>[\s\S]*<\/code><\/pre>\n$/, text);
});

test('a table, and a part that is folded', () => {
  assert.equal(table(['a', 'b'], [['1', '2']]), '| a | b |\n| --- | --- |\n| 1 | 2 |');
  assert.equal(details('more', 'body'), '<details><summary>more</summary>\n\nbody\n\n</details>');
});

test('a link leads to a web address or nowhere', () => {
  assert.equal(link('run 1', 'https://github.com/lab/nano/actions/runs/1'), '[run 1](https://github.com/lab/nano/actions/runs/1)');
  assert.ok(isWebAddress('http://wandb.lab:8080/e/p?x=1#y'));
  for (const address of [
    '',
    'javascript:alert(1)',
    'ftp://x',
    ' https://x',
    'see https://x',
    'https://x y',
    'https://x)[evil](https://evil',
    'https://x|y',
    'https://x\\y',
    'https://x<y>',
    'https://',
    'https://[',
    'https://a:b:c',
  ]) {
    assert.equal(link('text', address), 'text', address);
  }
});

test('the choices of a cell are cut where they would fill the page', () => {
  assert.equal(choicesText({ lr: '0.1', note: 'x'.repeat(60) }), `\`lr=0.1\` \`note=${'x'.repeat(60)}\``);
  assert.equal(choicesText({ note: 'x'.repeat(61) }), `\`note=${'x'.repeat(57)}…\``);
  assert.equal(choicesText({ a: '1', b: '2', c: '3' }, 2), '`a=1` `b=2`');
  assert.equal(choicesText({}), '');
});

test('text that is cut fits, ends with a whole line and says so', () => {
  assert.equal(capped('a\nb\n', 4, '!'), 'a\nb\n', 'what just fits stays');
  assert.equal(capped('a\nb\nc', 4, '!'), 'a\n!');
  assert.equal(capped('é\né\né', 7, '!'), 'é\né\n!', 'bytes count, not characters');
  for (let most = 2; most < 12; most += 1) {
    const cut = capped('é\n€\n𝄞\nlast line', most, '!');
    assert.ok(Buffer.byteLength(cut) <= most, `${most}: ${cut}`);
    assert.doesNotMatch(cut, /\uFFFD/);
  }
});
