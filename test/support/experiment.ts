// An experiment to launch, and what its tasks leave behind.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface RegressionOptions {
  readonly name?: string;
  readonly nSteps?: number;
  readonly secondsPerStep?: number;
  readonly nJobs?: number;
  /** One line of yaml under train:, in place of the learning rate. */
  readonly grid?: string;
  /** Further top-level yaml. */
  readonly more?: string;
}

/** An experiment for examples/regression/train.py. @param lab says where checkpoints go */
export function regression(
  lab: { readonly save: string },
  { name = 'smoke', nSteps = 500, secondsPerStep = 0.002, nJobs = 2, grid = '', more = '' }: RegressionOptions = {},
): string {
  return [
    `name: ${name}`,
    'run: python3 train.py',
    'setup: echo setup ran',
    'slurm: {gres: "gpu:1", time: "00:05:00"}',
    `chain: {n_jobs: ${nJobs}}`,
    `save: {path: ${lab.save}}`,
    `n_steps: ${nSteps}`,
    more,
    'train:',
    grid === '' ? '  lr: 0.1' : `  ${grid}`,
    '  save_every: 20',
    `  seconds_per_step: ${secondsPerStep}`,
    '',
  ].join('\n');
}

export interface JournalLine {
  readonly event: string;
  readonly step: number;
  readonly cell: number;
  readonly job: string;
  readonly restart: number;
  readonly resumed_from?: string | null;
  readonly next_step?: number;
  readonly newest?: string | null;
  readonly exit?: number;
  readonly signal?: string | null;
  readonly new_checkpoint?: boolean;
  readonly moved_aside?: readonly string[];
}

export function journalOf(checkpoints: string, cell: number): JournalLine[] {
  const text = readFileSync(join(checkpoints, '.chain', `${cell}.jsonl`), 'utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as JournalLine);
}
