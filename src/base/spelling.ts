import { distance } from 'fastest-levenshtein';

/** The known word that `word` was most likely meant to be. */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined;
  let least = Math.max(2, Math.floor(word.length / 3)) + 1;
  for (const candidate of known) {
    const away = distance(word, candidate);
    if (away < least) {
      best = candidate;
      least = away;
    }
  }
  return best;
}

/** `; did you mean 'partition'?`, or nothing. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const best = nearest(word, known);
  return best === undefined ? '' : `; did you mean '${best}'?`;
}
