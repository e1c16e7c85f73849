import { context as github } from '@actions/github';
import { messageOf, Problem } from '../base/problem.ts';
import type { Credentials } from '../cluster/transport.ts';
import type { Context, PullRequest } from '../commands/context.ts';
import { repoConfigAt, siteConfigOf } from '../experiment/repo-config.ts';
import { shortId } from '../repo/commit-id.ts';
import { ensureCommit, type Repo } from '../repo/git.ts';
import { type Api, changedFiles, defaultBranch, headBefore, pullRequestHead, type RepoName, requireCommitOf } from './github.ts';
import type { Inputs } from './inputs.ts';
import { log } from './log.ts';
import { isClosing, type Request } from './request.ts';

/** Everything a command needs, from the inputs, the event and the checkout. */
export async function contextOf(api: Api, name: RepoName, inputs: Inputs, request: Request, signal: AbortSignal): Promise<Context> {
  const repo: Repo = { directory: process.env['GITHUB_WORKSPACE'] || process.cwd(), token: inputs.token, server: github.serverUrl };
  const commit = await commitOf(api, name, request, inputs.allowForks);
  await ensureCommit(repo, commit, request.refs);
  const number = request.pullRequest?.number;
  return {
    repo,
    commit,
    config: await repoConfigAt(repo, commit),
    site: await siteConfigOf(repo, await defaultBranchOf(api, name)),
    askedBy: request.actors,
    credentials: credentialsOf(inputs),
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

/** From the event, or else from the API: the payload of some events is empty. */
async function defaultBranchOf(api: Api, name: RepoName): Promise<string> {
  const named: unknown = github.payload.repository?.['default_branch'];
  return typeof named === 'string' && named !== '' ? named : defaultBranch(api, name);
}

/** What a login may use. An agent is one that a step before this one has started. */
export function credentialsOf(inputs: Inputs): Credentials {
  return {
    privateKey: inputs.sshKey,
    passphrase: inputs.sshPassphrase,
    certificate: inputs.sshCertificate,
    knownHosts: inputs.knownHosts,
    sshConfig: inputs.sshConfig,
    agent: inputs.sshKey.trim() === '' ? (process.env['SSH_AUTH_SOCK'] ?? '') : '',
  };
}

/** Has GitHub withheld the secrets, so that there is no key whatever the repository has set? */
export function lacksSecrets(request: Request): boolean {
  return github.actor === 'dependabot[bot]' || request.pullRequest?.isFork === true;
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
      if (isNamed(request)) return requireCommitOf(api, name, number, commit);
      if (now.commit !== commit) {
        throw new Problem(
          `pull request #${number} moved from ${shortId(commit)} to ${shortId(now.commit)} after it was labelled. Nothing was submitted. Look at the new commit and label it again`,
        );
      }
    },
  };
}

/** Does a comment name the commit? */
function isNamed({ comment, commit }: Pick<Request, 'comment' | 'commit'>): boolean {
  return comment !== undefined && commit !== undefined;
}

/**
 * The commit that a request is about. A comment means the one that it names, or else the head of the pull request when it was
 * written.
 * @throws Problem if a comment asks for a launch and the head is another one now, or may be
 */
export async function commitOf(
  api: Api,
  name: RepoName,
  request: Pick<Request, 'pullRequest' | 'commit' | 'command' | 'label' | 'comment' | 'writtenAt' | 'experiment'>,
  allowForks: boolean,
): Promise<string> {
  const { pullRequest, commit, command, label } = request;
  if (pullRequest === undefined) return requireCommit(commit);
  const now = pullRequest.isFork === undefined ? await pullRequestHead(api, name, pullRequest.number) : undefined;
  const isFork = now?.isFork ?? pullRequest.isFork;
  if (isFork && !allowForks) {
    throw new Problem(
      `pull request #${pullRequest.number} comes from a fork. A launch would run its author's code as your cluster account. If you want that, set 'unsafe-allow-forks: true'`,
    );
  }
  // The owner of a fork may push at any moment. Only the event of a launch label names the commit that somebody looked at.
  if (isFork && !(command === 'launch' && label !== undefined)) {
    throw new Problem(
      `pull request #${pullRequest.number} comes from a fork, where only a label can launch. For everything else, run the workflow by hand with the input target or pr`,
    );
  }
  if (now === undefined) return requireCommit(commit);
  if (commit !== undefined) {
    await requireCommitOf(api, name, pullRequest.number, commit);
    return commit;
  }
  if (['launch', 'plan', 'restart'].includes(command)) await refuseNewerHead(api, name, pullRequest.number, now, request);
  return now.commit;
}

/** @throws Problem unless the head is the one that the author of the comment could see, whenever this workflow run was started */
async function refuseNewerHead(
  api: Api,
  name: RepoName,
  number: number,
  now: { readonly commit: string; readonly branch: string },
  { command, experiment, writtenAt }: Pick<Request, 'command' | 'experiment' | 'writtenAt'>,
): Promise<void> {
  const form = `/${command}${experiment === undefined ? '' : ` ${experiment}`} @${now.commit}`;
  let seen: string | undefined;
  let why = 'the activity of the repository does not go back so far';
  try {
    if (writtenAt === undefined) why = 'the event does not say when the comment was written';
    else seen = await headBefore(api, name, now.branch, writtenAt);
  } catch (error) {
    why = messageOf(error);
  }
  if (seen === now.commit) return;
  throw new Problem(
    seen === undefined
      ? `which commit pull request #${number} had when the comment was written is not known (${why}). Nothing was submitted. Name the commit that you mean, such as its head: ${form}`
      : `pull request #${number} was at ${seen} when the comment was written, and is at ${now.commit} now. Nothing was submitted. Look at the new commit and ask again, or name it: ${form}`,
  );
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
