import { Problem } from '../base/problem.ts';
import type { ExperimentSummary } from '../chain/manifest.ts';
import type { Listing } from '../cluster/programs/survey.ts';
import { asAttempt, type Experiment, loadExperiment } from '../experiment/experiment.ts';
import { hashOfOverrides, type Override, overrideOf } from '../experiment/overrides.ts';
import { type Cluster, repoConfigAt } from '../experiment/repo-config.ts';
import { shortId } from '../repo/commit-id.ts';
import { ensureCommit, type Repo } from '../repo/git.ts';
import { isSameExperiment } from './target.ts';

/**
 * The experiment of a record on the cluster, read again from its commit, with the number of jobs to add.
 * @param cluster the one that has the record, as the default branch describes it
 * @param chain the `chain.*` overrides of this request
 * @throws Problem when the commit is not available, when it does not give this experiment, or when there is a newer attempt
 */
export async function extendedExperiment(
  repo: Repo,
  cluster: Cluster,
  summary: ExperimentSummary,
  listing: Pick<Listing, 'summaries'>,
  chain: readonly Override[],
): Promise<Experiment> {
  const newer = listing.summaries.find((other) => isSameExperiment(other, summary) && other.attempt > summary.attempt);
  if (newer !== undefined) throw new Problem(`${summary.id} has a newer attempt, ${newer.id}. Extend that one`);
  await ensureCommit(
    repo,
    summary.commit,
    summary.pullRequests.map((number) => `refs/pull/${number}/head`),
  );
  const kept = summary.chain.map(overrideOf).filter((one) => !chain.some((other) => other.path === one.path));
  const overrides = [...summary.overrides.map(overrideOf), ...kept, ...chain];
  const experiment = await loadExperiment(repo, summary.commit, await repoConfigAt(repo, summary.commit), summary.path, overrides);
  const found = asAttempt(experiment, summary.attempt).id;
  if (found !== summary.id) {
    throw new Problem(
      `${summary.path} at ${shortId(summary.commit)} gives ${found} (hash of the overrides: ${hashOfOverrides(overrides) || 'none'}), not ${summary.id}`,
    );
  }
  return { ...experiment, cluster };
}

/** The `chain.*` overrides of an extension: one job more unless it says how many. */
export function extensionOf(overrides: readonly Override[]): Override[] {
  const chain = overrides.filter((override) => override.path.startsWith('chain.'));
  return chain.some(({ path }) => path === 'chain.n_jobs') ? chain : [...chain, { path: 'chain.n_jobs', value: '1', mayAdd: true }];
}
