/** A number for reading: `1,234` or `0.5`. */
export function amount(value: number): string {
  return value.toLocaleString('en', { maximumFractionDigits: value < 10 ? 1 : 0 });
}

/** `1 job`, `2 jobs`, `1,000 jobs`. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString('en')} ${number === 1 ? one : many}`;
}

/** The first few of a list in words: `a, b and 3 more`. @param all how many there are, when `items` are only the first of them */
export function some(items: readonly string[], shown: number, all = items.length): string {
  const first = items.slice(0, shown);
  return `${first.join(', ')}${all > first.length ? ` and ${all - first.length} more` : ''}`;
}
