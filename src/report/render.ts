import { quote } from '../base/shell-quote.ts';
import { amount, count } from '../base/text.ts';
import { filesIn, savedRecords } from '../chain/layout.ts';
import type { TaskState } from '../chain/state.ts';
import type { CellStatus, ChainStatus, JobStatus } from '../chain/status.ts';
import { diagram } from './diagram.ts';
import { block, COMMENT_BYTES, capped, choicesText, code, details, link, plain, SUMMARY_BYTES, table } from './markdown.ts';
import type { Report } from './report.ts';
import { cellWords, chainWords, durationWords, stateWords } from './words.ts';

/** Finds the comment of an experiment. */
export function markerOf(id: string): string {
  return `<!-- slurm-chain ${id} -->`;
}

const CELLS_IN_COMMENT = 30;
const CELLS_IN_SUMMARY = 5000;
const CELLS_IN_LAYOUT = 3;
const JOBS_SHOWN = 30;

/** The comment on the pull request. If the report is too long for one, it shows fewer cells. */
export function renderComment(report: Report): string {
  const bodies = [CELLS_IN_COMMENT, 5, 1].map((shown) => [markerOf(report.id), ...parts(report, shown)].join('\n\n'));
  const fitting = bodies.find((body) => Buffer.byteLength(body) <= COMMENT_BYTES);
  return (
    fitting ?? capped(bodies.at(-1) ?? '', COMMENT_BYTES, '\n\n_Cut off here: the summary of the workflow run has the whole report._\n')
  );
}

/** The step summary: the same with every cell. */
export function renderSummary(report: Report): string {
  return capped(
    parts(report, CELLS_IN_SUMMARY).join('\n\n'),
    SUMMARY_BYTES,
    '\n_Cut off here: the manifest on the cluster has the rest._\n',
  );
}

function parts(report: Report, cellsShown: number): string[] {
  const { status, logs = [] } = report;
  return [
    `### ${report.id}: ${plain(headline(report)).replace(/\\([()])/g, '$1')}`, // without brackets, no link
    facts(report),
    ...jobsTable(report),
    status === undefined ? plannedCells(report, cellsShown) : progress(report, status, cellsShown),
    ...advice(report).map((note) => `> [!TIP]\n> ${note}`),
    ...report.notes.map((note) => `> [!NOTE]\n> ${plain(note)}`),
    ...logs.map(({ file, text }) => details(`end of ${file}`, block(text))),
    details('checkpoint layout', layout(report)),
    ...(report.jobs.length > 0 || status !== undefined ? [details('chain diagram', diagram(report))] : []),
    ...(report.commands ? [details('on the cluster', onTheCluster(report.commands))] : []),
    ...(report.submissions.length > 0 ? [details(report.state === 'planned' ? 'the sbatch calls' : 'sbatch', sbatchLines(report))] : []),
  ];
}

function headline(report: Report): string {
  const { state, status } = report;
  const jobs = count(report.jobCount, 'job');
  switch (state) {
    case 'planned':
      return `planned, ${jobs}; nothing was submitted`;
    case 'submitted':
      return `submitted, ${jobs}`;
    case 'extended':
      return `extended to ${jobs}`;
    case 'complete':
      return `complete: every cell is complete${report.command === 'launch' ? ', nothing was submitted' : ''}`;
    case 'alive':
      return `${status === undefined ? 'in the queue already' : chainWords(status)}; nothing new was submitted`;
    case 'cancelled':
      return status !== undefined && report.jobs.length > 0 ? `partly cancelled; ${chainWords(status)}` : 'cancelled';
    case 'running':
    case 'waiting':
    case 'ended':
    case 'failed':
    case 'unknown':
      return status === undefined ? state : chainWords(status);
    default:
      return state satisfies never;
  }
}

function facts(report: Report): string {
  const { repository, runUrl } = report.launcher;
  const resources = ['partition', 'gres', 'gpus', 'gpus-per-node', 'nodes', 'time']
    .flatMap((wanted) => report.slurm.filter(([name]) => name === wanted))
    .map(([name, value]) => (name === 'nodes' ? `${String(value)} nodes` : String(value)));
  const size = `${count(report.cells.length, 'cell')} × ${count(report.jobCount, 'job')}`;
  const cost = report.gpuHours === undefined ? 'no time limit given' : `at most ${amount(report.gpuHours)} GPU-hours`;
  const commit = link(code(report.commit.slice(0, 7)), repository && `${server(runUrl)}/${repository}/commit/${report.commit}`);
  const isAlive = report.status?.state === 'running' || report.status?.state === 'waiting';
  const rows = [
    ['commit', `${commit} ${plain(report.subject)} · ${code(report.path)}`],
    ...(report.overrides.length > 0 ? [['overrides', report.overrides.map(code).join(' ')]] : []),
    ['cluster', [report.cluster ?? 'none configured', ...resources].map(plain).join(' · ')],
    ['size', `${size} · ${cost}`],
    ...(report.wandb ? [['W&B', wandbLine(report.wandb)]] : []),
    [report.state === 'planned' ? 'planned by' : 'launched by', who(report.launcher)],
    ...report.later
      .slice(-3)
      .map((launch) => [
        launch.command === 'extend' ? 'extended by' : 'continued by',
        `${who(launch)}, jobs ${launch.jobNumbers[0]} to ${launch.jobNumbers.at(-1)}`,
      ]),
    ...(isAlive ? [['as of', minute(new Date((report.status?.at ?? 0) * 1000).toISOString())]] : []),
  ];
  return table(['', ''], rows);
}

function who({ actor, runUrl, at }: Pick<Report['launcher'], 'actor' | 'runUrl' | 'at'>): string {
  const run = runUrl && `, ${link(`run ${plain(runUrl.split('/').at(-1) ?? '')}`, runUrl)}`;
  return `${plain(actor)}${run}, ${minute(at)}`;
}

/** `2026-12-01 10:02 UTC` of an ISO 8601 time in UTC. */
function minute(at: string): string {
  const [, day, time] = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)/.exec(at) ?? [];
  return day === undefined ? plain(at) : `${day} ${time} UTC`;
}

function server(runUrl: string): string {
  return URL.canParse(runUrl) ? new URL(runUrl).origin : 'https://github.com';
}

function wandbLine(wandb: NonNullable<Report['wandb']>): string {
  const shown = wandb.runs.slice(0, 8).map((run, cell) => link(`cell ${cell}`, run));
  const more = wandb.runs.length > shown.length ? [`${wandb.runs.length - shown.length} more in the group`] : [];
  return [link('group', wandb.group), ...shown, ...more].join(' · ');
}

function jobsTable(report: Report): string[] {
  if (report.status !== undefined && report.status.jobs.length > 0) return [jobStates(report.status)];
  return report.jobs.length > 0 ? [submittedJobs(report)] : [];
}

/** Jobs at one position of the chain: one array, or with `scope: cell` one job per cell. */
function idsText(jobs: readonly { readonly jobId: string }[]): string {
  const [first, ...others] = jobs.map(({ jobId }) => code(jobId));
  return others.length === 0 ? (first ?? '') : `${first} … ${others.at(-1)}`;
}

function afterText(jobs: readonly { readonly after: readonly string[] }[]): string {
  if (jobs.length > 1) return 'each cell its own';
  return (jobs[0]?.after ?? []).slice(0, 4).map(code).join(' ');
}

function submittedJobs(report: Report): string {
  const rows = [...Map.groupBy(report.jobs, (job) => job.jobNumber)].map(([number, jobs]) => {
    const [first] = jobs;
    const waits = (first?.after.length ?? 0) > 0;
    return [
      String(number),
      idsText(jobs),
      waits ? afterText(jobs) : '',
      first?.cell === undefined ? count(report.cells.length, 'cell') : `${count(jobs.length, 'job')} of one cell`,
      waits ? 'waiting for the previous job' : plain(first?.state.toLowerCase() ?? ''),
    ];
  });
  return table(['job', 'Slurm id', 'after', 'tasks', 'state'], rows);
}

/** What the tasks of each job are doing. */
function jobStates(status: ChainStatus): string {
  const rows = [...Map.groupBy(status.jobs, (job) => job.jobNumber)].map(([number, jobs]) => [
    String(number),
    idsText(jobs),
    afterText(jobs),
    tasksText(jobs, status.at),
  ]);
  const hidden = rows.length - JOBS_SHOWN;
  // The first and the last jobs are those that people ask about.
  const shown =
    hidden > 0 ? [...rows.slice(0, JOBS_SHOWN / 2), ['…', '', '', `${hidden} more jobs`], ...rows.slice(-JOBS_SHOWN / 2)] : rows;
  return table(['job', 'Slurm id', 'after', 'cells'], shown);
}

function tasksText(jobs: readonly JobStatus[], at: number): string {
  const counts = new Map<string, number>();
  const words = (state: TaskState) => (state.kind === 'running' ? 'running' : stateWords(state, at));
  for (const { state, count: number } of jobs.flatMap((job) => job.tasks))
    counts.set(words(state), (counts.get(words(state)) ?? 0) + number);
  const shown = [...counts].sort(([, a], [, b]) => b - a).slice(0, 6);
  return `${shown.map(([text, number]) => `${number} ${plain(text)}`).join(', ')}${counts.size > shown.length ? ', …' : ''}`;
}

function progress(report: Report, status: ChainStatus, shown: number): string {
  const choices = new Map(report.cells.map((cell) => [cell.number, cell.choices]));
  // If not all cells fit, those that need attention come first.
  const order = (cell: CellStatus) => (cell.failed ? 0 : (cell.jobsShort ?? 0) > 0 ? 1 : cell.complete ? 3 : 2);
  const sorted = status.cells.length > shown ? status.cells.toSorted((a, b) => order(a) - order(b) || a.number - b.number) : status.cells;
  const rows = sorted
    .slice(0, shown)
    .map((cell) => [
      String(cell.number),
      choicesText(choices.get(cell.number) ?? {}) || 'no grid',
      cell.newest === undefined ? '' : code(cell.newest),
      bar(cell),
      plain(cellWords(cell, status.at)),
    ]);
  const complete = status.cells.filter((cell) => cell.complete).length;
  return cellTable(
    table(['cell', 'grid', 'newest checkpoint', 'progress', 'state'], rows),
    rows.length,
    status.cells.length,
    `, ${complete} complete`,
  );
}

function plannedCells(report: Report, shown: number): string {
  const rows = report.cells
    .slice(0, shown)
    .map((cell) => [String(cell.number), choicesText(cell.choices) || 'no grid', cell.nSteps === undefined ? '' : amount(cell.nSteps)]);
  return cellTable(table(['cell', 'grid', 'training steps'], rows), rows.length, report.cells.length, '');
}

function cellTable(rows: string, shown: number, all: number, summary: string): string {
  const hidden = all - shown;
  const note = hidden > 0 ? `\n\n… and ${count(hidden, 'more cell')}, in the summary of the workflow run.` : '';
  return shown > 8 ? details(`${count(all, 'cell')}${summary}`, rows + note) : rows + note;
}

/** `███████░░░ 68%, 3 h left` */
function bar({ stepsDone, nSteps, secondsLeft, complete }: CellStatus): string {
  if (nSteps === undefined) return complete ? '██████████' : stepsDone > 0 ? `${amount(stepsDone)} steps` : '';
  const part = complete ? 1 : Math.min(stepsDone / nSteps, 1);
  const full = Math.floor(part * 10);
  // No-break spaces.
  const left = secondsLeft === undefined ? '' : `, ${durationWords(secondsLeft).replaceAll(' ', '\u00a0')}\u00a0left`;
  return `${'█'.repeat(full)}${'░'.repeat(10 - full)} ${Math.floor(part * 100)}%${left}`;
}

/** What a person may want to do next. */
function advice({ status, id }: Report): string[] {
  if (status === undefined || status.state === 'complete') return [];
  const isOver = status.state === 'ended' || status.state === 'failed';
  const hasCheckpoint = status.cells.some((cell) => cell.newest !== undefined);
  const missing = status.lastJob === 0 ? 0 : status.wantedJobs - status.lastJob;
  const extend = code(`/extend ${id} ${Math.max(1, status.extendBy)}`);
  return [
    ...(!isOver && status.state !== 'unknown' && status.extendBy > 0
      ? [`At this pace the jobs in the queue are not enough. To add ${count(status.extendBy, 'job')}: ${extend}`]
      : []),
    ...(isOver && hasCheckpoint ? [`To continue from the newest checkpoints: ${extend}`] : []),
    ...(isOver && !hasCheckpoint
      ? [`Nothing was saved. Fix the cause, push, and launch again. To try the same commit once more: ${extend}`]
      : []),
    ...(missing > 0 ? [`Slurm had no room for ${count(missing, 'job')} of the chain. Launch again to add what fits now.`] : []),
  ];
}

function layout(report: Report): string {
  const last = report.cells.length - 1;
  const listed = report.cells.slice(0, CELLS_IN_LAYOUT).map((cell) => cell.number);
  const saved = savedRecords('');
  const experiment = filesIn('');
  const name = (path: string) => path.replace(/^\//, '');
  const lines = [
    `${report.places.checkpoints}/`,
    `├── ${name(saved.manifest).padEnd(23)}what was launched`,
    `├── ${`${name(saved.records)}/{cell}.jsonl`.padEnd(23)}every task that ran`,
    ...listed.map((cell, index) => `${index === listed.length - 1 && cell === last ? '└' : '├'}── ${cell}/step_*`),
    ...(last >= CELLS_IN_LAYOUT ? [`└── … ${last}/step_*`] : []),
    '',
    `${report.places.experiment}/`,
    `├── ${[experiment.manifest, experiment.ledger, experiment.jobScript, experiment.runScript].map(name).join('  ')}`,
    `├── ${`${name(experiment.code)}/`.padEnd(14)}a copy of the commit, where jobs start`,
    `├── ${`${name(experiment.configs)}/`.padEnd(14)}config_{cell}.yaml`,
    `└── ${`${name(experiment.logs)}/`.padEnd(14)}{job}_{Slurm id}_{cell}.out`,
  ];
  return block(lines.join('\n'));
}

function onTheCluster({ queue, log, cancel }: NonNullable<Report['commands']>): string {
  const lines = block([queue, log, cancel].join('\n'), 'sh');
  return `${lines}\n\n\`scancel\` cancels the whole chain, the last job first: if you cancel one job alone, the next one starts.`;
}

function sbatchLines(report: Report): string {
  // A plan shows the exact calls. After a launch, the first two show the pattern, and the manifest has the rest.
  const shown = report.submissions.slice(0, report.state === 'planned' ? 100 : 2);
  const script = shellWord(filesIn(report.places.experiment).jobScript);
  const lines = shown.map((submission) => {
    const environment = Object.entries(submission.environment).map(([name, value]) => `${name}=${shellWord(value)}`);
    return [...environment, 'sbatch --parsable', ...submission.arguments.map(shellWord), script].join(' ');
  });
  const hidden = report.submissions.length - shown.length;
  const more = hidden > 0 ? `\n\n… and ${count(hidden, 'more job')} like the last.` : '';
  return `${block(lines.join('\n'), 'sh')}\n\n\`@\` stands for the id of the previous job.${more}`;
}

/** A shell word, quoted only if necessary. */
function shellWord(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : quote(text);
}

/** The description of the commit status. */
export function statusDescription(report: Report): string {
  const cells = report.status?.cells ?? [];
  const complete = cells.filter((cell) => cell.complete).length;
  const known = cells.filter((cell) => cell.nSteps !== undefined);
  const part = known.reduce((sum, cell) => sum + Math.min(1, cell.stepsDone / (cell.nSteps ?? 1)), 0) / known.length;
  const percent = known.length > 0 && complete < cells.length ? `, ${Math.floor(part * 100)}%` : '';
  return `${report.state === 'alive' && report.status !== undefined ? chainWords(report.status) : headline(report)}${percent}`;
}

/** One line for a log. */
export function renderLine(report: Report): string {
  const cells = report.status?.cells ?? [];
  const newest = cells.slice(0, 8).map((cell) => `cell ${cell.number} ${cell.newest ?? 'none'}`);
  const words = report.status === undefined ? headline(report) : chainWords(report.status);
  return `${report.id}: ${words}${newest.length > 0 ? ` (${newest.join(', ')}${cells.length > 8 ? ', …' : ''})` : ''}`;
}
