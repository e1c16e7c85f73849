// Every error message of src/ has an entry in docs/troubleshooting.md, and every entry stands for a message.
//
// The rule covers all errors, whether they name a remedy or not: it needs no judgement, and a reader looks for all of them. An
// entry is a heading with one or more parts of messages in backticks. `…` stands for anything. A message has an entry if one of
// the parts occurs in it. Whatever is computed in a message counts as `…`.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ROOT } from '../support/action.ts';

const DOCUMENT = 'docs/troubleshooting.md';

interface Message {
  readonly where: string;
  /** Its words, with … for what is computed. */
  readonly text: string;
}

const GAP = '…';

/** A text that is quoted in the source, and where it ends. Nested code counts as a gap. */
function literalAt(source: string, start: number): { readonly text: string; readonly end: number } {
  const quote = source[start];
  let text = '';
  for (let at = start + 1; at < source.length; at += 1) {
    const letter = source[at] ?? '';
    if (letter === '\\') {
      const escaped = source[at + 1] ?? '';
      text += escaped === 'n' ? ' ' : escaped;
      at += 1;
    } else if (letter === quote) return { text, end: at + 1 };
    else if (quote === '`' && source.startsWith('${', at)) {
      text += GAP;
      at = endOfBrackets(source, at + 1) - 1;
    } else text += letter;
  }
  throw new Error(`a text that begins at ${start} has no end`);
}

/** Where the bracket at `start` is closed, plus one. */
function endOfBrackets(source: string, start: number): number {
  let depth = 0;
  for (let at = start; at < source.length; at += 1) {
    const letter = source[at] ?? '';
    if ('([{'.includes(letter)) depth += 1;
    else if (')]}'.includes(letter)) {
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (/['"`]/.test(letter)) at = literalAt(source, at).end - 1;
  }
  throw new Error(`a bracket that begins at ${start} is not closed`);
}

/** The texts in the arguments of a call. Texts that are joined by + are one message. */
function literalsOfCall(source: string, bracket: number): string[] {
  const end = endOfBrackets(source, bracket);
  const found: string[] = [];
  for (let at = bracket + 1; at < end; at += 1) {
    if (source.startsWith('//', at)) at = source.indexOf('\n', at);
    if (!/['"`]/.test(source[at] ?? '')) continue;
    const literal = literalAt(source, at);
    if (/\+\s*$/.test(source.slice(bracket, at)) && found.length > 0) found.push(`${found.pop()}${literal.text}`);
    else found.push(literal.text);
    at = literal.end - 1;
  }
  return found;
}

function lineOf(source: string, at: number): number {
  return source.slice(0, at).split('\n').length;
}

/** Messages of `new Problem(…)` and of its subclasses, and of faults of the program itself. */
function messagesOfTypeScript(path: string, source: string, classes: readonly string[]): Message[] {
  return [...source.matchAll(new RegExp(`\\b(?:new (?:${classes.join('|')})|log\\.error)\\(`, 'g'))].flatMap((call) =>
    literalsOfCall(source, call.index + call[0].length - 1).map((text) => ({ where: `${path}:${lineOf(source, call.index)}`, text })),
  );
}

// How a shell program reports an error. `say` only where the program ends with it.
const SHELL_ERRORS = [
  /\banswer (?:problem|unknown|refused) "/g,
  /\banswer stuck "/g,
  /\broll_back "/g,
  /\bREASON="/g,
  /\bWRONG="/g,
  /\bstop \w+ "/g,
  /\bsay "(?=[^\n]*(?:; |\n *)exit [1-9])/g,
];

/** Messages of a shell program: the text in double quotes behind one of SHELL_ERRORS. */
function messagesOfShell(path: string, source: string): Message[] {
  return SHELL_ERRORS.flatMap((form) =>
    [...source.matchAll(form)].map((call) => {
      const start = call.index + call[0].length;
      let text = '';
      for (let at = start; at < source.length && source[at] !== '"'; at += 1) {
        const variable = /^\$(?:\w+|[?#@*!$-])/.exec(source.slice(at, at + 80))?.[0];
        if (source[at] === '\\') text += source[++at];
        else if (source.startsWith('${', at) || source.startsWith('$(', at)) {
          text += GAP;
          at = endOfBrackets(source, at + 1) - 1;
        } else if (variable !== undefined) {
          text += GAP;
          at += variable.length - 1;
        } else text += source[at];
      }
      return { where: `${path}:${lineOf(source, call.index)}`, text };
    }),
  );
}

/** Does the message say anything of its own? */
function hasWords(text: string): boolean {
  return (text.match(/[A-Za-z]{2,}/g) ?? []).length >= 3;
}

interface SourceFile {
  readonly path: string;
  readonly source: string;
}

function sourceFiles(): SourceFile[] {
  const paths = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).map((path) => `src/${path}`);
  return paths.filter((path) => /\.(ts|sh)$/.test(path)).map((path) => ({ path, source: readFileSync(join(ROOT, path), 'utf8') }));
}

function messagesOf(sources: readonly SourceFile[]): Message[] {
  const classes = [
    'Problem',
    ...sources.flatMap(({ source }) => [...source.matchAll(/class (\w+) extends Problem\b/g)].map(([, name]) => name ?? '')),
  ];
  return sources
    .flatMap(({ path, source }) => (path.endsWith('.ts') ? messagesOfTypeScript(path, source, classes) : messagesOfShell(path, source)))
    .map(({ where, text }) => ({ where, text: text.replace(/\s+/g, ' ').trim() }));
}

/** The parts in backticks of every heading of the third level. */
function entries(): string[] {
  const headings = readFileSync(join(ROOT, DOCUMENT), 'utf8').match(/^### .*$/gm) ?? [];
  return headings.flatMap((heading) => [...heading.matchAll(/`` (.+?) ``|`([^`]+)`/g)].map(([, double, single]) => double ?? single ?? ''));
}

/** Do the pieces between the gaps of the entry occur in the message, in this order? */
function covers(entry: string, text: string): boolean {
  let from = 0;
  for (const piece of entry.split(GAP).map((one) => one.trim())) {
    const at = text.indexOf(piece, from);
    if (at < 0) return false;
    from = at + piece.length;
  }
  return true;
}

test('every error message has an entry in docs/troubleshooting.md', () => {
  const known = entries();
  const messages = messagesOf(sourceFiles()).filter(({ text }) => hasWords(text));
  assert.ok(messages.length > 100, 'messages are found at all');
  const missing = messages.filter(({ text }) => !known.some((entry) => covers(entry, text)));
  const list = missing.map(({ where, text }) => `  ${where}\n    ${text}`).join('\n');
  assert.equal(
    missing.length,
    0,
    `${missing.length} messages without an entry (a heading "### \`part of the message\`") in ${DOCUMENT}:\n${list}`,
  );
});

test('every entry in docs/troubleshooting.md stands for a message', () => {
  const sources = sourceFiles();
  // A heading may also quote a part that is put into a message elsewhere, such as a hint.
  const lines = sources.flatMap(({ source }) => source.replaceAll(/\$\{[^{}]*\}/g, GAP).split('\n'));
  const texts = [...messagesOf(sources).map(({ text }) => text), ...lines];
  const stale = entries().filter((entry) => !texts.some((text) => covers(entry, text)));
  assert.deepEqual(stale, [], `nothing in src/ contains the text of these headings in ${DOCUMENT}; change or remove them`);
  const vague = entries().filter((entry) => entry.replaceAll(GAP, '').trim().length < 8);
  assert.deepEqual(vague, [], 'these headings are too short to tell messages apart');
});
