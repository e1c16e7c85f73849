import { Problem } from '../base/problem.ts';
import type { ExperimentSummary } from '../chain/manifest.ts';
import type { BadRecord, Listing } from '../cluster/programs/survey.ts';
import { commitsOf, ensureHistory, type Repo } from '../repo/git.ts';
import type { Asked } from './request.ts';

/** What status, extend, cancel and audit are about. */
export type Target =
  /** Everything that is in the queue, or was until lately. */
  | { readonly kind: 'live' }
  | { readonly kind: 'ids'; readonly ids: ReadonlySet<string> }
  | { readonly kind: 'pull-request'; readonly number: number }
  /** An EXPERIMENT_ID, a name, a commit, branch or tag, a W&B run id or address, a path of checkpoints. */
  | { readonly kind: 'named'; readonly text: string };

/**
 * What a request is about.
 * @param pullRequest the number of the one that it came from
 * @throws Problem when a request that changes something does not say what
 */
export function targetOf({ target, command }: Pick<Asked, 'target' | 'command'>, pullRequest: number | undefined): Target {
  const number = /^#(\d{1,9})$/.exec(target ?? '')?.[1];
  if (number !== undefined) return { kind: 'pull-request', number: Number(number) };
  if (target !== undefined) return { kind: 'named', text: target };
  if (pullRequest !== undefined) return { kind: 'pull-request', number: pullRequest };
  if (command === 'status' || command === 'audit') return { kind: 'live' };
  throw new Problem(`say what to ${command}: give the input target, config or pr`);
}

/**
 * The experiments of this repository that a target means. An account may serve several repositories; none of them reaches the
 * chains of another.
 * @param repository `owner/name`
 * @param includeInside whether a directory means every experiment under it
 * @throws Problem when nothing matches a name
 */
export async function resolveTarget(
  listing: Listing,
  repo: Repo,
  repository: string,
  target: Target,
  includeInside: boolean,
): Promise<readonly ExperimentSummary[]> {
  const ours = listing.summaries.filter((summary) => summary.repository === repository);
  switch (target.kind) {
    case 'live':
      return ours.filter(({ id }) => listing.queued.has(id) || listing.recent.has(id));
    case 'ids':
      return ours.filter(({ id }) => target.ids.has(id));
    case 'pull-request':
      return ours.filter(({ pullRequests }) => pullRequests.includes(target.number));
    case 'named': {
      const text = target.text.trim();
      const found = await named(ours, repo, text, includeInside);
      if (found.length > 0) return found;
      throw new Problem(
        `no experiment of ${repository} on the cluster matches '${text.slice(0, 200)}'. Give an EXPERIMENT_ID, a name, a commit, branch or tag, #<pull request>, a W&B run id, or a path of checkpoints`,
      );
    }
    default:
      return target satisfies never;
  }
}

/** The records of this repository that cannot be read and that a target means, as far as one can tell. */
export function badRecordsOf(
  listing: Pick<Listing, 'bad' | 'queued' | 'recent'>,
  repository: string,
  target: Target,
): readonly BadRecord[] {
  const ours = listing.bad.filter((record) => record.repository === undefined || record.repository === repository);
  switch (target.kind) {
    case 'live':
      return ours.filter(({ id }) => listing.queued.has(id) || listing.recent.has(id));
    case 'ids':
      return ours.filter(({ id }) => target.ids.has(id));
    case 'pull-request':
      return ours.filter(
        ({ id, pullRequests }) => pullRequests.includes(target.number) || (pullRequests.length === 0 && listing.queued.has(id)),
      );
    case 'named': {
      const parts = target.text.trim().split(/[/?#]/);
      return ours.filter(({ id }) => parts.some((part) => part === id || part.replace(/-\d+$/, '') === id));
    }
    default:
      return target satisfies never;
  }
}

async function named(
  summaries: readonly ExperimentSummary[],
  repo: Repo,
  text: string,
  includeInside: boolean,
): Promise<readonly ExperimentSummary[]> {
  const found = namedByRecord(summaries, text, includeInside);
  if (found.length > 0) return found;
  // A branch means every experiment that was launched from one of its commits.
  await ensureHistory(repo);
  const commits = await commitsOf(repo, text);
  return summaries.filter(({ commit }) => commits.has(commit));
}

/** The part of the lookup that needs no git. The first kind of name that matches counts. */
export function namedByRecord(summaries: readonly ExperimentSummary[], text: string, includeInside: boolean): readonly ExperimentSummary[] {
  const exact = summaries.filter(({ id }) => id === text);
  if (exact.length > 0) return exact;
  // A path of checkpoints, a W&B address and a W&B run id contain the id; the run id adds `-<cell>`.
  const parts = text.split(/[/?#]/);
  for (const idIn of [(part: string) => part, (part: string) => part.replace(/-\d+$/, '')]) {
    const byPart = summaries.filter(({ id }) => parts.some((part) => idIn(part) === id));
    if (byPart.length > 0) return byPart;
  }
  const directory = text.replace(/\/+$/, '');
  const inside = includeInside && directory.startsWith('/') ? summaries.filter(({ save }) => save.startsWith(`${directory}/`)) : [];
  if (inside.length > 0) return inside;
  const byName = summaries.filter(({ name, path }) => name === text || path === text);
  if (byName.length > 0) return byName;
  return /^[0-9a-f]{4,40}$/.test(text) ? summaries.filter(({ commit }) => commit.startsWith(text)) : [];
}

/**
 * The one chain to change. If several match, those of the pull request come first, then those in the queue, then those at the
 * commit of the request, then the newest attempt.
 * @param what the command, for messages
 * @throws Problem that names the chains if it is still not clear which one is meant
 */
export function pickOne(
  summaries: readonly ExperimentSummary[],
  listing: Pick<Listing, 'queued'>,
  what: string,
  near: { readonly commit: string; readonly pullRequest: number | undefined },
): ExperimentSummary {
  const prefer = (all: readonly ExperimentSummary[], test: (one: ExperimentSummary) => boolean) => {
    const preferred = all.filter(test);
    return preferred.length > 0 ? preferred : all;
  };
  // A request from a pull request that has such a chain never means the chain of another one, in the queue or not.
  const ours = prefer(summaries, (one) => near.pullRequest !== undefined && one.pullRequests.includes(near.pullRequest));
  const alive = prefer(ours, (one) => listing.queued.has(one.id));
  const nearest = prefer(alive, (one) => one.commit === near.commit);
  const [first] = nearest;
  const areAttempts = first !== undefined && nearest.every((one) => isSameExperiment(one, first));
  const newest = Math.max(...nearest.map((one) => one.attempt));
  const [one, ...others] = areAttempts ? nearest.filter((summary) => summary.attempt === newest) : nearest;
  if (one === undefined) throw new Problem(`there is nothing to ${what}`);
  if (others.length > 0) {
    throw new Problem(`say which chain to ${what}, by its EXPERIMENT_ID: ${[one, ...others].map(({ id }) => id).join(', ')}`);
  }
  return one;
}

/** Are these attempts of the same experiment? */
export function isSameExperiment(one: ExperimentSummary, other: ExperimentSummary): boolean {
  return one.commit === other.commit && one.name === other.name && JSON.stringify(one.overrides) === JSON.stringify(other.overrides);
}
