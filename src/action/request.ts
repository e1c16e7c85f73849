import { Problem } from '../base/problem.ts';
import type { Asked } from '../commands/request.ts';
import type { Override } from '../experiment/overrides.ts';
import { isCommitId } from '../repo/commit-id.ts';
import { askedOf, commandOfComment } from './comment-command.ts';
import type { Inputs } from './inputs.ts';

/** What an event asks for. */
export interface Request extends Asked {
  /** undefined for the head of the pull request when the comment was written. Never the merge commit that GITHUB_SHA is on such events. */
  readonly commit: string | undefined;
  /** Refs by which the commit may be fetched. */
  readonly refs: readonly string[];
  readonly pullRequest: RequestedPullRequest | undefined;
  /** The label to remove once the request was carried out. */
  readonly label: string | undefined;
  /** Id of the comment that asks. */
  readonly comment: number | undefined;
  /** When the comment was written, by GitHub's clock. */
  readonly writtenAt: string | undefined;
  /** Everybody who took part in the request. Each of them needs write permission. Empty for a schedule. */
  readonly actors: readonly string[];
}

export interface RequestedPullRequest {
  readonly number: number;
  /** The commit that the event is about; undefined if it names none. */
  readonly head: string | undefined;
  /** undefined if it is not known yet, as for a comment. */
  readonly isFork: boolean | undefined;
}

/** The part of a runner's environment that is used here. */
export interface RunnerContext {
  readonly eventName: string;
  readonly payload: unknown;
  /** GITHUB_SHA */
  readonly sha: string;
  /** GITHUB_ACTOR and GITHUB_TRIGGERING_ACTOR; they differ when somebody re-runs a workflow run. */
  readonly actors: readonly string[];
}

/** The event asks for nothing. */
export interface Nothing {
  readonly nothing: string;
}

/**
 * What an event asks for, or why it asks for nothing.
 * @throws Problem for a request that contradicts itself; UnknownCommand for a comment with a command that does not exist
 */
export function requestOf(context: RunnerContext, inputs: Inputs): Request | Nothing {
  const request = ofEvent(context, inputs);
  if (!('nothing' in request) && request.actors.length === 0 && context.eventName !== 'schedule') {
    throw new Problem(
      `the event ${context.eventName} names nobody, and GITHUB_ACTOR is empty, so nobody's permission can be checked. Nothing was submitted`,
    );
  }
  return request;
}

function ofEvent(context: RunnerContext, inputs: Inputs): Request | Nothing {
  const payload = record(context.payload);
  const pull = record(payload['pull_request']);
  if (context.eventName.startsWith('pull_request') && Object.keys(pull).length > 0) return ofPullRequest(context, inputs, payload, pull);
  if (context.eventName === 'issue_comment') return ofComment(context, inputs, payload);
  const isSchedule = context.eventName === 'schedule';
  if (!isSchedule && ['launch', 'plan', 'restart'].includes(inputs.command) && inputs.config === '') {
    throw new Problem(
      `the event ${context.eventName} names no experiment. Give the input config a path such as configs/run.yaml, or a name`,
    );
  }
  if (!isCommitId(context.sha)) throw new Problem(`GITHUB_SHA is '${context.sha}', which is not a commit id`);
  const request = {
    commit: context.sha,
    refs: [],
    pullRequest: inputs.pr === undefined ? undefined : { number: inputs.pr, head: undefined, isFork: false },
    label: undefined,
    comment: undefined,
    writtenAt: undefined,
    actors: unique(context.actors),
    ...askedByInputs(inputs),
  };
  // Nobody asks on a schedule, so it only looks.
  return isSchedule ? { ...request, command: inputs.command === 'audit' ? 'audit' : 'status', actors: [] } : request;
}

function askedByInputs(inputs: Inputs): Asked {
  return {
    command: inputs.command,
    experiment: inputs.config || undefined,
    target: inputs.target || inputs.config || undefined,
    job: inputs.job,
    cell: inputs.cell,
    overrides: inputs.overrides,
  };
}

/** Payload: https://docs.github.com/en/webhooks/webhook-events-and-payloads#pull_request */
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
    writtenAt: undefined,
    actors: unique([String(record(payload['sender'])['login'] ?? ''), ...context.actors]),
  };
  if (action === 'closed' && inputs.command === 'cancel') {
    // Only a workflow that passes `command: cancel` for this event cancels the chains of a closed pull request.
    return request.pullRequest.isFork
      ? { nothing: 'chains of a pull request from a fork are cancelled by hand, because its configuration cannot be trusted' }
      : { ...request, ...askedOf('cancel', ''), label: undefined };
  }
  if (action !== 'labeled') return { nothing: `the event ${context.eventName} ${action} asks for nothing` };
  // Only the label of this event counts, because every label starts a workflow run of its own.
  return ofLabel(String(record(payload['label'])['name'] ?? ''), request, inputs, pull['labels']);
}

function ofLabel(
  label: string,
  request: Pick<Request, 'commit' | 'refs' | 'pullRequest' | 'comment' | 'writtenAt' | 'actors'>,
  inputs: Inputs,
  labels: unknown,
): Request | Nothing {
  const launch = /^launch(?::\s*(.+))?$/.exec(label);
  if (launch !== null) {
    const experiment = launch[1]?.trim() ?? (inputs.config || undefined);
    const overrides = withLength(inputs.overrides, labels);
    return { ...request, ...askedByInputs(inputs), label, experiment, target: undefined, overrides };
  }
  const [, command, rest = ''] = /^chain:\s*(status|extend|cancel|audit)(?:[:=\s]+(.*))?$/.exec(label) ?? [];
  if (command === 'status' || command === 'extend' || command === 'cancel' || command === 'audit') {
    return { ...request, ...askedOf(command, rest), label };
  }
  return { nothing: `the label '${label}' is not launch, launch:<experiment> or chain:status|extend|cancel|audit` };
}

/** Payload: https://docs.github.com/en/webhooks/webhook-events-and-payloads#issue_comment */
function ofComment(context: RunnerContext, inputs: Inputs, payload: Record<string, unknown>): Request | Nothing {
  const issue = record(payload['issue']);
  const comment = record(payload['comment']);
  if (payload['action'] !== 'created') return { nothing: 'only new comments are commands' };
  if (issue['pull_request'] === undefined || issue['pull_request'] === null) {
    return { nothing: 'the comment is on an issue, not on a pull request' };
  }
  const asked = commandOfComment(String(comment['body'] ?? ''));
  if (asked === undefined) return { nothing: 'the comment is not a command' };
  const number = Number(issue['number']);
  const isOverridden = (override: Override) => asked.overrides.some((other) => other.path === override.path);
  return {
    ...asked,
    // The overrides of the workflow apply to every launch.
    overrides: [...inputs.overrides.filter((override) => !isOverridden(override)), ...asked.overrides],
    refs: [`refs/pull/${number}/head`],
    pullRequest: { number, head: undefined, isFork: undefined },
    label: undefined,
    comment: Number(comment['id']),
    writtenAt: typeof comment['created_at'] === 'string' ? comment['created_at'] : undefined,
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
  if (others.length > 0) {
    throw new Problem(
      `the pull request has labels for several lengths: chain:${length} and chain:${others.join(', chain:')}. Keep one of them`,
    );
  }
  if (!/^[1-9]\d*$/.test(length)) {
    throw new Problem(`the label 'chain:${length}' sets no length. It must be a whole number from 1, such as chain:4`);
  }
  if (overrides.some((override) => override.path === 'chain.n_jobs')) return overrides;
  return [...overrides, { path: 'chain.n_jobs', value: length, mayAdd: true }];
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function unique(values: readonly string[]): string[] {
  return [...new Set(values.filter((value) => value !== ''))];
}

/** Was the pull request closed? Then nobody asked, and most pull requests have nothing in the queue. */
export function isClosing({ pullRequest, label, command }: Request): boolean {
  return command === 'cancel' && pullRequest?.head !== undefined && label === undefined;
}
