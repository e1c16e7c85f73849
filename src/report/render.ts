import { quote } from '../base/shell-quote.ts';
import { durationWords } from '../chain/state.ts';
import type { CellStatus, ChainStatus, JobStatus } from '../chain/status.ts';
import { amount, block, capped, code, count, details, plain, table } from './markdown.ts';
import type { Report } from './report.ts';

/** Finds the comment of an experiment again. */
export function markerOf(id: string): string {
  return `<!-- slurm-chain ${id} -->`;
}

// GitHub takes 65,536 characters in a comment and 1 MiB in a step summary, and drops all of a summary that is longer.
export const COMMENT_BYTES = 65_000;
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
    ...(report.status && report.status.jobs.length > 0 ? [stepStates(report.status)] : report.jobs.length > 0 ? [steps(report)] : []),
    report.status ? progress(report, report.status, cellsShown) : cells(report, cellsShown),
    ...advice(report).map((note) => `> [!TIP]\n> ${note}`),
    ...report.notes.map((note) => `> [!NOTE]\n> ${plain(note)}`),
    ...(report.logs ?? []).map(({ file, text }) => details(`end of ${file}`, block(text))),
    details('checkpoint layout', layout(report)),
    ...(report.jobs.length > 0 || report.status ? [details('chain diagram', diagram(report))] : []),
    ...(report.commands ? [details('on the cluster', onTheCluster(report.commands))] : []),
    ...(report.submissions.length > 0 ? [details(report.state === 'planned' ? 'the sbatch calls' : 'sbatch', sbatchLines(report))] : []),
  ];
}

function headline(report: Report): string {
  switch (report.state) {
    case 'planned':
      return `planned, ${count(report.jobCount, 'step')}; nothing was submitted`;
    case 'submitted':
      return `submitted, ${count(report.jobCount, 'step')}`;
    case 'extended':
      return `extended to ${count(report.jobCount, 'step')}`;
    case 'complete':
      return report.command === 'launch' ? 'complete: every cell is done, nothing was submitted' : 'complete: every cell is done';
    case 'alive':
      return `${report.status?.headline ?? 'in the queue already'}; nothing new was submitted`;
    case 'cancelled':
      return report.status && report.jobs.length > 0 ? `partly cancelled; ${report.status.headline}` : 'cancelled';
    case 'running':
    case 'waiting':
    case 'ended':
    case 'failed':
    case 'unknown':
      return report.status?.headline ?? report.state;
    default:
      return report.state satisfies never;
  }
}

function facts(report: Report): string {
  const { repository, runUrl } = report.launcher;
  const resources = ['partition', 'gres', 'gpus', 'gpus-per-node', 'nodes', 'time']
    .flatMap((wanted) => report.slurm.filter(([name]) => name === wanted))
    .map(([name, value]) => (name === 'nodes' ? `${String(value)} nodes` : String(value)));
  const size = `${count(report.cells.length, 'cell')} × ${count(report.jobCount, 'step')}`;
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
    [report.state === 'planned' ? 'asked by' : 'launched', who(report.launcher)],
    ...report.later
      .slice(-3)
      .map((launch) => [
        launch.command === 'extend' ? 'extended' : 'carried on',
        `${who(launch)}, steps ${launch.steps[0]} to ${launch.steps.at(-1)}`,
      ]),
    ...(alive(report) ? [['as of', minute(new Date((report.status?.at ?? 0) * 1000).toISOString())]] : []),
  ];
  return table(['', ''], rows);
}

function who({ actor, runUrl, at }: Pick<Report['launcher'], 'actor' | 'runUrl' | 'at'>): string {
  return `${plain(actor)}${runUrl && `, ${link(`run ${plain(runUrl.split('/').at(-1) ?? '')}`, runUrl)}`}, ${minute(at)}`;
}

function alive({ status }: Report): boolean {
  return status?.state === 'running' || status?.state === 'waiting';
}

/** `2026-12-01 10:02 UTC` of an ISO 8601 time in UTC. */
function minute(at: string): string {
  const [, day, time] = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)/.exec(at) ?? [];
  return day === undefined ? plain(at) : `${day} ${time} UTC`;
}

function server(runUrl: string): string {
  return URL.canParse(runUrl) ? new URL(runUrl).origin : 'https://github.com';
}

/** A link to an address that is one and closes nothing; records on the cluster can be edited. */
function link(text: string, address: string): string {
  return /^https?:\/\/[^\s()<>|\\]+$/.test(address) ? `[${text}](${address})` : text;
}

function wandbLine(wandb: NonNullable<Report['wandb']>): string {
  const shown = wandb.runs.slice(0, 8).map((run, cell) => link(`cell ${cell}`, run));
  const more = wandb.runs.length > shown.length ? [`${wandb.runs.length - shown.length} more in the group`] : [];
  return [link('group', wandb.group), ...shown, ...more].join(' · ');
}

function steps(report: Report): string {
  const rows = [...Map.groupBy(report.jobs, (job) => job.jobNumber)].map(([step, jobs]) => {
    const [first, ...others] = jobs;
    const last = others.at(-1);
    const waiting = first?.after !== undefined;
    return [
      String(step),
      last === undefined ? code(first?.jobId ?? '') : `${code(first?.jobId ?? '')} … ${code(last.jobId)}`,
      first?.after === undefined ? '' : last === undefined ? code(first.after) : 'each cell its own',
      first?.cell === undefined ? count(report.cells.length, 'cell') : `${count(jobs.length, 'job')} of one cell`,
      waiting ? 'waiting for the step before' : plain(first?.state.toLowerCase() ?? ''),
    ];
  });
  return table(['step', 'job', 'after', 'tasks', 'state'], rows);
}

/** What each step's tasks are doing. */
function stepStates(status: ChainStatus): string {
  // A chain of single cells has as many jobs a step as there are cells; they are told of together.
  const rows = [...Map.groupBy(status.jobs, (step) => step.jobNumber)].map(([step, jobs]) => {
    const [first] = jobs;
    const last = jobs.length > 1 ? jobs.at(-1) : undefined;
    const tasks = new Map<string, number>();
    for (const { words, count: number } of jobs.flatMap((job) => job.tasks)) tasks.set(words, (tasks.get(words) ?? 0) + number);
    const said = [...tasks].sort(([, a], [, b]) => b - a).slice(0, 6);
    return [
      String(step),
      last === undefined ? code(first?.jobId ?? '') : `${code(first?.jobId ?? '')} … ${code(last.jobId)}`,
      last !== undefined ? 'each cell its own' : (first?.after ?? '').split(',').filter(Boolean).slice(0, 4).map(code).join(' '),
      `${said.map(([words, number]) => `${number} ${plain(words)}`).join(', ')}${tasks.size > said.length ? ', …' : ''}`,
    ];
  });
  // The first and the last steps are what a person asks about.
  const shown = rows.length > 30 ? [...rows.slice(0, 15), ['…', '', '', `${rows.length - 30} more steps`], ...rows.slice(-15)] : rows;
  return table(['step', 'job', 'after', 'cells'], shown);
}

function progress(report: Report, status: ChainStatus, shown: number): string {
  const choices = new Map(report.cells.map((cell) => [cell.number, cell.choices]));
  // With more cells than there is room for, those that need somebody come first.
  const order = (cell: CellStatus) => (cell.failed ? 0 : (cell.jobsShort ?? 0) > 0 ? 1 : cell.complete ? 3 : 2);
  const sorted = status.cells.length > shown ? status.cells.toSorted((a, b) => order(a) - order(b) || a.number - b.number) : status.cells;
  const rows = sorted
    .slice(0, shown)
    .map((cell) => [
      String(cell.number),
      choicesText(choices.get(cell.number) ?? {}),
      cell.newest === undefined ? '' : code(cell.newest),
      bar(cell),
      plain(cell.words),
    ]);
  const all = table(['cell', 'grid', 'newest checkpoint', 'progress', ''], rows);
  const missing = status.cells.length - rows.length;
  const note = missing > 0 ? `\n\n… and ${count(missing, 'more cell')}, in the summary of the workflow run.` : '';
  const complete = status.cells.filter((cell) => cell.complete).length;
  return rows.length > 8 ? details(`${count(status.cells.length, 'cell')}, ${complete} complete`, all + note) : all + note;
}

/** `███████░░░ 68%, 3 h left` */
function bar({ stepsDone, nSteps, secondsLeft, complete }: CellStatus): string {
  if (nSteps === undefined) return complete ? '██████████' : stepsDone > 0 ? `${amount(stepsDone)} steps` : '';
  const part = complete ? 1 : Math.min(stepsDone / nSteps, 1);
  const full = Math.floor(part * 10);
  // No line break inside.
  const left = secondsLeft === undefined ? '' : `, ${durationWords(secondsLeft).replaceAll(' ', '\u00a0')}\u00a0left`;
  return `${'█'.repeat(full)}${'░'.repeat(10 - full)} ${Math.floor(part * 100)}%${left}`;
}

/** What a person may want to do next. */
function advice({ status, name }: Report): string[] {
  if (status === undefined || status.state === 'complete') return [];
  const going = status.state === 'running' || status.state === 'waiting';
  const saved = status.cells.some((cell) => cell.newest !== undefined);
  const more = status.extendBy > 0 ? status.extendBy : 1;
  return [
    ...(going && status.extendBy > 0
      ? [
          `At this pace the queued steps are not enough. ${count(status.extendBy, 'more step')}: ${code(`/extend ${plainName(name)} ${more}`)}`,
        ]
      : []),
    ...(status.state === 'ended' || status.state === 'failed'
      ? [
          saved
            ? `To go on from the newest checkpoints: ${code(`/extend ${plainName(name)} ${more}`)}`
            : `Nothing was saved. Mend the cause, push, and launch again; to try the same commit once more: ${code(`/extend ${plainName(name)} 1`)}`,
        ]
      : []),
    ...(status.missingJobs > 0
      ? [
          `${count(status.missingJobs, 'step')} that ${status.missingJobs === 1 ? 'was' : 'were'} asked for did not fit into the queue. Launching again adds what fits by now.`,
        ]
      : []),
  ];
}

/** A name as an argument of a command: one with blanks in it has to be given by its id. */
function plainName(name: string): string {
  return /\s/.test(name) ? '<id>' : name;
}

function choicesText(choices: Readonly<Record<string, string>>): string {
  return (
    Object.entries(choices)
      .map(([path, value]) => code(`${path}=${value.length > 60 ? `${value.slice(0, 57)}…` : value}`))
      .join(' ') || 'no grid'
  );
}

function cells(report: Report, shown: number): string {
  const rows = report.cells
    .slice(0, shown)
    .map((cell) => [String(cell.number), choicesText(cell.choices), cell.nSteps === undefined ? '' : amount(cell.nSteps)]);
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

const DIAGRAM_NODES = 40;

/** The chain as GitHub draws it (https://mermaid.js.org/syntax/flowchart.html). */
function diagram(report: Report): string {
  const known: readonly DiagramStep[] = report.status?.jobs ?? report.jobs.map((job) => ({ ...job, alive: true, tasks: [] }));
  // A chain of many cells is drawn step by step; of a long one the newest steps are those a person looks for.
  if (known.length > DIAGRAM_NODES && known.some((step) => step.cell !== undefined)) return diagramOfSteps(known);
  const shown = known.slice(-DIAGRAM_NODES);
  const ids = new Set(shown.map((step) => step.jobId));
  const lines = [
    'flowchart LR',
    ...shown.map(
      (step) =>
        `  j${step.jobId}["step ${step.jobNumber}${step.cell === undefined ? '' : `, cell ${step.cell}`}<br/>job ${step.jobId}"]:::${drawnAs([step])}`,
    ),
    ...shown.flatMap((step) =>
      (step.after ?? '')
        .split(',')
        .filter((before) => ids.has(before))
        .map((before) => `  j${before} -- afterany --> j${step.jobId}`),
    ),
    ...CLASSES,
  ];
  return block(lines.join('\n'), 'mermaid');
}

const CLASSES = [
  '  classDef running fill:#2da44e,color:#fff,stroke:#1a7f37',
  '  classDef waiting fill:#ddf4ff,color:#24292f,stroke:#54aeff',
  '  classDef ended fill:#eaeef2,color:#57606a,stroke:#8c959f',
  '  classDef failed fill:#ffebe9,color:#82071e,stroke:#cf222e',
];

function diagramOfSteps(known: readonly DiagramStep[]): string {
  const steps = [...Map.groupBy(known, (step) => step.jobNumber)].slice(-DIAGRAM_NODES);
  const lines = [
    'flowchart LR',
    ...steps.map(([step, jobs]) => `  s${step}["step ${step}<br/>${count(jobs.length, 'job')}"]:::${drawnAs(jobs)}`),
    ...steps.slice(1).map(([step], index) => `  s${steps[index]?.[0]} -- afterany --> s${step}`),
    ...CLASSES,
  ];
  return block(lines.join('\n'), 'mermaid');
}

function drawnAs(jobs: readonly DiagramStep[]): string {
  if (jobs.some((job) => job.tasks.some(({ words }) => words === 'running'))) return 'running';
  if (jobs.some((job) => job.alive)) return 'waiting';
  return jobs.some((job) => job.tasks.some(({ words }) => /^(failed|out of memory|lost its node)/.test(words))) ? 'failed' : 'ended';
}

type DiagramStep = Omit<JobStatus, 'tasks'> & { readonly tasks: readonly { readonly words: string }[] };

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
      ? `\n\n… and ${count(report.submissions.length - shown.length, 'more job')} like the last.`
      : '';
  return `${block(lines.join('\n'), 'sh')}\n\n\`@\` stands for the job id of the step before.${more}`;
}

/** A shell word, quoted only where it has to be. */
function word(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : quote(text);
}

/** What a commit status has room for. */
export function statusDescription(report: Report): string {
  const cells = report.status?.cells ?? [];
  const complete = cells.filter((cell) => cell.complete).length;
  const known = cells.filter((cell) => cell.nSteps !== undefined);
  const part = known.reduce((sum, cell) => sum + Math.min(1, cell.stepsDone / (cell.nSteps ?? 1)), 0) / known.length;
  const percent = known.length > 0 && complete < cells.length ? `, ${Math.floor(part * 100)}%` : '';
  return `${report.state === 'alive' ? (report.status?.headline ?? 'in the queue') : headline(report)}${percent}`;
}

/** Finds the comment that says why something asked for by label or comment did not happen. */
export const PROBLEM_MARKER = '<!-- slurm-chain problem -->';

/** @param asked what was asked for: `/extend`, `label launch:smoke` */
export function renderProblem(asked: string, messages: readonly string[]): string {
  const body = [
    PROBLEM_MARKER,
    `### Not done: ${code(asked)}`,
    ...messages.map((message) => `> [!CAUTION]\n> ${plain(message)}`),
    'Ask again once this is mended.',
  ];
  return capped(body.join('\n\n'), COMMENT_BYTES, '\n');
}

export const HELP_MARKER = '<!-- slurm-chain help -->';

export function renderHelp(message: string, forms: readonly (readonly [string, string])[]): string {
  return [
    HELP_MARKER,
    `${plain(message.replace(/^t/, 'T'))}${/[?.]$/.test(message) ? '' : '.'} There are:`,
    table(
      ['command', ''],
      forms.map(([form, what]) => [code(form), what]),
    ),
    '`WHAT` is an EXPERIMENT_ID, a name, a commit, a W&B run id or a path of checkpoints; without it, what this pull request launched.',
  ].join('\n\n');
}

/** One line for a log. */
export function renderLine(report: Report): string {
  const cells = report.status?.cells ?? [];
  const newest = cells.slice(0, 8).map((cell) => `cell ${cell.number} ${cell.newest ?? 'none'}`);
  return `${report.id}: ${report.status?.headline ?? headline(report)}${newest.length > 0 ? ` (${newest.join(', ')}${cells.length > 8 ? ', …' : ''})` : ''}`;
}
