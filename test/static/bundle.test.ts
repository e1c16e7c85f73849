// The committed bundle: it is what the sources build, and it starts as an action does.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { METADATA, NODE24, ROOT, runAction } from '../support/action.ts';

test('dist/ is what the sources build, and holds nothing native', () => {
  const built = mkdtempSync(join(tmpdir(), 'slurm-chain-dist-'));
  execFileSync(join(ROOT, 'script/build'), [built], { stdio: 'pipe' });
  assert.deepEqual(readdirSync(join(ROOT, 'dist')).sort(), readdirSync(built).sort());
  for (const name of readdirSync(built)) {
    assert.ok(readFileSync(join(built, name)).equals(readFileSync(join(ROOT, 'dist', name))), `dist/${name} is stale: run script/build`);
    assert.ok(!/\.(node|exe)$/.test(name), name);
  }
  rmSync(built, { recursive: true });
});

test('the bundle starts on Node 24 and fails like an action, not like a program', async () => {
  assert.match(execFileSync(NODE24, ['--version'], { encoding: 'utf8' }), /^v24\./);
  const result = await runAction({ environment: { GITHUB_REPOSITORY: 'a/b' } });
  assert.equal(result.code, 1);
  assert.deepEqual(result.errors, [
    'the event workflow_dispatch names no experiment. Give the input config a path such as configs/run.yaml, or a name',
  ]);
  const bare = spawnSync(NODE24, [join(ROOT, METADATA.runs.main)], { encoding: 'utf8', env: {} });
  assert.equal(bare.status, 1);
  assert.match(bare.stdout, /^::error::/);
  assert.equal(bare.stderr, '');
});
