import { execFile, spawn } from 'node:child_process';
import { posix } from 'node:path';
import { PassThrough, type Readable } from 'node:stream';
import { environmentWithout } from '../base/environment.ts';
import { messageOf, Problem } from '../base/problem.ts';
import { isCommitId } from './commit-id.ts';

/** A checkout of the repository on this machine. We read its git objects, never its work tree. */
export interface Repo {
  readonly directory: string;
  /** Lets git fetch what the checkout lacks; empty for none. */
  readonly token: string;
  /** The address of the server that the token is for, such as https://github.com. No other server gets it. */
  readonly server?: string;
}

interface GitOptions {
  readonly environment?: Readonly<Record<string, string>>;
}

// What follows is a revision or a path, whatever it begins with (gitcli(7)). git has it since 2.24, and `git rev-parse` since 2.30;
// Ubuntu 22.04 has 2.34 and Debian 12 has 2.39. GitHub's runners have a newer one.
const END_OF_OPTIONS = '--end-of-options';

/** A whole commit id. @throws Problem for other text, which git may take for an option or an expression */
function commitId(text: string): string {
  if (isCommitId(text)) return text;
  throw new Problem(`${JSON.stringify(text.slice(0, 100))} is not a whole commit id of 40 hex digits`);
}

/** Runs git. @returns stdout as bytes. @throws Problem with git's own message */
export function git(repo: Repo, args: readonly string[], options: GitOptions = {}): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    execFile(
      'git',
      ['-C', repo.directory, ...args],
      {
        encoding: 'buffer',
        maxBuffer: 1 << 30,
        env: { ...ownEnvironment(), ...options.environment, GIT_TERMINAL_PROMPT: '0', LC_ALL: 'C' },
      },
      (error, stdout, stderr) => {
        if (error) reject(new Problem(`git ${args[0] ?? ''} failed in ${repo.directory}: ${stderr.toString().trim() || error.message}`));
        else resolve(stdout);
      },
    );
  });
}

/** The environment without the action's inputs: git, and what it starts, needs no secret of ours. */
function ownEnvironment(): NodeJS.ProcessEnv {
  return environmentWithout(/^INPUT_/);
}

/** Runs git. @returns stdout as a stream, which fails with a Problem if git fails */
export function gitStream(repo: Repo, args: readonly string[]): Readable {
  const child = spawn('git', ['-C', repo.directory, ...args], { stdio: ['ignore', 'pipe', 'pipe'], env: ownEnvironment() });
  const out = new PassThrough();
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(-4000);
  });
  // The stream must not end before git's exit status is known, or a cut output would look complete.
  child.stdout.pipe(out, { end: false });
  child.on('error', (error) => out.destroy(error));
  child.on('close', (code) => {
    if (code === 0) out.end();
    else out.destroy(new Problem(`git failed in ${repo.directory}: ${stderr.trim() || `exit ${code}`}`));
  });
  // If the reader stops early, git would wait forever to write.
  out.on('close', () => child.kill());
  return out;
}

async function hasCommit(repo: Repo, commit: string): Promise<boolean> {
  try {
    await git(repo, ['cat-file', '-e', END_OF_OPTIONS, `${commit}^{tree}`]);
    return true;
  } catch {
    return false;
  }
}

/**
 * Makes sure that the checkout has the commit. If it does not, only this commit is fetched.
 * @param refs to fetch in turn if the commit itself cannot be fetched, such as refs/pull/12/head
 * @throws Problem that says what to change in the workflow, and for text that is not a commit id
 */
export async function ensureCommit(repo: Repo, commit: string, refs: readonly string[]): Promise<void> {
  try {
    await git(repo, ['rev-parse', '--git-dir']);
  } catch (error) {
    throw new Problem(
      `there is no git checkout in ${repo.directory} (${messageOf(error)}). Put a step with actions/checkout before this one`,
    );
  }
  if (await hasCommit(repo, commitId(commit))) return;
  const environment = fetchEnvironment(repo);
  let why = '';
  for (const wanted of [commit, ...refs]) {
    try {
      await git(repo, ['fetch', '--no-tags', '--depth=1', END_OF_OPTIONS, 'origin', wanted], { environment });
      if (await hasCommit(repo, commit)) return;
    } catch (error) {
      why = messageOf(error);
    }
  }
  throw new Problem(
    `the checkout lacks commit ${commit} and it could not be fetched${why && ` (${why})`}. Give actions/checkout 'fetch-depth: 0', or 'ref' with that commit, and let it keep its credentials`,
  );
}

/**
 * Environment variables that give git the token for the one server that it is for. In an argument, other processes could see it.
 * The empty value drops what actions/checkout has set, because a server refuses two such headers (git-config(1), http.extraHeader).
 */
function fetchEnvironment({ token, server }: Repo): Record<string, string> {
  if (token === '' || server === undefined) return {};
  const key = `http.${new URL(server).origin}/.extraheader`;
  return {
    GIT_CONFIG_COUNT: '2',
    GIT_CONFIG_KEY_0: key,
    GIT_CONFIG_VALUE_0: '',
    GIT_CONFIG_KEY_1: key,
    GIT_CONFIG_VALUE_1: `AUTHORIZATION: basic ${basicCredentials(token)}`,
  };
}

/** The token as HTTP wants it. It is as good as the token, so it has to be masked like that. */
export function basicCredentials(token: string): string {
  return Buffer.from(`x-access-token:${token}`).toString('base64');
}

/**
 * Fetches the newest commit of a branch of the remote. What the checkout has under that name does not count: it may be old, or
 * made by an earlier step of the workflow.
 * @returns the commit
 * @throws Problem if the branch cannot be fetched
 */
export async function fetchBranch(repo: Repo, branch: string): Promise<string> {
  const ref = `${REMOTE_REFS}/default`;
  // In a whole clone, a depth would cut the history that is there.
  const depth = (await isShallow(repo)) ? ['--depth=1'] : [];
  try {
    await git(repo, ['fetch', '--no-tags', ...depth, 'origin', `+refs/heads/${branch}:${ref}`], { environment: fetchEnvironment(repo) });
  } catch (error) {
    throw new Problem(
      `the default branch ${branch} could not be fetched (${messageOf(error)}). It says which clusters there are, so it is read anew each time. Give the workflow 'permissions: contents: read'`,
    );
  }
  return (await git(repo, ['rev-parse', ref])).toString().trim();
}

async function isShallow(repo: Repo): Promise<boolean> {
  return (await git(repo, ['rev-parse', '--is-shallow-repository'])).toString().trim() === 'true';
}

// Our own namespace for the refs of the remote. The checkout's own branches and tags do not change, and pruning is safe.
const REMOTE_REFS = 'refs/slurm-chain';

/**
 * Fetches every branch and tag of the remote with its whole history, even if the checkout is shallow.
 * @param pullRequests whose heads are fetched too, if the remote still has them
 * @throws Problem if the remote cannot be reached
 */
export async function ensureHistory(repo: Repo, pullRequests: readonly number[] = []): Promise<void> {
  const environment = fetchEnvironment(repo);
  const unshallow = (await isShallow(repo)) ? ['--unshallow'] : [];
  const refspecs = ['heads', 'tags'].map((kind) => `+refs/${kind}/*:${REMOTE_REFS}/${kind}/*`);
  if (pullRequests.length > 0) {
    const listed = (await git(repo, ['ls-remote', 'origin', 'refs/pull/*/head'], { environment })).toString();
    const existing = new Set([...listed.matchAll(/\trefs\/pull\/(\d+)\/head$/gm)].map(([, number]) => Number(number)));
    refspecs.push(
      ...pullRequests.filter((number) => existing.has(number)).map((number) => `+refs/pull/${number}/head:${REMOTE_REFS}/pull/${number}`),
    );
  }
  await git(repo, ['fetch', '--no-tags', '--prune', ...unshallow, 'origin', ...refspecs], { environment });
}

/** The branches, tags and pull requests that contain a commit. */
export interface Holders {
  readonly branches: readonly string[];
  readonly tags: readonly string[];
  readonly pullRequests: readonly number[];
}

/** Finds what contains the commit, among the refs that ensureHistory fetched. */
export async function holdersOf(repo: Repo, commit: string): Promise<Holders> {
  const refs = (await git(repo, ['for-each-ref', `--contains=${commitId(commit)}`, '--format=%(refname)', REMOTE_REFS]))
    .toString()
    .split('\n');
  const under = (kind: string) =>
    refs.filter((ref) => ref.startsWith(`${REMOTE_REFS}/${kind}/`)).map((ref) => ref.slice(`${REMOTE_REFS}/${kind}/`.length));
  return { branches: under('heads'), tags: under('tags'), pullRequests: under('pull').map(Number) };
}

/**
 * All commits of a branch, or the one commit of a tag, among the refs that ensureHistory fetched. If both have the name, the tag
 * counts. Empty if neither exists.
 */
export async function commitsOf(repo: Repo, name: string): Promise<ReadonlySet<string>> {
  // A plain name of a ref (git-check-ref-format(1)), so that git cannot take it for an option or an expression.
  if (!/^[A-Za-z0-9][\w./-]*$/.test(name) || name.includes('..')) return new Set();
  for (const [ref, how] of [
    [`${REMOTE_REFS}/tags/${name}`, ['--max-count=1']],
    [`${REMOTE_REFS}/heads/${name}`, []],
  ] as const) {
    try {
      await git(repo, ['rev-parse', '--verify', '--quiet', END_OF_OPTIONS, `${ref}^{commit}`]);
    } catch {
      continue; // not this kind of ref
    }
    return new Set((await git(repo, ['rev-list', ...how, END_OF_OPTIONS, ref])).toString().trim().split('\n'));
  }
  return new Set();
}

/** The first line of the commit message. */
export async function subjectOf(repo: Repo, commit: string): Promise<string> {
  return (await git(repo, ['log', '-1', '--format=%s', END_OF_OPTIONS, commitId(commit)])).toString().trim();
}

interface TreeEntry {
  readonly mode: string;
  readonly path: string;
}

/** Every entry of the commit's tree, submodules and links included. */
export async function entriesAt(repo: Repo, commit: string): Promise<TreeEntry[]> {
  const listing = (await git(repo, ['ls-tree', '-r', '-z', '--full-tree', END_OF_OPTIONS, commitId(commit)])).toString();
  return listing
    .split('\0')
    .filter((line) => line !== '')
    .map((line) => ({ mode: line.slice(0, 6), path: line.slice(line.indexOf('\t') + 1) }));
}

/**
 * Normalizes a path inside the repository.
 * @throws Problem if the path is absolute or leads out of the repository
 */
export function repoPath(path: string): string {
  const normal = posix.normalize(path.trim());
  if (posix.isAbsolute(normal) || normal === '..' || normal.startsWith('../') || normal === '.') {
    throw new Problem(
      `'${path}' is not a path inside the repository; name the file from the top of the repository, such as configs/run.yaml`,
    );
  }
  return normal;
}

/**
 * The text of a file at a commit.
 * @throws Problem if the path does not exist or is a link or a folder
 */
export async function fileAt(repo: Repo, commit: string, path: string): Promise<string> {
  const normal = repoPath(path);
  const listing = (await git(repo, ['ls-tree', '-z', '--full-tree', END_OF_OPTIONS, commitId(commit), '--', normal])).toString();
  const entry = listing.split('\0').find((line) => line.slice(line.indexOf('\t') + 1) === normal);
  if (entry === undefined) throw new Problem(`there is no ${normal} at commit ${commit.slice(0, 12)}`);
  if (entry.startsWith('120000')) {
    throw new Problem(`${normal} is a symbolic link at commit ${commit.slice(0, 12)}; links are not followed, so name the file itself`);
  }
  if (!entry.startsWith('100')) throw new Problem(`${normal} is not a file at commit ${commit.slice(0, 12)}; name a file`);
  return (await git(repo, ['cat-file', 'blob', END_OF_OPTIONS, `${commitId(commit)}:${normal}`])).toString('utf8');
}

/** The text of a file at a commit; undefined if the path does not exist. @throws Problem if it is a link or a folder */
export async function optionalFileAt(repo: Repo, commit: string, path: string): Promise<string | undefined> {
  const listing = await git(repo, ['ls-tree', '--full-tree', END_OF_OPTIONS, commitId(commit), '--', path]);
  return listing.length === 0 ? undefined : fileAt(repo, commit, path);
}
