import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { codeOf } from '../../src/repo/code.ts';
import { ensureCommit, entriesAt, fetchBranch, fileAt, holdersOf, repoPath, git as runGit, subjectOf } from '../../src/repo/git.ts';
import { ROOT } from '../support/action.ts';

const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-code-'));
after(() => rmSync(directory, { recursive: true }));
const repo = { directory: join(directory, 'repo'), token: '' };
const git = (...args: string[]) =>
  execFileSync('git', ['-C', repo.directory, '-c', 'user.name=A', '-c', 'user.email=a@b', ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  }).trim();

mkdirSync(join(repo.directory, 'ä b/deep'), { recursive: true });
git('init', '--quiet', '--initial-branch=main');
writeFileSync(join(repo.directory, 'a'), '1');
writeFileSync(join(repo.directory, 'a.b'), '');
writeFileSync(join(repo.directory, 'back\\slash'), 'x');
writeFileSync(join(repo.directory, 'ä b/deep/ünï'), 'x'.repeat(100_000));
writeFileSync(join(repo.directory, `${'long'.repeat(40)}.txt`), 'x');
writeFileSync(join(repo.directory, 'run'), '#!/bin/sh\n');
writeFileSync(join(repo.directory, 'weights'), 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n');
chmodSync(join(repo.directory, 'run'), 0o755);
symlinkSync('a', join(repo.directory, 'link'));
git('add', '-A');
git('update-index', '--add', '--cacheinfo', `160000,${'1'.repeat(40)},third_party/lib`);
git('commit', '--quiet', '-m', 'all kinds of files');
const commit = git('rev-parse', 'HEAD');

test('the digest is the one the cluster computes from the unpacked archive', async () => {
  const code = await codeOf(repo, commit, []);
  const unpacked = join(directory, 'unpacked');
  mkdirSync(unpacked);
  execFileSync('tar', ['-x', '-C', unpacked], { input: execFileSync('git', ['-C', repo.directory, 'archive', commit]) });
  const listed = execFileSync(
    'bash',
    [
      '-c',
      `MARK=x; . "$1" 4>/dev/null; trap - EXIT; tree_listing "$2" >"$3"; sha256_of "$3" >&2`,
      '-',
      join(ROOT, 'src/runtime/frame.sh'),
      unpacked,
      join(directory, 'listing'),
    ],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] },
  );
  assert.equal(listed, '');
  const digest = execFileSync('sha256sum', [join(directory, 'listing')], { encoding: 'utf8' }).split(' ')[0];
  assert.equal(code.digest, digest);
  assert.equal(code.name, commit);
  assert.equal(code.files, 7);
});

test('submodules and LFS pointers are found', async () => {
  const code = await codeOf(repo, commit, []);
  assert.deepEqual(code.submodules, ['third_party/lib']);
  assert.deepEqual(code.lfsPointers, ['weights']);
});

test('what is excluded is not in the digest, and the copy on the cluster has another name', async () => {
  const [whole, part] = [await codeOf(repo, commit, []), await codeOf(repo, commit, ['ä b/**'])];
  assert.equal(part.files, whole.files - 1);
  assert.notEqual(part.digest, whole.digest);
  assert.match(part.name, new RegExp(`^${commit}-[0-9a-f]{6}$`));
});

test('a name with a line end is refused', async () => {
  writeFileSync(join(repo.directory, 'two\nlines'), 'x');
  git('add', '-A');
  git('commit', '--quiet', '-m', 'odd');
  await assert.rejects(codeOf(repo, git('rev-parse', 'HEAD'), []), /a file whose name has a line end in it: "two\\nlines"/);
});

test('files are read from the commit, links are not followed, paths stay inside', async () => {
  writeFileSync(join(repo.directory, 'a'), 'changed in the work tree');
  assert.equal(await fileAt(repo, commit, './a'), '1');
  await assert.rejects(fileAt(repo, commit, 'link'), /is a symbolic link/);
  await assert.rejects(fileAt(repo, commit, 'ä b'), /is not a file/);
  await assert.rejects(fileAt(repo, commit, 'nope'), /there is no nope at commit/);
  for (const path of ['../x', '/etc/passwd', 'a/../../x', '.', '..']) assert.throws(() => repoPath(path), /not a path inside/);
});

test('a shallow checkout fetches the one commit, and says what to do when it cannot', async () => {
  const shallow = { directory: join(directory, 'shallow'), token: 'token' };
  execFileSync('git', ['clone', '--quiet', '--depth=1', `file://${repo.directory}`, shallow.directory], { stdio: 'ignore' });
  await ensureCommit(shallow, commit, []);
  assert.equal(await fileAt(shallow, commit, 'a'), '1');
  await assert.rejects(
    ensureCommit(shallow, '9'.repeat(40), ['refs/pull/1/head']),
    /lacks commit 9+ and it could not be fetched .*fetch-depth: 0/,
  );
  await assert.rejects(ensureCommit({ directory: '/', token: '' }, commit, []), /no git checkout in \/ .*actions\/checkout/);
});

test('git gives the token to the server that it is for, once, and to no other', async () => {
  const headers: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    headers.push(request.headers.authorization);
    response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const remote = join(directory, 'remote');
  execFileSync('git', ['init', '--quiet', remote]);
  execFileSync('git', ['-C', remote, 'remote', 'add', 'origin', `${address}/lab/nano`]);
  // As actions/checkout leaves it.
  execFileSync('git', ['-C', remote, 'config', `http.${address}/.extraheader`, 'AUTHORIZATION: basic old']);
  const fetched = (of: string | undefined) => {
    headers.splice(0);
    return assert.rejects(
      fetchBranch({ directory: remote, token: 'secret', ...(of !== undefined && { server: of }) }, 'main'),
      /could not be fetched/,
    );
  };
  try {
    await fetched(address);
    assert.deepEqual([...new Set(headers)], [`basic ${Buffer.from('x-access-token:secret').toString('base64')}`]);
    execFileSync('git', ['-C', remote, 'config', '--unset', `http.${address}/.extraheader`]);
    for (const other of ['https://github.com', 'http://127.0.0.1:1', undefined]) {
      await fetched(other);
      assert.deepEqual([...new Set(headers)], [undefined], other);
    }
  } finally {
    server.close();
  }
});

test('git and its helpers see no input of the action', async () => {
  process.env['INPUT_SSH-KEY'] = 'secret';
  try {
    // An alias that starts with ! is run by a shell.
    const shown = await runGit(repo, ['-c', 'alias.show-env=!env', 'show-env']);
    assert.doesNotMatch(shown.toString(), /INPUT_/);
    assert.match(shown.toString(), /^PATH=/m);
  } finally {
    delete process.env['INPUT_SSH-KEY'];
  }
});

test('git never takes text from a record for an option or an expression', async () => {
  const clone = { directory: join(directory, 'clone'), token: '' };
  execFileSync('git', ['clone', '--quiet', repo.directory, clone.directory], { stdio: 'ignore' });
  const pwned = join(directory, 'pwned');
  for (const text of [
    `--upload-pack=touch ${pwned}; git-upload-pack`,
    `--output=${pwned}`,
    'HEAD',
    'main',
    `${commit}^{tree}`,
    '--all',
    '',
  ]) {
    for (const act of [
      () => ensureCommit(clone, text, []),
      () => fileAt(clone, text, 'a'),
      () => entriesAt(clone, text),
      () => subjectOf(clone, text),
      () => holdersOf(clone, text),
    ]) {
      await assert.rejects(act(), /^Problem: ".*" is not a whole commit id of 40 hex digits/);
    }
  }
  // A ref of a pull request comes from a number in the record, and is an operand whatever it begins with.
  await assert.rejects(ensureCommit(clone, '9'.repeat(40), [`--upload-pack=touch ${pwned}; git-upload-pack`]), /lacks commit 9999/);
  assert.ok(!existsSync(pwned));
});
