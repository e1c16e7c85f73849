// Patterns of file names, matched without backtracking.
import { Problem } from '../base/problem.ts';
import { fits, type Token } from '../base/wildcards.ts';

/** Does a path match? */
export type Glob = (path: string) => boolean;

const MOST_ALTERNATIVES = 100;
const LONGEST_PATTERN = 256;

/**
 * A pattern of paths: `*` and `?` stand for letters inside one name, `[a-z]` and `[!a-z]` for one letter, `**` as a whole name for
 * any number of folders, `{a,b}` for one of several texts. As in a shell, a name that starts with a dot is matched only by a
 * pattern that starts with a dot there. The time to match is at most proportional to the length of the pattern times that of the
 * path.
 * @throws Problem for a pattern that is too long or has too many alternatives
 */
export function globOf(pattern: string): Glob {
  if (pattern.length > LONGEST_PATTERN) {
    throw new Problem(`the pattern '${pattern.slice(0, 60)}…' has ${pattern.length} characters; at most ${LONGEST_PATTERN} are allowed`);
  }
  const alternatives = alternativesOf(pattern).map((one) => one.split('/').map((name) => (name === '**' ? name : tokensOf(name))));
  return (path) => {
    const names = path.split('/').map((name) => [...name]);
    return alternatives.some((parts) => matchesPath(parts, names));
  };
}

/** `a{b,c}d` as abd and acd. */
function alternativesOf(pattern: string): string[] {
  let done = [''];
  let rest = pattern;
  for (;;) {
    const braces = /\{([^{}]*,[^{}]*)\}/.exec(rest);
    if (braces === null) return done.map((start) => start + rest);
    // Braces inside braces: the inner ones come first.
    const before = rest.slice(0, braces.index);
    if (/[{]/.test(before)) {
      const inner = (braces[1] ?? '').split(',').map((one) => before + one + rest.slice(braces.index + braces[0].length));
      const all = inner.flatMap((one) => alternativesOf(one)).flatMap((one) => done.map((start) => start + one));
      return limited(all, pattern);
    }
    done = limited(
      done.flatMap((start) => (braces[1] ?? '').split(',').map((one) => start + before + one)),
      pattern,
    );
    rest = rest.slice(braces.index + braces[0].length);
  }
}

function limited(alternatives: string[], pattern: string): string[] {
  if (alternatives.length <= MOST_ALTERNATIVES) return alternatives;
  throw new Problem(`the pattern '${pattern}' stands for more than ${MOST_ALTERNATIVES} patterns; write fewer {…}, or several patterns`);
}

interface Name {
  readonly tokens: readonly Token[];
  readonly mayStartWithDot: boolean;
}

function tokensOf(name: string): Name {
  const tokens: Token[] = [];
  let rest = name;
  while (rest !== '') {
    const [set, not, members] = /^\[([!^]?)(\]?[^\]]*)\]/.exec(rest) ?? [];
    const [escaped] = /^\\./u.exec(rest) ?? [];
    const [letter = ''] = rest;
    if (set !== undefined && members !== undefined) {
      const isIn = setOf(members);
      tokens.push(not === '' ? isIn : (one) => !isIn(one));
      rest = rest.slice(set.length);
      continue;
    }
    if (letter === '*') {
      if (tokens.at(-1) !== '*') tokens.push('*');
    } else if (letter === '?') tokens.push(() => true);
    else {
      const wanted = escaped === undefined ? letter : escaped.slice(1);
      tokens.push((one) => one === wanted);
      rest = rest.slice((escaped ?? letter).length);
      continue;
    }
    rest = rest.slice(1);
  }
  return { tokens, mayStartWithDot: /^(\.|\\\.)/.test(name) };
}

function setOf(members: string): (letter: string) => boolean {
  const letters = new Set<string>();
  const ranges: [string, string][] = [];
  const all = [...members];
  for (let at = 0; at < all.length; at += 1) {
    const [first = '', dash, last] = all.slice(at, at + 3);
    if (dash === '-' && last !== undefined) {
      ranges.push([first, last]);
      at += 2;
    } else letters.add(first);
  }
  return (letter) => letters.has(letter) || ranges.some(([first, last]) => letter >= first && letter <= last);
}

function matchesPath(parts: readonly (Name | '**')[], names: readonly (readonly string[])[]): boolean {
  // Which starts of the path the parts so far may stand for.
  let ends = new Set([0]);
  for (const [index, part] of parts.entries()) {
    const next = new Set<number>();
    for (const end of ends) {
      if (part === '**') {
        // At the end of a pattern it stands for files inside a folder, not for the folder itself.
        if (index < parts.length - 1) next.add(end);
        for (let at = end; at < names.length && names[at]?.[0] !== '.'; at += 1) {
          if (next.has(at + 1)) break;
          next.add(at + 1);
        }
      } else if (end < names.length && matchesName(part, names[end] ?? [])) next.add(end + 1);
    }
    ends = next;
  }
  return ends.has(names.length);
}

function matchesName({ tokens, mayStartWithDot }: Name, letters: readonly string[]): boolean {
  return (letters[0] !== '.' || mayStartWithDot) && fits(tokens, letters);
}
