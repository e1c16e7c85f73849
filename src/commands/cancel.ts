import { Problem } from '../base/problem.ts';
import type { Connection } from '../cluster/connection.ts';
import { type ExperimentSummary, listExperiments } from '../cluster/programs/survey.ts';
import { call, runChecked } from '../cluster/shell.ts';
import type { Cluster } from '../experiment/repo-config.ts';
import { count } from '../report/markdown.ts';
import type { Report } from '../report/report.ts';
import { status } from './status.ts';

export interface CancelOrder {
  readonly experiment: ExperimentSummary;
  readonly workdir: string;
  /** Only this step, from 1. */
  readonly jobNumber: number | undefined;
  /** Only this cell, from 0. */
  readonly cell: number | undefined;
  /** Who asks, for the lock and the ledger. */
  readonly by: string;
  readonly secrets: Iterable<string>;
}

/**
 * Takes a chain out of the queue, last step first, and looks again until none of it is left; waits for a launch that is under
 * way. Checkpoints and records stay.
 * @throws Problem when jobs are left, or nobody knows
 */
export async function cancel(connection: Connection, cluster: Cluster, order: CancelOrder): Promise<Report> {
  const { experiment, jobNumber, cell } = order;
  const answers = await runChecked(connection, {
    purpose: `cancelling ${experiment.id}`,
    parts: ['lock', 'change', 'cancel'],
    prelude: cluster.prelude,
    calls: [
      call(
        'cancel_jobs',
        order.workdir,
        experiment.id,
        order.by,
        JSON.stringify(order.by),
        jobNumber === undefined ? '' : String(jobNumber),
        cell === undefined ? '' : String(cell),
      ),
    ],
    deadlineSeconds: 900,
  });
  const rows = answers.filter((answer) => answer.key === 'was').map((answer) => (answer.values[0] ?? '').split('|'));
  const listing = await listExperiments(connection, cluster, 0);
  const after = await status(connection, cluster, listing, new Map([[experiment.id, '']]), order.secrets);
  const [report] = after.reports;
  if (report === undefined) throw new Problem(`${experiment.id} was cancelled; ${after.problems.join('; ')}`);
  // What was not in the queue was not cancelled, least of all what is complete.
  const state = rows.length === 0 ? report.state : 'cancelled';
  return { ...report, command: 'cancel', state, notes: notesOn(order, rows, report) };
}

function notesOn({ jobNumber, cell, experiment }: CancelOrder, rows: readonly (readonly string[])[], report: Report): string[] {
  if (rows.length === 0) return [`Nothing of ${experiment.id} was in the queue.`];
  const what = [jobNumber === undefined ? '' : `step ${jobNumber}`, cell === undefined ? '' : `cell ${cell}`].filter(Boolean).join(', ');
  const meant = ([, task = '', , , , name = '']: readonly string[]) =>
    (cell === undefined || task.endsWith(`_${cell}`)) && (jobNumber === undefined || new RegExp(`\\.s${jobNumber}(\\.|$)`).test(name));
  const running = rows.filter((row) => row[2] === 'RUNNING' && meant(row)).map(([, task]) => task ?? '');
  const kept = (report.status?.cells ?? [])
    .filter((one) => one.newest !== undefined && (cell === undefined || one.number === cell))
    .map((one) => `cell ${one.number} ${one.newest}`);
  const shown = (list: readonly string[]) => `${list.slice(0, 20).join(', ')}${list.length > 20 ? ', …' : ''}`;
  return [
    `Cancelled ${what || 'the whole chain'}. ${running.length === 0 ? 'None of its tasks was running.' : `Of its tasks ${shown(running)} ${running.length === 1 ? 'was' : 'were'} running.`}`,
    kept.length === 0
      ? 'There are no checkpoints yet.'
      : `Checkpoints stay under ${report.places.checkpoints}, the newest: ${shown(kept)}.`,
    ...(jobNumber !== undefined && report.status?.jobs.some((one) => one.jobNumber > jobNumber && one.alive)
      ? [
          `The step behind it starts now: a cancelled step counts as ended. ${count(report.jobs.length, 'job')} of the chain ${report.jobs.length === 1 ? 'is' : 'are'} still in the queue.`,
        ]
      : []),
  ];
}
