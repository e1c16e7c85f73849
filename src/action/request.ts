import { Problem } from '../base/problem.ts';
import type { Override } from '../experiment/overrides.ts';
import { type Asked, askedOf, commandOfComment } from './comment-command.ts';
import type { Inputs } from './inputs.ts';

/** What an event asks for. */
export interface Request extends Asked {
  /** All 40 digits; undefined for the head of the pull request as it is now. Never the merge commit that GITHUB_SHA is there. */
  readonly commit: string | undefined;
  /** Refs the commit may be fetched by. */
  readonly refs: readonly string[];
  readonly pullRequest: PullRequest | undefined;
  /** The label to take off once it was acted on. */
  readonly label: string | undefined;
  /** Id of the comment that asks. */
  readonly comment: number | undefined;
  /** Everybody who had a hand in it; each needs write permission. Empty for a schedule, which nobody asks for. */
  readonly actors: readonly string[];
}

export interface PullRequest {
  readonly number: number;
  /** The commit that the event is about; undefined where there is none. */
  readonly head: string | undefined;
  /** Of a comment it is not known yet. */
  readonly isFork: boolean | undefined;
}

/** The environment a runner gives, as far as it is used here. */
export interface RunnerContext {
  readonly eventName: string;
  readonly payload: unknown;
  /** GITHUB_SHA */
  readonly sha: string;
  /** GITHUB_ACTOR and GITHUB_TRIGGERING_ACTOR; they differ when somebody re-runs a workflow. */
  readonly actors: readonly string[];
}

interface Nothing {
  readonly nothing: string;
}

/**
 * What the event asks for, or why it asks for nothing.
 * @throws Problem for a request that contradicts itself; UnknownCommand for a comment with a command that is not ours
 */
export function requestOf(context: RunnerContext, inputs: Inputs): Request | Nothing {
  const payload = record(context.payload);
  const pull = record(payload['pull_request']);
  if (context.eventName.startsWith('pull_request') && Object.keys(pull).length > 0) return ofPullRequest(context, inputs, payload, pull);
  if (context.eventName === 'issue_comment') return ofComment(context, inputs, payload);
  if (context.eventName !== 'schedule' && ['launch', 'plan', 'restart'].includes(inputs.command) && inputs.config === '') {
    throw new Problem(
      `the event ${context.eventName} names no experiment: give the input config a path such as configs/run.yaml, or a name`,
    );
  }
  if (!/^[0-9a-f]{40}$/.test(context.sha)) throw new Problem(`GITHUB_SHA is '${context.sha}', which names no commit`);
  const request = {
    commit: context.sha,
    refs: [],
    pullRequest: inputs.pr === undefined ? undefined : { number: inputs.pr, head: undefined, isFork: false },
    label: undefined,
    comment: undefined,
    actors: unique(context.actors),
    ...askedByInputs(inputs),
  };
  // On a schedule the only thing that makes sense is to look.
  if (context.eventName === 'schedule') return { ...request, command: inputs.command === 'audit' ? 'audit' : 'status', actors: [] };
  return request;
}

function askedByInputs(inputs: Inputs): Asked {
  return {
    command: inputs.command,
    called: inputs.config || undefined,
    target: inputs.target || inputs.config || undefined,
    job: inputs.job,
    cell: inputs.cell,
    overrides: inputs.overrides,
  };
}

function ofPullRequest(
  context: RunnerContext,
  inputs: Inputs,
  payload: Record<string, unknown>,
  pull: Record<string, unknown>,
): Request | Nothing {
  const head = record(pull['head']);
  const number = Number(pull['number']);
  const commit = String(head['sha']);
  const action = String(payload['action'] ?? '');
  const headRepo = record(head['repo'])['id'];
  const baseRepo = record(record(pull['base'])['repo'])['id'];
  const request = {
    commit,
    refs: [`refs/pull/${number}/head`],
    pullRequest: { number, head: commit, isFork: headRepo === undefined || headRepo !== baseRepo },
    comment: undefined,
    actors: unique([String(record(payload['sender'])['login'] ?? ''), ...context.actors]),
  };
  // Only a workflow that says so cancels what a closed pull request has in the queue.
  if (action === 'closed' && inputs.command === 'cancel' && request.pullRequest.isFork)
    return { nothing: 'what a fork launched is cancelled by hand: its configuration is not to be trusted' };
  if (action === 'closed' && inputs.command === 'cancel') return { ...request, ...askedOf('cancel', ''), label: undefined };
  // Only the label this event is about counts: every label starts a run of its own.
  const label = String(record(payload['label'])['name'] ?? '');
  if (action !== 'labeled') return { nothing: `event ${context.eventName} ${action} asks for nothing` };
  const launch = /^launch(?::\s*(.+))?$/.exec(label);
  if (launch !== null) {
    const called = launch[1]?.trim() ?? (inputs.config || undefined);
    const overrides = withLength(inputs.overrides, pull['labels']);
    return { ...request, ...askedByInputs(inputs), label, called, target: undefined, overrides };
  }
  const [, command, rest = ''] = /^chain:\s*(status|extend|cancel|audit)(?:[:=\s]+(.*))?$/.exec(label) ?? [];
  if (command === 'status' || command === 'extend' || command === 'cancel' || command === 'audit') {
    return { ...request, ...askedOf(command, rest), label };
  }
  return { nothing: `label '${label}' is not launch, launch:<experiment> or chain:status|extend|cancel|audit` };
}

/** Payload: https://docs.github.com/en/webhooks/webhook-events-and-payloads#issue_comment */
function ofComment(context: RunnerContext, inputs: Inputs, payload: Record<string, unknown>): Request | Nothing {
  const issue = record(payload['issue']);
  const comment = record(payload['comment']);
  if (payload['action'] !== 'created') return { nothing: 'only new comments are commands' };
  if (issue['pull_request'] === undefined || issue['pull_request'] === null)
    return { nothing: 'the comment is on an issue, not on a pull request' };
  const asked = commandOfComment(String(comment['body'] ?? ''));
  if (asked === undefined) return { nothing: 'the comment is no command' };
  const number = Number(issue['number']);
  return {
    ...asked,
    // What the workflow sets for all launches holds for these as well.
    overrides: [...inputs.overrides.filter((one) => !asked.overrides.some((other) => other.path === one.path)), ...asked.overrides],
    commit: undefined,
    refs: [`refs/pull/${number}/head`],
    pullRequest: { number, head: undefined, isFork: undefined },
    label: undefined,
    comment: Number(comment['id']),
    actors: unique([String(record(comment['user'])['login'] ?? ''), String(record(payload['sender'])['login'] ?? ''), ...context.actors]),
  };
}

/** A label `chain:<N>` on the pull request sets the length. */
function withLength(overrides: readonly Override[], labels: unknown): readonly Override[] {
  const lengths = (Array.isArray(labels) ? labels : [])
    .map((label) => /^chain:\s*(.*)$/.exec(String(record(label)['name'] ?? ''))?.[1]?.trim())
    .filter((value) => value !== undefined && !/^(status|extend|cancel|audit)\b/.test(value));
  const [length, ...others] = new Set(lengths);
  if (length === undefined) return overrides;
  if (others.length > 0)
    throw new Problem(`the pull request has labels for several lengths: chain:${length} and chain:${others.join(', chain:')}; keep one`);
  if (!/^[1-9]\d*$/.test(length))
    throw new Problem(`the label 'chain:${length}' sets no length; it must be a whole number from 1, such as chain:4`);
  if (overrides.some((override) => override.path === 'chain.n_jobs')) return overrides;
  return [...overrides, { path: 'chain.n_jobs', value: length, mayAdd: true }];
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function unique(values: readonly string[]): string[] {
  return [...new Set(values.filter((value) => value !== ''))];
}
