import { basename } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Node, YAMLMap } from 'yaml';
import { type Place, Problem } from '../base/problem.ts';
import { didYouMean, misspelled } from '../base/spelling.ts';
import { entriesAt, fileAt, type Repo, repoPath } from '../repo/git.ts';
import { keyText, pairsOf, parseSource, placeOf, rootOf, textOf, withRoot, type YamlSource } from './document.ts';
import { type Glob, globOf } from './glob.ts';
import { type Choices, type Grid, gridOf } from './grid.ts';
import { experimentId } from './identity.ts';
import { applyOverrides, countsInId, hashOfOverrides, type Override } from './overrides.ts';
import { findKey, type Layers } from './reader.ts';
import { type Cluster, REPO_CONFIG, type RepoConfig, type SiteConfig } from './repo-config.ts';
import { readSetting, readSettings, SETTING_KEYS, type SettingKey, type Settings } from './settings.ts';

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
  /** undefined if it was read without a site, and if the experiment names no cluster and the default branch has none. */
  readonly cluster: Cluster | undefined;
  /** Whole sentences, with file, line and column, about what is allowed but probably a mistake. */
  readonly warnings: readonly string[];
}

export interface ExperimentCell {
  readonly number: number;
  readonly choices: Choices;
  readonly nSteps: number | undefined;
  /** The text of this cell's config_{K}.yaml. */
  config(): string;
}

/**
 * Reads an experiment from a commit.
 * @param config of the same commit
 * @param given the overrides; one of `cluster` replaces the cluster that the yaml names
 * @param site the clusters to choose from. Without it, as for a record, the experiment has no cluster, and every override counts
 * @throws Problem for everything that is wrong with the file, with line and column where there is one
 */
export async function loadExperiment(
  repo: Repo,
  commit: string,
  config: RepoConfig,
  path: string,
  given: readonly Override[] = [],
  site?: SiteConfig,
): Promise<Experiment> {
  const file = repoPath(path);
  const source = parseSource(file, await fileAt(repo, commit, file));
  return experimentFrom(source, commit, config, given, site);
}

/** The pure part of loadExperiment. */
export function experimentFrom(
  source: YamlSource,
  commit: string,
  config: RepoConfig,
  given: readonly Override[],
  site?: SiteConfig,
): Experiment {
  // chain.* and cluster are settings of the launch that most experiments leave out, so an override may add them.
  const overrides = given
    .map((override) => (/^(chain\..+|cluster)$/.test(override.path) ? { ...override, mayAdd: true } : override))
    .filter(({ path, value }) => site === undefined || path !== 'cluster' || value.trim() !== clusterWritten(source, config, site));
  const changed = applyOverrides(source, overrides);
  const grid = gridOf(changed);
  const layers = layersOf(changed, grid.cell(0).root, config);
  const settings = readSettings(layers);
  const name = settings.name ?? basename(source.file).replace(/\.ya?ml$/, '');
  // The length of a chain belongs to the launch: the configs of one id are the same whatever the length.
  const written = applyOverrides(source, overrides.filter(countsInId));
  return {
    id: experimentId(name, commit, hashOfOverrides(overrides)),
    name,
    commit,
    path: source.file,
    overrides,
    attempt: 1,
    settings,
    cells: cellsOf(changed, grid, config, settings, written),
    cluster: site && clusterOf(site, settings, findKey(layers, 'cluster')?.place),
    warnings: warningsOn(changed),
  };
}

/** The cluster that the experiment runs on if no override says otherwise. */
function clusterWritten(source: YamlSource, config: RepoConfig, site: SiteConfig): string | undefined {
  return readSetting('cluster', layersOf(source, gridOf(source).cell(0).root, config)) ?? onlyCluster(site)?.name;
}

function layersOf(source: YamlSource, map: YAMLMap, config: RepoConfig): Layers {
  return config.defaults === undefined ? [{ source, map }] : [{ source, map }, config.defaults];
}

/** @param written the experiment without the overrides that do not count in the id */
function cellsOf(source: YamlSource, grid: Grid, config: RepoConfig, settings: Settings, written: YamlSource): ExperimentCell[] {
  const writtenGrid = gridOf(written);
  const firstRoot = grid.cell(0).root;
  const first = layersOf(source, firstRoot, config);
  const firstNodes = topLevelNodes(source, firstRoot);
  return Array.from({ length: grid.size }, (_, number) => {
    const { choices, root } = grid.cell(number);
    const layers = layersOf(source, root, config);
    // Cells share the nodes that no grid touches, so few keys have to be read again.
    const nodes = topLevelNodes(source, root);
    const touched = SETTING_KEYS.filter((key) => nodes.get(key) !== firstNodes.get(key));
    refuseDifference(touched, first, layers, number);
    const nSteps = touched.includes('n_steps') ? readSetting('n_steps', layers) : settings.nSteps;
    return { number, choices, nSteps, config: () => textOf(withRoot(written, writtenGrid.cell(number).root)) };
  });
}

/** The value of each top-level key; an alias stands for itself. */
function topLevelNodes(source: YamlSource, root: YAMLMap): ReadonlyMap<string, unknown> {
  // The first of two pairs with one key counts, and a Map keeps the last.
  return new Map(
    pairsOf(source, root)
      .toReversed()
      .map((pair) => [keyText(pair), pair.value]),
  );
}

/** @throws Problem if a key other than n_steps has another value than in cell 0 */
function refuseDifference(keys: readonly SettingKey[], first: Layers, layers: Layers, cell: number): void {
  const different = keys.find((key) => key !== 'n_steps' && !isDeepStrictEqual(readSetting(key, layers), readSetting(key, first)));
  if (different === undefined) return;
  throw new Problem(
    `${different} differs between cell 0 and cell ${cell}. All cells of an experiment are tasks of the same job array, so only n_steps and the experiment's own keys may be in the grid`,
    findKey(first, different)?.keyPlace,
  );
}

/** The same experiment as its k-th attempt, with its own id, and so with its own directories and W&B runs. */
export function asAttempt(experiment: Experiment, attempt: number): Experiment {
  const { name, commit, overrides } = experiment;
  return { ...experiment, attempt, id: experimentId(name, commit, hashOfOverrides(overrides), attempt) };
}

/** A warning for each top-level key that is almost a key of Slurm Chain: such a key has no effect. */
function warningsOn(source: YamlSource): string[] {
  return pairsOf(source, rootOf(source)).flatMap((pair) => {
    const key = keyText(pair);
    const meant = misspelled(key.replace(/^\^/, ''), SETTING_KEYS);
    if (meant === undefined) return [];
    const message = `'${key}' has no meaning for Slurm Chain and counts as the experiment's own key; did you mean '${meant}'?`;
    return [new Problem(message, placeOf(source, pair.key as Node)).message];
  });
}

function onlyCluster(site: SiteConfig): Cluster | undefined {
  return site.clusters.size === 1 ? site.clusters.values().next().value : undefined;
}

/** @param place of the key `cluster`, if the experiment has it */
function clusterOf(site: SiteConfig, settings: Settings, place: Place | undefined): Cluster | undefined {
  const known = [...site.clusters.keys()];
  if (settings.cluster === undefined) {
    if (known.length > 1) {
      throw new Problem(`the experiment names no cluster and the repository has several; choose one with cluster: ${known.join(' | ')}`);
    }
    return onlyCluster(site);
  }
  const cluster = site.clusters.get(settings.cluster);
  if (cluster === undefined) {
    const has = known.length > 0 ? known.join(', ') : 'no clusters';
    throw new Problem(
      `unknown cluster '${settings.cluster}'${didYouMean(settings.cluster, known) || `; ${REPO_CONFIG} of ${site.branch} has ${has}`}`,
      place,
    );
  }
  return cluster;
}

const MOST_PATTERNS = 100;
const GLOBS = new WeakMap<readonly string[], readonly Glob[]>();

/** Does the path match one of the repository's patterns for experiments? @throws Problem for patterns that take too long to match */
export function isExperimentPath({ experiments }: RepoConfig, path: string): boolean {
  const globs = GLOBS.get(experiments) ?? globsOf(experiments);
  GLOBS.set(experiments, globs);
  return globs.some((glob) => glob(path));
}

function globsOf(patterns: readonly string[]): Glob[] {
  if (patterns.length > MOST_PATTERNS) {
    throw new Problem(`${REPO_CONFIG} has ${patterns.length} patterns under experiments; at most ${MOST_PATTERNS} are allowed`);
  }
  return patterns.map(globOf);
}

/**
 * Finds an experiment by its path, its file name or its `name:`.
 * @param called what a person wrote
 * @returns the path of its file
 * @throws Problem if no experiment or more than one fits
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
  if (others.length > 0) throw new Problem(`'${called}' may mean any of ${found.join(', ')}; give the path`);
  return only;
}

/** The save.path of every experiment at a commit, each once. Files that are not valid experiments are passed over. */
export async function savePathsAt(repo: Repo, commit: string, config: RepoConfig): Promise<string[]> {
  const paths = (await entriesAt(repo, commit)).map((entry) => entry.path).filter((path) => isExperimentPath(config, path));
  const found = await Promise.all(
    paths.map(async (path) => {
      try {
        return (await loadExperiment(repo, commit, config, path)).settings.save.path;
      } catch {
        return undefined; // a launch of this file reports what is wrong with it
      }
    }),
  );
  return [...new Set(found.filter((path) => path !== undefined))];
}

async function nameAt(repo: Repo, commit: string, path: string): Promise<string | undefined> {
  try {
    const source = parseSource(path, await fileAt(repo, commit, path));
    return readSetting('name', [{ source, map: rootOf(source) }]);
  } catch {
    return undefined; // a file that is not valid cannot be the one that was asked for
  }
}
