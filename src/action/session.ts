import { context } from '@actions/github';
import { Problem } from '../base/problem.ts';
import type { Credentials } from '../cluster/connection.ts';
import type { RepoConfig } from '../experiment/repo-config.ts';
import type { Repo } from '../repo/git.ts';
import { type Api, pullRequestHead, type RepoName } from './github.ts';
import type { Inputs } from './inputs.ts';
import type { Request } from './request.ts';

/** Everything a command needs that is not its own. */
export interface Session {
  readonly inputs: Inputs;
  readonly request: Request;
  readonly signal: AbortSignal;
  readonly api: Api;
  readonly name: RepoName;
  readonly repo: Repo;
  /** The commit the request is about, where it is about one, else the one the configuration is read at. */
  readonly commit: string;
  readonly config: RepoConfig;
  readonly credentials: Credentials | undefined;
}

/** The commit a request is about. What a comment asks for is the head of the pull request as it is now. */
export async function commitOf(
  api: Api,
  name: RepoName,
  { pullRequest, commit, command, label }: Request,
  { allowForks }: Inputs,
): Promise<string> {
  let { isFork } = pullRequest ?? {};
  let head = commit;
  if (pullRequest !== undefined && head === undefined) {
    const now = await pullRequestHead(api, name, pullRequest.number);
    [head, isFork] = [now.commit, now.isFork];
  }
  if (pullRequest !== undefined && isFork && !allowForks) {
    throw new Problem(
      `pull request #${pullRequest.number} comes from a fork. Launching it would run its author's code as your cluster account; 'unsafe-allow-forks: true' allows that`,
    );
  }
  // Whoever owns the fork may push at any moment, and .github/slurm-chain.yml at its head says where to log in and what to run
  // there. Only a label event that launches names the commit that was looked at.
  if (isFork && !(command === 'launch' && label !== undefined)) {
    throw new Problem(
      `pull request #${pullRequest?.number} comes from a fork: there only a label launches; for everything else run the workflow by hand with the input target or pr`,
    );
  }
  if (head === undefined) throw new Problem('the event names no commit');
  return head;
}

/** Was the pull request closed? Then nobody asked for anything, and most have nothing in the queue. */
export function isClosing({ pullRequest, label, command }: Request): boolean {
  return command === 'cancel' && pullRequest?.head !== undefined && label === undefined;
}

/** Address of this workflow run. */
export function runUrl(name: RepoName): string {
  return `${context.serverUrl}/${name.owner}/${name.repo}/actions/runs/${context.runId}`;
}

export function noKey(request: Request): Problem {
  const why =
    context.actor === 'dependabot[bot]'
      ? ' Runs started by Dependabot get Dependabot secrets, not those of Actions.'
      : request.pullRequest?.isFork
        ? ' Workflows of pull requests from forks get no secrets.'
        : ' Is the secret set, under the name the workflow uses, in this repository or its environment?';
  return new Problem(`the input ssh-key is empty, so there is no way to log in on the cluster.${why} Nothing was submitted`);
}
