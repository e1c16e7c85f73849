import * as v from 'valibot';
import { messageOf, Problem } from '../base/problem.ts';
import type { Experiment } from '../experiment/experiment.ts';
import { MOST_CELLS } from '../experiment/grid.ts';
import { isExperimentId } from '../experiment/identity.ts';
import { countsInId } from '../experiment/overrides.ts';
import type { Code } from '../repo/code.ts';
import { isCommitId } from '../repo/commit-id.ts';
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

// What a record may hold. Anybody who can write the file can write anything into it, so nothing is believed that is not checked
// here. Keys that this version does not know are allowed and left out.

const LONGEST_PATH = 4096; // PATH_MAX
const MOST_LAUNCHES = 10_000;
const MOST_NUMBER = 999_999_999;

// No shell word and no path can hold a NUL.
const text = (most = 100_000) =>
  v.pipe(
    v.string(),
    v.maxLength(most),
    v.check((value) => !value.includes('\0')),
  );
const texts = (most = 1000) => v.pipe(v.array(text()), v.maxLength(most));
const number = (least: number, most = MOST_NUMBER) => v.pipe(v.number(), v.integer(), v.minValue(least), v.maxValue(most));
const commit = v.pipe(v.string(), v.check(isCommitId));
const override = v.pipe(text(), v.regex(/^[^=]+=/));
const overrides = v.pipe(v.array(override), v.maxLength(1000));
const absolute = v.pipe(
  text(LONGEST_PATH),
  v.check((path) => path.startsWith('/') && !path.split('/').includes('..')),
);
const pullRequest = number(1);
// `owner/name`; empty where there is no GitHub.
const repository = v.pipe(v.string(), v.regex(/^([\w.-]{1,100}\/[\w.-]{1,100})?$/));

const identity = {
  id: v.pipe(v.string(), v.check(isExperimentId)),
  name: text(),
  commit,
  path: text(LONGEST_PATH),
  attempt: number(1, 99),
  overrides,
  subject: text(1_000_000),
  chain: overrides,
  repository,
  pullRequests: v.pipe(v.array(pullRequest), v.maxLength(MOST_LAUNCHES)),
  cluster: text(),
  save: absolute,
  checkpoints: v.object({ prefix: text(LONGEST_PATH), complete: text(LONGEST_PATH), offset: v.picklist([0, 1]) }),
};

// The commit, and a hash of the patterns that exclude files, if there are any.
const codeName = v.pipe(v.string(), v.regex(/^[0-9a-f]{40}(-[0-9a-f]{6})?$/));
const sha256 = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));

const summarySchema = v.pipe(
  v.object({ ...identity, codeName }),
  v.check((one) => isSavedUnderItsId(one), 'save'),
);

const launchSchema = v.object({
  launch: number(1),
  command: v.picklist(['launch', 'extend', 'restart']),
  steps: v.pipe(v.array(number(1)), v.maxLength(MOST_CELLS)),
  overrides,
  slurm: text(),
  sbatchVariables: texts(),
  jobScript: v.union([sha256, v.literal('')]),
  sbatch: v.array(texts()),
  actor: text(),
  runUrl: text(),
  repository,
  pullRequest: v.optional(pullRequest),
  at: v.pipe(v.string(), v.regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/)),
});

const manifestSchema = v.pipe(
  v.object({
    ...identity,
    version: v.literal(1),
    workdir: absolute,
    slurm: v.pipe(v.array(v.strictTuple([text(), v.union([text(), v.literal(true)])])), v.maxLength(1000)),
    wandb: v.nullable(v.object({ group: text(), runs: texts(MOST_CELLS) })),
    code: v.object({ name: codeName, digest: sha256, submodules: texts(1_000_000), lfsPointers: texts(1_000_000) }),
    cells: v.pipe(
      v.array(
        v.object({
          cell: number(0, MOST_CELLS - 1),
          choices: v.record(text(), text(10_000_000)),
          nSteps: v.nullable(number(1, Number.MAX_SAFE_INTEGER)),
        }),
      ),
      v.maxLength(MOST_CELLS),
      v.check((cells) => cells.every(({ cell }, index) => cell === index)),
    ),
    launches: v.pipe(v.array(launchSchema), v.maxLength(MOST_LAUNCHES)),
  }),
  v.check((one) => isSavedUnderItsId(one), 'save'),
);

function isSavedUnderItsId({ id, save }: { readonly id: string; readonly save: string }): boolean {
  return save.endsWith(`/${id}`);
}

/** @param where the file, for the message. @throws Problem for text that is not a manifest */
export function parseManifest(text: string, where: string): Manifest {
  const value = parsed(text, where);
  const result = v.safeParse(manifestSchema, value, { abortEarly: true });
  if (!result.success) throw unreadable(where, 'a manifest', result.issues);
  const { launches, ...rest } = result.output;
  return { ...rest, launches: launches.map((launch) => ({ ...launch, pullRequest: launch.pullRequest })) };
}

/**
 * @param text summary.json, or the manifest of an older version
 * @param where the file, for the message
 * @throws Problem for other text
 */
export function parseSummary(text: string, where: string): ExperimentSummary {
  const value = parsed(text, where);
  if (typeof value === 'object' && value !== null && 'version' in value) return summaryOf(parseManifest(text, where));
  const result = v.safeParse(summarySchema, value, { abortEarly: true });
  if (!result.success) throw unreadable(where, 'a summary of a manifest', result.issues);
  return result.output;
}

function parsed(text: string, where: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Problem(`${where} is not valid JSON: ${messageOf(error).slice(0, 200)}. Restore it from the other copy of the manifest`);
  }
}

function unreadable(where: string, what: string, issues: readonly [v.BaseIssue<unknown>, ...v.BaseIssue<unknown>[]]): Problem {
  const [issue] = issues;
  const field = v.getDotPath(issue)?.slice(0, 100) ?? (issue.message === 'save' ? 'save' : '');
  const why = field === '' ? '' : `: its field ${field} is missing, or has a value that no launch writes`;
  return new Problem(`${where} is not ${what} that this version of the action can read${why}`);
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
