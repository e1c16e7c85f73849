import type { Override } from '../experiment/overrides.ts';
import { Problem } from '../problem.ts';
import type { Command, Inputs } from './inputs.ts';

/** What an event asks for. */
export interface Request {
  readonly command: Command;
  /** All 40 digits. Of a pull request, always its head: GITHUB_SHA is a merge commit there. */
  readonly commit: string;
  /** Refs the commit may be fetched by. */
  readonly refs: readonly string[];
  readonly pullRequest: PullRequest | undefined;
  /** The label to take off once it was acted on. */
  readonly label: string | undefined;
  /** A path or a name; undefined: the experiments the pull request changes. */
  readonly called: string | undefined;
  readonly overrides: readonly Override[];
  /** Everybody who had a hand in it; each needs write permission. */
  readonly actors: readonly string[];
}

export interface PullRequest {
  readonly number: number;
  /** undefined where it is only where to report. */
  readonly head: string | undefined;
  readonly isFork: boolean;
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

/**
 * What the event asks for, or why it asks for nothing.
 * @throws Problem for a request that contradicts itself
 */
export function requestOf(context: RunnerContext, inputs: Inputs): Request | { readonly nothing: string } {
  const payload = record(context.payload);
  const pull = record(payload['pull_request']);
  if (context.eventName.startsWith('pull_request') && Object.keys(pull).length > 0) return ofPullRequest(context, inputs, payload, pull);
  if (inputs.config === '') {
    throw new Problem(
      `the event ${context.eventName} names no experiment: give the input config a path such as configs/run.yaml, or a name`,
    );
  }
  if (!/^[0-9a-f]{40}$/.test(context.sha)) throw new Problem(`GITHUB_SHA is '${context.sha}', which names no commit`);
  return {
    command: inputs.command,
    commit: context.sha,
    refs: [],
    pullRequest: inputs.pr === undefined ? undefined : { number: inputs.pr, head: undefined, isFork: false },
    label: undefined,
    called: inputs.config,
    overrides: inputs.overrides,
    actors: unique(context.actors),
  };
}

function ofPullRequest(
  context: RunnerContext,
  inputs: Inputs,
  payload: Record<string, unknown>,
  pull: Record<string, unknown>,
): Request | { readonly nothing: string } {
  const head = record(pull['head']);
  const number = Number(pull['number']);
  const commit = String(head['sha']);
  // Only the label this event is about counts: every label starts a run of its own.
  const label = String(record(payload['label'])['name'] ?? '');
  const action = String(payload['action'] ?? '');
  const called = /^launch:\s*(.+)$/.exec(label)?.[1]?.trim();
  const isOurs = action === 'labeled' && (label === 'launch' || called !== undefined);
  if (!isOurs) {
    return {
      nothing:
        action === 'labeled'
          ? `label '${label}' is not launch or launch:<experiment>`
          : `event ${context.eventName} ${action} asks for nothing`,
    };
  }
  const headRepo = record(head['repo'])['id'];
  const baseRepo = record(record(pull['base'])['repo'])['id'];
  return {
    command: inputs.command,
    commit,
    refs: [`refs/pull/${number}/head`],
    pullRequest: { number, head: commit, isFork: headRepo === undefined || headRepo !== baseRepo },
    label,
    called: called ?? (inputs.config || undefined),
    overrides: withLength(inputs.overrides, pull['labels']),
    actors: unique([String(record(payload['sender'])['login'] ?? ''), ...context.actors]),
  };
}

/** A label `chain:<N>` on the pull request sets the length. */
function withLength(overrides: readonly Override[], labels: unknown): readonly Override[] {
  const lengths = (Array.isArray(labels) ? labels : [])
    .map((label) => /^chain:\s*(.*)$/.exec(String(record(label)['name'] ?? ''))?.[1]?.trim())
    .filter((value) => value !== undefined);
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
