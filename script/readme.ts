// Writes the tables of inputs and outputs in the README from action.yml; with --check says where they differ.
import { readFileSync, writeFileSync } from 'node:fs';
import { parse } from 'yaml';

interface Entry {
  readonly description: string;
  readonly default?: string;
}
const file = new URL('../README.md', import.meta.url);
const metadata = parse(readFileSync(new URL('../action.yml', import.meta.url), 'utf8')) as {
  inputs: Record<string, Entry>;
  outputs: Record<string, Entry>;
};

const inputs = Object.entries(metadata.inputs).map(
  ([name, { description, default: value = '' }]) => `| \`${name}\` | ${description} | ${value === '' ? '' : `\`${value}\``} |`,
);
const outputs = Object.entries(metadata.outputs).map(([name, { description }]) => `| \`${name}\` | ${description} |`);
const tables: Record<string, string> = {
  inputs: ['| input | what it is | default |', '| --- | --- | --- |', ...inputs].join('\n'),
  outputs: ['| output | what it is |', '| --- | --- |', ...outputs].join('\n'),
};

const before = readFileSync(file, 'utf8');
let text = before;
for (const [name, table] of Object.entries(tables)) {
  text = text.replace(
    new RegExp(`(<!-- ${name} -->\n)[\\s\\S]*?(<!-- end -->)`),
    (_, start: string, end: string) => `${start}${table}\n${end}`,
  );
}
if (process.argv.includes('--check')) {
  if (text !== before) console.log('the tables in README.md are not those of action.yml: node script/readme.ts writes them');
} else writeFileSync(file, text);
