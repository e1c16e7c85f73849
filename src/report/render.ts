import { quote } from '../shell-quote.ts';
import { amount, block, capped, code, count, details, plain, table } from './markdown.ts';
import type { Report } from './report.ts';

/** Finds the comment of an experiment again. */
export function markerOf(id: string): string {
  return `<!-- slurm-chain ${id} -->`;
}

// GitHub takes 65,536 characters in a comment and 1 MiB in a step summary, and drops all of a summary that is longer.
const COMMENT_BYTES = 65_000;
const SUMMARY_BYTES = 1_000_000;
const CELLS_IN_COMMENT = 30;
const CELLS_IN_LAYOUT = 3;

/** The comment on the pull request. A report that is too large for one loses cells first, whole rows at a time. */
export function renderComment(report: Report): string {
  const bodies = [CELLS_IN_COMMENT, 5, 1].map((shown) => [markerOf(report.id), ...parts(report, shown)].join('\n\n'));
  const fitting = bodies.find((body) => Buffer.byteLength(body) <= COMMENT_BYTES);
  return fitting ?? capped(bodies.at(-1) ?? '', COMMENT_BYTES, '\n\n_Cut here: the whole report is in the summary of the workflow run._\n');
}

/** The step summary: the same with every cell in it. */
export function renderSummary(report: Report): string {
  return capped(parts(report, 5000).join('\n\n'), SUMMARY_BYTES, '\n_Cut here; the manifest on the cluster has the rest._\n');
}

function parts(report: Report, cellsShown: number): string[] {
  return [
    `### ${report.id}: ${headline(report)}`,
    facts(report),
    ...(report.jobs.length > 0 ? [steps(report)] : []),
    cells(report, cellsShown),
    ...report.notes.map((note) => `> [!NOTE]\n> ${plain(note)}`),
    details('checkpoint layout', layout(report)),
    ...(report.jobs.length > 0 ? [details('chain diagram', diagram(report))] : []),
    ...(report.commands ? [details('on the cluster', onTheCluster(report.commands))] : []),
    ...(report.submissions.length > 0 ? [details(report.state === 'planned' ? 'the sbatch calls' : 'sbatch', sbatchLines(report))] : []),
  ];
}

function headline(report: Report): string {
  switch (report.state) {
    case 'planned':
      return `planned, ${count(report.steps, 'step')}; nothing was submitted`;
    case 'submitted':
      return `submitted, ${count(report.steps, 'step')}`;
    case 'extended':
      return `extended to ${count(report.steps, 'step')}`;
    case 'complete':
      return 'complete: every cell is done, nothing was submitted';
    case 'alive':
      return 'in the queue already; nothing new was submitted';
    default:
      return report.state satisfies never;
  }
}

function facts(report: Report): string {
  const { repository, actor, runUrl, at } = report.launcher;
  const resources = ['partition', 'gres', 'gpus', 'gpus-per-node', 'nodes', 'time']
    .flatMap((wanted) => report.slurm.filter(([name]) => name === wanted))
    .map(([name, value]) => (name === 'nodes' ? `${String(value)} nodes` : String(value)));
  const size = `${count(report.cells.length, 'cell')} × ${count(report.steps, 'step')}`;
  const cost = report.gpuHours === undefined ? 'no time limit given' : `at most ${amount(report.gpuHours)} GPU-hours`;
  const rows = [
    [
      'commit',
      `${link(code(report.commit.slice(0, 7)), repository && `${server(runUrl)}/${repository}/commit/${report.commit}`)} ${plain(report.subject)} · ${code(report.path)}`,
    ],
    ...(report.overrides.length > 0 ? [['overrides', report.overrides.map(code).join(' ')]] : []),
    ['cluster', [report.cluster ?? 'none configured', ...resources].map(plain).join(' · ')],
    ['size', `${size} · ${cost}`],
    ...(report.wandb ? [['W&B', wandbLine(report.wandb)]] : []),
    [
      report.state === 'planned' ? 'asked by' : 'launched',
      `${plain(actor)}${runUrl && `, [run ${runUrl.split('/').at(-1) ?? ''}](${runUrl})`}, ${at.slice(0, 16).replace('T', ' ')} UTC`,
    ],
  ];
  return table(['', ''], rows);
}

function server(runUrl: string): string {
  return URL.canParse(runUrl) ? new URL(runUrl).origin : 'https://github.com';
}

function link(text: string, address: string): string {
  return address ? `[${text}](${address})` : text;
}

function wandbLine(wandb: NonNullable<Report['wandb']>): string {
  const shown = wandb.runs.slice(0, 8).map((run, cell) => `[cell ${cell}](${run})`);
  const more = wandb.runs.length > shown.length ? [`${wandb.runs.length - shown.length} more in the group`] : [];
  return [`[group](${wandb.group})`, ...shown, ...more].join(' · ');
}

function steps(report: Report): string {
  const rows = [...Map.groupBy(report.jobs, (job) => job.step)].map(([step, jobs]) => {
    const [first, ...others] = jobs;
    const last = others.at(-1);
    const waiting = first?.after !== undefined;
    return [
      String(step),
      last === undefined ? code(first?.job ?? '') : `${code(first?.job ?? '')} … ${code(last.job)}`,
      first?.after === undefined ? '' : last === undefined ? code(first.after) : 'each cell its own',
      first?.cell === undefined ? count(report.cells.length, 'cell') : `${count(jobs.length, 'job')} of one cell`,
      waiting ? 'waiting for the step before' : plain(first?.state.toLowerCase() ?? ''),
    ];
  });
  return table(['step', 'job', 'after', 'tasks', 'state'], rows);
}

function cells(report: Report, shown: number): string {
  const rows = report.cells.slice(0, shown).map((cell) => [
    String(cell.number),
    Object.entries(cell.choices)
      .map(([path, value]) => code(`${path}=${value.length > 60 ? `${value.slice(0, 57)}…` : value}`))
      .join(' ') || 'no grid',
    cell.nSteps === undefined ? '' : amount(cell.nSteps),
  ]);
  const all = table(['cell', 'grid', 'steps to train'], rows);
  const missing = report.cells.length - rows.length;
  const note = missing > 0 ? `\n\n… and ${count(missing, 'more cell')}, in the summary of the workflow run.` : '';
  return rows.length > 8 ? details(`${count(report.cells.length, 'cell')}`, all + note) : all + note;
}

function layout(report: Report): string {
  const last = report.cells.length - 1;
  const listed = report.cells.slice(0, CELLS_IN_LAYOUT).map((cell) => cell.number);
  const lines = [
    `${report.places.checkpoints}/`,
    '├── .chain/manifest.json    what was launched',
    '├── .chain/{cell}.jsonl     every task that ran',
    ...listed.map((cell, index) => `${index === listed.length - 1 && cell === last ? '└' : '├'}── ${cell}/step_*`),
    ...(last >= CELLS_IN_LAYOUT ? [`└── … ${last}/step_*`] : []),
    '',
    `${report.places.experiment}/`,
    '├── manifest.json  ledger.jsonl  job.sh  run.sh',
    '├── code/          a copy of the commit, where jobs start',
    '├── configs/       config_{cell}.yaml',
    '└── logs/          {step}_{job}_{cell}.out',
  ];
  return block(lines.join('\n'));
}

function diagram(report: Report): string {
  const shown = report.jobs.slice(0, 40);
  const node = (job: string) => `j${job}`;
  const lines = [
    'flowchart LR',
    ...shown.map((job) => `  ${node(job.job)}["step ${job.step}<br/>job ${job.job}"]`),
    ...shown
      .filter((job) => shown.some((other) => other.job === job.after))
      .map((job) => `  ${node(job.after ?? '')} -- afterany --> ${node(job.job)}`),
  ];
  return block(lines.join('\n'), 'mermaid');
}

function onTheCluster(commands: NonNullable<Report['commands']>): string {
  return `${block(Object.values(commands).join('\n'), 'sh')}\n\n\`scancel\` takes the whole chain, last step first: cancelling one step alone lets the next one start.`;
}

function sbatchLines(report: Report): string {
  // A plan is asked for its exact calls; after a launch the first two show the pattern and the manifest has the rest.
  const shown = report.submissions.slice(0, report.state === 'planned' ? 100 : 2);
  const lines = shown.map((submission) => {
    const environment = Object.entries(submission.environment).map(([name, value]) => `${name}=${word(value)}`);
    return [...environment, 'sbatch --parsable', ...submission.arguments.map(word), `${word(report.places.experiment)}/job.sh`].join(' ');
  });
  const more =
    report.submissions.length > shown.length
      ? `\n\n… and ${count(report.submissions.length - shown.length, 'more step')} like the last.`
      : '';
  return `${block(lines.join('\n'), 'sh')}\n\n\`@\` stands for the job id of the step before.${more}`;
}

/** A shell word, quoted only where it has to be. */
function word(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : quote(text);
}

/** Finds the comment that says why a launch asked for by label did not happen. */
export const PROBLEM_MARKER = '<!-- slurm-chain problem -->';

export function renderProblem(label: string, messages: readonly string[]): string {
  const body = [
    PROBLEM_MARKER,
    `### Not launched: label ${code(label)}`,
    ...messages.map((message) => `> [!CAUTION]\n> ${plain(message)}`),
    'Set the label again once this is mended.',
  ];
  return capped(body.join('\n\n'), COMMENT_BYTES, '\n');
}
