import type { Launcher } from '../chain/manifest.ts';
import type { Credentials } from '../cluster/transport.ts';
import type { RepoConfig, SiteConfig } from '../experiment/repo-config.ts';
import type { Repo } from '../repo/git.ts';

/** Everything a command needs besides what was asked. Commands know nothing of GitHub. */
export interface Context {
  readonly repo: Repo;
  /** The commit that the request is about. */
  readonly commit: string;
  /** What .github/slurm-chain.yml says at that commit. */
  readonly config: RepoConfig;
  /** What it says on the default branch: the clusters and the limits. */
  readonly site: SiteConfig;
  /** Everybody who took part in the request. Empty for a schedule. */
  readonly askedBy: readonly string[];
  readonly credentials: Credentials;
  /** NAME=value for the jobs; only the account may read them. */
  readonly secrets: ReadonlyMap<string, string>;
  /** Values that must never be shown. */
  readonly hidden: readonly string[];
  readonly launcher: Launcher;
  readonly pullRequest: PullRequest | undefined;
  /** Keep the whole jobs that Slurm accepted when it refuses a later one. */
  readonly keepPartial: boolean;
  /** Fail if an audit gives another verdict than `verified`. */
  readonly strict: boolean;
  readonly log: Log;
  /** Fires when the runner wants us to stop. */
  readonly signal: AbortSignal;
}

/** The pull request that the request came from. */
export interface PullRequest {
  readonly number: number;
  /** It was closed, and its chains are cancelled without anybody asking. Most pull requests have none. */
  readonly wasClosed: boolean;
  /** Paths that it adds or changes. */
  changedFiles(): Promise<readonly string[]>;
  /** @throws Problem when its head is no longer the commit that was approved, or when it was closed */
  confirmHead(): Promise<void>;
}

/** Says what is going on, one line at a time. */
export interface Log {
  info(line: string): void;
  warning(line: string): void;
  /** Folds the lines of something under a title. */
  group<T>(title: string, act: () => Promise<T>): Promise<T>;
}
