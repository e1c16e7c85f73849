// Every yaml ends within seconds, as an experiment or with a Problem. Most of these took minutes, or crashed, without the limits.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { messageOf, Problem } from '../../src/base/problem.ts';
import { parseSource } from '../../src/experiment/document.ts';
import { experimentFrom } from '../../src/experiment/experiment.ts';
import { parseOverrides } from '../../src/experiment/overrides.ts';
import { parseRepoConfig } from '../../src/experiment/repo-config.ts';

const COMMIT = '0123456789abcdef0123456789abcdef01234567';
// A slow, busy machine takes less than a third of this.
const MOST_MILLISECONDS = 20_000;

const chain = (count: number, line: (index: number) => string) => Array.from({ length: count }, (_, index) => line(index)).join('\n');
const list = (length: number) => `[${Array.from({ length }, (_, index) => index).join(', ')}]`;

/** @returns the message of the Problem, or how many cells there are */
function ends(text: string, overrides = ''): string {
  const started = performance.now();
  let outcome: string;
  try {
    const full = `run: x\nsave: {path: /ckpt}\n${text}`;
    const experiment = experimentFrom(parseSource('x.yaml', full), COMMIT, parseRepoConfig(''), parseOverrides(overrides));
    outcome = `${experiment.cells.length} cells`;
  } catch (error) {
    assert.ok(error instanceof Problem, String(error));
    outcome = messageOf(error);
  }
  assert.ok(performance.now() - started < MOST_MILLISECONDS, `${performance.now() - started} ms`);
  return outcome;
}

for (const [what, text, outcome] of [
  [
    'ten thousand million laughs',
    `a0: &a0 [1, 2]\n${chain(40, (i) => `a${i + 1}: &a${i + 1} {p: *a${i}, q: *a${i}}`)}`,
    /^x\.yaml:\d+:\d+: the aliases up to \*a\d+ repeat more than/,
  ],
  [
    'laughs in a grid',
    `a0: &a0 {^g: [1, 2]}\n${chain(30, (i) => `a${i + 1}: &a${i + 1} {p: *a${i}, q: *a${i}}`)}`,
    /repeat more than 100,000 values/,
  ],
  [
    'a grid behind many aliases',
    `a0: &a0 {^g: [1, 2]}\n${chain(40, (i) => `b${i}: *a0`)}`,
    /^x\.yaml: the grid has 2,199,023,255,552 cells/,
  ],
  [
    'merge keys that double',
    `s0: &s0 {a: 1}\n${chain(22, (i) => `s${i + 1}: &s${i + 1} {<<: [*s${i}, *s${i}]}`)}`,
    /repeat more than 100,000 values/,
  ],
  [
    'settings with merge keys that double',
    `s0: &s0 {a: 1}\n${chain(22, (i) => `s${i + 1}: &s${i + 1} {<<: [*s${i}, *s${i}]}`)}\nenv: *s22`,
    /repeat more than/,
  ],
  ['a mapping that contains itself', 'a: &a {b: *a}', /^x\.yaml:3:11: the alias \*a stands for a value that contains it/],
  ['a mapping that merges itself', 'self: &self\n  <<: *self', /^x\.yaml:4:7: the alias \*self/],
  ['variables that contain themselves', 'env: &e {A: *e}', /^x\.yaml:3:13: the alias \*e/],
  ['a grid that contains itself', '^g: &g [1, *g]', /^x\.yaml:3:12: the alias \*g/],
  ['a key that contains itself', '? &k [*k]\n: 1', /^x\.yaml:3:7: the alias \*k/],
  ['two values that contain each other', 'a: &a {b: &b {c: *a, d: *b}}', /the alias \*a stands for/],
  ['a mapping of 8,000 keys', `m:\n${chain(8000, (i) => ` k${i}: 1`)}`, /^1 cells$/],
  [
    'a top level of 8,000 keys with a grid',
    `${chain(8000, (i) => `k${i}: 'some text'`)}\n^a: ${list(1000)}`,
    /^x\.yaml: the configs of 1,000 cells have/,
  ],
  ['a list of 10,000 in a grid', `^a: ${list(10_000)}`, /^10000 cells$/],
  ['a list of 3,000 in a grid', `^a: ${list(3000)}`, /^3000 cells$/],
  ['316 × 316', `^a: ${list(316)}\n^b: ${list(316)}`, /^99856 cells$/],
  ['10^9 cells', chain(9, (i) => `^k${i}: ${list(10)}`), /^x\.yaml: the grid has 1,000,000,000 cells/],
  ['10^400 cells', chain(400, (i) => `^k${i}: ${list(10)}`), /^x\.yaml: the grid has ∞ cells/],
  [
    'a long value behind many aliases in a grid',
    `a: &a ${list(1000)}\n^g: [${'*a,'.repeat(90)}]\n^h: ${list(1000)}`,
    /^x\.yaml: the configs of 90,000 cells/,
  ],
  ['8,000 aliases', `a: &a 1\nb: [${'*a,'.repeat(8000)}]`, /^1 cells$/],
  ['4,000 aliases of different anchors', chain(4000, (i) => `k${i}: [&a${i} 1, *a${i}]`), /^1 cells$/],
  [
    'lists 5,000 deep',
    `a: ${'['.repeat(5000)}${']'.repeat(5000)}`,
    /^x\.yaml:3:\d+: not valid yaml: it is nested more than 100 levels deep/,
  ],
  ['lists 120 deep', `a: ${'['.repeat(120)}${']'.repeat(120)}`, /^x\.yaml:3:103: not valid yaml: it is nested more than 100 levels deep/],
  ['mappings 700 deep', chain(700, (i) => `${' '.repeat(i)}a:`), /^x\.yaml:\d+:\d+: not valid yaml: it is nested more than/],
  ['grids 90 deep', `${chain(90, (i) => `${' '.repeat(i)}a${i}:`)}\n${' '.repeat(95)}^b: [1, 2]`, /^2 cells$/],
  ['one line of 10 MB', `a: ${'x'.repeat(10_000_000)}`, /^x\.yaml has 10,000,\d+ bytes; yaml of at most 262,144 bytes is read/],
  ['one line of 200 KB', `a: ${'x'.repeat(200_000)}`, /^1 cells$/],
  ['50,000 brackets', `a: ${'['.repeat(50_000)}`, /^x\.yaml:\d+:\d+: not valid yaml/],
  ['100,000 comments', '#\n'.repeat(100_000), /^1 cells$/],
  ['a key of 100 KB', `? ${'k'.repeat(100_000)}\n: 1`, /^1 cells$/],
] as const) {
  test(`ends: ${what}`, () => {
    assert.match(ends(text), outcome);
  });
}

for (const [what, overrides, outcome] of [
  ['an alias of what contains it', 'a.b=*a', /^x\.yaml with the overrides|the alias \*a stands for a value that contains it/],
  ['more than 200 overrides', chain(300, (i) => `+k${i}=1`), /^there are more than 200 overrides/],
  ['quotes', `a.b=${"'".repeat(19_001)}`, /^the overrides end inside a quote|^1 cells$/],
  ['quotes inside words', `a.b=${"x'".repeat(9000)}`, /^1 cells$/],
  ['one of 60 KB', `a.b=${'x'.repeat(60_000)}`, /^override 'a\.b=x+…' has 60004 characters/],
  ['a path of 5,000 keys', `+${'a.'.repeat(5000)}b=1`, /^override '(a\.)+…' has 5001 keys in its path/],
  ['a grid of 10^9', `+^x=${list(1000)} +^y=${list(1000)} +^z=${list(1000)}`, /^x\.yaml: the grid has 1,000,000,000 cells/],
  ['brackets', `a.b=${'['.repeat(9000)}${']'.repeat(9000)}`, /nested more than 100 levels deep/],
] as const) {
  test(`overrides end: ${what}`, () => {
    assert.match(ends('a: &a {b: 1}', overrides), outcome);
  });
}

test('the shared file has the same limits, and patterns of its own', async () => {
  const { isExperimentPath } = await import('../../src/experiment/experiment.ts');
  assert.throws(() => parseRepoConfig('clusters: &c {a: *c}\n'), /^Problem: \.github\/slurm-chain\.yml:1:18: the alias/);
  const many = parseRepoConfig(`experiments: [${'"{a,b}*.yaml",'.repeat(101)}]\n`);
  assert.throws(() => isExperimentPath(many, 'a.yaml'), /^Problem: \.github\/slurm-chain\.yml has 101 patterns under experiments/);
  const wide = parseRepoConfig(`experiments: ["${'{a,b}'.repeat(22)}"]\n`);
  assert.throws(() => isExperimentPath(wide, 'a.yaml'), /^Problem: the pattern '/);
});
