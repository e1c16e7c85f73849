// Removing secrets from what people see. Programs print a secret in many spellings, so this looks for all of the common ones.

// Of shorter secrets and lines too little would be left to read.
const SHORTEST = 4;
// Where quotes and white space do not count, short texts occur by chance.
const SHORTEST_COMPACT = 8;

/**
 * Text without the secrets in it: as they are; quoted for a shell, for JSON or for Python; URL-encoded; in base64, also in the
 * middle of something longer; in hexadecimal. Colour codes, line ends, white space, quotes and backslashes inside do not hide a
 * secret of eight characters or more. A piece of one at the start or the end of the text is removed, too. Each line of a secret
 * counts as one. Values of fewer than four characters stay.
 */
export function redact(text: string, secrets: readonly string[]): string {
  const plain = withoutColours(text);
  const compact = compacted(text);
  const spans = secrets
    .map(needlesOf)
    .flatMap((needle) => [...found(plain, needle.exact), ...foundCompact(compact, needle.compact)])
    .sort((a, b) => a.from - b.from);
  let shown = '';
  let done = 0;
  let end = -1; // of the spans so far; one may be a part of another
  for (const { from, to } of spans) {
    if (to <= end) continue;
    if (from >= end) shown += `${text.slice(done, from)}***`;
    end = to;
    done = to;
  }
  return shown + text.slice(done);
}

/** How many bytes before the shown part of a text have to be read, so that every secret in the shown part is there as a whole. */
export function lookBack(secrets: readonly string[]): number {
  // The longest spelling is octal, with four characters for a byte.
  return secrets.reduce((most, secret) => Math.max(most, 4 * Buffer.byteLength(secret)), 0) + 1000;
}

/** The spellings of one line, each once. */
export function spellingsOf(secret: string): string[] {
  const bytes = Buffer.from(secret);
  return [
    ...new Set([
      secret,
      secret.replaceAll("'", `'\\''`), // src/base/shell-quote.ts, and `set -x` of bash
      secret.replace(/[^A-Za-z0-9_@%+=:,./\u0080-\uffff-]/g, '\\$&'), // `printf %q`
      ...[JSON.stringify(secret).slice(1, -1), secret.replaceAll('\\', '\\\\').replaceAll("'", "\\'")].flatMap((one) => [
        one, // JSON, and Python's repr
        one.replaceAll('/', '\\/'),
        one.replace(/[^\0-\x7f]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`),
        perByte(one, (byte) => `\\${byte.toString(8)}`), // $'…' of bash where the locale has no such letters
        perByte(one, (byte) => `\\x${byte.toString(16)}`), // Python's repr of bytes
      ]),
      ...urlSpellings(bytes),
      ...base64Spellings(bytes),
      bytes.toString('hex'),
      bytes.toString('hex').toUpperCase(),
    ]),
  ];
}

function perByte(text: string, spell: (byte: number) => string): string {
  return text.replace(/[^\0-\x7f]+/g, (letters) => [...Buffer.from(letters)].map(spell).join(''));
}

/** What encoders leave as it is differs (RFC 3986, section 2.3; JavaScript's encodeURIComponent and encodeURI; Python's quote). */
function urlSpellings(bytes: Buffer): string[] {
  const kept = [/[\w.~-]/, /[\w.~/-]/, /[\w.~!'()*-]/, /[\w.~!'()*;,/?:@&=+$#-]/, /[\w.*-]/];
  return kept.flatMap((keep) => {
    const spell = (space: string, hex: (digits: string) => string) =>
      [...bytes]
        .map((byte) => {
          const letter = String.fromCharCode(byte);
          if (keep.test(letter)) return letter;
          return letter === ' ' ? space : `%${hex(byte.toString(16).padStart(2, '0'))}`;
        })
        .join('');
    const cases = [(digits: string) => digits.toUpperCase(), (digits: string) => digits];
    return cases.flatMap((hex) => [spell('%20', hex), spell('+', hex)]);
  });
}

/** The letters that depend on the secret alone, when zero, one or two bytes stand before it in a group of three. */
function base64Spellings(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const all = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    const letters = all.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
    return [letters, letters.replaceAll('+', '-').replaceAll('/', '_')];
  });
}

interface Needles {
  readonly exact: readonly string[];
  readonly compact: readonly string[];
}

// A run redacts many lines with the same few secrets, and the spellings of a long one take a second.
const knownNeedles = new Map<string, Needles>();

function needlesOf(secret: string): Needles {
  const known = knownNeedles.get(secret);
  if (known !== undefined) return known;
  const parts = new Set([secret, ...secret.split(/\r?\n/)].flatMap((part) => (part.trim().length >= SHORTEST ? [part.trim()] : [])));
  const exact = new Set([...parts].flatMap(spellingsOf).filter((one) => one.length >= SHORTEST));
  const compact = new Set([...exact].map((one) => compacted(one).text).filter((one) => one.length >= SHORTEST_COMPACT));
  const made = { exact: [...exact], compact: [...compact] };
  knownNeedles.set(secret, made);
  return made;
}

/** Some letters of a text, and where each stands in it. */
interface Letters {
  readonly text: string;
  readonly places: Uint32Array;
}

// ECMA-48: control sequences, operating system commands, and other escapes.
// biome-ignore lint/suspicious/noControlCharactersInRegex: it looks for them
const COLOURS = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
// White space, control characters, marks that have no width, quotes and backslashes.
const IGNORED = /[\s\p{Cc}\p{Cf}'"\\]/u;

function lettersOf(text: string, isKept: (letter: string) => boolean): Letters {
  const places = new Uint32Array(text.length);
  let kept = '';
  const take = (from: number, to: number) => {
    for (let at = from; at < to; at += 1) {
      const letter = text[at] ?? '';
      if (!isKept(letter)) continue;
      places[kept.length] = at;
      kept += letter;
    }
  };
  let done = 0;
  for (const code of text.matchAll(COLOURS)) {
    take(done, code.index);
    done = code.index + code[0].length;
  }
  take(done, text.length);
  return { text: kept, places };
}

function withoutColours(text: string): Letters {
  return lettersOf(text, () => true);
}

function compacted(text: string): Letters {
  return lettersOf(text, (letter) => !IGNORED.test(letter));
}

/** A part of the original text. */
interface Span {
  readonly from: number;
  readonly to: number;
}

function spanOf({ places }: Letters, from: number, length: number): Span {
  return { from: places[from] ?? 0, to: (places[from + length - 1] ?? 0) + 1 };
}

function found(letters: Letters, needles: readonly string[]): Span[] {
  const spans: Span[] = [];
  for (const needle of needles) {
    for (let at = letters.text.indexOf(needle); at >= 0; at = letters.text.indexOf(needle, at + needle.length)) {
      spans.push(spanOf(letters, at, needle.length));
    }
  }
  return spans;
}

function foundCompact(letters: Letters, needles: readonly string[]): Span[] {
  const spans = found(letters, needles);
  const { text } = letters;
  for (const needle of needles) {
    const atStart = overlap(needle, text);
    if (atStart >= SHORTEST_COMPACT) spans.push(spanOf(letters, 0, atStart));
    const atEnd = overlap(text, needle);
    if (atEnd >= SHORTEST_COMPACT) spans.push(spanOf(letters, text.length - atEnd, atEnd));
  }
  return spans;
}

/** The length of the longest end of `a` that is a start of `b` (the failure function of Knuth, Morris and Pratt). */
function overlap(a: string, b: string): number {
  const start = b.slice(0, a.length);
  const end = a.slice(-b.length);
  const fails = new Uint32Array(start.length);
  const next = (length: number, letter: string | undefined): number => {
    let matched = length;
    while (matched > 0 && (matched === start.length || start[matched] !== letter)) matched = fails[matched - 1] ?? 0;
    return start[matched] === letter ? matched + 1 : matched;
  };
  for (let at = 1; at < start.length; at += 1) fails[at] = next(fails[at - 1] ?? 0, start[at]);
  let matched = 0;
  for (const letter of end.split('')) matched = next(matched, letter);
  return matched;
}
