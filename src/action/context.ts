import * as core from '@actions/core';
import { context as github } from '@actions/github';
import { Problem } from '../base/problem.ts';
import type { Context, Log, PullRequest } from '../commands/context.ts';
import { repoConfigAt, siteConfigOf } from '../experiment/repo-config.ts';
import { shortId } from '../repo/commit-id.ts';
import { ensureCommit, type Repo } from '../repo/git.ts';
import { type Api, changedFiles, defaultBranch, pullRequestHead, type RepoName } from './github.ts';
import type { Inputs } from './inputs.ts';
import { isClosing, type Request } from './request.ts';

/** Everything a command needs, from the inputs, the event and the checkout. */
export async function contextOf(api: Api, name: RepoName, inputs: Inputs, request: Request, signal: AbortSignal): Promise<Context> {
  const repo: Repo = { directory: process.env['GITHUB_WORKSPACE'] || process.cwd(), token: inputs.token };
  const commit = await commitOf(api, name, request, inputs.allowForks);
  await ensureCommit(repo, commit, request.refs);
  const number = request.pullRequest?.number;
  return {
    repo,
    commit,
    config: await repoConfigAt(repo, commit),
    site: await siteConfigOf(repo, await defaultBranchOf(api, name)),
    askedBy: request.actors,
    credentials: hasKey(inputs) ? { privateKey: inputs.sshKey, passphrase: inputs.sshPassphrase } : undefined,
    secrets: inputs.secrets,
    hidden: hiddenValues(inputs),
    launcher: {
      actor: request.actors[0] ?? '',
      runUrl: runUrl(name),
      repository: `${name.owner}/${name.repo}`,
      pullRequest: number,
      at: new Date().toISOString(),
    },
    pullRequest: number === undefined ? undefined : pullRequestOf(api, name, request, number, commit),
    keepPartial: inputs.keepPartial,
    strict: inputs.strict,
    log,
    signal,
  };
}

const log: Log = {
  info: (line) => core.info(line),
  warning: (line) => core.warning(line),
  group: (title, act) => core.group(title, act),
};

/** From the event, or else from the API: the payload of some events is empty. */
async function defaultBranchOf(api: Api, name: RepoName): Promise<string> {
  const named: unknown = github.payload.repository?.['default_branch'];
  return typeof named === 'string' && named !== '' ? named : defaultBranch(api, name);
}

export function hasKey(inputs: Inputs): boolean {
  return inputs.sshKey.trim() !== '';
}

/** Values that must never be shown. */
export function hiddenValues(inputs: Inputs): string[] {
  return [...inputs.secrets.values(), inputs.sshKey, inputs.sshPassphrase, inputs.token];
}

function pullRequestOf(api: Api, name: RepoName, request: Request, number: number, commit: string): PullRequest {
  const { head, isFork } = request.pullRequest ?? {};
  return {
    number,
    wasClosed: isClosing(request),
    changedFiles: () => changedFiles(api, name, number),
    async confirmHead() {
      // A dispatch names its own commit, and the pull request is only where the report goes.
      if (head === undefined && isFork !== undefined) return;
      const now = await pullRequestHead(api, name, number);
      if (!now.isOpen) throw new Problem(`pull request #${number} is closed. Nothing was submitted`);
      if (now.commit !== commit) {
        throw new Problem(
          `pull request #${number} moved from ${shortId(commit)} to ${shortId(now.commit)} after it was labelled. Nothing was submitted. Look at the new commit and label it again`,
        );
      }
    },
  };
}

/** The commit that a request is about. For a comment, that is the head of the pull request as it is now. */
export async function commitOf(
  api: Api,
  name: RepoName,
  { pullRequest, commit, command, label }: Pick<Request, 'pullRequest' | 'commit' | 'command' | 'label'>,
  allowForks: boolean,
): Promise<string> {
  if (pullRequest === undefined) return requireCommit(commit);
  const now = commit === undefined ? await pullRequestHead(api, name, pullRequest.number) : undefined;
  const isFork = now?.isFork ?? pullRequest.isFork;
  if (isFork && !allowForks) {
    throw new Problem(
      `pull request #${pullRequest.number} comes from a fork. A launch would run its author's code as your cluster account. If you want that, set 'unsafe-allow-forks: true'`,
    );
  }
  // The owner of a fork may push at any moment, and .github/slurm-chain.yml at its head says where to log in. Only the event of a
  // launch label names the commit that somebody looked at.
  if (isFork && !(command === 'launch' && label !== undefined)) {
    throw new Problem(
      `pull request #${pullRequest.number} comes from a fork, where only a label can launch. For everything else, run the workflow by hand with the input target or pr`,
    );
  }
  return requireCommit(now?.commit ?? commit);
}

function requireCommit(commit: string | undefined): string {
  if (commit === undefined) throw new Problem('the event names no commit');
  return commit;
}

/** Address of this workflow run. */
function runUrl(name: RepoName): string {
  return `${github.serverUrl}/${name.owner}/${name.repo}/actions/runs/${github.runId}`;
}

export function noKey(request: Request): Problem {
  const why =
    github.actor === 'dependabot[bot]'
      ? 'Runs started by Dependabot get Dependabot secrets, not those of Actions.'
      : request.pullRequest?.isFork
        ? 'Workflows of pull requests from forks get no secrets.'
        : 'Check that the secret is set, under the name that the workflow uses, in this repository or its environment.';
  return new Problem(`the input ssh-key is empty, so there is no way to log in on the cluster. ${why} Nothing was submitted`);
}
