/** `*` stands for any letters; the others are tests of one letter. */
export type Token = '*' | ((letter: string) => boolean);

/**
 * Do the tokens hold for all of the letters? When a part does not fit, only the last `*` takes one letter more: what earlier ones
 * stand for does not matter then. So the time is at most the product of both lengths.
 */
export function fits(tokens: readonly Token[], letters: readonly string[]): boolean {
  let [token, letter] = [0, 0];
  let star: { token: number; letter: number } | undefined;
  while (letter < letters.length) {
    const wanted = tokens[token];
    if (wanted === '*') {
      star = { token, letter };
      token += 1;
    } else if (wanted?.(letters[letter] ?? '')) {
      token += 1;
      letter += 1;
    } else if (star !== undefined) {
      star.letter += 1;
      token = star.token + 1;
      letter = star.letter;
    } else return false;
  }
  return tokens.slice(token).every((one) => one === '*');
}
