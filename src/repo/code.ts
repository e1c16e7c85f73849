import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import * as tar from 'tar-stream';
import { Problem } from '../base/problem.ts';
import { entriesAt, gitStream, type Repo } from './git.ts';

/** The code of a commit, as it is copied to the cluster. */
export interface Code {
  /** Name of the copy on the cluster: the commit, and a hash of the patterns that exclude files, if there are any. */
  readonly name: string;
  /** SHA-256 of the listing of files, links and executable bits. `tree_listing` in frame.sh computes the same on the cluster. */
  readonly digest: string;
  /** Length of the tar stream in bytes. */
  readonly bytes: number;
  readonly files: number;
  /** Paths of submodules. Their content is not in the archive. */
  readonly submodules: readonly string[];
  /** Paths of Git LFS pointers. The content they stand for is not in the archive. */
  readonly lfsPointers: readonly string[];
  /** Starts a new tar stream. */
  open(): Readable;
}

// The version line is the first line of a pointer (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md).
const LFS_POINTER = Buffer.from('version https://git-lfs.github.com/spec/');

/**
 * Reads the commit's archive once, for its digest and size.
 * @param exclude git pathspecs of files to leave out
 * @throws Problem if git fails, or if the name of a file contains a line break
 */
export async function codeOf(repo: Repo, commit: string, exclude: readonly string[]): Promise<Code> {
  const open = () =>
    gitStream(repo, [
      ...['-c', 'tar.umask=0022', '-c', 'core.autocrlf=false', '-c', 'core.attributesFile=/dev/null'],
      // If this machine has Git LFS, git archive would replace pointers by their content, and the digest would depend on that.
      ...['-c', 'filter.lfs.smudge=', '-c', 'filter.lfs.process=', '-c', 'filter.lfs.required=false'],
      ...['archive', '--format=tar', commit, '--', '.', ...exclude.map((pattern) => `:(exclude,glob)${pattern}`)],
    ]);
  const lfsPointers: string[] = [];
  const listing = new TreeListing();
  let bytes = 0;
  const extract = tar.extract();
  const reading = pipeline(
    open(),
    async function* count(source: AsyncIterable<Buffer>) {
      for await (const chunk of source) {
        bytes += chunk.length;
        yield chunk;
      }
    },
    extract,
  );
  const listed = (async () => {
    for await (const entry of extract) {
      const { name, type, linkname, mode } = entry.header;
      const hash = createHash('sha256');
      let head = Buffer.alloc(0);
      for await (const chunk of entry as AsyncIterable<Buffer>) {
        hash.update(chunk);
        if (head.length < LFS_POINTER.length) head = Buffer.concat([head, chunk]);
      }
      if (type === 'file') {
        listing.addFile(name, hash.digest('hex'), ((mode ?? 0) & 0o100) !== 0);
        if (head.subarray(0, LFS_POINTER.length).equals(LFS_POINTER)) lfsPointers.push(name);
      } else if (type === 'symlink') listing.addLink(name, linkname ?? '');
    }
  })();
  await Promise.all([reading, listed]);
  const entries = await entriesAt(repo, commit);
  const left = exclude.length === 0 ? '' : `-${createHash('sha256').update(JSON.stringify(exclude)).digest('hex').slice(0, 6)}`;
  return {
    name: commit + left,
    digest: listing.digest(),
    bytes,
    files: listing.files,
    submodules: entries.filter((entry) => entry.mode === '160000').map((entry) => entry.path),
    lfsPointers,
    open,
  };
}

/** The listing that `tree_listing` in src/runtime/frame.sh prints, computed without unpacking the archive. */
export class TreeListing {
  readonly #files = new Map<string, string>();
  readonly #links: string[] = [];
  readonly #executables: string[] = [];

  get files(): number {
    return this.#files.size;
  }

  /** @param path relative, with / between folders. @throws Problem for a line break in the name, which would break the listing */
  addFile(path: string, sha256: string, executable: boolean): void {
    refuseLineEnds(path);
    this.#files.set(`./${path}`, sha256);
    if (executable) this.#executables.push(`exec ./${path}`);
  }

  /** @throws Problem for a line break in the name or the target */
  addLink(path: string, target: string): void {
    refuseLineEnds(path + target);
    this.#links.push(`link ./${path} -> ${target}`);
  }

  /** SHA-256 of the listing, in hex. */
  digest(): string {
    const files = [...this.#files]
      .sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
      // If a name has a backslash, sha256sum puts one in front of the line and doubles those in the name (coreutils, md5sum).
      .map(([path, hash]) => (path.includes('\\') ? `\\${hash}  ${path.replaceAll('\\', '\\\\')}` : `${hash}  ${path}`));
    const all = [...files, ...sorted(this.#links), ...sorted(this.#executables)];
    return createHash('sha256')
      .update(all.map((line) => `${line}\n`).join(''))
      .digest('hex');
  }
}

function sorted(lines: readonly string[]): string[] {
  return lines.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

function refuseLineEnds(name: string): void {
  if (/[\n\r]/.test(name))
    throw new Problem(
      `the commit holds a file whose name has a line end in it: ${JSON.stringify(name)}. Rename it, or leave it out with code.exclude`,
    );
}
