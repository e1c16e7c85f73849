/** Text from outside as one line of Markdown that formats nothing, mentions nobody and closes no table cell. */
export function plain(text: string): string {
  return text
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/[\\`*_{}[\]<>()#+!|~$&-]/g, '\\$&')
    .replaceAll('@', '@\u200b')
    .replace(/\b(https?:)\/\//g, '$1\u200b//')
    .replace(/\bwww\./gi, '$&\u200b');
}

/** Text from outside as inline code, which may stand in a table. */
export function code(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim().replaceAll('|', '\\|');
  if (line === '') return '';
  const longest = Math.max(0, ...(line.match(/`+/g) ?? []).map((run) => run.length));
  const fence = '`'.repeat(longest + 1);
  const space = longest > 0 ? ' ' : '';
  return `${fence}${space}${line}${space}${fence}`;
}

/** A block of text as it is, whatever it holds. */
export function block(text: string, language = ''): string {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}${language}\n${text.replace(/\n+$/, '')}\n${fence}`;
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** A part that is folded away until it is asked for. */
export function details(summary: string, body: string): string {
  return `<details><summary>${summary}</summary>\n\n${body}\n\n</details>`;
}

/** Text that takes at most `most` bytes, with a word at its end where something is missing. Never cuts inside a character. */
export function capped(text: string, most: number, notice: string): string {
  if (Buffer.byteLength(text) <= most) return text;
  const room = most - Buffer.byteLength(notice);
  const cut = Buffer.from(text)
    .subarray(0, room)
    .toString()
    .replace(/\uFFFD$/, '');
  return cut.slice(0, cut.lastIndexOf('\n') + 1) + notice;
}

/** A number for reading: 1,234 or 0.5. */
export function amount(value: number): string {
  return value.toLocaleString('en', { maximumFractionDigits: value < 10 ? 1 : 0 });
}

export function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString('en')} ${number === 1 ? one : many}`;
}
