import { distance } from 'fastest-levenshtein';

// The time to compare two words grows with the product of their lengths.
const LONGEST_WORD = 200;

/** The known word that `word` most likely means; undefined if none is near. For words that are wrong in any case. */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  if (word.length > LONGEST_WORD) return undefined;
  let best: string | undefined;
  let least = Math.max(2, Math.floor(word.length / 3)) + 1;
  for (const candidate of known) {
    if (Math.abs(candidate.length - word.length) >= least) continue;
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

/**
 * The known word that `word` almost certainly means. For words that may be right as they are, so it is stricter than nearest:
 * only other capitals or separators (`nSteps`), two letters swapped, and one letter in five missing, added or wrong count,
 * and the first letter has to be right.
 */
export function misspelled(word: string, known: readonly string[]): string | undefined {
  if (word.length > LONGEST_WORD || known.includes(word)) return undefined;
  const plain = (text: string) => text.toLowerCase().replace(/[^a-z0-9]/g, '');
  return known.find((candidate) => {
    const [written, meant] = [plain(word), plain(candidate)];
    if (written === meant) return true;
    if (written[0] !== meant[0]) return false;
    if (isSwapped(written, meant)) return true;
    // In a short word, one other letter makes another word (`same`, `save`); a letter more or less hardly does.
    if (meant.length < 5 && written.length === meant.length) return false;
    return distance(written, meant) <= Math.max(1, Math.floor(meant.length / 5));
  });
}

/** Do two neighbouring letters make all the difference? */
function isSwapped(a: string, b: string): boolean {
  const at = [...a].findIndex((letter, index) => letter !== b[index]);
  return at >= 0 && b === a.slice(0, at) + a.slice(at + 1, at + 2) + a.slice(at, at + 1) + a.slice(at + 2);
}
