/** One line of a cell's journal, as src/runtime/journal.sh writes it. */
export interface JournalLine {
  readonly event: 'start' | 'end' | 'done' | 'stopped' | 'left';
  readonly launch: number;
  readonly jobNumber: number;
  readonly cell: number;
  /** Slurm's id of the array. */
  readonly jobId: string;
  readonly restart: number;
  readonly host: string;
  /** ISO 8601, UTC. */
  readonly time: string;
  /** start: the checkpoint it resumed from, -1 for none. */
  readonly resumeStep: number | undefined;
  /** end: the newest complete checkpoint, -1 for none. */
  readonly newestStep: number | undefined;
  /** end: seconds the task ran. */
  readonly seconds: number | undefined;
  readonly exit: number | undefined;
  readonly signal: string | undefined;
  readonly newCheckpoint: boolean;
  readonly complete: boolean;
  /** stopped: `failures` or `vanished`. */
  readonly why: string | undefined;
}

const EVENTS: readonly string[] = ['start', 'end', 'done', 'stopped', 'left'];

/** A line that is none says nothing here; an audit names it. */
export function parseJournal(lines: readonly string[]): JournalLine[] {
  return lines.flatMap((line) => parseJournalLine(line) ?? []);
}

function parseJournalLine(line: string): JournalLine | undefined {
  let value: Record<string, unknown>;
  try {
    const parsed: unknown = JSON.parse(line);
    if (typeof parsed !== 'object' || parsed === null) return undefined;
    value = parsed as Record<string, unknown>;
  } catch {
    return undefined;
  }
  const text = (key: string) => (typeof value[key] === 'string' ? value[key] : undefined);
  const number = (key: string) => (typeof value[key] === 'number' ? value[key] : undefined);
  const [event, job, time] = [text('event'), text('job'), text('time')];
  const [launch, step, cell] = [number('launch'), number('step'), number('cell')];
  if (event === undefined || !EVENTS.includes(event) || job === undefined || time === undefined) return undefined;
  if (launch === undefined || step === undefined || cell === undefined) return undefined;
  return {
    event: event as JournalLine['event'],
    launch,
    jobNumber: step,
    cell,
    jobId: job,
    restart: number('restart') ?? 0,
    host: text('host') ?? '',
    time,
    resumeStep: number('resume_step'),
    newestStep: number('newest_step'),
    seconds: number('seconds'),
    exit: number('exit'),
    signal: text('signal'),
    newCheckpoint: value['new_checkpoint'] === true,
    complete: value['complete'] === true,
    why: text('why'),
  };
}
