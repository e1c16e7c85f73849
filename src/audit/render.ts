import { amount, count } from '../base/text.ts';
import { isCommitId, shortId } from '../repo/commit-id.ts';
import { capped, choicesText, code, details, isWebAddress, link, plain, SUMMARY_BYTES, table } from '../report/markdown.ts';
import type { AuditCost } from './program.ts';
import type { NumberRange } from './ranges.ts';
import type { Reachability } from './recompute.ts';
import type { Audit, AuditCell, AuditReport, AuditTask } from './report.ts';

const FINDINGS_SHOWN = 30;
const TASKS_SHOWN = 200;
const ROWS_SHOWN = 3000;

const RANK = { changed: 0, incomplete: 1, verified: 2 } as const;

/** Finds the comment of an audit. */
export const AUDIT_MARKER = '<!-- slurm-chain audit -->';

const CUT_OFF = '\n_Cut off here: the output `report` has the rest._\n';

/**
 * An audit as Markdown. The verdict comes first. Several experiments become a table with the worst ones first, and the details of
 * each are folded below.
 * @param most bytes; the end of a longer text is cut off with a notice
 */
export function renderAudit({ audits, cost }: AuditReport, most = SUMMARY_BYTES): string {
  const [only, ...others] = audits;
  if (only !== undefined && others.length === 0) {
    const head = /^[\w.-]+$/.test(only.id) ? heading(only) : plain(heading(only));
    const body = [`### ${head}`, ...parts(only), costLine(cost)].join('\n\n');
    return capped(body, most, CUT_OFF);
  }
  const sorted = audits.toSorted((a, b) => RANK[a.verdict.kind] - RANK[b.verdict.kind] || (a.id < b.id ? -1 : 1));
  const sums = (['changed', 'incomplete', 'verified'] as const)
    .map((kind) => ({ kind, number: audits.filter((audit) => audit.verdict.kind === kind).length }))
    .filter(({ number }) => number > 0)
    .map(({ kind, number }) => `${number.toLocaleString('en')} ${kind}`);
  const top = [`### Audit of ${count(audits.length, 'experiment')}: ${sums.join(', ') || 'there are none'}`, costLine(cost)];
  if (audits.length === 0) return top.join('\n\n');
  const rows = sorted.slice(0, ROWS_SHOWN).map((audit) => [audit.verdict.kind, code(audit.id), commitOf(audit), why(audit)]);
  const cut =
    sorted.length > rows.length ? [`… and ${count(sorted.length - rows.length, 'experiment')} more, in the output \`report\`.`] : [];
  const overview = [...top, table(['verdict', 'experiment', 'commit', 'why'], rows), ...cut].join('\n\n');
  // If not all details fit, those at the end are left out: they belong to verified experiments.
  const notice = (left: number) => `_The details of ${count(left, 'experiment')} are only in the output \`report\`._`;
  let room = most - Buffer.byteLength(overview) - 200;
  const folded: string[] = [];
  for (const audit of sorted) {
    const one = details(html(heading(audit)), parts(audit).join('\n\n'));
    room -= Buffer.byteLength(one) + 2;
    if (room < 0) break;
    folded.push(one);
  }
  const left = sorted.length - folded.length;
  const body = [overview, ...folded, ...(left > 0 ? [notice(left)] : [])].join('\n\n');
  return capped(body, most, CUT_OFF);
}

function heading(audit: Audit): string {
  const { changed, missing } = audit.verdict;
  const id = audit.id.replace(/\s+/g, ' ');
  switch (audit.verdict.kind) {
    case 'verified':
      return `${id}: verified`;
    case 'changed':
      return `${id}: changed, ${count(changed.length, 'finding')}`;
    case 'incomplete':
      return `${id}: incomplete, ${count(missing.length, 'record')} missing`;
    default:
      return audit.verdict.kind satisfies never;
  }
}

/** Most readers of Markdown do not format text inside an HTML tag. */
function html(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('[', '&#91;')
    .replaceAll(']', '&#93;')
    .replaceAll('`', '&#96;')
    .replaceAll('@', '@\u200b');
}

function parts(audit: Audit): string[] {
  const { changed, missing } = audit.verdict;
  return [
    ...(changed.length > 0 ? [`**Changed**\n\n${list(changed)}`] : []),
    ...(missing.length > 0 ? [`**Missing**\n\n${list(missing)}`] : []),
    facts(audit),
    ...(audit.launches.length > 0 ? [launches(audit)] : []),
    checkpoints(audit),
    ...(audit.notes.length > 0 ? [`Notes:\n\n${list(audit.notes)}`] : []),
  ];
}

function list(lines: readonly string[]): string {
  const shown = lines.slice(0, FINDINGS_SHOWN).map((line) => `- ${plain(line.length > 2000 ? `${line.slice(0, 1999)}…` : line)}`);
  return [...shown, ...(lines.length > shown.length ? [`- … and ${lines.length - shown.length} more`] : [])].join('\n');
}

function why({ verdict: { changed, missing } }: Audit): string {
  const [first = '', ...more] = [...changed, ...missing];
  const text = first.length > 120 ? `${first.slice(0, 119)}…` : first;
  return `${plain(text)}${more.length > 0 ? ` and ${more.length} more` : ''}`;
}

function commitOf({ identity }: Audit): string {
  return identity === undefined ? '' : code(shortId(identity.commit));
}

function facts(audit: Audit): string {
  const { identity } = audit;
  const server = serverOf(audit);
  const rows: string[][] = [];
  if (identity !== undefined) {
    const { commit, subject, path, overrides, repository, attempt, cluster, wandb } = identity;
    const hasPage = server !== '' && isCommitId(commit) && /^[\w.-]+\/[\w.-]+$/.test(repository);
    const page = hasPage ? `${server}/${repository}/commit/${commit}` : '';
    rows.push(['commit', `${link(code(commit), page)} ${plain(subject)}`]);
    rows.push(['config', code(path)]);
    rows.push(['overrides', overrides.length > 0 ? overrides.map(code).join(' ') : 'none']);
    if (attempt > 1) rows.push(['attempt', String(attempt)]);
    rows.push(['cluster', plain(cluster)]);
    if (wandb !== null) rows.push(['W&B', plain(wandb.group)]);
  }
  rows.push(['reachable', reachable(audit.reachability)]);
  rows.push(['checkpoints', code(audit.saveDirectory)]);
  if (audit.experimentDirectory !== undefined) rows.push(['experiment', code(audit.experimentDirectory)]);
  return table(['', ''], rows);
}

/** The GitHub server of the workflow runs, which also has the page of the commit. */
function serverOf({ launches: all }: Audit): string {
  const url = all.find(({ runUrl }) => isWebAddress(runUrl))?.runUrl;
  return url === undefined ? '' : new URL(url).origin;
}

function reachable({ unknown, branches, tags, pullRequests, reachable: yes }: Reachability): string {
  if (unknown !== undefined) return `not known: ${plain(unknown.slice(0, 500))}`;
  if (!yes) return 'no: no branch and no tag leads to the commit';
  const some = (kind: string, names: readonly string[]) => {
    if (names.length === 0) return [];
    const shown = names.slice(0, 5).map(code).join(', ');
    return [`${kind} ${shown}${names.length > 5 ? ` and ${names.length - 5} more` : ''}`];
  };
  const pulls = pullRequests.length > 0 ? [`pull request ${pullRequests.map((number) => `#${number}`).join(', ')}`] : [];
  return `yes: ${[...some('branch', branches), ...some('tag', tags), ...pulls].join('; ')}`;
}

function launches(audit: Audit): string {
  const rows = audit.launches.map((launch) => {
    const run = isWebAddress(launch.runUrl)
      ? link(`run ${plain(launch.runUrl.split('/').at(-1) ?? '')}`, launch.runUrl)
      : plain(launch.runUrl);
    const jobs = launch.jobs.slice(0, 20).map(({ jobNumber, jobId }) => `${jobNumber}: ${code(jobId)}`);
    return [
      String(launch.launch),
      plain(launch.command),
      [plain(launch.actor), run, launch.pullRequest === undefined ? '' : `#${launch.pullRequest}`].filter(Boolean).join(', '),
      plain(launch.at.slice(0, 16).replace('T', ' ')),
      [...jobs, ...(launch.jobs.length > jobs.length ? [`… ${launch.jobs.length - jobs.length} more`] : [])].join(', ') ||
        `jobs ${launch.jobNumbers.join(', ')}`,
      launch.overrides.map(code).join(' '),
    ];
  });
  return table(['launch', 'command', 'by', 'at (UTC)', 'job: Slurm id', 'overrides'], rows);
}

function checkpoints(audit: Audit): string {
  const rows = audit.cells.flatMap((cell) => [
    ...cell.tasks.filter((task) => task.count > 0).map((task) => taskRow(cell, task)),
    ...(cell.unaccounted.length > 0 ? [unaccountedRow(cell)] : []),
  ]);
  if (rows.length === 0) return 'There is no complete checkpoint.';
  const shown = table(
    ['cell', 'grid', 'checkpoints', 'count', 'written by task', 'job', 'on', 'from (UTC)', 'to (UTC)'],
    rows.slice(0, TASKS_SHOWN),
  );
  return rows.length > TASKS_SHOWN ? `${shown}\n\n… and ${count(rows.length - TASKS_SHOWN, 'row')} more, in the output \`report\`.` : shown;
}

const CHOICES_SHOWN = 6;

/** `2026-12-01 10:02:03` of the ISO 8601 times in a text. */
function clock(text: string): string {
  return plain(text.replace(/(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)Z/g, '$1 $2')).replaceAll('\\-', '-');
}

function taskRow(cell: AuditCell, task: AuditTask): string[] {
  const end = { ended: task.ended ?? '', killed: `killed by ${task.ended ?? ''}`, open: 'no end on record' }[task.outcome];
  return [
    String(cell.cell),
    choicesText(cell.choices, CHOICES_SHOWN),
    runs(task.checkpoints),
    String(task.count),
    code(`${task.jobId}_${cell.cell}${task.restart > 0 ? ` restart ${task.restart}` : ''}`),
    String(task.jobNumber),
    plain(task.host),
    clock(task.started),
    clock(end),
  ];
}

function unaccountedRow(cell: AuditCell): string[] {
  const { unaccounted } = cell;
  const shown = unaccounted.slice(0, 10).map(({ name }) => code(name));
  const more = unaccounted.length > shown.length ? ` and ${unaccounted.length - shown.length} more` : '';
  return [
    String(cell.cell),
    choicesText(cell.choices, CHOICES_SHOWN),
    shown.join(' ') + more,
    String(unaccounted.length),
    '**unaccounted for**',
    '',
    '',
    '',
    '',
  ];
}

/** `20 to 480 by 20, 499`. */
function runs(all: readonly NumberRange[]): string {
  const shown = all.slice(0, 8).map(({ first, last, stride }) => {
    if (first === last) return String(first);
    return stride === 1 ? `${first} to ${last}` : last - first === stride ? `${first}, ${last}` : `${first} to ${last} by ${stride}`;
  });
  return [...shown, ...(all.length > shown.length ? ['…'] : [])].join(', ');
}

function costLine({ experiments, filesHashed, bytesHashed, clusterSeconds, seconds }: AuditCost): string {
  const size = bytesHashed < 1e6 ? `${amount(bytesHashed / 1e3)} kB` : `${amount(bytesHashed / 1e6)} MB`;
  return `_Cost: ${count(experiments, 'experiment')}, ${count(filesHashed, 'file')} hashed (${size}), ${amount(clusterSeconds)} s on the cluster, ${amount(seconds)} s in all._`;
}
