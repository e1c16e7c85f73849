import { Problem } from '../base/problem.ts';
import type { ExperimentSummary, Listing } from '../cluster/programs/survey.ts';
import { asAttempt, type Experiment, loadExperiment } from '../experiment/experiment.ts';
import { hashOfOverrides, type Override, overrideOf } from '../experiment/overrides.ts';
import { repoConfigAt } from '../experiment/repo-config.ts';
import { ensureCommit, type Repo } from '../repo/git.ts';

/**
 * The experiment of a record on the cluster, read again from its commit, with the length its chain is to grow by.
 * @throws Problem when the commit cannot be had, when it no longer gives this experiment, or when there is a newer attempt
 */
export async function extendedExperiment(
  repo: Repo,
  head: ExperimentSummary,
  listing: Listing,
  chain: readonly Override[],
  token: string,
): Promise<Experiment> {
  const same = (other: ExperimentSummary) =>
    other.commit === head.commit && other.name === head.name && JSON.stringify(other.overrides) === JSON.stringify(head.overrides);
  const newer = listing.summaries.find((other) => same(other) && other.attempt > head.attempt);
  if (newer !== undefined) throw new Problem(`${head.id} has a newer attempt, ${newer.id}; extend that one`);
  const pulls = head.pullRequests.map((number) => `refs/pull/${number}/head`);
  await ensureCommit(repo, head.commit, pulls, token);
  const kept = head.chain.map(overrideOf).filter((one) => !chain.some((other) => other.path === one.path));
  const overrides = [...head.overrides.map(overrideOf), ...kept, ...chain];
  const experiment = await loadExperiment(repo, head.commit, await repoConfigAt(repo, head.commit), head.path, overrides);
  const found = asAttempt(experiment, head.attempt).id;
  if (found !== head.id) {
    throw new Problem(
      `${head.path} at ${head.commit.slice(0, 12)} gives ${found} (overrides ${hashOfOverrides(overrides) || 'none'}), not ${head.id}`,
    );
  }
  return experiment;
}
