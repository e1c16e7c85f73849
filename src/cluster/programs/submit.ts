import { quote } from '../../base/shell-quote.ts';
import { experimentDirectory, type Places, type Plan, type Submission } from '../../chain/plan.ts';
import { secretAssignments } from '../../chain/task.ts';
import type { Experiment } from '../../experiment/experiment.ts';
import type { Cluster } from '../../experiment/repo-config.ts';
import type { Connection } from '../connection.ts';
import { type Answer, call, runProgram, Unknown } from '../shell.ts';
import { tidy } from './probe.ts';
import { JOB_SCRIPT } from './stage.ts';

/** A job that is in the queue. */
export interface SubmittedJob {
  readonly jobNumber: number;
  readonly cell: number | undefined;
  readonly jobId: string;
  /** What it waits for: the id of a job, or several with commas. */
  readonly after: string | undefined;
  /** Slurm's state, as far as the submission saw it. */
  readonly state: string;
}

/** How a submission ended; `unknown` is thrown. */
export type Submitted =
  | {
      readonly kind: 'submitted';
      readonly jobs: readonly SubmittedJob[];
      /** Why the steps could not be released. */
      readonly held: string | undefined;
      /** Slurm refused the steps from this one on, and those before it were kept. */
      readonly cut: { readonly step: number; readonly why: string } | undefined;
    }
  /** The chain was there already and is alive; nothing was submitted. */
  | { readonly kind: 'alive'; readonly jobs: readonly SubmittedJob[] }
  /** Slurm said no; the queue is as it was. */
  | { readonly kind: 'refused'; readonly why: string }
  /** Another launch came between the probe and the lock. */
  | { readonly kind: 'changed' }
  /** Jobs are left that could not be cancelled. They are held or wait for held ones, so nothing runs. */
  | { readonly kind: 'stuck'; readonly why: string; readonly jobs: readonly string[] };

export interface SubmitOrder {
  readonly experiment: Experiment;
  readonly plan: Plan;
  readonly places: Places;
  /** Lines the ledger had when the plan was made. */
  readonly ledgerLines: number;
  /** For the jobs; none given leaves those of an earlier launch. */
  readonly secrets: ReadonlyMap<string, string>;
  readonly manifest: string;
  /** Who holds the launch lock, for others to read. */
  readonly holder: string;
  /** Go on behind the end of a chain that is alive, instead of reporting it. */
  readonly extend: boolean;
  /** Keep the whole steps that were accepted when a later one is refused, instead of taking them back. */
  readonly keep: boolean;
}

/**
 * The transaction of src/runtime/submit.sh, in one round trip.
 * @param onAnswer progress: `submitted step cell job`, `note text`, `waiting holder`
 * @param signal stops between two submissions and takes back what was queued
 * @throws Unknown when the connection broke: what was queued is then released or taken back over there, and the next launch sees which
 */
export async function submit(
  connection: Connection,
  cluster: Cluster,
  order: SubmitOrder,
  onAnswer: (answer: Answer) => void,
  signal?: AbortSignal,
): Promise<Submitted> {
  const { experiment, plan, places } = order;
  const reply = await runProgram(connection, {
    purpose: 'submitting',
    parts: ['lock', 'change', 'submit'],
    prelude: cluster.prelude,
    calls: [
      call(
        'submit_begin',
        places.workdir,
        experiment.id,
        `${places.savePath}/${experiment.id}`,
        String(plan.launch),
        plan.tag,
        String(order.ledgerLines),
        order.holder,
        order.extend ? 'extend' : 'report',
        order.keep ? 'keep' : 'cancel',
      ),
      call('submit_files', JOB_SCRIPT, secretAssignments(order.secrets)),
      ...plan.submissions.map(stepCall),
      call('submit_end', order.manifest, String(plan.submissions.length)),
    ],
    // sbatch may retry for two minutes a call when the controller is busy, and others may hold the lock.
    deadlineSeconds: 900 + 120 * plan.submissions.length,
    onAnswer,
    signal,
  });
  const { answers } = reply;
  const find = (key: string) => answers.find((answer) => answer.key === key)?.values;

  const unknown = find('unknown');
  if (unknown !== undefined)
    throw new Unknown(`${connection.name}: ${unknown[0] ?? ''}. Nothing was released; the next launch settles what is there`);
  const stuck = find('stuck');
  if (stuck !== undefined) return { kind: 'stuck', why: tidy(stuck[0] ?? ''), jobs: (stuck[1] ?? stuck[0] ?? '').split(' ') };
  const refused = find('refused');
  if (refused !== undefined) return { kind: 'refused', why: tidy(refused[0] ?? '') };
  const problem = find('problem');
  if (problem !== undefined) return { kind: 'refused', why: problem[0] ?? '' };
  if (find('changed') !== undefined) return { kind: 'changed' };
  const alive = answers.filter((answer) => answer.key === 'alive');
  if (alive.length > 0) return { kind: 'alive', jobs: jobsOfRows(alive.map((answer) => answer.values[0] ?? '')) };

  const held = find('held');
  if (find('released') === undefined && held === undefined) {
    throw new Unknown(
      `${connection.name}: submitting ended with status ${reply.status} and no word on the release. ${reply.stderr.slice(-1000)}`,
    );
  }
  const [cutAt, cutWhy = ''] = find('cut') ?? [];
  const cut = cutAt === undefined ? undefined : { step: Number(cutAt), why: tidy(cutWhy) };
  const kept = (step: number) => cut === undefined || step < cut.step;
  const jobs: SubmittedJob[] = answers
    .filter((answer) => answer.key === 'submitted')
    .map(({ values: [step = '', cell = '', job = '', , after = ''] }) => ({
      jobNumber: Number(step),
      cell: cell === '' ? undefined : Number(cell),
      jobId: job,
      after: after.replaceAll(' ', ',') || undefined,
      state: 'PENDING',
    }))
    .filter((job) => kept(job.jobNumber));
  const wanted = plan.submissions.filter((submission) => kept(submission.jobNumber)).length;
  if (jobs.length !== wanted) {
    throw new Unknown(
      `${connection.name}: ${wanted} steps were to be submitted and ${jobs.length} were heard of. ${reply.stderr.slice(-1000)}`,
    );
  }
  return { kind: 'submitted', jobs, held: held === undefined ? undefined : (held[1] ?? ''), cut };
}

function stepCall(submission: Submission): string {
  return call(
    'submit_step',
    String(submission.jobNumber),
    submission.cell === undefined ? '' : String(submission.cell),
    submission.after === undefined ? '' : String(submission.after),
    submission.tag,
    ...Object.entries(submission.environment).map(([name, value]) => `${name}=${value}`),
    '--',
    ...submission.arguments,
  );
}

/** Rows `base id|id|state|reason|dependency|name` of squeue, as queue_of in submit.sh prints them: one job each, by step. */
function jobsOfRows(rows: readonly string[]): SubmittedJob[] {
  const jobs = new Map<string, SubmittedJob>();
  for (const row of rows) {
    const [job = '', , state = '', , dependency = '', name = ''] = row.split('|');
    const [, step = '0', cell] = /\.s(\d+)(?:\.c(\d+))?$/.exec(name) ?? [];
    // An array whose tasks differ shows several rows; one that runs says more than one that waits for its turn.
    if (jobs.has(job) && state !== 'RUNNING') continue;
    jobs.set(job, {
      jobNumber: Number(step),
      cell: cell === undefined ? undefined : Number(cell),
      jobId: job,
      after: [...dependency.matchAll(/afterany:(\d+)/g)].map((match) => match[1]).join(',') || undefined,
      state,
    });
  }
  return [...jobs.values()].sort((a, b) => a.jobNumber - b.jobNumber || (a.cell ?? 0) - (b.cell ?? 0));
}

// With more jobs than this a line to copy finds them by name instead of listing them.
const MOST_IDS = 12;

/** The lines a person copies to look at a chain, or to end it: last step first, because a cancelled step starts the next. */
export function commandsFor(places: Places, id: string, jobs: readonly SubmittedJob[]): Record<'queue' | 'log' | 'cancel', string> {
  const ids = [...new Set(jobs.map((job) => job.jobId))];
  const log = `tail -f ${quote(`${experimentDirectory(places, id)}/logs/`)}*`;
  if (ids.length > MOST_IDS) {
    return {
      queue: `squeue -u "$USER" -o '%i %T %R %E %j' | grep -F ${id}.l`,
      log,
      cancel: `scancel $(squeue -h -u "$USER" -o '%F %j' | grep -F ${id}.l | cut -d' ' -f1 | sort -rnu)`,
    };
  }
  return { queue: `squeue -j ${ids.join(',')} -o '%i %T %R %E'`, log, cancel: `scancel ${ids.toReversed().join(' ')}` };
}
