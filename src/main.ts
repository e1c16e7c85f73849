import { context as github } from '@actions/github';
import { UnknownCommand } from './action/comment-command.ts';
import { contextOf, hiddenValues, lacksSecrets, noKey } from './action/context.ts';
import { type Api, apiWith, type RepoName, react, requireWrite } from './action/github.ts';
import { type Inputs, readInputs } from './action/inputs.ts';
import { log } from './action/log.ts';
import { answerRequest, answerUnknown, fail, publish, setOutputs } from './action/publish.ts';
import { isClosing, type Nothing, type Request, type RunnerContext, requestOf } from './action/request.ts';
import { messageOf, Problem } from './base/problem.ts';
import { redact } from './base/redact.ts';
import { canLogIn } from './cluster/connection.ts';
import type { Context } from './commands/context.ts';
import type { Outcome } from './commands/outcome.ts';
import { perform } from './commands/perform.ts';
import { waitForChains } from './commands/wait.ts';

/** One run of the action: inputs, request, command, report. Never throws; an error fails the workflow step. */
export async function run(): Promise<void> {
  const interruption = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      log.warning(`${signal}: stopping between two submissions`);
      interruption.abort();
    });
  }
  try {
    const inputs = readInputs();
    const runner: RunnerContext = {
      eventName: github.eventName,
      payload: github.payload,
      sha: github.sha ?? '',
      actors: [github.actor, process.env['GITHUB_TRIGGERING_ACTOR'] ?? ''],
    };
    const request = await requestOrAnswer(runner, inputs);
    if ('nothing' in request) log.info(`Nothing to do: ${request.nothing}.`);
    else await serve(inputs, request, interruption.signal);
  } catch (error) {
    fail(error);
  }
}

/** What the event asks for. A comment with an unknown command is answered here, if its author has write permission. */
async function requestOrAnswer(runner: RunnerContext, inputs: Inputs): Promise<Request | Nothing> {
  try {
    return requestOf(runner, inputs);
  } catch (error) {
    const { issue, comment } = github.payload;
    if (!(error instanceof Problem) || github.eventName !== 'issue_comment' || issue === undefined || comment === undefined) throw error;
    const api = apiWith(inputs.token);
    await requireWrite(api, github.repo, [String(comment['user']?.login ?? '')], inputs.allowedBots);
    await answerUnknown(api, github.repo, issue.number, comment.id, error.message);
    if (!(error instanceof UnknownCommand)) throw error;
    return { nothing: error.message };
  }
}

/**
 * What becomes of a request when there is nothing to log in with.
 * @returns whether the run ends here. A plan goes on: it needs no login
 * @throws Problem for a request that needs one
 */
function endsWithoutLogin(request: Request): boolean {
  if (isClosing(request)) log.info('Nothing to do: without ssh-key, nothing was launched from this pull request.');
  else if (request.command !== 'plan') throw noKey(request);
  return isClosing(request);
}

async function serve(inputs: Inputs, request: Request, signal: AbortSignal): Promise<void> {
  // Only the cluster's entry says whether a login needs a key. Where GitHub withholds it, there is no need to look.
  if (lacksSecrets(request) && inputs.sshKey.trim() === '' && endsWithoutLogin(request)) return;
  if (inputs.token === '') throw new Problem('the input github-token is empty');
  const name: RepoName = github.repo;
  const api = apiWith(inputs.token);
  await requireWrite(api, name, request.actors, inputs.allowedBots);
  const outcomes: Outcome[] = [];
  const urls: string[] = [];
  try {
    if (request.comment !== undefined) await confirmReceipt(api, name, request.comment);
    const context = await contextOf(api, name, inputs, request, signal);
    const clusters = [...context.site.clusters.values()];
    const isKeyless = clusters.length > 0 && clusters.every((cluster) => !canLogIn(cluster, context.credentials));
    if (isKeyless && endsWithoutLogin(request)) return;
    for await (const outcome of outcomesOf(context, inputs, request)) {
      outcomes.push(outcome);
      if (outcome.kind === 'problem') continue;
      try {
        urls.push(...(await publish(api, name, request, outcome)));
      } catch (error) {
        // A report that cannot be shown must not keep the others from being made.
        outcomes.push({ kind: 'problem', error });
      }
    }
  } catch (error) {
    outcomes.push({ kind: 'problem', error });
  }
  setOutputs(outcomes, urls);
  const problems = outcomes.flatMap((outcome) => (outcome.kind === 'problem' ? [outcome.error] : []));
  const messages = problems.map((problem) => redact(messageOf(problem), hiddenValues(inputs)));
  await answerRequest(api, name, request, messages);
  for (const problem of problems) fail(problem);
}

/** The outcomes of the command, and then those of waiting for its chains. */
async function* outcomesOf(context: Context, inputs: Inputs, request: Request): AsyncGenerator<Outcome> {
  const ids = new Set<string>();
  for await (const outcome of perform(request, context)) {
    if (outcome.kind === 'chain' && outcome.report.command !== 'plan') ids.add(outcome.report.id);
    yield outcome;
  }
  // A schedule only looks.
  if (inputs.wait === 'no' || request.actors.length === 0) return;
  yield* waitForChains(context, ids, {
    goal: inputs.wait,
    timeoutSeconds: inputs.waitTimeout,
    cancelWhenInterrupted: inputs.cancelJobsOnCancel,
  });
}

async function confirmReceipt(api: Api, name: RepoName, comment: number): Promise<void> {
  try {
    await react(api, name, comment, 'eyes');
  } catch (error) {
    log.warning(messageOf(error));
  }
}
