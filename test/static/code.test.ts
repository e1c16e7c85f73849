// Types, style, dead code, and the shell that runs on clusters.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { NODE24, ROOT } from '../support/action.ts';
import { FILES, read } from '../support/sources.ts';

for (const [tool, ...args] of [['tsc', '-p', 'tsconfig.json'], ['biome', 'check', '--error-on-warnings', '.'], ['knip']] as const) {
  test(`code passes ${tool}`, () => {
    const { status, stdout, stderr } = spawnSync(join(ROOT, 'node_modules/.bin', tool), args, {
      cwd: ROOT,
      encoding: 'utf8',
      env: { ...process.env, PATH: `${join(NODE24, '..')}:${process.env['PATH']}` },
    });
    assert.equal(status, 0, stdout + stderr);
  });
}

test('shell passes shellcheck', () => {
  const scripts = FILES.filter((path) => !path.startsWith('dist/')).filter(
    (path) => path.endsWith('.sh') || (/^(script|\.ci)\//.test(path) && read(path).startsWith('#!/usr/bin/env bash')),
  );
  assert.ok(scripts.length >= 10);
  const { status, stdout } = spawnSync('shellcheck', scripts, { cwd: ROOT, encoding: 'utf8' });
  assert.equal(status, 0, stdout);
});

test('what runs on the cluster needs bash 4.2 and coreutils only', () => {
  const runtime = FILES.filter((name) => name.startsWith('src/runtime/'));
  assert.ok(runtime.length >= 10);
  for (const path of runtime) {
    const text = read(path).replace(/^\s*#.*$/gm, '');
    // 4.3: namerefs and wait -n; 4.4: mapfile -d, ${x@Q}; 5.0: EPOCHSECONDS; 5.1: wait -p. See bash's CHANGES.
    assert.doesNotMatch(
      text,
      /\b(local|declare|typeset) -n\b|\bwait -[np]\b|mapfile -d|\$\{\w+@[A-Z]\}|EPOCH(SECONDS|REALTIME)|\b(python3?|perl|jq|awk|node)\b/,
      path,
    );
  }
});

test('no file does two jobs by its length', () => {
  for (const path of FILES.filter((name) => /^src\/.*\.(ts|sh)$/.test(name))) {
    assert.ok(statSync(join(ROOT, path)).size < 20_000, `${path} is ${statSync(join(ROOT, path)).size} bytes`);
  }
});
