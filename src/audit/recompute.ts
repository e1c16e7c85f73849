import { messageOf } from '../base/problem.ts';
import { type LaunchRecord, type Manifest, manifestDifferences, manifestOf } from '../chain/manifest.ts';
import { asAttempt, type Experiment, loadExperiment } from '../experiment/experiment.ts';
import { overrideOf } from '../experiment/overrides.ts';
import { type RepoConfig, repoConfigAt } from '../experiment/repo-config.ts';
import { type Code, codeOf } from '../repo/code.ts';
import { ensureCommit, type Holders, holdersOf, type Repo, subjectOf } from '../repo/git.ts';
import type { AuditTarget } from './answers.ts';

export interface Reachability {
  /** A branch, a tag or a pull request of the repository leads to the commit. */
  readonly reachable: boolean;
  readonly branches: readonly string[];
  readonly tags: readonly string[];
  /** Those among the experiment's own. */
  readonly pullRequests: readonly number[];
  /** Why nobody knows. */
  readonly unknown: string | undefined;
}

export const unknownReachability = (unknown: string): Reachability => ({
  reachable: false,
  branches: [],
  tags: [],
  pullRequests: [],
  unknown,
});

/** Those that may be numbers of pull requests: the manifest may hold anything. */
export function pullRequestsOf(manifest: Manifest): number[] {
  const numbers: readonly unknown[] = manifest.pullRequests;
  return numbers.filter((number): number is number => typeof number === 'number' && Number.isSafeInteger(number) && number > 0);
}

/** The repository, and what has been read of it. Values that failed stay failed. */
export interface RepoCache {
  readonly repo: Repo;
  readonly token: string;
  /** Why branches are not known. */
  readonly unknown: string | undefined;
  readonly commits: Map<string, Promise<string | undefined>>;
  readonly configs: Map<string, Promise<RepoConfig>>;
  readonly experiments: Map<string, Promise<Experiment>>;
  readonly codes: Map<string, Promise<Code>>;
  readonly holders: Map<string, Promise<Holders>>;
  readonly subjects: Map<string, Promise<string>>;
}

function once<T>(cache: Map<string, Promise<T>>, key: string, make: () => Promise<T>): Promise<T> {
  const known = cache.get(key) ?? make();
  known.catch(() => {}); // whoever asks gets it
  cache.set(key, known);
  return known;
}

/** Why the commit is not to be had; undefined when it is here. */
export function lackOf(source: RepoCache, commit: string, pullRequests: readonly number[]): Promise<string | undefined> {
  return once(source.commits, commit, async () => {
    try {
      await ensureCommit(
        source.repo,
        commit,
        pullRequests.map((number) => `refs/pull/${number}/head`),
        source.token,
      );
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
  readonly save: string;
  /** Where the manifest is not what the commit gives. */
  readonly different: readonly string[];
}

export async function recompute(source: RepoCache, target: AuditTarget, manifest: Manifest): Promise<Recomputed> {
  const { repo } = source;
  const { commit, path } = manifest;
  const overrides = manifest.overrides.map(overrideOf);
  const first = await once(source.experiments, JSON.stringify([commit, path, overrides]), async () => {
    const config = await once(source.configs, commit, () => repoConfigAt(repo, commit));
    return loadExperiment(repo, commit, config, path, overrides);
  });
  const experiment = asAttempt(first, manifest.attempt);
  const { exclude } = experiment.settings;
  const code = await once(source.codes, JSON.stringify([commit, exclude]), () => codeOf(repo, commit, exclude));
  const subject = await once(source.subjects, commit, () => subjectOf(repo, commit));
  const save = savePathOf(experiment.settings.save.path, target, manifest);
  const launch: LaunchRecord = manifest.launches.at(-1) ?? {
    ...{ launch: 1, command: 'launch', steps: [], overrides: [], slurm: '', sbatchVariables: [], jobScript: '', sbatch: [] },
    ...{ actor: '', runUrl: '', repository: manifest.repository, pullRequest: undefined, at: '' },
  };
  const plan = { launch: launch.launch, tag: '', submissions: [] };
  const expected = manifestOf(experiment, code, { workdir: manifest.workdir, savePath: save }, plan, subject, launch, []);
  return { experiment, code, save, different: manifestDifferences(manifest, expected) };
}

/** `{save.path}` as it was expanded: only the start of what the yaml says may have been. */
function savePathOf(written: string, target: AuditTarget, manifest: Manifest): string {
  if (written.startsWith('/')) return written;
  const rest = written.replace(/^[^/]*/, '');
  const parent = (path: string) => path.replace(/\/[^/]*$/, '');
  const recorded = parent(manifest.save);
  return recorded.endsWith(rest) ? recorded : parent(target.saveDirectory);
}

export async function reachabilityOf(source: RepoCache, manifest: Manifest, lack: string | undefined): Promise<Reachability> {
  if (source.unknown !== undefined) return unknownReachability(source.unknown);
  if (lack !== undefined) return { reachable: false, branches: [], tags: [], pullRequests: [], unknown: undefined };
  try {
    const { branches, tags, pullRequests } = await once(source.holders, manifest.commit, () => holdersOf(source.repo, manifest.commit));
    const own = pullRequests.filter((number) => manifest.pullRequests.includes(number));
    return { reachable: branches.length + tags.length + own.length > 0, branches, tags, pullRequests: own, unknown: undefined };
  } catch (error) {
    return unknownReachability(messageOf(error));
  }
}
