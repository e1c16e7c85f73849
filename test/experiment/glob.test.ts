import assert from 'node:assert/strict';
import { matchesGlob } from 'node:path';
import { test } from 'node:test';
import { globOf } from '../../src/experiment/glob.ts';
import { refused } from './refused.ts';

const PATHS = [
  ...['a.yaml', 'configs/a.yaml', 'configs/b.yml', 'configs/x/y/a.yaml', 'configs/.hidden/a.yaml', 'configs/.a.yaml', '.github/a.yaml'],
  ...[
    'configs',

    'other/configs/a.yaml',
    'configs/a.yaml/more',
    'configs/ab.yaml',
    'configs/a-b.yaml',
    'configs/*.yaml',
    'configs/é.yaml',
  ],
];

for (const pattern of [
  ...['configs/**/*.yaml', 'configs/*.yaml', '**/*.yaml', '**', '*.yaml', 'configs/**', '**/configs/*.yaml', 'configs/**/**/a.yaml'],
  ...[
    'configs/?.yaml',
    'configs/[ab].yaml',
    'configs/[a-c]*.yaml',
    'configs/[!a].yml',
    'configs/*.{yaml,yml}',
    '{configs,other}/**/{a,b}.yaml',
  ],
  ...['configs/.*', '.github/*', 'configs/a*b.yaml', '*/*/*/*.yaml', 'configs/a.yaml', 'configs/*a*.y*ml', '{a,{b,configs/a}}.yaml', '*'],
]) {
  test(`as Node matches it: ${pattern}`, () => {
    const glob = globOf(pattern);
    for (const path of PATHS) assert.equal(glob(path), matchesGlob(path, pattern), path);
  });
}

test('no pattern takes long', () => {
  const started = performance.now();
  const path = `${'a'.repeat(4000)}/${'a/'.repeat(2000)}c`;
  for (const pattern of [`${'*a'.repeat(100)}*b`, `${'**/'.repeat(60)}b`, `${'**/a/'.repeat(50)}b`, '[a-'.repeat(80), '\\'.repeat(200)]) {
    assert.equal(globOf(pattern)(path), false, pattern);
  }
  assert.ok(performance.now() - started < 3000, `${performance.now() - started} ms`);
  refused(() => globOf('{a,b}'.repeat(22)), "the pattern '{a,b}{a,b}");
  refused(() => globOf(`${'{a,'.repeat(50)}b${'}'.repeat(50)}`.repeat(2)), "the pattern '{a,{a,");
  refused(() => globOf('a'.repeat(300)), `the pattern '${'a'.repeat(60)}…' has 300 characters`);
});
