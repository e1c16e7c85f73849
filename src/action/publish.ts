import * as core from '@actions/core';
import { AUDIT_MARKER, renderAudit } from '../audit/render.ts';
import type { AuditReport } from '../audit/report.ts';
import { messageOf, Problem } from '../base/problem.ts';
import { visible } from '../base/text.ts';
import type { Outcome } from '../commands/outcome.ts';
import { shortId } from '../repo/commit-id.ts';
import { COMMENT_BYTES } from '../report/markdown.ts';
import { markerOf, renderComment, renderSummary, statusDescription } from '../report/render.ts';
import { HELP_MARKER, PROBLEM_MARKER, renderHelp, renderProblem } from '../report/replies.ts';
import type { Report } from '../report/report.ts';
import { deleteComment, editComment, upsertComment } from './comment.ts';
import { COMMENT_FORMS } from './comment-command.ts';
import { type Api, pullRequestsWith, type RepoName, react, removeLabel, setCommitStatus } from './github.ts';
import { log } from './log.ts';
import type { Request } from './request.ts';

/**
 * Shows an outcome in the summary, in comments and as a commit status. If GitHub does not take one of them, the others stay.
 * @returns addresses of the comments
 */
export async function publish(
  api: Api,
  name: RepoName,
  request: Request,
  outcome: Exclude<Outcome, { kind: 'problem' }>,
): Promise<string[]> {
  switch (outcome.kind) {
    case 'chain':
      return publishChain(api, name, request, outcome.report);
    case 'audit':
      return publishAudit(api, name, request, outcome.report);
    default:
      return outcome satisfies never;
  }
}

async function publishChain(api: Api, name: RepoName, request: Request, report: Report): Promise<string[]> {
  await core.summary.addRaw(`${renderSummary(report)}\n\n`).write();
  const urls: string[] = [];
  try {
    const asked = request.pullRequest?.number;
    const named = new Set([...report.pullRequests, ...(asked === undefined ? [] : [asked])]);
    // The pull request that asks needs no check.
    const mayBeForeign = named.size === 0 || [...named].some((number) => number !== asked);
    const holding = mayBeForeign ? await holdingPullRequests(api, name, report.commit) : [];
    const body = renderComment(report);
    for (const number of named.size > 0 ? named : new Set(holding)) {
      // Anybody who can write the record can name any pull request in it. One that launched the chain and lost the commit since
      // has our comment already.
      const isOurs = number === asked || holding.includes(number);
      const url = await (isOurs ? upsertComment : editComment)(api, name, number, markerOf(report.id), body);
      if (url === undefined)
        log.warning(
          `the record of ${report.id} names pull request #${number}, which does not contain commit ${shortId(report.commit)}; no comment there`,
        );
      else urls.push(url);
    }
    for (const url of urls) log.info(`comment: ${url}`);
  } catch (error) {
    log.warning(`${messageOf(error)}. The report is in the summary of this run.`);
  }
  await publishCommitStatus(api, name, report, urls[0]);
  return urls;
}

/** Numbers of the pull requests that contain a commit, as far as GitHub says. */
async function holdingPullRequests(api: Api, name: RepoName, commit: string): Promise<number[]> {
  try {
    return await pullRequestsWith(api, name, commit);
  } catch (error) {
    log.warning(messageOf(error));
    return [];
  }
}

async function publishAudit(api: Api, name: RepoName, request: Request, report: AuditReport): Promise<string[]> {
  await core.summary.addRaw(`${renderAudit(report)}\n\n`).write();
  if (request.pullRequest === undefined) return [];
  try {
    const body = `${AUDIT_MARKER}\n\n${renderAudit(report, COMMENT_BYTES)}`;
    return [await upsertComment(api, name, request.pullRequest.number, AUDIT_MARKER, body)];
  } catch (error) {
    log.warning(`${messageOf(error)}. The audit is in the summary of this run.`);
    return [];
  }
}

const COMMIT_STATES = {
  submitted: 'pending',
  extended: 'pending',
  alive: 'pending',
  waiting: 'pending',
  running: 'pending',
  complete: 'success',
  ended: 'failure',
  failed: 'failure',
  cancelled: 'error',
} as const;

/** Shows the state on the commit itself. A workflow without `statuses: write` goes without. */
async function publishCommitStatus(api: Api, name: RepoName, report: Report, comment: string | undefined): Promise<void> {
  if (report.state === 'planned' || report.state === 'unknown') return;
  // Experiments with the same name at one commit differ in what the id adds: overrides and attempt.
  const [, added = ''] = report.id.split(`-${shortId(report.commit)}`);
  try {
    await setCommitStatus(api, name, report.commit, {
      context: visible(`slurm-chain/${report.name}${added}`),
      state: report.command === 'cancel' && report.jobs.length > 0 ? 'pending' : COMMIT_STATES[report.state],
      description: visible(statusDescription(report)),
      url: report.wandb?.group ?? comment ?? report.launcher.runUrl,
    });
  } catch (error) {
    log.info(`no commit status: ${messageOf(error)}`);
  }
}

/**
 * Answers the request itself. A reaction shows the outcome. The label is removed, so that setting it again asks again. A comment
 * says why a request was not carried out.
 */
export async function answerRequest(api: Api, name: RepoName, request: Request, problems: readonly string[]): Promise<void> {
  const number = request.pullRequest?.number;
  try {
    if (request.comment !== undefined) await react(api, name, request.comment, problems.length === 0 ? 'rocket' : 'confused');
    if (number === undefined || (request.label === undefined && request.comment === undefined)) return;
    if (request.label !== undefined) await removeLabel(api, name, number, request.label);
    if (problems.length === 0) await deleteComment(api, name, number, PROBLEM_MARKER);
    else {
      const asked = request.label === undefined ? `/${request.command}` : `label ${request.label}`;
      await upsertComment(api, name, number, PROBLEM_MARKER, renderProblem(asked, problems));
    }
  } catch (error) {
    log.warning(messageOf(error));
  }
}

/** Answers a command that does not exist with the list of commands. */
export async function answerUnknown(api: Api, name: RepoName, number: number, comment: number, message: string): Promise<void> {
  try {
    await react(api, name, comment, 'confused');
    await upsertComment(api, name, number, HELP_MARKER, renderHelp(message, COMMENT_FORMS));
  } catch (error) {
    log.warning(messageOf(error));
  }
}

/** Sets the outputs of action.yml: one line per experiment, and all facts as JSON in `report`. */
export function setOutputs(outcomes: readonly Outcome[], urls: readonly string[]): void {
  const chains = latest(outcomes.flatMap((outcome) => (outcome.kind === 'chain' ? [outcome.report] : [])));
  const audits = outcomes.flatMap((outcome) => (outcome.kind === 'audit' ? outcome.report.audits : []));
  const hasProblem = outcomes.some((outcome) => outcome.kind === 'problem');
  const lines = (of: (report: Report) => string) => chains.map(of).join('\n');
  core.setOutput('experiment-id', [...chains, ...audits].map(({ id }) => id).join('\n'));
  core.setOutput(
    'job-ids',
    lines((report) => report.jobs.map((job) => job.jobId).join(',')),
  );
  core.setOutput(
    'checkpoint-dir',
    lines((report) => report.places.checkpoints),
  );
  core.setOutput(
    'wandb-url',
    lines((report) => report.wandb?.group ?? ''),
  );
  core.setOutput('comment-url', urls.join('\n'));
  const states = [...chains.map(({ state }) => state), ...audits.map(({ verdict }) => verdict.kind)];
  // An audit has a verdict for each experiment, also when `strict` makes it fail.
  core.setOutput('state', [...states, ...(hasProblem && audits.length === 0 ? ['failed'] : [])].join('\n'));
  core.setOutput('report', audits.length > 0 ? audits : chains);
}

/** The last report of each experiment. */
function latest(reports: readonly Report[]): Report[] {
  return [...new Map(reports.map((report) => [report.id, report])).values()];
}

/** Marks the workflow step as failed, with an annotation if the problem has a place in a file. */
export function fail(error: unknown): void {
  process.exitCode = 1;
  if (!(error instanceof Problem)) {
    log.error(`unexpected: ${messageOf(error)}. This is a fault of slurm-chain. With ACTIONS_STEP_DEBUG the stack is in the log`);
    if (error instanceof Error && error.stack) log.debug(error.stack);
    return;
  }
  const { place } = error;
  log.error(error.message, place ? { file: place.file, startLine: place.line, startColumn: place.column } : {});
}
