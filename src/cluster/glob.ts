import { fits, type Token } from '../base/wildcards.ts';

/** Does a pattern of OpenSSH hold for all of the text? `*` stands for any letters and `?` for one (ssh_config(5), PATTERNS). */
export function globMatches(pattern: string, text: string): boolean {
  return fits(pattern.split('').map(tokenOf), text.split(''));
}

function tokenOf(sign: string): Token {
  if (sign === '*') return sign;
  return sign === '?' ? () => true : (letter) => letter === sign;
}

/** Does a list of patterns hold for the text? One of them has to, and none behind a `!` may (ssh_config(5), PATTERNS). */
export function globListMatches(patterns: readonly string[], text: string): boolean {
  const holds = (pattern: string) => globMatches(pattern, text);
  return patterns.some(holds) && !patterns.some((pattern) => pattern.startsWith('!') && holds(pattern.slice(1)));
}
