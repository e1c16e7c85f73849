// Imports between the rooms of src/ run downwards only, type imports included.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { test } from 'node:test';
import { ROOT } from '../support/action.ts';

/** From the top to the bottom. src/index.ts and src/main.ts stand above all of them. */
const ROOMS = ['action', 'commands', 'audit', 'report', 'cluster', 'chain', 'experiment', 'repo', 'base'];

const SRC = join(ROOT, 'src');
const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
const levelOf = (file: string) => (file.includes('/') ? ROOMS.indexOf(file.split('/')[0] ?? '') : -1);

/** Files that a file imports, relative to src/. */
function importsOf(file: string): string[] {
  const text = readFileSync(join(SRC, file), 'utf8');
  // `from '…'`, an import for its effects alone, and import('…').
  return [...text.matchAll(/\b(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map(([, path = '']) => relative(SRC, join(SRC, dirname(file), path)));
}

test('every folder of src/ is a room', () => {
  const folders = new Set(files.filter((file) => file.includes('/')).map((file) => file.split('/')[0]));
  assert.deepEqual([...folders].sort(), [...ROOMS].sort());
});

test('no import runs upwards', () => {
  const upwards = files.flatMap((file) =>
    importsOf(file)
      .filter((imported) => levelOf(imported) < levelOf(file))
      .map((imported) => `${file} imports ${imported}`),
  );
  assert.deepEqual(upwards, []);
  assert.ok(files.flatMap(importsOf).length > 200, 'the imports were found');
});

test('only action/ and main know GitHub, and only cluster/ knows SSH', () => {
  for (const [library, rooms] of [
    ['@actions/', ['action', 'main.ts']],
    ['@octokit/', ['action']],
    ['ssh2', ['cluster']],
  ] as const) {
    const users = files.filter((file) => new RegExp(`from '${library}`).test(readFileSync(join(SRC, file), 'utf8')));
    assert.ok(users.length > 0, library);
    for (const file of users) assert.ok((rooms as readonly string[]).includes(file.split('/')[0] ?? ''), `${file} uses ${library}`);
  }
});
