import { isFailure } from '../chain/state.ts';
import type { JobStatus } from '../chain/status.ts';
import { block } from './markdown.ts';
import type { Report } from './report.ts';

const MOST_NODES = 40;

type DrawnJob = Pick<JobStatus, 'jobNumber' | 'cell' | 'jobId' | 'after' | 'alive' | 'tasks'>;

/** The chain as a mermaid flowchart, which GitHub draws (https://mermaid.js.org/syntax/flowchart.html). */
export function diagram(report: Report): string {
  const jobs: readonly DrawnJob[] = report.status?.jobs ?? report.jobs.map((job) => ({ ...job, alive: true, tasks: [] }));
  const perCell = jobs.length > MOST_NODES && jobs.some((job) => job.cell !== undefined);
  const lines = ['flowchart LR', ...(perCell ? groupedNodes(jobs) : nodes(jobs)), ...CLASSES];
  return block(lines.join('\n'), 'mermaid');
}

/** One node per Slurm job. Of a long chain the newest jobs are those a person looks for. */
function nodes(jobs: readonly DrawnJob[]): string[] {
  const shown = jobs.slice(-MOST_NODES);
  const ids = new Set(shown.map((job) => job.jobId));
  const title = ({ jobNumber, cell }: DrawnJob) => `job ${jobNumber}${cell === undefined ? '' : `, cell ${cell}`}`;
  return [
    ...shown.map((job) => `  j${job.jobId}["${title(job)}<br/>${job.jobId}"]:::${classOf([job])}`),
    ...shown.flatMap((job) => job.after.filter((before) => ids.has(before)).map((before) => `  j${before} -- afterany --> j${job.jobId}`)),
  ];
}

/** One node per position in the chain, for a chain with many jobs of single cells. */
function groupedNodes(jobs: readonly DrawnJob[]): string[] {
  const groups = [...Map.groupBy(jobs, (job) => job.jobNumber)].slice(-MOST_NODES);
  return [
    ...groups.map(([number, all]) => `  s${number}["job ${number}<br/>${all.length} cells"]:::${classOf(all)}`),
    ...groups.slice(1).map(([number], index) => `  s${groups[index]?.[0]} -- afterany --> s${number}`),
  ];
}

const CLASSES = [
  '  classDef running fill:#2da44e,color:#fff,stroke:#1a7f37',
  '  classDef waiting fill:#ddf4ff,color:#24292f,stroke:#54aeff',
  '  classDef ended fill:#eaeef2,color:#57606a,stroke:#8c959f',
  '  classDef failed fill:#ffebe9,color:#82071e,stroke:#cf222e',
];

function classOf(jobs: readonly DrawnJob[]): 'running' | 'waiting' | 'failed' | 'ended' {
  const states = jobs.flatMap((job) => job.tasks.map(({ state }) => state));
  if (states.some((state) => state.kind === 'running')) return 'running';
  if (jobs.some((job) => job.alive)) return 'waiting';
  return states.some(isFailure) ? 'failed' : 'ended';
}
