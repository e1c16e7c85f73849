// The git repository of a lab: a bare one behind the GitHub stand-in, its author's clone, and the checkout the action works in.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ROOT } from './action.ts';

export type Files = Readonly<Record<string, string>>;

export interface Repository {
  /** Holds all of it. */
  readonly directory: string;
  readonly bare: string;
  /** A checkout of main as actions/checkout makes it. */
  readonly workspace: string;
  /** Writes files on a branch, made from main if there is none, commits and pushes them. @returns the commit */
  commit(files: Files, branch: string): string;
  /** Merges a branch as the button on a pull request does. @returns the merge commit */
  merge(branch: string, base: string, message: string): string;
  /** The commit the author made last. */
  tip(): string;
  /** Brings the checkout to the tip of main. @returns that commit */
  checkOutMain(): string;
}

/** A repository whose main has these files and the trainer of examples/regression. */
export function makeRepository(name: string, files: Files): Repository {
  const directory = mkdtempSync(join(tmpdir(), `slurm-chain-lab-${name}-`));
  const bare = join(directory, 'repo.git');
  const author = join(directory, 'author');
  const workspace = join(directory, 'workspace');
  const git = (where: string, ...args: string[]) =>
    execFileSync('git', ['-C', where, '-c', 'user.name=Alice', '-c', 'user.email=alice@example.edu', ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    }).trim();
  const writeAll = (written: Files) => {
    for (const [path, content] of Object.entries(written)) {
      mkdirSync(join(author, dirname(path)), { recursive: true });
      writeFileSync(join(author, path), content);
    }
  };

  execFileSync('git', ['init', '--quiet', '--bare', '--initial-branch=main', bare]);
  execFileSync('git', ['clone', '--quiet', bare, author], { stdio: 'ignore' });
  writeAll(files);
  cpSync(join(ROOT, 'examples/regression/train.py'), join(author, 'train.py'));
  git(author, 'switch', '--quiet', '-c', 'main');
  git(author, 'add', '-A');
  git(author, 'commit', '--quiet', '-m', 'Start');
  git(author, 'push', '--quiet', 'origin', 'main');
  execFileSync('git', ['clone', '--quiet', '--depth=1', `file://${bare}`, workspace], { stdio: 'ignore' });

  return {
    directory,
    bare,
    workspace,
    commit(changed, branch) {
      const exists = git(author, 'branch', '--list', branch) !== '';
      git(author, 'switch', '--quiet', ...(exists ? [branch] : ['-c', branch, 'main']));
      writeAll(changed);
      git(author, 'add', '-A');
      git(author, 'commit', '--quiet', '-m', 'Try something');
      git(author, 'push', '--quiet', 'origin', branch);
      return git(author, 'rev-parse', 'HEAD');
    },
    merge(branch, base, message) {
      const before = git(author, 'branch', '--show-current');
      git(author, 'switch', '--quiet', base);
      git(author, 'merge', '--quiet', '--no-ff', '-m', message, branch);
      git(author, 'push', '--quiet', 'origin', base);
      const commit = git(author, 'rev-parse', 'HEAD');
      git(author, 'switch', '--quiet', before);
      return commit;
    },
    tip: () => git(author, 'rev-parse', 'HEAD'),
    checkOutMain() {
      const head = git(bare, 'rev-parse', 'main');
      if (git(workspace, 'rev-parse', 'HEAD') !== head) {
        git(workspace, 'fetch', '--quiet', '--depth=1', 'origin', 'main');
        git(workspace, 'checkout', '--quiet', '-B', 'main', 'FETCH_HEAD');
      }
      return head;
    },
  };
}
