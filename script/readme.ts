// Fills the generated parts of README.md and docs/: tables from action.yml and the sources, and files from examples/. A part
// stands between `<!-- generated: KEY -->` and `<!-- end -->`. KEY is the name of a table, or `file` and a path.
//   node script/readme.ts            writes the parts
//   node script/readme.ts --check    only names the documents that are out of date
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { COMMENT_FORMS } from '../src/action/comment-command.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string) => readFileSync(`${root}${path}`, 'utf8');

interface Entry {
  readonly description: string;
  readonly default?: string;
}
const { inputs, outputs } = parse(read('action.yml')) as {
  readonly inputs: Record<string, Entry>;
  readonly outputs: Record<string, Entry>;
};

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

const TABLES: Readonly<Record<string, string>> = {
  inputs: table(
    ['input', 'description', 'default'],
    Object.entries(inputs).map(([name, { description, default: value = '' }]) => [
      `\`${name}\``,
      description,
      value === '' ? '' : `\`${value}\``,
    ]),
  ),
  outputs: table(
    ['output', 'description'],
    Object.entries(outputs).map(([name, { description }]) => [`\`${name}\``, description]),
  ),
  comments: table(
    ['comment', 'what it does'],
    COMMENT_FORMS.map(([form, what]) => [`\`${form}\``, what]),
  ),
};

/** @throws Error for a key that names nothing, so that a misspelt one is not left as it is */
function generated(key: string): string {
  const path = /^file (.+)$/.exec(key)?.[1];
  if (path !== undefined) {
    const language = { py: 'python', yaml: 'yaml', yml: 'yaml' }[path.split('.').at(-1) ?? ''] ?? '';
    return `\`\`\`${language}\n${read(path)}\`\`\``;
  }
  const text = TABLES[key];
  if (text === undefined)
    throw new Error(`there is no generated part '${key}'; there are ${Object.keys(TABLES).join(', ')} and 'file PATH'`);
  return text;
}

const documents = [
  'README.md',
  ...readdirSync(`${root}docs`, { recursive: true, encoding: 'utf8' }).flatMap((path) => (path.endsWith('.md') ? [`docs/${path}`] : [])),
];
for (const document of documents) {
  const before = read(document);
  const after = before.replace(
    /(<!-- generated: (.+) -->\n)[\s\S]*?(<!-- end -->)/g,
    (_, start: string, key: string, end: string) => `${start}${generated(key)}\n${end}`,
  );
  if (after === before) continue;
  if (process.argv.includes('--check')) console.log(`${document} is out of date: run node script/readme.ts`);
  else writeFileSync(`${root}${document}`, after);
}
