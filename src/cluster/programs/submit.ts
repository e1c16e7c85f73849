import { quote } from '../../base/shell-quote.ts';
import { parseJobName } from '../../chain/job-name.ts';
import { experimentFiles, type Places, saveDirectory } from '../../chain/layout.ts';
import { type Manifest, summaryOf } from '../../chain/manifest.ts';
import type { Plan, QueuedJob, Submission } from '../../chain/plan.ts';
import { secretAssignments } from '../../chain/task.ts';
import type { Answer, Answers, AnswerTable } from '../answers.ts';
import type { Login } from '../login.ts';
import { call, type Program, runProgram, Unknown } from '../shell.ts';
import { CHANGE_ANSWERS, CHANGE_PARTS } from './change.ts';
import { sbatchMessage } from './probe.ts';
import { JOB_SCRIPT } from './stage.ts';

const ANSWERS = {
  ...CHANGE_ANSWERS,
  note: ['text'],
  changed: [],
  alive: ['jobId', 'state', 'dependency', 'name'],
  submitted: ['jobNumber', 'cell', 'jobId', 'after…'],
  cut: ['jobNumber', 'reason'],
  released: [],
  held: ['reason'],
  refused: ['reason'],
  stuck: ['reason', 'jobIds…'],
  unknown: ['reason'],
} as const satisfies AnswerTable;

export const SUBMIT: Program<typeof ANSWERS> = { parts: [...CHANGE_PARTS, 'release', 'submit'], answers: ANSWERS };

/** How a submission ended. An unknown outcome is thrown. */
export type SubmitResult =
  | {
      readonly kind: 'submitted';
      readonly jobs: readonly QueuedJob[];
      /** Why the jobs could not be released. */
      readonly held: string | undefined;
      /** Slurm refused the jobs from this number on, and the jobs before it are kept. */
      readonly cut: { readonly jobNumber: number; readonly reason: string } | undefined;
    }
  /** The chain is in the queue already; nothing was submitted. */
  | { readonly kind: 'alive'; readonly jobs: readonly QueuedJob[] }
  /** Slurm refused; the queue is as it was. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** The chain changed between the probe and the submission, by another launch or by a cancellation. */
  | { readonly kind: 'changed' }
  /** Rolling back failed. The jobs are held or wait for held ones, so nothing runs. */
  | { readonly kind: 'stuck'; readonly reason: string; readonly jobIds: readonly string[] };

export interface SubmitOrder {
  readonly plan: Plan;
  readonly places: Places;
  readonly manifest: Manifest;
  /** Lines that the ledger had when the plan was made. */
  readonly ledgerLines: number;
  /** Were jobs of the experiment in the queue when the plan was made? */
  readonly queued: boolean;
  /** For the jobs. Without any, the secrets of an earlier launch stay. */
  readonly secrets: ReadonlyMap<string, string>;
  /** Who holds the launch lock, for others to read. */
  readonly holder: string;
  /** Continue behind the end of a chain that is alive, instead of reporting it. */
  readonly extend: boolean;
  /** When Slurm refuses a later job, keep the whole jobs that it accepted, instead of rolling back. */
  readonly keep: boolean;
}

/** What a submission says while it runs. */
export type SubmitProgress =
  | { readonly kind: 'submitted'; readonly jobNumber: number; readonly jobId: string }
  | { readonly kind: 'note'; readonly text: string }
  | { readonly kind: 'waiting'; readonly holder: string };

/**
 * The transaction of src/runtime/submit.sh, in one round trip.
 * @param signal stops between two submissions and rolls back
 * @throws Unknown when the connection broke. The program on the cluster then finishes or rolls back by itself, and the next
 * launch sees which
 */
export async function submit(
  login: Login,
  order: SubmitOrder,
  onProgress: (progress: SubmitProgress) => void,
  signal?: AbortSignal,
): Promise<SubmitResult> {
  const { plan, places, manifest } = order;
  const { answers, status, stderr } = await runProgram(
    login,
    SUBMIT,
    {
      purpose: 'submitting',
      calls: [
        call(
          'submit_begin',
          places.workdir,
          manifest.id,
          saveDirectory(places.savePath, manifest.id),
          String(plan.launch),
          plan.tag,
          String(order.ledgerLines),
          order.queued ? 'yes' : '',
          order.holder,
          order.extend ? 'extend' : 'report',
          order.keep ? 'keep' : 'cancel',
        ),
        call('submit_files', JOB_SCRIPT, secretAssignments(order.secrets)),
        ...plan.submissions.map(submitCall),
        call('submit_end', jsonLine(manifest), jsonLine(summaryOf(manifest)), String(plan.submissions.length)),
      ],
      // sbatch may retry for two minutes per call while the controller is busy, and another launch may hold the lock.
      deadlineSeconds: 900 + 120 * plan.submissions.length,
      signal,
    },
    (answer) => report(answer, onProgress),
  );
  return resultOf(answers, plan, (what) => {
    throw new Unknown(`${login.connection.name}: ${what ?? `the submission ended with status ${status}. ${stderr.slice(-1000)}`}`);
  });
}

function jsonLine(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}

function submitCall(submission: Submission): string {
  return call(
    'submit_job',
    String(submission.jobNumber),
    submission.cell === undefined ? '' : String(submission.cell),
    submission.after === undefined ? '' : String(submission.after),
    submission.tag,
    ...Object.entries(submission.environment).map(([name, value]) => `${name}=${value}`),
    '--',
    ...submission.arguments,
  );
}

function report(answer: Answer<typeof ANSWERS>, onProgress: (progress: SubmitProgress) => void): void {
  if (answer.key === 'submitted') onProgress({ kind: 'submitted', jobNumber: Number(answer.jobNumber), jobId: answer.jobId });
  else if (answer.key === 'note') onProgress({ kind: 'note', text: answer.text });
  else if (answer.key === 'waiting') onProgress({ kind: 'waiting', holder: answer.holder });
}

/** @param unknown throws; without text, for a reply that says nothing about the outcome */
export function resultOf(answers: Answers<typeof ANSWERS>, plan: Plan, unknown: (what?: string) => never): SubmitResult {
  const lost = answers.optional('unknown');
  if (lost !== undefined) unknown(`${lost.reason}. Nothing was released. Launch again: the next launch settles what is in the queue`);
  const stuck = answers.optional('stuck');
  if (stuck !== undefined) return { kind: 'stuck', reason: sbatchMessage(stuck.reason), jobIds: stuck.jobIds };
  const refused = answers.optional('refused');
  if (refused !== undefined) return { kind: 'refused', reason: sbatchMessage(refused.reason) };
  const [problem] = answers.all('problem');
  if (problem !== undefined) return { kind: 'refused', reason: problem.what };
  if (answers.has('changed')) return { kind: 'changed' };
  const alive = answers.all('alive');
  if (alive.length > 0) return { kind: 'alive', jobs: aliveJobs(alive) };

  const held = answers.optional('held');
  if (!answers.has('released') && held === undefined) unknown();
  const cutAnswer = answers.optional('cut');
  const cut = cutAnswer && { jobNumber: Number(cutAnswer.jobNumber), reason: sbatchMessage(cutAnswer.reason) };
  const isKept = (jobNumber: number) => cut === undefined || jobNumber < cut.jobNumber;
  const jobs = answers
    .all('submitted')
    .map(({ jobNumber, cell, jobId, after }): QueuedJob => {
      return { jobNumber: Number(jobNumber), cell: cell === '' ? undefined : Number(cell), jobId, after, state: 'PENDING' };
    })
    .filter((job) => isKept(job.jobNumber));
  const expected = plan.submissions.filter((submission) => isKept(submission.jobNumber)).length;
  if (jobs.length !== expected) unknown(`${expected} jobs were to be submitted, and the cluster reports ${jobs.length}`);
  return { kind: 'submitted', jobs, held: held?.reason, cut };
}

/** One job per id, in the order of the chain. */
function aliveJobs(rows: readonly { jobId: string; state: string; dependency: string; name: string }[]): QueuedJob[] {
  const jobs = new Map<string, QueuedJob>();
  for (const { jobId, state, dependency, name } of rows) {
    // An array whose tasks differ has several rows. One that runs says more than one that waits.
    if (jobs.has(jobId) && state !== 'RUNNING') continue;
    const parsed = parseJobName(name);
    const after = [...dependency.matchAll(/afterany:(\d+)/g)].flatMap((match) => match[1] ?? []);
    jobs.set(jobId, { jobNumber: parsed?.jobNumber ?? 0, cell: parsed?.cell, jobId, after: [...new Set(after)], state });
  }
  return [...jobs.values()].sort((a, b) => a.jobNumber - b.jobNumber || (a.cell ?? 0) - (b.cell ?? 0));
}

// Beyond this many jobs, the commands to copy find them by name instead of listing their ids.
const MOST_IDS = 12;

/** Commands for a person to copy, to look at a chain or to cancel it. */
export interface ShellCommands {
  readonly queue: string;
  readonly log: string;
  /** The last job comes first, because a cancelled job lets the next one start. */
  readonly cancel: string;
}

/** @param workdir expanded */
export function commandsFor(workdir: string, id: string, jobs: readonly QueuedJob[]): ShellCommands {
  const ids = [...new Set(jobs.map((job) => job.jobId))];
  const log = `tail -f ${quote(`${experimentFiles(workdir, id).logs}/`)}*`;
  if (ids.length > MOST_IDS) {
    return {
      queue: `squeue -u "$USER" -o '%i %T %R %E %j' | grep -F ${id}.l`,
      log,
      cancel: `scancel $(squeue -h -u "$USER" -o '%F %j' | grep -F ${id}.l | cut -d' ' -f1 | sort -rnu)`,
    };
  }
  return { queue: `squeue -j ${ids.join(',')} -o '%i %T %R %E'`, log, cancel: `scancel ${ids.toReversed().join(' ')}` };
}
