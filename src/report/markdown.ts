import { greatest } from '../base/numbers.ts';
import { visible } from '../base/text.ts';

// GitHub takes 65,536 characters in a comment and 1 MiB in a step summary, and drops all of a longer summary.
export const COMMENT_BYTES = 65_000;
export const SUMMARY_BYTES = 1_000_000;

/**
 * Text from outside as one line of Markdown that formats nothing, mentions nobody and closes no table cell. It links nowhere:
 * GitHub makes a link of an address by itself, also in capitals and behind `_` or a digit.
 */
export function plain(text: string): string {
  return oneLine(text)
    .replace(/[\\`*_{}[\]<>()#+!|~$&-]/g, '\\$&')
    .replaceAll('@', '@\u200b')
    .replaceAll('://', ':\u200b//')
    .replace(/www\./gi, '$&\u200b');
}

/** Text from outside as inline code, which may stand in a table. */
export function code(text: string): string {
  const line = oneLine(text).replaceAll('|', '\\|');
  if (line === '') return '';
  const longest = longestFence(line);
  const fence = '`'.repeat(longest + 1);
  const space = longest > 0 ? ' ' : '';
  return `${fence}${space}${line}${space}${fence}`;
}

/** A regular expression would look from every line end to the next other letter. */
function withoutLastLineEnds(text: string): string {
  let end = text.length;
  while (text[end - 1] === '\n') end -= 1;
  return text.slice(0, end);
}

/** The length of the longest run of backticks. */
function longestFence(text: string): number {
  return greatest((text.match(/`+/g) ?? []).map((run) => run.length));
}

function oneLine(text: string): string {
  return visible(text.replace(/\s+/g, ' ').trim());
}

/** A block of text as it is, whatever it holds. Characters that nobody sees are written out. */
export function block(given: string, language = ''): string {
  // Markdown takes a carriage return for the end of a line.
  const text = visible(given.replace(/\r\n?/g, '\n'));
  const longest = Math.max(2, longestFence(text));
  const fence = '`'.repeat(longest + 1);
  return `${fence}${language}\n${withoutLastLineEnds(text)}\n${fence}`;
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** A part that is folded until somebody opens it. */
export function details(summary: string, body: string): string {
  return `<details><summary>${summary}</summary>\n\n${body}\n\n</details>`;
}

/** A link to a web address that closes nothing; the text alone for any other address, because anybody may edit a record. */
export function link(text: string, address: string): string {
  return isWebAddress(address) ? `[${text}](${address})` : text;
}

export function isWebAddress(address: string): boolean {
  return /^https?:\/\/[^\s()<>[\]|\\]+$/.test(address) && visible(address) === address && URL.canParse(address);
}

/** The choices of a grid cell, or nothing. @param most how many are shown */
export function choicesText(choices: Readonly<Record<string, string>>, most = Number.POSITIVE_INFINITY): string {
  return Object.entries(choices)
    .slice(0, most)
    .map(([path, value]) => code(`${path}=${value.length > 60 ? `${value.slice(0, 57)}…` : value}`))
    .join(' ');
}

/** Text of at most `most` bytes, with a notice at its end if something is missing. Never cuts inside a character. */
export function capped(text: string, most: number, notice: string): string {
  if (Buffer.byteLength(text) <= most) return text;
  const room = most - Buffer.byteLength(notice);
  const cut = Buffer.from(text)
    .subarray(0, room)
    .toString()
    .replace(/\uFFFD$/, '');
  return cut.slice(0, cut.lastIndexOf('\n') + 1) + notice;
}
