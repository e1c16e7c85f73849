// The files of this repository, for tests that hold for all of them.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './action.ts';

/** Paths of every file that git knows or would add. */
export const FILES = execFileSync('git', ['-c', 'safe.directory=*', '-C', ROOT, 'ls-files', '--cached', '--others', '--exclude-standard'], {
  encoding: 'utf8',
})
  .trim()
  .split('\n');

/** The text of a file of the repository. */
export function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}
