/**
 * The Slurm name of a job: `{EXPERIMENT_ID}.l{launch}-{nonce}.s{job number}`, and `.c{cell}` for the job of a single cell.
 * squeue and sacct find a job by this name, so it says everything about where the job belongs. src/runtime/job-name.sh is the
 * same grammar in shell.
 */
export interface JobName {
  readonly experimentId: string;
  readonly launch: number;
  /** Lowercase hex that no other launch has, so that a launch never takes another launch's jobs for its own. */
  readonly nonce: string;
  /** Position in the chain, from 1. */
  readonly jobNumber: number;
  /** undefined for an array over all cells. */
  readonly cell: number | undefined;
}

// The id itself may contain dots, so the match is anchored at the end.
const JOB_NAME = /^([A-Za-z0-9][A-Za-z0-9._-]{0,63})\.l([1-9]\d{0,8})-([0-9a-f]{1,32})\.s([1-9]\d{0,8})(?:\.c(0|[1-9]\d{0,8}))?$/;

export function formatJobName({ experimentId, launch, nonce, jobNumber, cell }: JobName): string {
  return `${launchPrefix(experimentId, launch, nonce)}.s${jobNumber}${cell === undefined ? '' : `.c${cell}`}`;
}

/** What the names of all jobs of one launch start with. */
export function launchPrefix(experimentId: string, launch: number, nonce: string): string {
  return `${experimentId}.l${launch}-${nonce}`;
}

/** The parts of a job name; undefined for the name of a job that is not ours. */
export function parseJobName(text: string): JobName | undefined {
  const [, experimentId, launch, nonce, jobNumber, cell] = JOB_NAME.exec(text) ?? [];
  if (experimentId === undefined || nonce === undefined) return undefined;
  return {
    experimentId,
    launch: Number(launch),
    nonce,
    jobNumber: Number(jobNumber),
    cell: cell === undefined ? undefined : Number(cell),
  };
}
