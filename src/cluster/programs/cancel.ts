import { type JobName, parseJobName } from '../../chain/job-name.ts';
import type { AnswerTable } from '../answers.ts';
import type { Login } from '../login.ts';
import { call, type Program, runChecked } from '../shell.ts';
import { CHANGE_ANSWERS, CHANGE_PARTS } from './change.ts';

const ANSWERS = { ...CHANGE_ANSWERS, was: ['task', 'state', 'name'], cancelled: [] } as const satisfies AnswerTable;

export const CANCEL: Program<typeof ANSWERS> = { parts: [...CHANGE_PARTS, 'cancel'], answers: ANSWERS };

/** A job, or tasks of one, that were in the queue before a cancellation. */
export interface CancelledRow {
  /** squeue's id, such as `4711_3` or `4711_[0-7]`. */
  readonly task: string;
  readonly state: string;
  readonly name: JobName | undefined;
}

/**
 * Takes a chain out of the queue, or one job of it, or one cell of all jobs; with a job and a cell, one task. Waits for a launch
 * that is under way. Checkpoints and records stay.
 * @param workdir expanded
 * @param by who asks, for the lock and the ledger
 * @returns what was in the queue
 * @throws Problem when jobs are left, or when the outcome is not known
 */
export async function cancelJobs(
  login: Login,
  {
    workdir,
    id,
    jobNumber,
    cell,
    by,
  }: {
    readonly workdir: string;
    readonly id: string;
    readonly jobNumber: number | undefined;
    readonly cell: number | undefined;
    readonly by: string;
  },
): Promise<CancelledRow[]> {
  const optional = (number: number | undefined) => (number === undefined ? '' : String(number));
  const answers = await runChecked(login, CANCEL, {
    purpose: `cancelling ${id}`,
    calls: [call('cancel_jobs', workdir, id, by, JSON.stringify(by), optional(jobNumber), optional(cell))],
    deadlineSeconds: 900,
  });
  answers.one('cancelled');
  return answers.all('was').map(({ task, state, name }) => ({ task, state, name: parseJobName(name) }));
}
