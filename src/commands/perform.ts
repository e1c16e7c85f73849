import { auditExperiments, auditOfBad } from '../audit/audit.ts';
import type { AuditCost } from '../audit/program.ts';
import type { Audit, AuditReport } from '../audit/report.ts';
import { Problem } from '../base/problem.ts';
import { some } from '../base/text.ts';
import { experimentFiles } from '../chain/layout.ts';
import type { BadRecord, Listing } from '../cluster/programs/survey.ts';
import { findExperiment, isExperimentPath, loadExperiment, savePathsAt } from '../experiment/experiment.ts';
import type { Report } from '../report/report.ts';
import { cancelOutcome } from './cancel.ts';
import { matchingClusters } from './clusters.ts';
import type { Context } from './context.ts';
import { extendedExperiment, extensionOf } from './extend.ts';
import { launch } from './launch/launch.ts';
import type { Outcome } from './outcome.ts';
import { plan } from './plan.ts';
import type { Asked } from './request.ts';
import { refuseBeyondLimits } from './site.ts';
import { status } from './status.ts';
import { pickOne, targetOf } from './target.ts';

/** Carries out a request, and gives the outcome for each experiment as soon as it is there. */
export async function* perform(asked: Asked, context: Context): AsyncGenerator<Outcome> {
  switch (asked.command) {
    case 'plan':
    case 'launch':
    case 'restart':
      return yield* launchPaths(asked, context, asked.command);
    case 'status':
      return yield* statusOf(asked, context);
    case 'cancel':
      return yield* cancelChains(asked, context);
    case 'extend':
      return yield* extendChain(asked, context);
    case 'audit':
      return yield* audit(asked, context);
    default:
      return asked.command satisfies never;
  }
}

/** Outcomes of experiments that do not depend on each other. */
async function* launchPaths(asked: Asked, context: Context, command: 'plan' | 'launch' | 'restart'): AsyncGenerator<Outcome> {
  for (const path of await pathsOf(asked, context)) {
    if (context.signal.aborted) throw new Problem(`stopped before ${path}; nothing of it was submitted`);
    try {
      const report = await context.log.group(`${command} ${path}`, () => launchPath(asked, context, command, path));
      yield { kind: 'chain', report };
    } catch (error) {
      yield { kind: 'problem', error };
    }
  }
}

/** The paths of the experiments to launch. */
async function pathsOf(asked: Asked, { repo, commit, config, pullRequest }: Context): Promise<readonly string[]> {
  if (asked.experiment !== undefined) return [await findExperiment(repo, commit, config, asked.experiment)];
  if (pullRequest === undefined) return [];
  const paths = (await pullRequest.changedFiles()).filter((path) => isExperimentPath(config, path));
  if (paths.length === 0) {
    throw new Problem(
      `pull request #${pullRequest.number} changes no experiment (${config.experiments.join(', ')}). Name one with a label launch:<experiment>`,
    );
  }
  return paths;
}

async function launchPath(asked: Asked, context: Context, command: 'plan' | 'launch' | 'restart', path: string): Promise<Report> {
  const experiment = await loadExperiment(context.repo, context.commit, context.config, path, asked.overrides, context.site);
  context.log.info(`${experiment.id}: ${experiment.cells.length} cells × ${experiment.settings.chain.nJobs} jobs`);
  refuseBeyondLimits(context, experiment);
  if (command === 'plan') return plan(context, experiment);
  return launch(context, { experiment, mode: command, beforeSubmit: async () => context.pullRequest?.confirmHead() });
}

async function* statusOf(asked: Asked, context: Context): AsyncGenerator<Outcome> {
  const target = targetOf(asked, context.pullRequest?.number);
  for await (const { login, listing, matches, bad } of matchingClusters(context, asked, target)) {
    for (const { problem } of bad) yield { kind: 'problem', error: problem };
    const { reports, problems } = await status(login, listing, matches, context.hidden);
    for (const report of reports) yield { kind: 'chain', report };
    for (const problem of problems) yield { kind: 'problem', error: new Problem(problem) };
  }
}

async function* cancelChains(asked: Asked, context: Context): AsyncGenerator<Outcome> {
  const { pullRequest, launcher } = context;
  const target = targetOf(asked, pullRequest?.number);
  const wasClosed = pullRequest?.wasClosed === true;
  const { job, cell } = asked;
  for await (const { login, listing, matches, bad } of matchingClusters(context, asked, target, { mayBeNone: wasClosed })) {
    for (const one of bad) yield { kind: 'problem', error: notCancelled(one, listing) };
    if (bad.length > 0 && matches.length === 0) continue;
    const queued = matches.filter(({ id }) => listing.queued.has(id));
    const isWholePullRequest = target.kind === 'pull-request' && job === undefined && cell === undefined;
    const near = { commit: context.commit, pullRequest: pullRequest?.number };
    const chosen = wasClosed || (isWholePullRequest && queued.length > 0) ? queued : [pickOne(matches, listing, 'cancel', near)];
    for (const summary of chosen) {
      context.log.info(`cancelling ${summary.id}`);
      const by = `${launcher.actor || 'a schedule'} ${launcher.runUrl}`;
      yield await cancelOutcome(login, { summary, workdir: listing.workdir, job, cell, by, hidden: context.hidden });
    }
  }
}

/** Without its record, nobody can tell whether a chain belongs to this repository. */
function notCancelled({ id, problem }: BadRecord, { queued }: Listing): Problem {
  if (!queued.has(id)) return problem;
  return new Problem(
    `${id} is in the queue and was not cancelled, because ${problem.message}. Cancel its jobs on the cluster with scancel`,
  );
}

async function* extendChain(asked: Asked, context: Context): AsyncGenerator<Outcome> {
  const { pullRequest, commit, repo } = context;
  const target = targetOf(asked, pullRequest?.number);
  for await (const { login, listing, matches, bad } of matchingClusters(context, asked, target)) {
    for (const { problem } of bad) yield { kind: 'problem', error: problem };
    if (bad.length > 0 && matches.length === 0) continue;
    const summary = pickOne(matches, listing, 'extend', { commit, pullRequest: pullRequest?.number });
    const experiment = await extendedExperiment(repo, login.cluster, summary, listing, extensionOf(asked.overrides));
    refuseBeyondLimits(context, experiment);
    // An extension runs the commit of its chain, whatever was pushed since.
    const order = { experiment, mode: 'extend', beforeSubmit: async () => {} } as const;
    yield { kind: 'chain', report: await context.log.group(`extend ${summary.id}`, () => launch(context, order)) };
  }
}

/** Audits what was named, or everything that is live, on every cluster that has some of it. */
async function* audit(asked: Asked, context: Context): AsyncGenerator<Outcome> {
  const { repo, commit, config, log } = context;
  const target = targetOf(asked, context.pullRequest?.number);
  // If the workdir was purged, the records beside the checkpoints are all there is.
  const named = asked.target !== undefined && /^[/~$]/.test(asked.target) ? [asked.target] : [];
  const places = [...named, ...(await savePathsAt(repo, commit, config))];
  const reports: AuditReport[] = [];
  for await (const { login, listing, matches, bad } of matchingClusters(context, asked, target, { places })) {
    const targets = matches.map(({ id, save, codeName, checkpoints }) => ({
      ...{ id, saveDirectory: save, summary: { codeName, checkpoints } },
      experimentDirectory: experimentFiles(listing.workdir, id).directory,
    }));
    if (targets.length > 0) reports.push(await auditExperiments(login, repo, targets, log.info));
    reports.push(auditOfBad(bad.map(({ id, problem }) => ({ id, why: problem.message }))));
  }
  const audits = reports.flatMap((report) => report.audits);
  yield { kind: 'audit', report: { audits, cost: sumOf(reports.map(({ cost }) => cost)) } };
  const bad = audits.filter(({ verdict }) => verdict.kind !== 'verified');
  for (const { id, verdict } of bad) log.warning(`${id}: ${verdict.kind}`);
  if (context.strict && bad.length > 0) yield { kind: 'problem', error: notVerified(bad, audits.length) };
}

function notVerified(bad: readonly Audit[], all: number): Problem {
  const names = bad.map(({ id, verdict }) => `${id} (${verdict.kind})`);
  return new Problem(`${bad.length} of ${all} experiments are not verified: ${some(names, 10)}`);
}

function sumOf(costs: readonly AuditCost[]): AuditCost {
  const sum = (of: (cost: AuditCost) => number) => costs.reduce((total, cost) => total + of(cost), 0);
  return {
    experiments: sum((cost) => cost.experiments),
    filesHashed: sum((cost) => cost.filesHashed),
    bytesHashed: sum((cost) => cost.bytesHashed),
    clusterSeconds: sum((cost) => cost.clusterSeconds),
    seconds: sum((cost) => cost.seconds),
  };
}
