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

/**
 * Characters that a reader cannot see, or that change how others look: control characters but tab and line end, and those that
 * set the direction of writing (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069; Unicode TR9, "trojan source").
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: it looks for control characters
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** The text with the characters that nobody sees written out, such as `\\u202e`. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Does the text change the direction of writing? */
export function hasDirection(text: string): boolean {
  return /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/.test(text);
}
