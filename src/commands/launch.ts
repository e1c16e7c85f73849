import { createHash } from 'node:crypto';
import { launchesIn, manifestOf } from '../chain/manifest.ts';
import { planOf } from '../chain/plan.ts';
import { type Connection, connect } from '../cluster/connection.ts';
import { nextLaunch } from '../cluster/ledger.ts';
import { probe } from '../cluster/probe.ts';
import type { Answer } from '../cluster/shell.ts';
import { JOB_SCRIPT, stageCode, stageExperiment } from '../cluster/stage.ts';
import { commandsFor, submit } from '../cluster/submit.ts';
import { type Code, codeOf } from '../experiment/code.ts';
import type { Cluster } from '../experiment/repo-config.ts';
import { Problem } from '../problem.ts';
import type { Report } from '../report/report.ts';
import { notesOnCode, notesOnSettings, type Order, reportBasis } from './command.ts';

export interface LaunchOrder extends Order {
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
      const report = await launchOver(connection, cluster, order, code);
      if (report !== undefined) return report;
      if (look === LOOKS)
        throw new Problem(`other launches of ${experiment.id} keep getting in between; nothing was submitted by this one`);
    }
  } finally {
    connection.close();
  }
}

/** One look and one submission; undefined when another launch came between the two. */
async function launchOver(connection: Connection, cluster: Cluster, order: LaunchOrder, code: Code): Promise<Report | undefined> {
  const { experiment, progress, signal } = order;
  const seen = await probe(connection, cluster, experiment, code);
  const { places } = seen;
  const earlier = launchesIn(seen.manifest, experiment.id);
  if (!seen.queued && earlier.length > 0 && seen.cellsDone === experiment.cells.length) {
    progress(`${experiment.id} is complete`);
    const basis = await reportBasis(order, places, planOf(experiment, places));
    return {
      ...basis,
      command: 'launch',
      state: 'complete',
      launcher: earlier.at(-1) ?? basis.launcher,
      steps: Math.max(...earlier.flatMap((one) => one.steps)),
      jobs: [],
      submissions: [],
      commands: undefined,
      notes: [],
    };
  }
  // A chain that is there already may itself be what fills a limit.
  if (!seen.testOnly.accepted && !seen.queued)
    throw new Problem(`sbatch on ${cluster.name} would refuse this experiment: ${seen.testOnly.said}. Nothing was submitted`);
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

  const name = nextLaunch(seen.ledger);
  const { firstStep } = name;
  const plan = planOf(experiment, places, name);
  const manifest = manifestOf(
    experiment,
    code,
    places,
    plan,
    {
      ...order.launcher,
      slurm: seen.slurm,
      sbatchVariables: seen.sbatchVariables,
      jobScript: createHash('sha256').update(JOB_SCRIPT).digest('hex'),
    },
    earlier,
  );
  const notes = [
    ...notesOnCode(code),
    ...notesOnSettings(experiment, order.secrets),
    ...(seen.sbatchVariables.length > 0
      ? [`The account sets ${seen.sbatchVariables.join(', ')}; what the yaml says comes before them.`]
      : []),
  ];
  const total = plan.submissions.length;
  const onAnswer = ({ key, values }: Answer) => {
    if (key === 'submitted')
      progress(`step ${values[0]}: job ${values[2]} (${(values[0] ? Number(values[0]) : 0) - firstStep + 1} of ${total})`);
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
      ledgerLines: seen.ledgerLines,
      secrets: order.secrets,
      manifest: `${JSON.stringify(manifest)}\n`,
      holder: `${order.launcher.actor} ${order.launcher.runUrl}`.trim(),
    },
    onAnswer,
    signal,
  );
  const basis = await reportBasis(order, places, plan);
  switch (result.kind) {
    case 'changed':
      return undefined;
    case 'refused':
      throw new Problem(
        `the launch of ${experiment.id} was refused: ${result.why}. Nothing of it is in the queue, and nothing has run. It would have been ${experiment.cells.length} × ${total} tasks`,
      );
    case 'stuck':
      throw new Problem(
        `the launch of ${experiment.id} failed (${result.why}) and jobs ${result.jobs.join(' ')} could not be cancelled. They are held, so they do not run; cancel them with: scancel ${result.jobs.join(' ')}`,
      );
    case 'alive':
      return {
        ...basis,
        command: 'launch',
        state: 'alive',
        // Who put it there, not who asked again.
        launcher: earlier.at(-1) ?? basis.launcher,
        steps: Math.max(...result.jobs.map((job) => job.step)),
        jobs: result.jobs,
        commands: commandsFor(places, experiment.id, result.jobs),
        notes,
      };
    case 'submitted':
      if (result.held !== undefined) {
        notes.push(`Step ${firstStep} is still held because scontrol release failed (${result.held}). Launching again releases it.`);
      }
      return {
        ...basis,
        command: 'launch',
        state: 'submitted',
        jobs: result.jobs,
        commands: commandsFor(places, experiment.id, result.jobs),
        notes,
      };
    default:
      return result satisfies never;
  }
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
