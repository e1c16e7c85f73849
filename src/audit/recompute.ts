import { messageOf } from '../base/problem.ts';
import { type Manifest, manifestDifferences, manifestOf, type NewLaunch } from '../chain/manifest.ts';
import { asAttempt, type Experiment, loadExperiment } from '../experiment/experiment.ts';
import { overrideOf } from '../experiment/overrides.ts';
import { type RepoConfig, repoConfigAt } from '../experiment/repo-config.ts';
import { type Code, codeOf } from '../repo/code.ts';
import { ensureCommit, type Holders, holdersOf, type Repo, subjectOf } from '../repo/git.ts';
import type { AuditTarget } from './program.ts';

/** Which branches, tags and pull requests of the repository lead to a commit. */
export interface Reachability {
  /** At least one of them does. */
  readonly reachable: boolean;
  readonly branches: readonly string[];
  readonly tags: readonly string[];
  /** Those among the experiment's own pull requests. */
  readonly pullRequests: readonly number[];
  /** Why this is not known; undefined if it is. */
  readonly unknown: string | undefined;
}

export function unknownReachability(why: string): Reachability {
  return { reachable: false, branches: [], tags: [], pullRequests: [], unknown: why };
}

/** The repository, and what was read from it already. A value that failed once fails again. */
export interface RepoCache {
  readonly repo: Repo;
  /** Why the branches are not known; undefined if they are. */
  readonly unknown: string | undefined;
  readonly commits: Map<string, Promise<string | undefined>>;
  readonly configs: Map<string, Promise<RepoConfig>>;
  readonly experiments: Map<string, Promise<Experiment>>;
  readonly codes: Map<string, Promise<Code>>;
  readonly holders: Map<string, Promise<Holders>>;
  readonly subjects: Map<string, Promise<string>>;
}

export function repoCache(repo: Repo, unknown: string | undefined): RepoCache {
  return {
    ...{ repo, unknown, commits: new Map(), configs: new Map(), experiments: new Map() },
    ...{ codes: new Map(), holders: new Map(), subjects: new Map() },
  };
}

function once<T>(cache: Map<string, Promise<T>>, key: string, make: () => Promise<T>): Promise<T> {
  const known = cache.get(key) ?? make();
  known.catch(() => {}); // the caller handles it
  cache.set(key, known);
  return known;
}

/** Why the commit is not available; undefined if it is. */
export function whyUnavailable(cache: RepoCache, commit: string, pullRequests: readonly number[]): Promise<string | undefined> {
  return once(cache.commits, commit, async () => {
    try {
      const refs = pullRequests.map((number) => `refs/pull/${number}/head`);
      await ensureCommit(cache.repo, commit, refs);
      return undefined;
    } catch (error) {
      return messageOf(error);
    }
  });
}

/** What the commit gives when it is computed again. */
export interface Recomputed {
  readonly experiment: Experiment;
  readonly code: Code;
  /** `{save.path}`, expanded. */
  readonly savePath: string;
  /** Where the manifest does not match the commit. */
  readonly different: readonly string[];
}

export async function recompute(cache: RepoCache, target: AuditTarget, manifest: Manifest): Promise<Recomputed> {
  const { repo } = cache;
  const { commit, path } = manifest;
  const overrides = manifest.overrides.map(overrideOf);
  const first = await once(cache.experiments, JSON.stringify([commit, path, overrides]), async () => {
    const config = await once(cache.configs, commit, () => repoConfigAt(repo, commit));
    return loadExperiment(repo, commit, config, path, overrides);
  });
  const experiment = asAttempt(first, manifest.attempt);
  const { exclude } = experiment.settings;
  const code = await once(cache.codes, JSON.stringify([commit, exclude]), () => codeOf(repo, commit, exclude));
  const subject = await once(cache.subjects, commit, () => subjectOf(repo, commit));
  const savePath = savePathOf(experiment.settings.save.path, target, manifest);
  const expected = {
    ...manifestOf({
      ...{ experiment, code, subject, places: { workdir: manifest.workdir, savePath } },
      ...{ plan: { launch: 1, tag: '', submissions: [] }, launch: noLaunch(manifest.repository), earlier: [] },
    }),
    // The commit does not say which clusters there were, only which one it asks for.
    cluster: experiment.settings.cluster ?? manifest.cluster,
  };
  return { experiment, code, savePath, different: manifestDifferences(manifest, expected) };
}

/** manifestDifferences leaves the launches out. */
function noLaunch(repository: string): NewLaunch {
  return {
    ...{ actor: '', runUrl: '', repository, pullRequest: undefined, at: '' },
    ...{ command: 'launch', slurm: '', sbatchVariables: [], jobScript: '' },
  };
}

/** `{save.path}` as it was expanded on the cluster. Only the start of what the yaml says may have been expanded. */
export function savePathOf(written: string, target: Pick<AuditTarget, 'saveDirectory'>, manifest: Pick<Manifest, 'save'>): string {
  if (written.startsWith('/')) return written;
  const rest = written.replace(/^[^/]*/, '');
  const parent = (path: string) => path.replace(/\/[^/]*$/, '');
  const recorded = parent(manifest.save);
  return recorded.endsWith(rest) ? recorded : parent(target.saveDirectory);
}

export async function reachabilityOf(cache: RepoCache, manifest: Manifest, isAvailable: boolean): Promise<Reachability> {
  if (cache.unknown !== undefined) return unknownReachability(cache.unknown);
  if (!isAvailable) return { reachable: false, branches: [], tags: [], pullRequests: [], unknown: undefined };
  try {
    const { branches, tags, pullRequests } = await once(cache.holders, manifest.commit, () => holdersOf(cache.repo, manifest.commit));
    const own = pullRequests.filter((number) => manifest.pullRequests.includes(number));
    return { reachable: branches.length + tags.length + own.length > 0, branches, tags, pullRequests: own, unknown: undefined };
  } catch (error) {
    return unknownReachability(messageOf(error));
  }
}
