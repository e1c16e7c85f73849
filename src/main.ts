import * as core from '@actions/core';
import { context } from '@actions/github';
import { deleteComment, upsertComment } from './action/comment.ts';
import { type Api, apiWith, changedFiles, headOf, pullRequestsWith, type RepoName, removeLabel, requireWrite } from './action/github.ts';
import { type Inputs, readInputs } from './action/inputs.ts';
import { type Request, requestOf } from './action/request.ts';
import { launch } from './commands/launch.ts';
import { plan } from './commands/plan.ts';
import { findExperiment, isExperimentPath, loadExperiment } from './experiment/experiment.ts';
import { ensureCommit, type Repo } from './experiment/git.ts';
import { type RepoConfig, repoConfigAt } from './experiment/repo-config.ts';
import { messageOf, Problem } from './problem.ts';
import { markerOf, PROBLEM_MARKER, renderComment, renderProblem, renderSummary } from './report/render.ts';
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
    const request = requestOf(
      {
        eventName: context.eventName,
        payload: context.payload,
        sha: context.sha ?? '',
        actors: [context.actor, process.env['GITHUB_TRIGGERING_ACTOR'] ?? ''],
      },
      inputs,
    );
    if ('nothing' in request) {
      core.info(`Nothing to do: ${request.nothing}.`);
      return;
    }
    await serve(inputs, request, interruption.signal);
  } catch (error) {
    fail(error);
  }
}

async function serve(inputs: Inputs, request: Request, signal: AbortSignal): Promise<void> {
  const name: RepoName = context.repo;
  if (inputs.sshKey.trim() === '' && request.command !== 'plan') throw noKey(request);
  if (inputs.token === '') throw new Problem('the input github-token is empty');
  const api = apiWith(inputs.token);
  await requireWrite(api, name, request.actors);
  if (request.pullRequest?.isFork && !inputs.allowForks) {
    throw new Problem(
      `pull request #${request.pullRequest.number} comes from a fork. Launching it would run its author's code as your cluster account; 'unsafe-allow-forks: true' allows that`,
    );
  }
  const reports: Report[] = [];
  const urls: string[] = [];
  const problems: unknown[] = [];
  try {
    const repo: Repo = { directory: process.env['GITHUB_WORKSPACE'] || process.cwd() };
    await ensureCommit(repo, request.commit, request.refs, inputs.token);
    const config = await repoConfigAt(repo, request.commit);
    for (const path of await pathsOf(api, name, repo, config, request)) {
      if (signal.aborted) throw new Problem(`stopped before ${path}; nothing of it was submitted`);
      try {
        const report = await core.group(`${request.command} ${path}`, () =>
          execute(api, name, repo, config, path, inputs, request, signal),
        );
        reports.push(report);
        urls.push(await publish(api, name, request, report));
      } catch (error) {
        problems.push(error);
      }
    }
  } catch (error) {
    problems.push(error);
  }
  await setOutputs(reports, urls, problems.length > 0);
  if (request.pullRequest && request.label !== undefined) await afterLabel(api, name, request.pullRequest.number, request.label, problems);
  for (const problem of problems) fail(problem);
}

/** The experiments that are meant, by path. */
async function pathsOf(api: Api, name: RepoName, repo: Repo, config: RepoConfig, request: Request): Promise<string[]> {
  if (request.called !== undefined) return [await findExperiment(repo, request.commit, config, request.called)];
  if (request.pullRequest === undefined) return [];
  const changed = await changedFiles(api, name, request.pullRequest.number);
  const paths = changed.filter((path) => isExperimentPath(config, path));
  if (paths.length === 0) {
    throw new Problem(
      `pull request #${request.pullRequest.number} changes no experiment (${config.experiments.join(', ')}); name one with a label launch:<experiment>`,
    );
  }
  return paths;
}

async function execute(
  api: Api,
  name: RepoName,
  repo: Repo,
  config: RepoConfig,
  path: string,
  inputs: Inputs,
  request: Request,
  signal: AbortSignal,
): Promise<Report> {
  // What a chain is made longer by is said each time; the yaml's own length is that of a whole chain.
  const overrides =
    request.command === 'extend' && !request.overrides.some((override) => override.path === 'chain.n_jobs')
      ? [...request.overrides, { path: 'chain.n_jobs', value: '1', mayAdd: true }]
      : request.overrides;
  const order = {
    repo,
    experiment: await loadExperiment(repo, request.commit, config, path, overrides),
    launcher: {
      actor: request.actors[0] ?? '',
      runUrl: `${context.serverUrl}/${name.owner}/${name.repo}/actions/runs/${context.runId}`,
      repository: `${name.owner}/${name.repo}`,
      pullRequest: request.pullRequest?.number,
      at: new Date().toISOString(),
    },
    credentials: inputs.sshKey.trim() === '' ? undefined : { privateKey: inputs.sshKey, passphrase: inputs.sshPassphrase },
    secrets: inputs.secrets,
    progress: (line: string) => core.info(line),
    signal,
  };
  core.info(`${order.experiment.id}: ${order.experiment.cells.length} cells × ${order.experiment.settings.chain.nJobs} steps`);
  switch (request.command) {
    case 'plan':
      return plan(order);
    case 'launch':
    case 'extend':
    case 'restart':
      return launch({
        ...order,
        mode: request.command,
        keep: inputs.keepPartial,
        beforeSubmit: () => refuseMovedHead(api, name, request),
      });
    default:
      return request.command satisfies never;
  }
}

/** What was approved is the commit the event names; a push since then is not. */
async function refuseMovedHead(api: Api, name: RepoName, { pullRequest, commit }: Request): Promise<void> {
  if (pullRequest?.head === undefined) return;
  const now = await headOf(api, name, pullRequest.number);
  if (now !== commit) {
    throw new Problem(
      `pull request #${pullRequest.number} has moved from ${commit.slice(0, 12)} to ${now.slice(0, 12)} since it was labelled. Nothing was submitted; look at the new commit and label it again`,
    );
  }
}

/** Comment and summary. A comment that cannot be written hides nothing: the jobs are in the queue, and the summary says so. */
async function publish(api: Api, name: RepoName, request: Request, report: Report): Promise<string> {
  await core.summary.addRaw(`${renderSummary(report)}\n\n`).write();
  try {
    const numbers = request.pullRequest ? [request.pullRequest.number] : await pullRequestsWith(api, name, report.commit);
    const urls: string[] = [];
    for (const number of numbers) urls.push(await upsertComment(api, name, number, markerOf(report.id), renderComment(report)));
    for (const url of urls) core.info(`comment: ${url}`);
    return urls.join(',');
  } catch (error) {
    core.warning(`${messageOf(error)}. The report is in the summary of this run.`);
    return '';
  }
}

/** The label goes, so that setting it again asks again; a pull request says why a launch it asked for did not happen. */
async function afterLabel(api: Api, name: RepoName, number: number, label: string, problems: readonly unknown[]): Promise<void> {
  try {
    await removeLabel(api, name, number, label);
    if (problems.length === 0) await deleteComment(api, name, number, PROBLEM_MARKER);
    else await upsertComment(api, name, number, PROBLEM_MARKER, renderProblem(label, problems.map(messageOf)));
  } catch (error) {
    core.warning(messageOf(error));
  }
}

async function setOutputs(reports: readonly Report[], urls: readonly string[], failed: boolean): Promise<void> {
  const lines = (of: (report: Report) => string) => reports.map(of).join('\n');
  core.setOutput(
    'experiment-id',
    lines((report) => report.id),
  );
  core.setOutput(
    'job-ids',
    lines((report) => report.jobs.map((job) => job.job).join(',')),
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
  core.setOutput('state', [...reports.map((report) => report.state), ...(failed ? ['failed'] : [])].join('\n'));
  core.setOutput('report', reports);
}

function noKey(request: Request): Problem {
  const why =
    context.actor === 'dependabot[bot]'
      ? ' Runs started by Dependabot get Dependabot secrets, not those of Actions.'
      : request.pullRequest?.isFork
        ? ' Workflows of pull requests from forks get no secrets.'
        : ' Is the secret set, under the name the workflow uses, in this repository or its environment?';
  return new Problem(`the input ssh-key is empty, so there is no way to log in on the cluster.${why} Nothing was submitted`);
}

function fail(error: unknown): void {
  if (!(error instanceof Problem)) {
    core.setFailed(`unexpected: ${messageOf(error)}. This is a fault of slurm-chain; with ACTIONS_STEP_DEBUG the stack is in the log`);
    if (error instanceof Error && error.stack) core.debug(error.stack);
    return;
  }
  const { place } = error;
  process.exitCode = 1;
  core.error(error.message, place ? { file: place.file, startLine: place.line, startColumn: place.column } : {});
}
