// What a launch does, given what is on the cluster. Pure.
import { Problem } from '../../base/problem.ts';
import { count } from '../../base/text.ts';
import { experimentFiles } from '../../chain/layout.ts';
import { isReleased, lastJob } from '../../chain/ledger.ts';
import { type LaunchRecord, type Manifest, manifestDifferences } from '../../chain/manifest.ts';
import { exceeded, limitName, type SubmitLimit } from '../../cluster/limits.ts';
import type { Probe } from '../../cluster/programs/probe.ts';
import { asAttempt, type Experiment } from '../../experiment/experiment.ts';

/**
 * launch: queues the chain, continues one that has ended, or reports one that is alive. extend: adds `chain.n_jobs` jobs behind a
 * chain that is alive. restart: starts a new attempt.
 */
export type LaunchMode = 'launch' | 'extend' | 'restart';

/** What is on the cluster of the attempt that is launched. */
export type Existing = Pick<Probe, 'queued' | 'ledger' | 'ledgerLines' | 'manifest' | 'completeCells'>;

export interface Decision {
  /**
   * nothing: training is complete. report: the chain is alive, and the submission only confirms that. submit: put jobs in the
   * queue.
   */
  readonly kind: 'nothing' | 'report' | 'submit';
  readonly experiment: Experiment;
  readonly existing: Existing;
  /** Continue behind a chain that is alive. */
  readonly extend: boolean;
  /** Adds jobs that were asked for before. If there is no room for them, the launch has not failed. */
  readonly completes: boolean;
  readonly notes: readonly string[];
}

const NOTHING_YET: Existing = { queued: false, ledger: [], ledgerLines: 0, manifest: undefined, completeCells: 0 };

/**
 * @param runUrl address of this workflow run; empty if there is none
 * @param mayComplete whether to add jobs that are missing in a chain that is alive
 * @throws Problem when there is nothing to extend
 */
export function decide(
  first: Experiment,
  seen: Probe,
  { mode, runUrl, mayComplete }: { readonly mode: LaunchMode; readonly runUrl: string; readonly mayComplete: boolean },
): Decision {
  const isThisRun = (launch: LaunchRecord) => launch.command === mode && runUrl !== '' && launch.runUrl === runUrl;
  const newest = asAttempt(first, seen.attempt);
  const launches = seen.manifest?.launches ?? [];
  const basis = { experiment: newest, existing: seen, extend: false, completes: false, notes: [] };
  switch (mode) {
    case 'restart':
      // A workflow run that is run again asks for what it already got.
      if (seen.manifest === undefined || launches.some(isThisRun)) return launchDecision(basis);
      return {
        ...basis,
        kind: 'submit',
        experiment: asAttempt(first, seen.attempt + 1),
        existing: NOTHING_YET,
        notes: seen.queued ? [`The previous attempt, ${newest.id}, is still in the queue. Cancel it if you no longer need it.`] : [],
      };
    case 'extend': {
      if (launches.length === 0) throw new Problem(`there is no chain of ${newest.id} to extend. Launch it first`);
      const done = launches.some((launch) => isThisRun(launch) && isReleased(seen.ledger, launch.launch));
      if (done) return launchDecision({ ...basis, notes: ['This workflow run has already extended the chain.'] });
      if (!seen.queued && isComplete(basis)) return { ...basis, kind: 'nothing' };
      return { ...basis, kind: 'submit', extend: true };
    }
    case 'launch': {
      // Jobs that Slurm refused for lack of room, or that were lost with their launcher.
      const missing = Math.max(0, ...launches.flatMap((launch) => launch.steps)) - lastJob(seen.ledger);
      if (!mayComplete || !seen.queued || missing <= 0 || seen.ledger.length === 0) return launchDecision(basis);
      const notes = [`${count(missing, 'job')} of the chain had not been queued; this launch adds what is missing.`];
      return { ...basis, kind: 'submit', experiment: withLength(newest, missing), extend: true, completes: true, notes };
    }
    default:
      return mode satisfies never;
  }
}

function launchDecision(basis: Omit<Decision, 'kind'>): Decision {
  if (basis.existing.queued) return { ...basis, kind: 'report' };
  return { ...basis, kind: isComplete(basis) ? 'nothing' : 'submit' };
}

/** Is training complete? Jobs that are queued now would do nothing. */
function isComplete({ existing, experiment }: Pick<Decision, 'existing' | 'experiment'>): boolean {
  return (existing.manifest?.launches.length ?? 0) > 0 && existing.completeCells === experiment.cells.length;
}

function withLength(experiment: Experiment, nJobs: number): Experiment {
  const { settings } = experiment;
  return { ...experiment, settings: { ...settings, chain: { ...settings.chain, nJobs } } };
}

/** @throws Problem when the manifest on the cluster is not the one of the experiment that is launched */
export function refuseOtherManifest(found: Manifest, expected: Manifest, clusterName: string): void {
  if (found.repository !== expected.repository) {
    throw new Problem(
      `${expected.id} on ${clusterName} was launched from ${found.repository}, which shares account, workdir and commit with ${expected.repository}. Give the experiment another name, or one of the repositories another workdir. Nothing was submitted`,
    );
  }
  const different = manifestDifferences(found, expected);
  if (different.length === 0) return;
  const file = experimentFiles(expected.workdir, expected.id).manifest;
  throw new Problem(
    `the manifest of ${expected.id} on ${clusterName} (${file}) does not match this commit:\n${different.join('\n')}\nSomebody edited it, or another version of the action made it. Restore it, or start a new attempt (command restart). Nothing was submitted`,
  );
}

/** @throws Problem when sbatch would refuse the jobs */
export function refuseUnrunnable({ accepted, message }: Probe['testOnly'], clusterName: string): void {
  if (accepted) return;
  const hint = /node configuration is not available/.test(message)
    ? ' No partition has such nodes, or they are down, or the controller has just started and does not know them yet.'
    : '';
  throw new Problem(`sbatch on ${clusterName} would refuse this experiment: ${message}.${hint} Nothing was submitted`);
}

/** @throws Problem with the numbers when the submit limits have no room for the chain */
export function refuseWithoutRoom(limits: readonly SubmitLimit[], experiment: Experiment, clusterName: string): void {
  const { nJobs } = experiment.settings.chain;
  const cells = experiment.cells.length;
  const over = exceeded(limits, cells * nJobs);
  const [tightest] = over;
  if (tightest === undefined) return;
  const fitting = Math.max(0, Math.floor((tightest.most - tightest.used) / cells));
  const remedy =
    fitting > 0 ? `A chain of ${count(fitting, 'job')} would fit, and 'partial: keep' queues as many as fit` : 'Not even one job would fit';
  const facts = over.map((limit) => `${limitName(limit)} is ${limit.most}, and ${limit.used} are in the queue`);
  throw new Problem(
    `${cells} × ${nJobs} = ${count(cells * nJobs, 'task')} do not fit on ${clusterName}: ${facts.join('; ')}. ${remedy}. Nothing was submitted`,
  );
}
