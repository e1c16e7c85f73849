// The payloads GitHub sends: its published examples, with the fields that matter here as the stand-in has them.
import examples from '@octokit/webhooks-examples' with { type: 'json' };
import type { Comment, GitHub, PullRequest } from '../github/server.ts';

type Json = Record<string, unknown>;

/** On pull_request events GITHUB_SHA is the temporary merge commit, which nobody has approved. */
export const MERGE_COMMIT = 'f'.repeat(40);

/** A payload GitHub publishes as an example. */
function published(name: string, action: string): Json {
  const example = (examples as unknown as { name: string; examples: Json[] }[])
    .find((one) => one.name === name)
    ?.examples.find((one) => one['action'] === action);
  if (example === undefined) throw new Error(`no published example of ${name} ${action}`);
  return structuredClone(example);
}

/** A part of a payload with some of its fields replaced. */
function having(part: unknown, fields: Json): Json {
  return { ...(part as Json), ...fields };
}

/** The default branch of the published examples is another one. */
function onMain(event: Json): Json {
  return { ...event, repository: having(event['repository'], { default_branch: 'main' }) };
}

function labelNamed(name: string): Json {
  return having(published('pull_request', 'labeled')['label'], { name });
}

/** Of pull_request: `closed` and so on. */
export function pullEvent(hub: GitHub, action: string, pull: PullRequest, sender: string): Json {
  const event = onMain(published('pull_request', action));
  const body = event['pull_request'] as Json;
  const head = body['head'] as Json;
  const base = body['base'] as { repo: { id: number } };
  return {
    ...event,
    number: pull.number,
    sender: having(event['sender'], { login: sender }),
    pull_request: {
      ...body,
      number: pull.number,
      title: pull.title,
      state: pull.state,
      closed_at: pull.state === 'closed' ? body['updated_at'] : null,
      merged: pull.mergeCommit !== undefined,
      merged_at: pull.mergeCommit === undefined ? null : body['updated_at'],
      merge_commit_sha: pull.mergeCommit ?? MERGE_COMMIT,
      labels: pull.labels.map(labelNamed),
      head: {
        ...head,
        sha: hub.headOf(pull),
        ref: pull.branch,
        repo: having(head['repo'], { id: pull.fork ? base.repo.id + 1 : base.repo.id }),
      },
      base: { ...base, sha: hub.baseOf(pull), ref: pull.base },
    },
  };
}

/** Of pull_request: a label was put on or taken off. */
export function labelEvent(hub: GitHub, action: 'labeled' | 'unlabeled', pull: PullRequest, name: string, sender: string): Json {
  return { ...pullEvent(hub, action, pull, sender), label: labelNamed(name) };
}

/** Of issue_comment: a comment was made. */
export function commentEvent(hub: GitHub, comment: Comment): Json {
  const event = onMain(published('issue_comment', 'created'));
  const pull = hub.pulls.find((candidate) => candidate.number === comment.pull);
  const issue = pull ?? hub.issues.find((candidate) => candidate.number === comment.pull);
  if (issue === undefined) throw new Error(`comment ${comment.id} is on #${comment.pull}, which does not exist`);
  const page = `${hub.url}/${hub.repository}/${pull ? 'pull' : 'issues'}/${issue.number}`;
  const api = `${hub.url}/repos/${hub.repository}`;
  // None of the published examples is on a pull request; this is the field that tells (issues/get describes it).
  const link = {
    url: `${api}/pulls/${issue.number}`,
    html_url: page,
    diff_url: `${page}.diff`,
    patch_url: `${page}.patch`,
    merged_at: pull?.mergeCommit === undefined ? null : (event['issue'] as Json)['updated_at'],
  };
  const sender = having(event['sender'], { login: comment.author, type: comment.author.endsWith('[bot]') ? 'Bot' : 'User' });
  return {
    ...event,
    sender,
    issue: having(event['issue'], {
      url: `${api}/issues/${issue.number}`,
      html_url: page,
      number: issue.number,
      title: issue.title,
      state: issue.state,
      labels: issue.labels.map(labelNamed),
      ...(pull && { pull_request: link }),
    }),
    comment: having(event['comment'], {
      url: `${api}/issues/comments/${comment.id}`,
      html_url: `${page}#issuecomment-${comment.id}`,
      issue_url: `${api}/issues/${issue.number}`,
      id: comment.id,
      user: sender,
      author_association: comment.association ?? 'NONE',
      body: comment.body,
      ...(comment.at !== undefined && { created_at: comment.at, updated_at: comment.at }),
    }),
  };
}
