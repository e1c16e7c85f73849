import { messageOf, Problem } from '../base/problem.ts';
import type { Experiment } from '../experiment/experiment.ts';
import { countsInId } from '../experiment/overrides.ts';
import type { Code } from '../repo/code.ts';
import { type Places, saveDirectory } from './layout.ts';
import type { Plan } from './plan.ts';
import { wandbLinks } from './wandb.ts';

/** Who asked for a launch, and from where. */
export interface Launcher {
  readonly actor: string;
  /** Address of the workflow run; empty where there is none. */
  readonly runUrl: string;
  /** `owner/name` */
  readonly repository: string;
  readonly pullRequest: number | undefined;
  /** ISO 8601, UTC. */
  readonly at: string;
}

/** One request that put jobs in the queue. */
export interface LaunchRecord extends Launcher {
  readonly launch: number;
  readonly command: 'launch' | 'extend' | 'restart';
  /** Numbers of the jobs that were asked for. The ledger says which of them were queued. */
  readonly steps: readonly number[];
  /** Overrides that change the chain and not the experiment, such as `chain.n_jobs=4`. */
  readonly overrides: readonly string[];
  /** What `sbatch --version` says. */
  readonly slurm: string;
  /** Names of the SBATCH_* variables that the account had set. */
  readonly sbatchVariables: readonly string[];
  /** SHA-256 of job.sh. */
  readonly jobScript: string;
  /** The exact arguments of each sbatch call. */
  readonly sbatch: readonly (readonly string[])[];
}

/** The record of what was launched: one line of JSON in the experiment's directory, and a copy beside the checkpoints. */
export interface Manifest {
  readonly version: 1;
  readonly id: string;
  readonly name: string;
  readonly commit: string;
  readonly path: string;
  readonly attempt: number;
  /** The overrides that are part of the id. */
  readonly overrides: readonly string[];
  /** First line of the commit's message. */
  readonly subject: string;
  /** Overrides of the newest launch that change the chain and not the experiment, except its length. */
  readonly chain: readonly string[];
  readonly repository: string;
  /** Every pull request that a launch came from. */
  readonly pullRequests: readonly number[];
  readonly cluster: string;
  readonly workdir: string;
  /** `{save.path}/{EXPERIMENT_ID}` */
  readonly save: string;
  readonly checkpoints: CheckpointNames;
  /** sbatch options of the experiment. */
  readonly slurm: readonly (readonly [string, string | true])[];
  readonly wandb: { readonly group: string; readonly runs: readonly string[] } | null;
  readonly code: {
    readonly name: string;
    readonly digest: string;
    readonly submodules: readonly string[];
    readonly lfsPointers: readonly string[];
  };
  readonly cells: readonly { readonly cell: number; readonly choices: Readonly<Record<string, string>>; readonly nSteps: number | null }[];
  readonly launches: readonly LaunchRecord[];
}

/** How to recognise the checkpoints of an experiment. */
export interface CheckpointNames {
  /** What stands before the number in the name of a checkpoint. */
  readonly prefix: string;
  /** The file that only a complete checkpoint has; empty if any file will do. */
  readonly complete: string;
  /** Added to the number of the newest checkpoint to get the next training step. */
  readonly offset: 0 | 1;
}

/**
 * The part of a manifest that a listing reads of every experiment. It lies in a file of its own, summary.json, so that the
 * shell programs on the cluster need not search in JSON. An experiment of an older version has only its manifest.
 */
export type ExperimentSummary = Pick<
  Manifest,
  | 'id'
  | 'name'
  | 'commit'
  | 'path'
  | 'attempt'
  | 'overrides'
  | 'subject'
  | 'chain'
  | 'repository'
  | 'pullRequests'
  | 'cluster'
  | 'save'
  | 'checkpoints'
> & { readonly codeName: string };

export function summaryOf(manifest: Manifest): ExperimentSummary {
  const { id, name, commit, path, attempt, overrides, subject, chain, repository, pullRequests, cluster, save, checkpoints } = manifest;
  return {
    ...{ id, name, commit, path, attempt, overrides, subject, chain, repository, pullRequests, cluster, save, checkpoints },
    codeName: manifest.code.name,
  };
}

/** What a new launch adds to the manifest. */
export interface NewLaunch extends Launcher {
  readonly command: LaunchRecord['command'];
  readonly slurm: string;
  readonly sbatchVariables: readonly string[];
  readonly jobScript: string;
}

/** The manifest of an experiment with one more launch in it. */
export function manifestOf({
  experiment,
  code,
  places,
  plan,
  subject,
  launch,
  earlier,
}: {
  readonly experiment: Experiment;
  readonly code: Pick<Code, 'name' | 'digest' | 'submodules' | 'lfsPointers'>;
  readonly places: Places;
  readonly plan: Plan;
  /** First line of the commit's message. */
  readonly subject: string;
  readonly launch: NewLaunch;
  readonly earlier: readonly LaunchRecord[];
}): Manifest {
  const { settings } = experiment;
  const chainOverrides = overrideTexts(experiment, false);
  const pullRequests = [...earlier, launch].flatMap((one) => one.pullRequest ?? []);
  return {
    version: 1,
    id: experiment.id,
    name: experiment.name,
    commit: experiment.commit,
    path: experiment.path,
    attempt: experiment.attempt,
    overrides: overrideTexts(experiment, true),
    subject,
    chain: chainOverrides.filter((override) => !override.startsWith('chain.n_jobs=')),
    repository: launch.repository,
    pullRequests: [...new Set(pullRequests)],
    cluster: experiment.cluster?.name ?? '',
    workdir: places.workdir,
    save: saveDirectory(places.savePath, experiment.id),
    checkpoints: { prefix: settings.save.prefix, complete: settings.save.complete ?? '', offset: settings.save.step === 'index' ? 1 : 0 },
    slurm: [...settings.slurm],
    wandb: wandbLinks(settings.wandb, experiment.id, experiment.cells.length) ?? null,
    code: { name: code.name, digest: code.digest, submodules: code.submodules, lfsPointers: code.lfsPointers },
    cells: experiment.cells.map((cell) => ({
      cell: cell.number,
      choices: Object.fromEntries(cell.choices),
      nSteps: cell.nSteps ?? null,
    })),
    launches: [
      ...earlier,
      {
        ...launch,
        launch: plan.launch,
        steps: [...new Set(plan.submissions.map((submission) => submission.jobNumber))],
        overrides: chainOverrides,
        sbatch: plan.submissions.map((submission) => submission.arguments),
      },
    ],
  };
}

/** @param inId those that are part of the id, or those that are not */
function overrideTexts(experiment: Experiment, inId: boolean): string[] {
  return experiment.overrides
    .filter((override) => countsInId(override) === inId)
    .map((override) => `${override.path}=${override.value}`)
    .sort();
}

/** @param where the file, for the message. @throws Problem for text that is not a manifest */
export function parseManifest(text: string, where: string): Manifest {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Problem(`${where} is not valid JSON: ${messageOf(error)}. Restore it from the other copy of the manifest`);
  }
  if (!isManifest(value)) throw new Problem(`${where} is not a manifest that this version of the action can read`);
  return value;
}

/** @param text summary.json, or the manifest of an older version. @returns undefined for other text, which a closer look reports */
export function parseSummary(text: string): ExperimentSummary | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (isManifest(value)) return summaryOf(value);
  return isSummary(value) ? value : undefined;
}

function isSummary(value: unknown): value is ExperimentSummary {
  if (typeof value !== 'object' || value === null) return false;
  const summary = value as Partial<Record<keyof ExperimentSummary, unknown>>;
  return hasIdentity(summary) && typeof summary.codeName === 'string';
}

function isManifest(value: unknown): value is Manifest {
  if (typeof value !== 'object' || value === null) return false;
  const manifest = value as Partial<Record<keyof Manifest, unknown>>;
  return (
    manifest.version === 1 &&
    hasIdentity(manifest) &&
    typeof manifest.workdir === 'string' &&
    Array.isArray(manifest.slurm) &&
    typeof manifest.wandb === 'object' &&
    isCode(manifest.code) &&
    Array.isArray(manifest.cells) &&
    manifest.cells.every(isCell) &&
    Array.isArray(manifest.launches) &&
    manifest.launches.every(isLaunch)
  );
}

/** The checks that a summary and a manifest share. */
function hasIdentity(value: Partial<Record<keyof Manifest, unknown>>): boolean {
  const texts = ['id', 'name', 'commit', 'path', 'subject', 'repository', 'cluster', 'save'] as const;
  const lists = ['overrides', 'chain', 'pullRequests'] as const;
  return (
    texts.every((key) => typeof value[key] === 'string') &&
    lists.every((key) => Array.isArray(value[key])) &&
    typeof value.attempt === 'number' &&
    isCheckpoints(value.checkpoints)
  );
}

function isCheckpoints(value: unknown): boolean {
  const names = value as Partial<CheckpointNames> | null | undefined;
  return typeof names?.prefix === 'string' && typeof names.complete === 'string' && (names.offset === 0 || names.offset === 1);
}

function isCode(value: unknown): boolean {
  const code = value as Partial<Manifest['code']> | null | undefined;
  return typeof code?.name === 'string' && typeof code.digest === 'string';
}

function isCell(value: unknown): boolean {
  const cell = value as Partial<Manifest['cells'][number]> | null;
  return typeof cell?.cell === 'number' && typeof cell.choices === 'object' && (cell.nSteps === null || typeof cell.nSteps === 'number');
}

function isLaunch(value: unknown): boolean {
  const launch = value as Partial<LaunchRecord> | null;
  return (
    typeof launch?.launch === 'number' &&
    Array.isArray(launch.steps) &&
    typeof launch.actor === 'string' &&
    typeof launch.runUrl === 'string' &&
    typeof launch.at === 'string'
  );
}

const DIFFERENCES_SHOWN = 5;

/**
 * Where a manifest does not match what its commit gives, one line each. Where it lives and who launched it may differ.
 * @param expected computed from the commit
 */
export function manifestDifferences(found: Manifest, expected: Manifest): string[] {
  const { workdir: _w, launches: _l, pullRequests: _p, repository: _r, chain: _c, ...wanted } = expected;
  const fields = Object.entries(wanted).flatMap(([key, value]) => fieldDifferences(found[key as keyof Manifest], value, key));
  return fields
    .slice(0, DIFFERENCES_SHOWN)
    .map(
      ({ path, a, b }) =>
        `${path} is ${JSON.stringify(a) ?? 'missing'} in the manifest and ${JSON.stringify(b) ?? 'missing'} at the commit`,
    );
}

/** A field that differs between two JSON values; undefined where one of them lacks it. */
export interface FieldDifference {
  readonly path: string;
  readonly a: unknown;
  readonly b: unknown;
}

/** Every field that differs between two JSON values, by its path. */
export function fieldDifferences(a: unknown, b: unknown, path = ''): FieldDifference[] {
  if (typeof a === 'object' && a !== null && typeof b === 'object' && b !== null) {
    const at = (value: object, key: string): unknown => (value as Record<string, unknown>)[key];
    const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
    return [...keys].flatMap((key) => fieldDifferences(at(a, key), at(b, key), path === '' ? key : `${path}.${key}`));
  }
  return a === b ? [] : [{ path, a, b }];
}
