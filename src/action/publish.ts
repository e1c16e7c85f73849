import * as core from '@actions/core';
import type { AuditCost } from '../audit/answers.ts';
import type { Audit } from '../audit/audit.ts';
import { renderAudit } from '../audit/render.ts';
import { messageOf, Problem } from '../base/problem.ts';
import {
  COMMENT_BYTES,
  HELP_MARKER,
  markerOf,
  PROBLEM_MARKER,
  renderComment,
  renderHelp,
  renderProblem,
  renderSummary,
  statusDescription,
} from '../report/render.ts';
import type { Report } from '../report/report.ts';
import { deleteComment, upsertComment } from './comment.ts';
import { COMMENT_FORMS } from './comment-command.ts';
import { type Api, pullRequestsWith, type RepoName, react, removeLabel, setCommitStatus } from './github.ts';
import type { Request } from './request.ts';

/**
 * Comment, summary and commit status. What cannot be written hides nothing: the jobs are in the queue, and the summary says so.
 * @returns addresses of the comments
 */
export async function publish(api: Api, name: RepoName, request: Request, report: Report): Promise<string[]> {
  await core.summary.addRaw(`${renderSummary(report)}\n\n`).write();
  const urls: string[] = [];
  try {
    const asked = request.pullRequest?.number;
    const numbers = new Set([...report.pullRequests, ...(asked === undefined ? [] : [asked])]);
    if (numbers.size === 0) for (const number of await pullRequestsWith(api, name, report.commit)) numbers.add(number);
    for (const number of numbers) urls.push(await upsertComment(api, name, number, markerOf(report.id), renderComment(report)));
    for (const url of urls) core.info(`comment: ${url}`);
  } catch (error) {
    core.warning(`${messageOf(error)}. The report is in the summary of this run.`);
  }
  await publishCommitStatus(api, name, report, urls[0]);
  return urls;
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

/** So that the commit itself shows what was run from it. A workflow without `statuses: write` does without. */
async function publishCommitStatus(api: Api, name: RepoName, report: Report, comment: string | undefined): Promise<void> {
  if (report.state === 'planned' || report.state === 'unknown') return;
  // Overrides and attempts of one experiment at one commit are told apart by what the id adds to name and commit.
  const [, added = ''] = report.id.split(`-${report.commit.slice(0, 12)}`);
  try {
    await setCommitStatus(api, name, report.commit, {
      context: `slurm-chain/${report.name}${added}`,
      state: report.command === 'cancel' && report.jobs.length > 0 ? 'pending' : COMMIT_STATES[report.state],
      description: statusDescription(report),
      url: report.wandb?.group ?? comment ?? report.launcher.runUrl,
    });
  } catch (error) {
    core.info(`no commit status: ${messageOf(error)}`);
  }
}

/** The label goes, so that setting it again asks again; a comment shows how it went; a pull request says why something it asked for did not happen. */
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
    core.warning(messageOf(error));
  }
}

/** Answers a command that is none with the list of those there are. */
export async function answerUnknown(api: Api, name: RepoName, number: number, comment: number, message: string): Promise<void> {
  try {
    await react(api, name, comment, 'confused');
    await upsertComment(api, name, number, HELP_MARKER, renderHelp(message, COMMENT_FORMS));
  } catch (error) {
    core.warning(messageOf(error));
  }
}

const AUDIT_MARKER = '<!-- slurm-chain audit -->';

/** The audit in the summary, on the pull request that asked for it, and as JSON in the outputs. */
export async function publishAudit(api: Api, name: RepoName, request: Request, audits: readonly Audit[], cost: AuditCost): Promise<void> {
  await core.summary.addRaw(`${renderAudit(audits, cost)}\n\n`).write();
  core.setOutput('experiment-id', audits.map((audit) => audit.id).join('\n'));
  core.setOutput('state', audits.map((audit) => audit.verdict.kind).join('\n'));
  core.setOutput('report', audits);
  if (request.pullRequest === undefined) return;
  try {
    const body = `${AUDIT_MARKER}\n\n${renderAudit(audits, cost, COMMENT_BYTES)}`;
    core.setOutput('comment-url', await upsertComment(api, name, request.pullRequest.number, AUDIT_MARKER, body));
  } catch (error) {
    core.warning(`${messageOf(error)}. The audit is in the summary of this run.`);
  }
}

export function setOutputs(reports: readonly Report[], urls: readonly string[], failed: boolean): void {
  const lines = (of: (report: Report) => string) => reports.map(of).join('\n');
  const set = (output: string, of: (report: Report) => string) => core.setOutput(output, lines(of));
  set('experiment-id', (report) => report.id);
  set('job-ids', (report) => report.jobs.map((job) => job.jobId).join(','));
  set('checkpoint-dir', (report) => report.places.checkpoints);
  set('wandb-url', (report) => report.wandb?.group ?? '');
  core.setOutput('comment-url', urls.join('\n'));
  core.setOutput('state', [...reports.map((report) => report.state), ...(failed ? ['failed'] : [])].join('\n'));
  core.setOutput('report', reports);
}

/** Marks the step as failed, with an annotation at the place where there is one. */
export function fail(error: unknown): void {
  if (!(error instanceof Problem)) {
    core.setFailed(`unexpected: ${messageOf(error)}. This is a fault of slurm-chain; with ACTIONS_STEP_DEBUG the stack is in the log`);
    if (error instanceof Error && error.stack) core.debug(error.stack);
    return;
  }
  const { place } = error;
  process.exitCode = 1;
  core.error(error.message, place ? { file: place.file, startLine: place.line, startColumn: place.column } : {});
}
