import * as core from '@actions/core';
import { changedFiles, pullRequestHead } from '../action/github.ts';
import type { Inputs } from '../action/inputs.ts';
import { publishAudit } from '../action/publish.ts';
import type { Request } from '../action/request.ts';
import { isClosing, noKey, runUrl, type Session } from '../action/session.ts';
import type { AuditCost } from '../audit/answers.ts';
import { type Audit, auditExperiments } from '../audit/audit.ts';
import { Problem } from '../base/problem.ts';
import type { Launcher } from '../chain/manifest.ts';
import { type Experiment, findExperiment, isExperimentPath, loadExperiment, savePathsAt } from '../experiment/experiment.ts';
import type { Report } from '../report/report.ts';
import { cancel } from './cancel.ts';
import { type ClusterMatch, onClusters } from './clusters.ts';
import type { Order } from './command.ts';
import { extendedExperiment } from './extend.ts';
import { launch } from './launch/launch.ts';
import { plan } from './plan.ts';
import { status } from './status.ts';
import { pickOne, type Target } from './target.ts';
import { waitFor } from './wait.ts';

/**
 * Does what was asked for.
 * @param done takes each report as it comes
 * @param failed takes what went wrong with one of several
 */
export async function perform(
  session: Session,
  done: (report: Report) => Promise<void>,
  failed: (problem: unknown) => void,
): Promise<void> {
  const { request, signal, commit } = session;
  const near = { commit, pullRequest: request.pullRequest?.number };
  switch (request.command) {
    case 'plan':
    case 'launch':
    case 'restart':
      for (const path of await pathsOf(session)) {
        if (signal.aborted) throw new Problem(`stopped before ${path}; nothing of it was submitted`);
        try {
          await done(await core.group(`${request.command} ${path}`, () => launchPath(session, path)));
        } catch (error) {
          failed(error);
        }
      }
      return;
    case 'status':
      return onFound(session, targetOf(request, true), async (found) => {
        const { reports, problems } = await statusOfFound(session, found);
        for (const report of reports) await done(report);
        for (const problem of problems) failed(new Problem(problem));
      });
    case 'cancel': {
      const target = targetOf(request, false);
      // Nobody asked: the pull request was closed, and most have nothing in the queue then.
      const closing = isClosing(request);
      const act = async ({ connection, cluster, listing, matches }: ClusterMatch) => {
        const queued = matches.filter((head) => listing.queued.has(head.id));
        // Everything of a pull request, or the one chain that was named.
        const all = target.kind === 'pull request' && request.job === undefined && request.cell === undefined;
        const chosen = closing || (all && queued.length > 0) ? queued : [pickOne(matches, listing, 'cancel', near)];
        for (const experiment of chosen) {
          core.info(`cancelling ${experiment.id}`);
          const { workdir } = listing;
          const { job: jobNumber, cell } = request;
          const by = `${request.actors[0] ?? 'a schedule'} ${runUrl(session.name)}`;
          await done(await cancel(connection, cluster, { experiment, workdir, jobNumber, cell, by, secrets: secretsOf(session.inputs) }));
        }
      };
      return onFound(session, target, act, { mayBeNone: closing });
    }
    case 'extend':
      return onFound(session, targetOf(request, false), async ({ listing, matches }) => {
        const head = pickOne(matches, listing, 'extend', near);
        const given = request.overrides.filter((override) => override.path.startsWith('chain.'));
        const chain = given.some((one) => one.path === 'chain.n_jobs')
          ? given
          : [...given, { path: 'chain.n_jobs', value: '1', mayAdd: true }];
        const experiment = await extendedExperiment(session.repo, head, listing, chain, session.inputs.token);
        await done(await core.group(`extend ${head.id}`, () => launchOf(session, experiment, 'extend')));
      });
    case 'audit': {
      const { audits, cost } = await audit(session);
      await publishAudit(session.api, session.name, request, audits, cost);
      const bad = audits.filter((one) => one.verdict.kind !== 'verified');
      for (const one of bad) core.warning(`${one.id}: ${one.verdict.kind}`);
      if (session.inputs.strict && bad.length > 0) {
        throw new Problem(
          `${bad.length} of ${audits.length} experiments are not verified: ${bad
            .slice(0, 10)
            .map((one) => `${one.id} (${one.verdict.kind})`)
            .join(', ')}`,
        );
      }
      return;
    }
    default:
      return request.command satisfies never;
  }
}

/** The experiments that are to be launched, by path. */
async function pathsOf({ api, name, repo, commit, config, request }: Session): Promise<string[]> {
  if (request.called !== undefined) return [await findExperiment(repo, commit, config, request.called)];
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

async function launchPath(session: Session, path: string): Promise<Report> {
  const { repo, commit, config, request } = session;
  const experiment = await loadExperiment(repo, commit, config, path, request.overrides);
  core.info(`${experiment.id}: ${experiment.cells.length} cells × ${experiment.settings.chain.nJobs} steps`);
  return request.command === 'plan'
    ? plan(orderOf(session, experiment))
    : launchOf(session, experiment, request.command === 'restart' ? 'restart' : 'launch');
}

function launchOf(session: Session, experiment: Experiment, mode: 'launch' | 'extend' | 'restart'): Promise<Report> {
  return launch({
    ...orderOf(session, experiment),
    mode,
    keep: session.inputs.keepPartial,
    // An extension runs the commit of its chain, whatever the pull request has moved on to.
    beforeSubmit: mode === 'extend' ? async () => {} : () => refuseMovedHead(session),
  });
}

function orderOf({ repo, inputs, credentials, signal, request, name }: Session, experiment: Experiment): Order {
  const launcher: Launcher = {
    actor: request.actors[0] ?? '',
    runUrl: runUrl(name),
    repository: `${name.owner}/${name.repo}`,
    pullRequest: request.pullRequest?.number,
    at: new Date().toISOString(),
  };
  return { repo, experiment, launcher, credentials, secrets: inputs.secrets, progress: (line) => core.info(line), signal };
}

/** What was approved is the commit the event names; a push since then is not. */
async function refuseMovedHead({ api, name, request: { pullRequest }, commit }: Session): Promise<void> {
  if (pullRequest === undefined || (pullRequest.head === undefined && pullRequest.isFork !== undefined)) return;
  const { commit: now, isOpen } = await pullRequestHead(api, name, pullRequest.number);
  if (!isOpen) throw new Problem(`pull request #${pullRequest.number} is closed. Nothing was submitted`);
  if (now !== commit) {
    throw new Problem(
      `pull request #${pullRequest.number} has moved from ${commit.slice(0, 12)} to ${now.slice(0, 12)} since it was labelled. Nothing was submitted; look at the new commit and label it again`,
    );
  }
}

/** @param whatever without a name and a pull request, everything that is live is meant */
function targetOf({ target, pullRequest, command }: Request, whatever: boolean): Target {
  const pull = /^#(\d{1,9})$/.exec(target ?? '')?.[1];
  if (pull !== undefined) return { kind: 'pull request', number: Number(pull) };
  if (target !== undefined) return { kind: 'named', text: target };
  if (pullRequest !== undefined) return { kind: 'pull request', number: pullRequest.number };
  if (whatever) return { kind: 'live' };
  throw new Problem(`say what to ${command}: give the input target, config or pr`);
}

/** @param places see onClusters. @param mayBeNone whether a pull request that launched nothing is fine */
async function onFound(
  session: Session,
  target: Target,
  act: (found: ClusterMatch) => Promise<void>,
  { places = [], mayBeNone = false }: { readonly places?: readonly string[]; readonly mayBeNone?: boolean } = {},
): Promise<void> {
  const { config, credentials, repo, name, request, inputs } = session;
  if (credentials === undefined) throw noKey(request);
  const wanted = request.overrides.find((override) => override.path === 'cluster')?.value;
  const clusters = [...config.clusters.values()].filter((cluster) => wanted === undefined || cluster.name === wanted);
  const known = new Set(config.clusters.keys());
  const repository = `${name.owner}/${name.repo}`;
  const progress = (line: string) => core.info(line);
  const found = await onClusters(clusters, known, credentials, repo, repository, target, inputs.token, progress, places, act);
  if (!found && target.kind === 'pull request' && !mayBeNone) {
    throw new Problem(`nothing was launched from pull request #${target.number}, as far as the clusters know`);
  }
}

function statusOfFound({ inputs }: Session, { connection, cluster, listing, matches }: ClusterMatch): ReturnType<typeof status> {
  const ids = new Map(matches.map((head) => [head.id, `${head.save}/.chain/manifest.json`]));
  return status(connection, cluster, listing, ids, secretsOf(inputs));
}

/** Values that nobody is to see. */
export function secretsOf(inputs: Inputs): string[] {
  return [...inputs.secrets.values(), inputs.sshKey, inputs.sshPassphrase, inputs.token];
}

/** Waits for what was launched or looked at, and says at the end how it stands. */
export async function waitForAll(session: Session, reports: readonly Report[], done: (report: Report) => Promise<void>): Promise<void> {
  const { inputs, signal } = session;
  const ids = new Set(reports.map((report) => report.id));
  if (inputs.wait === 'no' || ids.size === 0) return;
  const look = async () => {
    const seen: Report[] = [];
    await onFound(session, { kind: 'ids', ids }, async (found) => {
      seen.push(...(await statusOfFound(session, found)).reports);
    });
    return seen;
  };
  const waited = await waitFor(inputs.wait, look, ids.size, inputs.waitTimeout, signal, (line) => core.info(line));
  if (waited.how === 'timed out') core.warning(`still not ${inputs.wait} after ${inputs.waitTimeout / 60} minutes; the jobs go on`);
  if (waited.how === 'interrupted' && inputs.cancelJobsOnCancel) {
    core.warning('the workflow run was cancelled, and with it the jobs (cancel-jobs-on-cancel)');
    const by = `cancelled workflow run ${runUrl(session.name)}`;
    await onFound(session, { kind: 'ids', ids }, async ({ connection, cluster, listing, matches }) => {
      for (const experiment of matches) {
        const order = { experiment, workdir: listing.workdir, jobNumber: undefined, cell: undefined, by, secrets: secretsOf(inputs) };
        await done(await cancel(connection, cluster, order));
      }
    });
  }
  if (waited.how !== 'interrupted' || !inputs.cancelJobsOnCancel) for (const report of waited.reports) await done(report);
  if (waited.reports.some((report) => report.state === 'failed')) throw new Problem('a chain failed; its report says where');
}

/** Audits what was named, or everything that is live, on every cluster that has some of it. */
async function audit(session: Session): Promise<{ readonly audits: readonly Audit[]; readonly cost: AuditCost }> {
  const { request, inputs, repo, commit, config } = session;
  const { target } = request;
  const audits: Audit[] = [];
  const costs: AuditCost[] = [];
  // A workdir may have been purged: then what is beside the checkpoints is all there is.
  const places = [...(target !== undefined && /^[/~$]/.test(target) ? [target] : []), ...(await savePathsAt(repo, commit, config))];
  await onFound(
    session,
    targetOf(request, true),
    async ({ connection, cluster, listing, matches }) => {
      const targets = matches.map(({ id, save }) => ({
        id,
        experimentDirectory: `${listing.workdir}/experiments/${id}`,
        saveDirectory: save,
      }));
      const result = await auditExperiments(connection, cluster, repo, targets, inputs.token, (line) => core.info(line));
      audits.push(...result.audits);
      costs.push(result.cost);
    },
    { places },
  );
  const sum = (of: (cost: AuditCost) => number) => costs.reduce((total, cost) => total + of(cost), 0);
  return {
    audits,
    cost: {
      experiments: sum((cost) => cost.experiments),
      filesHashed: sum((cost) => cost.filesHashed),
      bytesHashed: sum((cost) => cost.bytesHashed),
      clusterSeconds: sum((cost) => cost.clusterSeconds),
      seconds: sum((cost) => cost.seconds),
    },
  };
}
