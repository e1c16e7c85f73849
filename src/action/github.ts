import { getOctokit } from '@actions/github';
import { retry } from '@octokit/plugin-retry';
import { messageOf, Problem } from '../base/problem.ts';

export type Api = ReturnType<typeof getOctokit>;

export interface RepoName {
  readonly owner: string;
  readonly repo: string;
}

/** The API at GITHUB_API_URL, or at another address. Retries when GitHub is busy (429, 5xx). The token goes to no other host. */
export function apiWith(token: string, baseUrl?: string): Api {
  const api = getOctokit(token, baseUrl === undefined ? {} : { baseUrl }, retry);
  api.hook.before('request', ({ url, baseUrl: base }) => {
    // The address of the next page comes from a header of the answer.
    if (new URL(url, base).origin === new URL(base).origin) return;
    throw new Problem(`${new URL(url).host} is not the host of GitHub's API, so it does not get the token`);
  });
  return api;
}

/** What went wrong, with the likely cause for common answers. @param permission what the workflow has to grant */
export function explained(error: unknown, what: string, permission: string): Problem {
  const status = statusOf(error);
  const message = messageOf(error);
  const hint =
    status === 401
      ? '. The github-token is not valid, or no longer valid'
      : status === 403 && /resource not accessible/i.test(message)
        ? `. Give the workflow 'permissions: ${permission}'. On pull requests from forks and from Dependabot the token can only read`
        : status === 404
          ? `. Check that the token is for this repository, with 'permissions: ${permission}'`
          : '';
  return new Problem(`GitHub: ${what} failed: ${message}${hint}`);
}

function statusOf(error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'status' in error ? error.status : undefined;
}

/**
 * GitHub says nothing about the permission of a bot, so a bot has to be named.
 * @param allowedBots logins such as `renovate[bot]`
 * @throws Problem unless each actor has write permission, or is such a bot
 */
export async function requireWrite(api: Api, name: RepoName, actors: readonly string[], allowedBots: readonly string[]): Promise<void> {
  for (const username of actors) {
    if (username.endsWith('[bot]')) {
      if (allowedBots.includes(username)) continue;
      throw new Problem(
        `${username} is a bot, and bots may ask for nothing unless the input allowed-bots lists them. Nothing was submitted`,
      );
    }
    let permission: string;
    try {
      permission = (await api.rest.repos.getCollaboratorPermissionLevel({ ...name, username })).data.permission;
    } catch (error) {
      throw explained(error, `reading the permission of ${username} in ${name.owner}/${name.repo}`, 'contents: read');
    }
    // The API uses the old names: `maintain` shows as write and `triage` as read (REST, repository permissions for a user).
    if (permission !== 'admin' && permission !== 'write') {
      throw new Problem(
        `${username} has ${permission} permission on ${name.owner}/${name.repo}. Launching on the cluster needs write permission. Nothing was submitted`,
      );
    }
  }
}

/** The head commit of a pull request as it is now, and whether it comes from another repository. */
export async function pullRequestHead(
  api: Api,
  name: RepoName,
  number: number,
): Promise<{ commit: string; branch: string; isFork: boolean; isOpen: boolean }> {
  try {
    const { head, base, state } = (await api.rest.pulls.get({ ...name, pull_number: number })).data;
    return { commit: head.sha, branch: head.ref, isFork: head.repo?.id !== base.repo.id, isOpen: state === 'open' };
  } catch (error) {
    throw explained(error, `reading pull request #${number}`, 'pull-requests: write');
  }
}

/**
 * The head of a branch right before a moment, from the repository's activity log.
 *
 * GitHub writes the log, and its `timestamp` is when GitHub took the push (REST, list repository activities). Nothing else would
 * do. The author sets the dates of a commit, and `committed` events of the timeline repeat them. `updated_at` of a pull request
 * changes with every comment. A check suite is there only if an app asks for it, and once for each commit, not for each push.
 * @param moment as GitHub writes times. A push in the same second counts as later, because which came first is not known
 * @returns undefined if the log does not go back so far
 */
export async function headBefore(api: Api, name: RepoName, branch: string, moment: string): Promise<string | undefined> {
  const activities = api.paginate.iterator(api.rest.repos.listActivities, { ...name, ref: `refs/heads/${branch}`, per_page: 100 });
  try {
    // The newest comes first.
    for await (const { data } of activities) {
      const found = data.find(({ timestamp }) => Date.parse(timestamp) < Date.parse(moment));
      if (found !== undefined) return found.after;
    }
  } catch (error) {
    throw explained(error, `asking when ${branch} was pushed`, 'contents: read');
  }
  return undefined;
}

/** @throws Problem unless the commit is the head of the pull request or one of its other commits */
export async function requireCommitOf(api: Api, name: RepoName, number: number, commit: string): Promise<void> {
  let commits: readonly { readonly sha: string }[];
  try {
    // GitHub lists no more than 250 of them.
    commits = await api.paginate(api.rest.pulls.listCommits, { ...name, pull_number: number, per_page: 100 });
  } catch (error) {
    throw explained(error, `listing the commits of pull request #${number}`, 'pull-requests: write');
  }
  if (commits.some(({ sha }) => sha === commit)) return;
  throw new Problem(`commit ${commit} is not one of pull request #${number}. Nothing was submitted`);
}

/** The name of the repository's default branch. */
export async function defaultBranch(api: Api, name: RepoName): Promise<string> {
  try {
    return (await api.rest.repos.get({ ...name })).data.default_branch;
  } catch (error) {
    throw explained(error, `asking for the default branch of ${name.owner}/${name.repo}`, 'contents: read');
  }
}

/** Paths that a pull request adds or changes. */
export async function changedFiles(api: Api, name: RepoName, number: number): Promise<string[]> {
  try {
    const files = await api.paginate(api.rest.pulls.listFiles, { ...name, pull_number: number, per_page: 100 });
    return files.filter((file) => file.status !== 'removed').map((file) => file.filename);
  } catch (error) {
    throw explained(error, `listing the files of pull request #${number}`, 'pull-requests: write');
  }
}

/** Numbers of the open pull requests that contain a commit. */
export async function pullRequestsWith(api: Api, name: RepoName, commit: string): Promise<number[]> {
  try {
    const { data } = await api.rest.repos.listPullRequestsAssociatedWithCommit({ ...name, commit_sha: commit });
    return data.filter((pull) => pull.state === 'open').map((pull) => pull.number);
  } catch (error) {
    throw explained(error, `looking for pull requests with commit ${commit.slice(0, 12)}`, 'pull-requests: write');
  }
}

/** Removes a label. It is fine if the label is gone already. */
export async function removeLabel(api: Api, name: RepoName, number: number, label: string): Promise<void> {
  try {
    await api.rest.issues.removeLabel({ ...name, issue_number: number, name: label });
  } catch (error) {
    if (statusOf(error) !== 404) throw explained(error, `removing the label '${label}'`, 'pull-requests: write');
  }
}

/** Adds a reaction to a comment. */
export async function react(api: Api, name: RepoName, comment: number, content: 'eyes' | 'rocket' | 'confused'): Promise<void> {
  try {
    await api.rest.reactions.createForIssueComment({ ...name, comment_id: comment, content });
  } catch (error) {
    throw explained(error, 'reacting to a comment', 'pull-requests: write');
  }
}

interface CommitStatus {
  readonly context: string;
  readonly state: 'pending' | 'success' | 'failure' | 'error';
  readonly description: string;
  /** Empty for none. */
  readonly url: string;
}

// https://docs.github.com/en/rest/commits/statuses: at most 1000 per commit and context; a description has at most 140 characters.
const LONGEST_DESCRIPTION = 140;

/** Sets a status on a commit, unless the newest one of this context says the same, because GitHub limits their number. */
export async function setCommitStatus(api: Api, name: RepoName, sha: string, status: CommitStatus): Promise<void> {
  const { context, state, url } = status;
  const letters = [...status.description];
  const description = letters.length > LONGEST_DESCRIPTION ? `${letters.slice(0, LONGEST_DESCRIPTION - 1).join('')}…` : status.description;
  try {
    const { data } = await api.rest.repos.getCombinedStatusForRef({ ...name, ref: sha, per_page: 100 });
    const newest = data.statuses.find((one) => one.context === context);
    if (newest?.state === state && newest.description === description && (newest.target_url ?? '') === url) return;
    await api.rest.repos.createCommitStatus({ ...name, sha, context, state, description, ...(url === '' ? {} : { target_url: url }) });
  } catch (error) {
    throw explained(error, `setting the status ${context}`, 'statuses: write');
  }
}
