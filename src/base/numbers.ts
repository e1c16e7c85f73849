/** The greatest of some numbers, and of `least`. Math.max takes no list of more than about 100,000. */
export function greatest(numbers: Iterable<number>, least = 0): number {
  let most = least;
  for (const number of numbers) if (number > most) most = number;
  return most;
}
