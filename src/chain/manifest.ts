import { Problem } from '../base/problem.ts';
import type { Experiment } from '../experiment/experiment.ts';
import { countsInId } from '../experiment/overrides.ts';
import type { Code } from '../repo/code.ts';
import type { Places, Plan } from './plan.ts';
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

/** One request that put steps in the queue. */
export interface LaunchRecord extends Launcher {
  readonly launch: number;
  readonly command: 'launch' | 'extend' | 'restart';
  /** Steps that were asked for; the ledger says which of them were queued. */
  readonly steps: readonly number[];
  /** Overrides that change the chain and not the experiment, `chain.n_jobs=4`. */
  readonly overrides: readonly string[];
  readonly slurm: string;
  /** Names of SBATCH_* variables the account had set. */
  readonly sbatchVariables: readonly string[];
  readonly jobScript: string;
  /** sbatch's exact arguments, one list per submission. */
  readonly sbatch: readonly (readonly string[])[];
}

/**
 * The record of what was launched; in the experiment's directory and beside the checkpoints. One line of JSON; everything
 * before `code` is what a survey of many experiments reads of each.
 */
export interface Manifest {
  readonly version: 1;
  readonly id: string;
  readonly name: string;
  readonly commit: string;
  readonly path: string;
  readonly attempt: number;
  /** Overrides that the id stands for. */
  readonly overrides: readonly string[];
  /** First line of the commit's message. */
  readonly subject: string;
  /** Overrides of the newest launch that change the chain and not the experiment, its length excepted. */
  readonly chain: readonly string[];
  readonly repository: string;
  /** Every pull request a launch came from. */
  readonly pullRequests: readonly number[];
  readonly cluster: string;
  readonly workdir: string;
  readonly save: string;
  /** How checkpoints are named, which file a whole one has in it, and what is added to a name's number for the next step. */
  readonly checkpoints: { readonly prefix: string; readonly complete: string; readonly offset: 0 | 1 };
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

/** The manifest with one more launch in it. */
export function manifestOf(
  experiment: Experiment,
  code: Code,
  places: Places,
  plan: Plan,
  subject: string,
  launch: Pick<LaunchRecord, keyof Launcher | 'command' | 'slurm' | 'sbatchVariables' | 'jobScript'>,
  earlier: readonly LaunchRecord[],
): Manifest {
  const written = (counts: boolean) =>
    experiment.overrides
      .filter((override) => countsInId(override) === counts)
      .map((override) => `${override.path}=${override.value}`)
      .sort();
  const { settings } = experiment;
  const pulls = [...earlier, launch].flatMap((one) => one.pullRequest ?? []);
  return {
    version: 1,
    id: experiment.id,
    name: experiment.name,
    commit: experiment.commit,
    path: experiment.path,
    attempt: experiment.attempt,
    overrides: written(true),
    subject,
    chain: written(false).filter((override) => !override.startsWith('chain.n_jobs=')),
    repository: launch.repository,
    pullRequests: [...new Set(pulls)],
    cluster: experiment.cluster?.name ?? '',
    workdir: places.workdir,
    save: `${places.savePath}/${experiment.id}`,
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
        overrides: written(false),
        sbatch: plan.submissions.map((submission) => submission.arguments),
      },
    ],
  };
}

/** @throws Problem for text that is not a manifest. @param where the file, for the message */
export function parseManifest(text: string, where: string): Manifest {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Problem(
      `${where} is not readable: ${error instanceof Error ? error.message : String(error)}. Restore it from its other copy`,
    );
  }
  if (!isManifest(value)) throw new Problem(`${where} is not a manifest of this version of the action`);
  return value;
}

function isManifest(value: unknown): value is Manifest {
  if (typeof value !== 'object' || value === null) return false;
  const manifest = value as Partial<Record<keyof Manifest, unknown>>;
  const texts = ['id', 'name', 'commit', 'path', 'subject', 'repository', 'cluster', 'workdir', 'save'] as const;
  const lists = ['overrides', 'chain', 'pullRequests', 'cells', 'launches'] as const;
  const code = manifest.code;
  return (
    manifest.version === 1 &&
    texts.every((key) => typeof manifest[key] === 'string') &&
    lists.every((key) => Array.isArray(manifest[key])) &&
    typeof manifest.attempt === 'number' &&
    isCheckpoints(manifest.checkpoints) &&
    Array.isArray(manifest.slurm) &&
    typeof manifest.wandb === 'object' &&
    typeof code === 'object' &&
    code !== null &&
    'digest' in code &&
    typeof code.digest === 'string' &&
    (manifest.cells as unknown[]).every(isCell) &&
    (manifest.launches as unknown[]).every(isLaunch)
  );
}

function isCheckpoints(value: unknown): boolean {
  const names = value as Partial<Manifest['checkpoints']> | null | undefined;
  return typeof names?.prefix === 'string' && typeof names.complete === 'string' && (names.offset === 0 || names.offset === 1);
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

/** What the two say differently about the experiment itself, one line each; where it lives and who launched it may differ. */
export function manifestDifferences(found: Manifest, expected: Manifest): string[] {
  const { workdir: _w, launches: _l, pullRequests: _p, repository: _r, chain: _c, ...wanted } = expected;
  const fields = Object.entries(wanted).flatMap(([key, value]) => fieldDifferences(found[key as keyof Manifest], value, key));
  return fields
    .slice(0, SHOWN)
    .map(
      ({ path, a, b }) =>
        `${path} is ${JSON.stringify(a) ?? 'missing'} in the manifest and ${JSON.stringify(b) ?? 'not there'} at the commit`,
    );
}

const SHOWN = 5;

/** A field that two JSON values have differently; undefined where one lacks it. */
export interface FieldDifference {
  readonly path: string;
  readonly a: unknown;
  readonly b: unknown;
}

/** Every field that the two have differently, by its path. */
export function fieldDifferences(a: unknown, b: unknown, path = ''): FieldDifference[] {
  if (typeof a === 'object' && a !== null && typeof b === 'object' && b !== null) {
    const at = (value: object, key: string): unknown => (value as Record<string, unknown>)[key];
    const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
    return [...keys].flatMap((key) => fieldDifferences(at(a, key), at(b, key), path === '' ? key : `${path}.${key}`));
  }
  return a === b ? [] : [{ path, a, b }];
}
