import { Problem } from '../base/problem.ts';
import type { ExperimentSummary, Listing } from '../cluster/programs/survey.ts';
import { commitsOf, ensureHistory, type Repo } from '../repo/git.ts';

/** What status, extend, cancel and audit are about. */
export type Target =
  /** Everything that is in the queue or was until lately. */
  | { readonly kind: 'live' }
  | { readonly kind: 'ids'; readonly ids: ReadonlySet<string> }
  | { readonly kind: 'pull request'; readonly number: number }
  /** An EXPERIMENT_ID, a name, a commit, branch or tag, a W&B run id or address, a path of checkpoints. */
  | { readonly kind: 'named'; readonly text: string };

/**
 * The experiments of this repository that are meant, newest first. An account may serve several repositories; nobody gets at
 * the chains of another one.
 * @param token for git, to bring branches and tags the checkout lacks
 * @param broad whether a directory means everything under it
 * @throws Problem when nothing answers to what was named
 */
export async function resolveTarget(
  listing: Listing,
  repo: Repo,
  repository: string,
  target: Target,
  token: string,
  broad: boolean,
): Promise<ExperimentSummary[]> {
  const ours = listing.summaries.filter((head) => head.repository === repository);
  switch (target.kind) {
    case 'live':
      return ours.filter((head) => listing.queued.has(head.id) || listing.recent.has(head.id));
    case 'ids':
      return ours.filter((head) => target.ids.has(head.id));
    case 'pull request':
      return ours.filter((head) => head.pullRequests.includes(target.number));
    case 'named': {
      const found = await named(ours, repo, target.text.trim(), token, broad);
      if (found.length > 0) return found;
      throw new Problem(
        `there is no experiment of ${repository} on the cluster that '${target.text.trim().slice(0, 200)}' names. It may be an EXPERIMENT_ID, a name, a commit, branch or tag, #<pull request>, a W&B run id, or a path of checkpoints`,
      );
    }
    default:
      return target satisfies never;
  }
}

async function named(
  heads: readonly ExperimentSummary[],
  repo: Repo,
  text: string,
  token: string,
  broad: boolean,
): Promise<ExperimentSummary[]> {
  const exactly = heads.filter((head) => head.id === text);
  if (exactly.length > 0) return exactly;
  // A path of checkpoints, a W&B address and a W&B run id all hold the id, the last one with `-<cell>` behind it.
  const parts = text.split(/[/?#]/);
  for (const same of [(part: string) => part, (part: string) => part.replace(/-\d+$/, '')]) {
    const byPart = heads.filter((head) => parts.some((part) => same(part) === head.id));
    if (byPart.length > 0) return byPart;
  }
  const directory = text.replace(/\/+$/, '');
  const byPlace = broad && directory.startsWith('/') ? heads.filter((head) => head.save.startsWith(`${directory}/`)) : [];
  if (byPlace.length > 0) return byPlace;
  const byName = heads.filter((head) => head.name === text || head.path === text);
  if (byName.length > 0) return byName;
  if (/^[0-9a-f]{4,40}$/.test(text)) {
    const byCommit = heads.filter((head) => head.commit.startsWith(text));
    if (byCommit.length > 0) return byCommit;
  }
  // A branch means what was launched from anywhere on it.
  await ensureHistory(repo, token);
  const commits = await commitsOf(repo, text);
  return heads.filter((head) => commits.has(head.commit));
}

/**
 * The one chain that is to be changed: of several those that are in the queue, of the pull request, at the commit that is
 * asked from.
 * @throws Problem that names them when it is still not clear which
 */
export function pickOne(
  heads: readonly ExperimentSummary[],
  listing: Listing,
  what: string,
  near: { readonly commit: string; readonly pullRequest: number | undefined },
): ExperimentSummary {
  const prefer = (some: readonly ExperimentSummary[], test: (head: ExperimentSummary) => boolean) =>
    some.some(test) ? some.filter(test) : some;
  // Asked from a pull request that has such a chain, no other one's is meant, whether it is in the queue or not.
  const ours = prefer(heads, (head) => near.pullRequest !== undefined && head.pullRequests.includes(near.pullRequest));
  const alive = prefer(ours, (head) => listing.queued.has(head.id));
  const nearest = prefer(alive, (head) => head.commit === near.commit);
  const newest = Math.max(...nearest.map((head) => head.attempt));
  const isAttemptOf = (head: ExperimentSummary, other: ExperimentSummary) =>
    head.commit === other.commit && head.name === other.name && JSON.stringify(head.overrides) === JSON.stringify(other.overrides);
  const [first] = nearest;
  // Attempts of one experiment are told apart by their number, and the newest is meant.
  const attempts = first !== undefined && nearest.every((head) => isAttemptOf(head, first));
  const [one, ...others] = attempts ? nearest.filter((head) => head.attempt === newest) : nearest;
  if (one === undefined) throw new Problem(`there is nothing to ${what}`);
  if (others.length > 0) throw new Problem(`say which chain to ${what}: ${[one, ...others].map((head) => head.id).join(', ')}`);
  return one;
}
