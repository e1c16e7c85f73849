import * as core from '@actions/core';
import { context } from '@actions/github';
import { UnknownCommand } from './action/comment-command.ts';
import { type Api, apiWith, type RepoName, react, requireWrite } from './action/github.ts';
import { type Inputs, readInputs } from './action/inputs.ts';
import { answerRequest, answerUnknown, fail, publish, setOutputs } from './action/publish.ts';
import { type Request, type RunnerContext, requestOf } from './action/request.ts';
import { commitOf, isClosing, noKey, type Session } from './action/session.ts';
import { messageOf, Problem } from './base/problem.ts';
import { perform, secretsOf, waitForAll } from './commands/perform.ts';
import { withoutSecrets } from './commands/status.ts';
import { repoConfigAt } from './experiment/repo-config.ts';
import { ensureCommit, type Repo } from './repo/git.ts';
import type { Report } from './report/report.ts';

/** One run of the action: inputs, request, command, report. Never throws; a failure is the failed step. */
export async function run(): Promise<void> {
  const interruption = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      core.warning(`${signal}: stopping between two submissions`);
      interruption.abort();
    });
  }
  try {
    const inputs = readInputs();
    const runner: RunnerContext = {
      eventName: context.eventName,
      payload: context.payload,
      sha: context.sha ?? '',
      actors: [context.actor, process.env['GITHUB_TRIGGERING_ACTOR'] ?? ''],
    };
    const request = await requestOrAnswer(runner, inputs);
    if ('nothing' in request) {
      core.info(`Nothing to do: ${request.nothing}.`);
      return;
    }
    await serve(inputs, request, interruption.signal);
  } catch (error) {
    fail(error);
  }
}

/** What the event asks for; a comment with a command that is none is answered here, to people who may ask. */
async function requestOrAnswer(runner: RunnerContext, inputs: Inputs): Promise<Request | { readonly nothing: string }> {
  try {
    return requestOf(runner, inputs);
  } catch (error) {
    const { issue, comment } = context.payload;
    if (!(error instanceof Problem) || context.eventName !== 'issue_comment' || issue === undefined || comment === undefined) throw error;
    const api = apiWith(inputs.token);
    await requireWrite(api, context.repo, [String(comment['user']?.login ?? '')]);
    await answerUnknown(api, context.repo, issue.number, comment.id, error.message);
    if (!(error instanceof UnknownCommand)) throw error;
    return { nothing: error.message };
  }
}

async function serve(inputs: Inputs, request: Request, signal: AbortSignal): Promise<void> {
  const name: RepoName = context.repo;
  const hasKey = inputs.sshKey.trim() !== '';
  if (!hasKey && isClosing(request)) {
    core.info('Nothing to do: without ssh-key nothing of this pull request was launched.');
    return;
  }
  if (!hasKey && request.command !== 'plan') throw noKey(request);
  if (inputs.token === '') throw new Problem('the input github-token is empty');
  const api = apiWith(inputs.token);
  const reports: Report[] = [];
  const urls: string[] = [];
  const problems: unknown[] = [];
  const done = async (report: Report) => {
    reports.push(report);
    urls.push(...(await publish(api, name, request, report)));
  };
  await requireWrite(api, name, request.actors);
  try {
    if (request.comment !== undefined) await receipt(api, name, request.comment);
    const repo: Repo = { directory: process.env['GITHUB_WORKSPACE'] || process.cwd() };
    const commit = await commitOf(api, name, request, inputs);
    await ensureCommit(repo, commit, request.refs, inputs.token);
    const config = await repoConfigAt(repo, commit);
    const credentials = hasKey ? { privateKey: inputs.sshKey, passphrase: inputs.sshPassphrase } : undefined;
    const session: Session = { inputs, request, signal, api, name, repo, commit, config, credentials };
    await perform(session, done, (problem) => problems.push(problem));
    // A schedule only looks.
    if (inputs.wait !== 'no' && request.actors.length > 0 && reports.some((report) => report.command !== 'plan'))
      await waitForAll(session, reports, done);
  } catch (error) {
    problems.push(error);
  }
  // An audit has set its own.
  if (request.command !== 'audit') setOutputs(latest(reports), urls, problems.length > 0);
  await answerRequest(
    api,
    name,
    request,
    problems.map((problem) => withoutSecrets(messageOf(problem), secretsOf(inputs))),
  );
  for (const problem of problems) fail(problem);
}

async function receipt(api: Api, name: RepoName, comment: number): Promise<void> {
  try {
    await react(api, name, comment, 'eyes');
  } catch (error) {
    core.warning(messageOf(error));
  }
}

/** The last report of each experiment. */
function latest(reports: readonly Report[]): Report[] {
  return [...new Map(reports.map((report) => [report.id, report])).values()];
}
