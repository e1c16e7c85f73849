// The documents: what is generated is up to date, examples are the files that tests run, and links lead somewhere.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { test } from 'node:test';
import DOMPurify from 'dompurify';
import mermaid from 'mermaid';
import { parseSiteConfig } from '../../src/experiment/repo-config.ts';
import { NODE24, ROOT } from '../support/action.ts';

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const documents = [
  ...['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md'],
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => `docs/${path}`),
];
/** A document without its blocks of code. */
const prose = (path: string) => read(path).replace(/^( *)```[\s\S]*?^\1```$/gm, '');

test('the generated parts of the documents are up to date', () => {
  const { stdout, stderr } = spawnSync(NODE24, [join(ROOT, 'script/readme.ts'), '--check'], { encoding: 'utf8' });
  assert.equal(stdout + stderr, '');
});

test('the README is short, and how to try it is in its first screen', () => {
  const lines = read('README.md').trimEnd().split('\n');
  assert.ok(lines.length <= 120, `README.md has ${lines.length} lines`);
  const screen = lines.slice(0, 20).join('\n');
  for (const command of ['script/demo', 'script/test']) assert.ok(screen.includes(command), command);
});

test('the experiment and the training loop in the README are the files of examples/quickstart, byte for byte', () => {
  const blocks = [...read('README.md').matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language, text]) => ({ language, text }));
  const ofLanguage = (language: string) => blocks.filter((block) => block.language === language).map((block) => block.text);
  assert.deepEqual(ofLanguage('yaml'), [read('examples/quickstart/configs/quickstart.yaml')]);
  assert.deepEqual(ofLanguage('python'), [read('examples/quickstart/train.py')]);
});

test('the files that the quick start copies are there and valid', () => {
  for (const path of ['train.py', 'configs/quickstart.yaml', '.github/workflows/slurm-chain.yml']) {
    assert.ok(existsSync(join(ROOT, 'examples/quickstart', path)), path);
  }
  for (const example of ['quickstart', 'regression']) {
    const site = parseSiteConfig(read(`examples/${example}/.github/slurm-chain.yml`), 'main');
    assert.equal(site.clusters.size, 1, example);
  }
});

/** The anchors that GitHub makes of headings: lower case, without punctuation, spaces as hyphens. */
function anchorsOf(path: string): Set<string> {
  const headings = prose(path).match(/^#+ .*$/gm) ?? [];
  return new Set(
    headings.map((heading) =>
      heading
        .replace(/^#+ /, '')
        .trim()
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}

test('links between the documents lead to a file and a heading', () => {
  const broken: string[] = [];
  for (const document of documents) {
    for (const [, target = ''] of prose(document).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^(https?|mailto):/.test(target)) continue;
      const [path = '', anchor] = target.split('#');
      const file = path === '' ? document : relative(ROOT, join(ROOT, dirname(document), path));
      if (!existsSync(join(ROOT, file))) broken.push(`${document}: ${target}`);
      else if (anchor !== undefined && !anchorsOf(file).has(anchor)) broken.push(`${document}: ${target} (no such heading)`);
    }
  }
  assert.deepEqual(broken, []);
});

test('GitHub can draw the diagrams', async () => {
  // The grammar is what is asked about. Cleaning labels needs a browser.
  Object.assign(DOMPurify, { addHook: () => {}, sanitize: (text: string) => text });
  const diagrams = documents.flatMap((path) =>
    [...read(path).matchAll(/^```mermaid\n([\s\S]*?)^```$/gm)].map(([, text]) => ({ path, text: text ?? '' })),
  );
  assert.ok(diagrams.length >= 1);
  for (const { path, text } of diagrams) await assert.doesNotReject(mermaid.parse(text), path);
});

test('the release notes of a version are its section of the changelog', () => {
  const notes = (version: string) => spawnSync(join(ROOT, 'script/release-notes'), [version], { encoding: 'utf8' });
  const { status, stdout } = notes('Unreleased');
  assert.equal(status, 0);
  assert.match(stdout, /^### /);
  assert.doesNotMatch(stdout, /^## /m);
  const missing = notes('99.0.0');
  assert.equal(missing.status, 1);
  assert.match(missing.stderr, /CHANGELOG\.md has no entries for \[99\.0\.0\]/);
});
