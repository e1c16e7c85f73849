import { createHash } from 'node:crypto';
import { Problem } from '../../base/problem.ts';
import { isReleased, lastJob, nextLaunch } from '../../chain/ledger.ts';
import { type LaunchRecord, type Manifest, manifestDifferences, manifestOf } from '../../chain/manifest.ts';
import { experimentDirectory, type Places, planOf } from '../../chain/plan.ts';
import { type Connection, connect } from '../../cluster/connection.ts';
import { exceeded, type SubmitLimit } from '../../cluster/limits.ts';
import { type Probe, probe } from '../../cluster/programs/probe.ts';
import { JOB_SCRIPT, stageCode, stageExperiment } from '../../cluster/programs/stage.ts';
import { commandsFor, submit } from '../../cluster/programs/submit.ts';
import type { Answer } from '../../cluster/shell.ts';
import { asAttempt, type Experiment } from '../../experiment/experiment.ts';
import type { Cluster } from '../../experiment/repo-config.ts';
import { type Code, codeOf } from '../../repo/code.ts';
import { subjectOf } from '../../repo/git.ts';
import { count } from '../../report/markdown.ts';
import type { Report } from '../../report/report.ts';
import { notesOnCode, notesOnSettings, type Order, reportBasis, submissionsOf } from '../command.ts';
import { withStatus } from '../status.ts';

export interface LaunchOrder extends Order {
  /**
   * launch: puts the chain there, carries on one that has ended, reports one that is alive. extend: adds `chain.n_jobs` steps
   * behind one that is alive. restart: begins a new attempt beside what is there.
   */
  readonly mode: 'launch' | 'extend' | 'restart';
  /** Keep the whole steps that Slurm accepted when it refuses a later one. */
  readonly keep: boolean;
  /** Called after everything was checked and staged, right before the first sbatch; throws to stop. */
  readonly beforeSubmit: () => Promise<void>;
}

// How often a launch looks anew when another one of the same experiment got in between.
const LOOKS = 3;

/**
 * Puts the chain of an experiment in the queue, or finds it there.
 * @throws Problem when nothing was submitted, with why; Unknown when the connection broke during the submission
 */
export async function launch(order: LaunchOrder): Promise<Report> {
  const { experiment, credentials } = order;
  const { cluster } = experiment;
  if (cluster === undefined) throw new Problem('there is no cluster to launch on: .github/slurm-chain.yml has no clusters at this commit');
  if (credentials === undefined) throw new Problem('there is no ssh-key to log in with');
  const code = await codeOf(order.repo, experiment.commit, experiment.settings.exclude);
  order.progress(`connecting to ${cluster.login.user}@${cluster.login.host}`);
  const connection = await connect(cluster, credentials);
  try {
    for (let look = 1; ; look += 1) {
      // Who came in between has begun the new attempt that was asked for.
      const mode = look > 1 && order.mode === 'restart' ? 'launch' : order.mode;
      const report = await launchOver(connection, cluster, { ...order, mode }, code);
      if (report !== undefined) return await withStatus(connection, cluster, report);
      if (look === LOOKS)
        throw new Problem(`other launches of ${experiment.id} keep getting in between; nothing was submitted by this one`);
    }
  } finally {
    connection.close();
  }
}

/** What a launch means to do, seen what is there. */
interface Intent {
  readonly experiment: Experiment;
  /** What is there of this attempt; nothing when it is a new one. */
  readonly there: Pick<Probe, 'queued' | 'ledger' | 'ledgerLines' | 'manifest' | 'cellsDone'>;
  /** Go on behind a chain that is alive. */
  readonly extend: boolean;
  /** Adds steps that were asked for before; finding no room for them is no failure. */
  readonly completes: boolean;
  readonly notes: readonly string[];
}

const NOTHING_THERE: Intent['there'] = { queued: false, ledger: [], ledgerLines: 0, manifest: undefined, cellsDone: 0 };

function intentOf(order: LaunchOrder, seen: Probe, completing: boolean): Intent {
  const { mode, launcher } = order;
  const ours = (launch: LaunchRecord | undefined) =>
    launch?.command === mode && launcher.runUrl !== '' && launch.runUrl === launcher.runUrl;
  const newest = asAttempt(order.experiment, seen.attempt);
  // A workflow run that is run again asks for what it has got already.
  if (mode === 'restart' && seen.manifest !== undefined && !seen.manifest.launches.some(ours)) {
    const notes = seen.queued ? [`The attempt before, ${newest.id}, is still in the queue; cancel it if it is no longer wanted.`] : [];
    return { experiment: asAttempt(order.experiment, seen.attempt + 1), there: NOTHING_THERE, extend: false, completes: false, notes };
  }
  const launches = seen.manifest?.launches ?? [];
  if (mode === 'extend') {
    if (launches.length === 0) throw new Problem(`there is no chain of ${newest.id} to extend; launch it first`);
    const done = launches.find((launch) => ours(launch) && isReleased(seen.ledger, launch.launch));
    if (done === undefined) return { experiment: newest, there: seen, extend: true, completes: false, notes: [] };
    return {
      experiment: newest,
      there: seen,
      extend: false,
      completes: false,
      notes: ['This workflow run has extended the chain already.'],
    };
  }
  // Steps that were asked for and refused for want of room, or lost with their launcher.
  const missing = Math.max(0, ...launches.flatMap((launch) => launch.steps)) - lastJob(seen.ledger);
  if (completing && seen.queued && missing > 0 && seen.ledger.length > 0) {
    const notes = [`${count(missing, 'step')} of the chain had not been queued; this launch adds what is missing.`];
    return { experiment: withLength(newest, missing), there: seen, extend: true, completes: true, notes };
  }
  return { experiment: newest, there: seen, extend: false, completes: false, notes: [] };
}

function withLength(experiment: Experiment, nJobs: number): Experiment {
  const { settings } = experiment;
  return { ...experiment, settings: { ...settings, chain: { ...settings.chain, nJobs } } };
}

/**
 * One look and one submission; undefined when another launch came between the two.
 * @param completing whether steps that are missing in a chain that is alive are to be added
 */
async function launchOver(
  connection: Connection,
  cluster: Cluster,
  order: LaunchOrder,
  code: Code,
  completing = true,
): Promise<Report | undefined> {
  const { progress, signal } = order;
  const seen = await probe(connection, cluster, order.experiment, code);
  const { places } = seen;
  const { experiment, there, extend, completes, notes: intentNotes } = intentOf(order, seen, completing);
  const earlier = there.manifest?.launches ?? [];
  const name = nextLaunch(there.ledger, earlier);
  const plan = planOf(experiment, places, name, extend && there.queued);
  const manifest = manifestOf(
    experiment,
    code,
    places,
    plan,
    await subjectOf(order.repo, experiment.commit),
    {
      ...order.launcher,
      command: order.mode,
      slurm: seen.slurm,
      sbatchVariables: seen.sbatchVariables,
      jobScript: createHash('sha256').update(JOB_SCRIPT).digest('hex'),
    },
    earlier,
  );
  if (there.manifest !== undefined) refuseOther(there.manifest, manifest, places, cluster);
  const basis = { ...reportBasis(manifest), submissions: submissionsOf(plan) };
  // Who put it there, not who asks again.
  const basisThere = reportBasis(there.manifest ?? manifest);
  if (!there.queued && earlier.length > 0 && there.cellsDone === experiment.cells.length) {
    progress(`${experiment.id} is complete`);
    return {
      ...basisThere,

      command: 'launch',
      state: 'complete',
      jobs: [],
      submissions: [],
      commands: undefined,
      notes: [],
    };
  }
  // A chain that is there already may itself be what fills a limit.
  if (extend || !there.queued) {
    // What completes a chain takes what room there is.
    if (!order.keep && !completes) refuseWithoutRoom(seen.limits, experiment, cluster);
    if (!seen.testOnly.accepted && !completes)
      throw new Problem(
        `sbatch on ${cluster.name} would refuse this experiment: ${seen.testOnly.said}.${/node configuration is not available/.test(seen.testOnly.said) ? ' No partition has such nodes, or they are down, or the controller was restarted a moment ago and does not know them yet.' : ''} Nothing was submitted`,
      );
  }
  if (!seen.codeStaged) {
    progress(`sending the code of ${experiment.commit.slice(0, 12)}: ${code.files} files, ${megabytes(code.bytes)}`);
    await stageCode(connection, cluster, places, code, uploadProgress(code.bytes, progress));
  }
  progress(`staging ${experiment.id}`);
  if ((await stageExperiment(connection, cluster, places, experiment, code)) === 'damaged') {
    progress('the copy of the code on the cluster was changed or purged since it was staged; sending it again, the old one is kept aside');
    await stageCode(connection, cluster, places, code, uploadProgress(code.bytes, progress), true);
    if ((await stageExperiment(connection, cluster, places, experiment, code)) === 'damaged') {
      throw new Problem(`the copy of the code on ${cluster.name} keeps changing under ${places.workdir}/code; nothing was submitted`);
    }
  }
  await order.beforeSubmit();
  if (signal.aborted) throw new Problem('stopped before the first submission; nothing is in the queue');

  const notes = [
    ...intentNotes,
    ...notesOnCode(code),
    ...notesOnSettings(experiment, order.secrets),
    ...(seen.sbatchVariables.length > 0
      ? [`The account sets ${seen.sbatchVariables.join(', ')}; what the yaml says comes before them.`]
      : []),
  ];
  const total = plan.submissions.length;
  let submitted = 0;
  const onAnswer = ({ key, values }: Answer) => {
    if (key === 'submitted') progress(`step ${values[0]}: job ${values[2]} (${++submitted} of ${total})`);
    else if (key === 'note') {
      progress(values[0] ?? '');
      notes.push(values[0] ?? '');
    } else if (key === 'waiting') progress(`another launch of ${experiment.id} is under way (${values[0]}); waiting for it`);
  };
  const result = await submit(
    connection,
    cluster,
    {
      experiment,
      plan,
      places,
      ledgerLines: there.ledgerLines,
      secrets: order.secrets,
      manifest: `${JSON.stringify(manifest)}\n`,
      holder: `${order.launcher.actor} ${order.launcher.runUrl}`.trim(),
      extend,
      keep: order.keep,
    },
    onAnswer,
    signal,
  );
  switch (result.kind) {
    case 'changed':
      return undefined;
    case 'refused':
      if (completes) {
        progress(`there is no room yet for the missing steps: ${result.why}`);
        return launchOver(connection, cluster, order, code, false);
      }
      throw new Problem(
        `the launch of ${experiment.id} was refused: ${result.why}. Nothing of it is in the queue, and nothing of it has run. It would have been ${experiment.cells.length} × ${experiment.settings.chain.nJobs} tasks`,
      );
    case 'stuck':
      throw new Problem(
        `the launch of ${experiment.id} failed (${result.why}) and jobs ${result.jobs.join(' ')} could not be cancelled. They are held, so they do not run; cancel them with: scancel ${result.jobs.join(' ')}`,
      );
    case 'alive':
      return {
        ...basisThere,
        submissions: [],
        command: 'launch',
        state: 'alive',
        jobCount: Math.max(...result.jobs.map((job) => job.jobNumber)),
        jobs: result.jobs,
        commands: commandsFor(places, experiment.id, result.jobs),
        notes,
      };
    case 'submitted':
      if (result.held !== undefined) {
        notes.push(`Step ${name.firstJob} is still held because scontrol release failed (${result.held}). Launching again releases it.`);
      }
      if (result.cut !== undefined) {
        const asked = name.firstJob + experiment.settings.chain.nJobs - 1;
        notes.push(
          `Slurm refused step ${result.cut.step} of ${asked} (${result.cut.why}): the steps before it are in the queue and stay, ${count(asked - result.cut.step + 1, 'step')} of ${count(experiment.cells.length, 'task')} each are missing. Launching again adds them once there is room.`,
        );
      }
      return {
        ...basis,
        command: 'launch',
        // What was in the queue may have been the leftover of an interrupted launch, and is gone then.
        state: result.jobs[0]?.after === undefined ? 'submitted' : 'extended',
        jobs: result.jobs,
        commands: commandsFor(places, experiment.id, result.jobs),
        notes,
      };
    default:
      return result satisfies never;
  }
}

/** @throws Problem when the record on the cluster is not of what is being launched */
function refuseOther(found: Manifest, expected: Manifest, places: Places, cluster: Cluster): void {
  if (found.repository !== expected.repository) {
    throw new Problem(
      `${expected.id} on ${cluster.name} was launched from ${found.repository}, which shares account, workdir and commit with ${expected.repository}. Give the experiment a name: of its own, or one of the repositories another workdir. Nothing was submitted`,
    );
  }
  const different = manifestDifferences(found, expected);
  if (different.length === 0) return;
  throw new Problem(
    `the manifest of ${expected.id} on ${cluster.name} (${experimentDirectory(places, expected.id)}/manifest.json) is not of what this commit gives:\n${different.join('\n')}\nSomebody edited it, or another version of the action made it. Put it right, or begin a new attempt (command restart). Nothing was submitted`,
  );
}

/** @throws Problem with the sum when the limits that can be read have no room for the chain */
function refuseWithoutRoom(limits: readonly SubmitLimit[], experiment: Experiment, cluster: Cluster): void {
  const { nJobs } = experiment.settings.chain;
  const cells = experiment.cells.length;
  const over = exceeded(limits, cells * nJobs);
  const [tightest] = over;
  if (tightest === undefined) return;
  const fitting = Math.max(0, Math.floor((tightest.most - tightest.used) / cells));
  throw new Problem(
    `${cells} × ${nJobs} = ${count(cells * nJobs, 'task')} do not fit on ${cluster.name}: ${over.map(({ name, most, used }) => `${name} is ${most}, and ${used} are in the queue`).join('; ')}. ${fitting > 0 ? `A chain of ${count(fitting, 'step')} would fit, and 'partial: keep' queues as much as does` : 'Not one step would fit'}. Nothing was submitted`,
  );
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Says how far an upload is, at every tenth of it that takes a megabyte or more. */
function uploadProgress(total: number, progress: (line: string) => void): (sent: number) => void {
  const stride = Math.max(total / 10, 1e6);
  let next = stride;
  return (sent) => {
    if (sent < next || sent >= total) return;
    progress(`sent ${megabytes(sent)} of ${megabytes(total)}`);
    next = sent + stride;
  };
}
