// What the default branch says, for the commands: which clusters there are, and what a launch may ask for.
import { posix } from 'node:path';
import { Problem } from '../base/problem.ts';
import { gpuHours, gpusPerTask } from '../chain/cost.ts';
import type { Experiment } from '../experiment/experiment.ts';
import { type Limits, REPO_CONFIG } from '../experiment/repo-config.ts';
import type { Context } from './context.ts';

// For a repository whose commit has no clusters either.
const TEMPLATE = `clusters:
  mycluster:
    host: login.example.edu
    user: alice
    workdir: ~/slurm-chain
    known_hosts: the lines that ssh-keyscan login.example.edu prints
`;
const SHOWN_LETTERS = 4000;

/** What to do if there is no cluster. It shows the text to merge: what this commit proposes, or else a template. */
export function noClusters({ site, config }: Pick<Context, 'site' | 'config'>): Problem {
  const what = site.exists ? `no clusters in ${REPO_CONFIG}` : `no ${REPO_CONFIG}`;
  return new Problem(
    `the default branch ${site.branch} has ${what}. Clusters are read from there only, so that no other branch decides where to log in. Merge this into ${site.branch} as ${REPO_CONFIG}, then try again:\n${(config.proposed || TEMPLATE).slice(0, SHOWN_LETTERS)}`,
  );
}

/** Says that the commit has other clusters or limits than the default branch, which alone counts. */
export function notesOnSite({ site, config }: Pick<Context, 'site' | 'config'>): string[] {
  if (config.proposed === '' || config.proposed === site.text) return [];
  return [
    `The clusters or limits in ${REPO_CONFIG} at this commit differ from those of the default branch ${site.branch}, which were used. A change of them takes effect once merged.`,
  ];
}

/** @throws Problem with a line for each limit of the default branch that a launch of the experiment goes beyond */
export function refuseBeyondLimits({ site, askedBy }: Pick<Context, 'site' | 'askedBy'>, experiment: Experiment): void {
  const broken = brokenLimits(site.limits, experiment, askedBy);
  if (broken.length === 0) return;
  const lines = broken.map(
    (one) => `${experiment.name} is beyond the limits in ${REPO_CONFIG} of ${site.branch}: ${one}. Nothing was submitted`,
  );
  throw new Problem(lines.join('\n'));
}

/** What is wrong with a launch, one text for each limit. */
export function brokenLimits(limits: Limits, experiment: Experiment, askedBy: readonly string[]): string[] {
  const { settings, cells, cluster } = experiment;
  const { slurm, chain, save } = settings;
  return [
    ...askedBy.filter((login) => !isListed(limits.users, login)).map((login) => `limits.users does not list ${login}`),
    ...(cluster === undefined || limits.clusters === undefined || limits.clusters.includes(cluster.name)
      ? []
      : [`limits.clusters does not list ${cluster.name}, but ${limits.clusters.join(', ')}`]),
    ...beyondList('partitions', limits.partitions, 'partition', slurm),
    ...beyondList('accounts', limits.accounts, 'account', slurm),
    ...(limits.savePaths === undefined || limits.savePaths.some((root) => isInside(save.path, root))
      ? []
      : [`save.path is ${save.path}, and limits.save_paths allows ${limits.savePaths.join(', ')}`]),
    ...beyond('jobs', limits.jobs, chain.nJobs, 'chain.n_jobs'),
    ...beyond('cells', limits.cells, cells.length, 'the number of cells'),
    ...beyondGpuHours(limits.gpuHours, experiment),
  ];
}

/** GitHub does not tell capitals from small letters in logins. */
function isListed(users: Limits['users'], login: string): boolean {
  return users === undefined || users.some((user) => user.toLowerCase() === login.toLowerCase());
}

/** @param option of sbatch; it may hold several names with commas between them */
function beyondList(
  limit: string,
  allowed: readonly string[] | undefined,
  option: string,
  slurm: Experiment['settings']['slurm'],
): string[] {
  if (allowed === undefined) return [];
  const value = slurm.get(option);
  // What the account or the cluster has as a default is not known here.
  if (typeof value !== 'string') return [`slurm.${option} is not set, and limits.${limit} allows ${allowed.join(', ')}; set one of them`];
  const others = value.split(',').filter((name) => !allowed.includes(name.trim()));
  return others.length === 0 ? [] : [`slurm.${option} is ${value}, and limits.${limit} allows ${allowed.join(', ')}`];
}

function beyond(limit: string, most: number | undefined, value: number, what: string): string[] {
  return most === undefined || value <= most ? [] : [`${what} is ${value}, and limits.${limit} is ${most}`];
}

// Options that ask for GPUs in ways that gpusPerTask does not count.
const UNCOUNTED = ['gpus-per-socket', 'tres-per-task', 'exclusive'];

function beyondGpuHours(most: number | undefined, { settings, cells }: Experiment): string[] {
  if (most === undefined) return [];
  const { slurm, chain } = settings;
  const uncounted = UNCOUNTED.find((option) => slurm.has(option));
  if (uncounted !== undefined) return [`slurm.${uncounted} is set, so the GPUs cannot be counted for limits.gpu_hours; use gpus or gres`];
  if (gpusPerTask(slurm) === 0) return [];
  const hours = gpuHours(slurm, cells.length, chain.nJobs);
  if (hours === undefined) return ['slurm.time is no time limit, so the GPU-hours cannot be counted for limits.gpu_hours; set it'];
  return beyond('gpu_hours', most, Math.round(hours * 10) / 10, 'the most GPU-hours that it can use');
}

/** Are both written in the same way, and is the path the directory or in it? */
function isInside(path: string, root: string): boolean {
  const [inner, outer] = [posix.normalize(path), posix.normalize(root)];
  return inner === outer || inner.startsWith(outer.endsWith('/') ? outer : `${outer}/`);
}
