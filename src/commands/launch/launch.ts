import { createHash } from 'node:crypto';
import { Problem } from '../../base/problem.ts';
import { count } from '../../base/text.ts';
import { nextLaunch } from '../../chain/ledger.ts';
import { type LaunchRecord, type Manifest, manifestOf, summaryOf } from '../../chain/manifest.ts';
import { type LaunchName, type Plan, planOf } from '../../chain/plan.ts';
import { type Login, withLogin } from '../../cluster/login.ts';
import { type Probe, probe } from '../../cluster/programs/probe.ts';
import { JOB_SCRIPT } from '../../cluster/programs/stage.ts';
import { commandsFor, type SubmitProgress, type SubmitResult, submit } from '../../cluster/programs/submit.ts';
import type { Experiment } from '../../experiment/experiment.ts';
import { type Code, codeOf } from '../../repo/code.ts';
import { subjectOf } from '../../repo/git.ts';
import type { Report } from '../../report/report.ts';
import { notesOnCode, notesOnSettings, reportBasis, submissionsOf } from '../basis.ts';
import type { Context } from '../context.ts';
import { noClusters, notesOnSite } from '../site.ts';
import { withStatus } from '../status.ts';
import { type Decision, decide, type LaunchMode, refuseOtherManifest, refuseUnrunnable, refuseWithoutRoom } from './decide.ts';
import { ensureStaged } from './ensure-staged.ts';

export interface LaunchOrder {
  readonly experiment: Experiment;
  readonly mode: LaunchMode;
  /** Called when everything is verified and staged, right before the first sbatch. Throws to stop. */
  readonly beforeSubmit: () => Promise<void>;
}

// How often a launch looks again when the chain changed meanwhile.
const MOST_LOOKS = 3;

/** How one look and one submission ended. */
type Attempt =
  | { readonly kind: 'report'; readonly report: Report; readonly manifest: Manifest }
  /** The chain changed meanwhile. */
  | { readonly kind: 'raced' }
  /** There is no room for the jobs that are missing in a chain that is alive. */
  | { readonly kind: 'no-room'; readonly reason: string };

/**
 * Queues the chain of an experiment, or finds it in the queue.
 * @throws Problem with the reason when nothing was submitted; Unknown when the connection broke during the submission
 */
export async function launch(context: Context, order: LaunchOrder): Promise<Report> {
  const { experiment } = order;
  const { cluster } = experiment;
  if (cluster === undefined) throw noClusters(context);
  const code = await codeOf(context.repo, experiment.commit, experiment.settings.exclude);
  context.log.info(`connecting to ${cluster.login.user}@${cluster.login.host}`);
  return withLogin(cluster, context.credentials, async (login) => {
    let mayComplete = true;
    for (let look = 1; look <= MOST_LOOKS; look += 1) {
      // If another launch came in between, it has started the new attempt that was asked for.
      const mode = look > 1 && order.mode === 'restart' ? 'launch' : order.mode;
      const attempt = await launchOnce(context, login, { ...order, mode }, code, mayComplete);
      switch (attempt.kind) {
        case 'report':
          return withStatus(login, attempt.report, summaryOf(attempt.manifest));
        case 'no-room':
          context.log.info(`there is no room yet for the missing jobs: ${attempt.reason}`);
          mayComplete = false;
          break;
        case 'raced':
          break;
        default:
          attempt satisfies never;
      }
    }
    throw new Problem(
      `${experiment.id} keeps changing while this launch looks at it: other launches, or cancelled jobs. Nothing was submitted; try again in a moment`,
    );
  });
}

async function launchOnce(context: Context, login: Login, order: LaunchOrder, code: Code, mayComplete: boolean): Promise<Attempt> {
  const { log, launcher } = context;
  const clusterName = login.cluster.name;
  const seen = await probe(login, order.experiment, code);
  const decision = decide(order.experiment, seen, { mode: order.mode, runUrl: launcher.runUrl, mayComplete });
  const { experiment, existing } = decision;
  const subject = await subjectOf(context.repo, experiment.commit);
  const draft = draftOf(context, order.mode, decision, seen, code, subject);
  if (existing.manifest !== undefined) refuseOtherManifest(existing.manifest, draft.manifest, clusterName);
  if (decision.kind === 'nothing') {
    log.info(`${experiment.id} is complete`);
    const manifest = existing.manifest ?? draft.manifest;
    return { kind: 'report', manifest, report: quietReport(manifest, 'complete') };
  }
  // A chain that is in the queue may itself be what fills a limit, and missing jobs take what room there is.
  if (decision.kind === 'submit' && !decision.completes) {
    if (!context.keepPartial) refuseWithoutRoom(seen.limits, experiment, clusterName);
    refuseUnrunnable(seen.testOnly, clusterName);
  }
  await ensureStaged(login, { places: seen.places, experiment, code, codeStaged: seen.codeStaged }, log.info);
  await order.beforeSubmit();
  if (context.signal.aborted) throw new Problem('stopped before the first submission; nothing is in the queue');

  const notes = [
    ...[...decision.notes, ...notesOnSite(context), ...notesOnCode(code), ...notesOnSettings(experiment, context.secrets)],
    ...notesOnAccount(seen),
  ];
  const result = await submit(
    login,
    {
      ...{ plan: draft.plan, places: seen.places, manifest: draft.manifest, ledgerLines: existing.ledgerLines, queued: existing.queued },
      ...{ secrets: context.secrets, extend: decision.extend, keep: context.keepPartial },
      holder: `${launcher.actor} ${launcher.runUrl}`.trim(),
    },
    submitProgress(experiment, draft.plan.submissions.length, log.info, notes),
    context.signal,
  );
  return attemptOf(result, decision, draft, notes);
}

function notesOnAccount({ sbatchVariables, notes }: Probe): string[] {
  const overridden =
    sbatchVariables.length === 0 ? [] : [`The account sets ${sbatchVariables.join(', ')}. What the yaml says overrides them.`];
  return [...notes, ...overridden];
}

/** What a launch would submit and record. */
interface Draft {
  readonly name: LaunchName;
  readonly plan: Plan;
  readonly manifest: Manifest;
}

function draftOf(context: Context, mode: LaunchMode, decision: Decision, seen: Probe, code: Code, subject: string): Draft {
  const { experiment, existing, extend } = decision;
  const earlier: readonly LaunchRecord[] = existing.manifest?.launches ?? [];
  const name = nextLaunch(existing.ledger, earlier);
  const plan = planOf(experiment, seen.places, name, extend && existing.queued);
  const launch = {
    ...context.launcher,
    ...{ command: mode, slurm: seen.slurm, sbatchVariables: seen.sbatchVariables },
    jobScript: createHash('sha256').update(JOB_SCRIPT).digest('hex'),
  };
  return { name, plan, manifest: manifestOf({ experiment, code, places: seen.places, plan, subject, launch, earlier }) };
}

/** Shows a submission while it runs, and keeps its notes for the report. */
function submitProgress(
  experiment: Experiment,
  total: number,
  info: (line: string) => void,
  notes: string[],
): (progress: SubmitProgress) => void {
  let submitted = 0;
  return (progress) => {
    switch (progress.kind) {
      case 'submitted':
        submitted += 1;
        info(`job ${progress.jobNumber}: ${progress.jobId} (${submitted} of ${total})`);
        break;
      case 'note':
        info(progress.text);
        notes.push(progress.text);
        break;
      case 'waiting':
        info(`another launch of ${experiment.id} is under way (${progress.holder}); waiting for it`);
        break;
      default:
        progress satisfies never;
    }
  };
}

/** A report of a launch that submitted nothing. It names who launched the chain, not who asked again. */
function quietReport(manifest: Manifest, state: 'complete' | 'alive'): Report {
  return { ...reportBasis(manifest), command: 'launch', state, jobs: [], submissions: [], commands: undefined, notes: [] };
}

function attemptOf(result: SubmitResult, decision: Decision, draft: Draft, notes: readonly string[]): Attempt {
  const { experiment, existing } = decision;
  const { manifest, plan } = draft;
  switch (result.kind) {
    case 'changed':
      return { kind: 'raced' };
    case 'refused':
      if (decision.completes) return { kind: 'no-room', reason: result.reason };
      throw new Problem(
        `the launch of ${experiment.id} was refused: ${result.reason}. Nothing of it is in the queue, and nothing of it has run. It asked for ${experiment.cells.length} × ${experiment.settings.chain.nJobs} tasks`,
      );
    case 'stuck': {
      const ids = result.jobIds.join(' ');
      throw new Problem(
        `the launch of ${experiment.id} failed (${result.reason}), and jobs ${ids} could not be cancelled. They are held, so they do not run. Cancel them on the login node: scancel ${ids}`,
      );
    }
    case 'alive': {
      const there = existing.manifest ?? manifest;
      const report: Report = {
        ...quietReport(there, 'alive'),
        ...{ jobs: result.jobs, notes, jobCount: Math.max(...result.jobs.map((job) => job.jobNumber)) },
        commands: commandsFor(manifest.workdir, experiment.id, result.jobs),
      };
      return { kind: 'report', manifest: there, report };
    }
    case 'submitted': {
      const report: Report = {
        ...reportBasis(manifest),
        command: 'launch',
        // If only the jobs of an interrupted launch were in the queue, they are cancelled, and this is a new chain.
        state: (result.jobs[0]?.after.length ?? 0) === 0 ? 'submitted' : 'extended',
        jobs: result.jobs,
        submissions: submissionsOf(plan),
        commands: commandsFor(manifest.workdir, experiment.id, result.jobs),
        notes: [...notes, ...notesOnResult(result, experiment, draft.name)],
      };
      return { kind: 'report', manifest, report };
    }
    default:
      return result satisfies never;
  }
}

function notesOnResult({ held, cut }: Extract<SubmitResult, { kind: 'submitted' }>, experiment: Experiment, name: LaunchName): string[] {
  const last = name.firstJob + experiment.settings.chain.nJobs - 1;
  return [
    ...(held === undefined
      ? []
      : [`Job ${name.firstJob} is still held because scontrol release failed (${held}). Launch again to release it.`]),
    ...(cut === undefined
      ? []
      : [
          `Slurm refused job ${cut.jobNumber} of ${last} (${cut.reason}). The jobs before it are in the queue and stay; ${count(last - cut.jobNumber + 1, 'job')} of ${count(experiment.cells.length, 'task')} each are missing. Launch again to add them when there is room.`,
        ]),
  ];
}
