// Bash runs commands that stand in text, in places where nobody expects it: ${!name}, arithmetic, subscripts, -v and builtins that
// take the name of a variable all evaluate `a[$(command)]`. Every such place in src/runtime is listed here, with the reason why no
// word from outside gets there unchecked. A new one fails until somebody has thought about it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FILES, read } from '../support/sources.ts';

const IDENTIFIERS = 'names from compgen -e, which are identifiers';
const COUNTER = 'counts by itself';
const STAT = 'printed by stat, date or find';
const DIGITS = 'matched by a pattern of digits before';
const KEY = 'a key of an associative array, which bash expands once and does not evaluate';

interface Danger {
  readonly what: string;
  /** Finds the places; its first group, or all of it, is the key in `allowed`. */
  readonly pattern: RegExp;
  readonly allowed: Readonly<Record<string, string>>;
}

const DANGERS: readonly Danger[] = [
  { what: 'eval', pattern: /\beval\b/g, allowed: {} },
  { what: 'a test whether a variable is set by its name', pattern: /\[\[? (?:! )?-[vR] |\btest -[vR]/g, allowed: {} },
  {
    what: 'arithmetic comparison in [[ ]]',
    pattern: /\[\[(?:(?!\]\]).)*\$(\w+) -(?:eq|ne|lt|le|gt|ge)\b/g,
    allowed: { status: 'an exit status, $?' },
  },
  { what: 'let', pattern: /\blet\s/g, allowed: {} },
  {
    what: 'an indirect expansion',
    pattern: /\$\{!(\w+)(?!\w*\[[@*]\]\})/g,
    allowed: { name: 'expand_path and secret_lines match it with the form of a name first', _name: IDENTIFIERS },
  },
  {
    what: 'a builtin that takes the name of a variable',
    pattern: /\b((?:printf -v|declare|local|typeset|export|readonly|read|mapfile|unset)(?: -\w+)* "?\$[^\s;]*)/g,
    allowed: {
      'unset "$name"': IDENTIFIERS,
      'export "$_name=${ACCOUNT_ENVIRONMENT[$_name]}"': IDENTIFIERS,
      'export "${EXPORTS[@]}"': 'submit_job matches each with NAME= first',
    },
  },
  {
    what: 'a subscript',
    pattern: /\b(\w+\[(?:\w+#)?\$(?!\{#)[^\]]*\])/g,
    allowed: {
      'CODES[$dir]': KEY,
      'CODES[$2]': KEY,
      'CODES[$SHARED_CODE]': KEY,
      'last[$cell]': KEY,
      'last[$of]': KEY,
      'tail[$of]': KEY,
      'gone[$id]': KEY,
      'gone[${row%%|*}]': KEY,
      'ACCOUNT_ENVIRONMENT[$_name]': KEY,
      'N_STEPS[$CELL]': DIGITS,
      'SUBMITTED[10#$1]': 'find_after refuses everything but digits first',
      'SUBMITTED[$index]': COUNTER,
      'JOB_NUMBERS[$index]': COUNTER,
    },
  },
];

/** Names in arithmetic. */
const ARITHMETIC: Readonly<Record<string, string>> = {
  SECONDS: 'bash counts it',
  COMPLETING_PATIENCE: DIGITS,
  HASHED_FILES: COUNTER,
  HASHED_BYTES: COUNTER,
  size: STAT,
  AUDIT_STARTED: STAT,
  index: COUNTER,
  rows: 'a number of elements',
  names: 'a number of elements',
  CANDIDATES: 'a number of elements',
  OPEN_TASKS: 'a number of elements',
  waited: COUNTER,
  kept: COUNTER,
  number: DIGITS,
  last: DIGITS,
  first: STAT,
  STARTED: STAT,
  now: STAT,
  made: STAT,
  LOCK_NUMBER: DIGITS,
  NEWEST_STEP: DIGITS,
  SAVE_OFFSET: 'src/chain/task.ts writes 0 or 1 into task.env, which is ours',
  status: DIGITS,
  step: DIGITS,
  open_step: DIGITS,
  FAILURES: COUNTER,
  last_failed: COUNTER,
  bytes: DIGITS,
  longest: 'a length',
  at: COUNTER,
  before: 'a length',
  text: 'a length',
  '1': 'a umask that its callers have matched with octal digits, or that the builtin printed',
};

const runtime = FILES.filter((path) => path.startsWith('src/runtime/') && path.endsWith('.sh'));

/** The code without comments and without text in single quotes. */
function codeOf(path: string): string {
  return read(path)
    .replace(/^\s*#.*$/gm, '')
    .replace(/(?<=[\s(=])'[^'\n]*'/g, "''")
    .replace(/\s#\s.*$/gm, '');
}

for (const { what, pattern, allowed } of DANGERS) {
  test(`shell code: ${what}`, () => {
    const seen = new Set<string>();
    for (const path of runtime) {
      for (const match of codeOf(path).matchAll(pattern)) {
        const place = match[1] ?? match[0];
        assert.ok(
          Object.hasOwn(allowed, place),
          `${path} has ${what}: ${match[0]}. Bash runs $(…) in such a word. Check the word first, then explain it here`,
        );
        seen.add(place);
      }
    }
    assert.deepEqual(
      Object.keys(allowed).filter((place) => !seen.has(place)),
      [],
      'remove what is not there any more',
    );
  });
}

test('shell code: arithmetic', () => {
  const seen = new Set<string>();
  for (const path of runtime) {
    const code = codeOf(path);
    const expressions = [
      ...[...code.matchAll(/\(\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)\)/g)].map((match) => match[1] ?? ''),
      // Offsets and lengths: ${text:offset:length}, and not the four operators with a colon.
      ...[...code.matchAll(/\$\{\w+(?:\[[@*]\])?:( *[^-=+? }][^}]*|\s-[^}]*)\}/g)].map((match) => match[1] ?? ''),
    ];
    for (const expression of expressions) {
      const words = expression
        .replace(/\$\([^)]*\)/g, '')
        .replace(/\b\d+#(?=\d)|(?<![\w$#])\d+\b/g, '')
        .replace(/\b\d+#/g, '');
      for (const [, name = ''] of words.matchAll(/([A-Za-z_]\w*|(?<=\$)\d)/g)) {
        assert.ok(
          Object.hasOwn(ARITHMETIC, name),
          `${path} calculates with '${name}': ${expression}. Bash runs $(…) in its value. Check it first, then explain it here`,
        );
        seen.add(name);
      }
    }
  }
  assert.deepEqual(
    Object.keys(ARITHMETIC).filter((name) => !seen.has(name)),
    [],
    'remove what is not there any more',
  );
});
