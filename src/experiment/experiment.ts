import { basename, matchesGlob } from 'node:path';
import { Problem } from '../base/problem.ts';
import { didYouMean } from '../base/spelling.ts';
import { entriesAt, fileAt, type Repo, repoPath } from '../repo/git.ts';
import { parseSource, rootOf, textOf, withRoot, type YamlSource } from './document.ts';
import { type Choices, type Grid, gridOf } from './grid.ts';
import { experimentId } from './identity.ts';
import { applyOverrides, countsInId, hashOfOverrides, type Override } from './overrides.ts';
import type { Cluster, RepoConfig } from './repo-config.ts';
import { readSettings, type Settings } from './settings.ts';

/** One yaml file at one commit, with its overrides. */
export interface Experiment {
  readonly id: string;
  readonly name: string;
  readonly commit: string;
  readonly path: string;
  readonly overrides: readonly Override[];
  /** Counts from 1; see asAttempt. */
  readonly attempt: number;
  /** What all cells agree on; nSteps is that of cell 0. */
  readonly settings: Settings;
  readonly cells: readonly ExperimentCell[];
  /** undefined where the yaml names none and the repo has none. */
  readonly cluster: Cluster | undefined;
}

export interface ExperimentCell {
  readonly number: number;
  readonly choices: Choices;
  readonly nSteps: number | undefined;
  /** The text of its config_{K}.yaml. */
  config(): string;
}

/**
 * Reads an experiment from a commit.
 * @param cluster overrides the one the yaml names; counts as an override of `cluster`
 * @throws Problem for everything that is wrong with the file, with line and column where there is one
 */
export async function loadExperiment(
  repo: Repo,
  commit: string,
  config: RepoConfig,
  path: string,
  given: readonly Override[] = [],
): Promise<Experiment> {
  const file = repoPath(path);
  const source = parseSource(file, await fileAt(repo, commit, file));
  return experimentFrom(source, commit, config, given);
}

/** The pure part of loadExperiment. */
export function experimentFrom(source: YamlSource, commit: string, config: RepoConfig, given: readonly Override[]): Experiment {
  // chain.n_jobs and cluster are the launcher's own and may be left to the defaults, so an override may bring them in.
  const overrides = given
    .map((override) => (/^(chain\..+|cluster)$/.test(override.path) ? { ...override, mayAdd: true } : override))
    .filter((override) => override.path !== 'cluster' || override.value.trim() !== clusterWritten(source, config));
  const changed = applyOverrides(source, overrides);
  const grid = gridOf(changed);
  const settings = readSettings(changed, grid.cell(0).root, config.defaults);
  const name = settings.name ?? basename(source.file).replace(/\.ya?ml$/, '');
  // How long a chain is belongs to the launch: the configs of one id are the same whatever the length.
  const written = applyOverrides(source, overrides.filter(countsInId));
  const cells = cellsOf(changed, grid, config, settings, written);
  return {
    id: experimentId(name, commit, hashOfOverrides(overrides)),
    name,
    commit,
    path: source.file,
    overrides,
    attempt: 1,
    settings,
    cells,
    cluster: clusterOf(config, settings),
  };
}

function clusterWritten(source: YamlSource, config: RepoConfig): string | undefined {
  return readSettings(source, gridOf(source).cell(0).root, config.defaults).cluster ?? onlyCluster(config)?.name;
}

function cellsOf(source: YamlSource, grid: Grid, config: RepoConfig, first: Settings, written: YamlSource): ExperimentCell[] {
  const writtenGrid = gridOf(written);
  const agreed = comparable(first);
  return Array.from({ length: grid.size }, (_, number) => {
    const { choices, root } = grid.cell(number);
    const settings = readSettings(source, root, config.defaults);
    const different = Object.entries(comparable(settings)).find(([key, value]) => value !== agreed[key]);
    if (different !== undefined) {
      throw new Problem(
        `${source.file}: ${different[0]} differs between cell 0 and cell ${number}. All cells of one experiment are tasks of the same array; only n_steps and the experiment's own keys may be in the grid`,
      );
    }
    return { number, choices, nSteps: settings.nSteps, config: () => textOf(withRoot(written, writtenGrid.cell(number).root)) };
  });
}

/** The same experiment as its k-th attempt: an id of its own, and with it directories and W&B runs of its own. */
export function asAttempt(experiment: Experiment, attempt: number): Experiment {
  const { name, commit, overrides } = experiment;
  return { ...experiment, attempt, id: experimentId(name, commit, hashOfOverrides(overrides), attempt) };
}

/** The settings that must be the same in every cell, each as one string. */
function comparable(settings: Settings): Record<string, string> {
  const { nSteps: _, slurm, env, ...rest } = settings;
  return Object.fromEntries(
    Object.entries({ ...rest, slurm: [...slurm], env: [...env] }).map(([key, value]) => [key, JSON.stringify(value) ?? '']),
  );
}

function onlyCluster(config: RepoConfig): Cluster | undefined {
  return config.clusters.size === 1 ? config.clusters.values().next().value : undefined;
}

function clusterOf(config: RepoConfig, settings: Settings): Cluster | undefined {
  if (settings.cluster === undefined) {
    if (config.clusters.size > 1) {
      throw new Problem(
        `the experiment names no cluster and the repository has several: cluster: ${[...config.clusters.keys()].join(' | ')}`,
      );
    }
    return onlyCluster(config);
  }
  const cluster = config.clusters.get(settings.cluster);
  if (cluster === undefined) {
    const known = [...config.clusters.keys()];
    throw new Problem(
      `unknown cluster '${settings.cluster}'${didYouMean(settings.cluster, known) || (known.length > 0 ? `; .github/slurm-chain.yml has ${known.join(', ')}` : '; .github/slurm-chain.yml has no clusters')}`,
    );
  }
  return cluster;
}

/** Is this one of the repo's experiment files? */
export function isExperimentPath(config: RepoConfig, path: string): boolean {
  return config.experiments.some((pattern) => matchesGlob(path, pattern));
}

/**
 * The path of the experiment that a person called by name or by path.
 * @throws Problem when none or more than one answers to it
 */
export async function findExperiment(repo: Repo, commit: string, config: RepoConfig, called: string): Promise<string> {
  const entries = await entriesAt(repo, commit);
  if (/\.ya?ml$/.test(called)) {
    const path = repoPath(called);
    if (!entries.some((entry) => entry.path === path)) {
      const near = entries.map((entry) => entry.path).filter((other) => /\.ya?ml$/.test(other));
      throw new Problem(`there is no ${path} at commit ${commit.slice(0, 12)}${didYouMean(path, near)}`);
    }
    return path;
  }
  const candidates = entries.map((entry) => entry.path).filter((path) => isExperimentPath(config, path));
  const fileName = (path: string) => basename(path).replace(/\.ya?ml$/, '');
  let found = candidates.filter((path) => fileName(path) === called);
  if (found.length === 0) {
    const names = await Promise.all(candidates.map(async (path) => ({ path, name: await nameAt(repo, commit, path) })));
    found = names.filter(({ name }) => name === called).map(({ path }) => path);
  }
  const [only, ...others] = found;
  if (only === undefined) {
    throw new Problem(
      `there is no experiment '${called}' at commit ${commit.slice(0, 12)}${didYouMean(called, candidates.map(fileName)) || `; looked in ${config.experiments.join(', ')}`}`,
    );
  }
  if (others.length > 0) throw new Problem(`'${called}' may be any of ${found.join(', ')}; give the path`);
  return only;
}

/** The save.path of every experiment of the repository at a commit; of files that cannot be read, none. */
export async function savePathsAt(repo: Repo, commit: string, config: RepoConfig): Promise<string[]> {
  const paths = (await entriesAt(repo, commit)).map((entry) => entry.path).filter((path) => isExperimentPath(config, path));
  const found = await Promise.all(
    paths.map(async (path) => {
      try {
        return (await loadExperiment(repo, commit, config, path)).settings.save.path;
      } catch {
        return undefined; // what is wrong with it matters when it is launched
      }
    }),
  );
  return [...new Set(found.filter((path) => path !== undefined))];
}

async function nameAt(repo: Repo, commit: string, path: string): Promise<string | undefined> {
  try {
    const name: unknown = rootOf(parseSource(path, await fileAt(repo, commit, path))).get('name');
    return typeof name === 'string' ? name : undefined;
  } catch {
    return undefined; // a broken file among others is not the one that was asked for
  }
}
