import type { Override } from '../experiment/overrides.ts';

export const COMMANDS = ['launch', 'plan', 'extend', 'restart', 'status', 'cancel', 'audit'] as const;
export type Command = (typeof COMMANDS)[number];

/** What somebody asks for, whether by label, comment or dispatch. */
export interface Asked {
  readonly command: Command;
  /** The experiment to launch, by path or by name. */
  readonly experiment: string | undefined;
  /** What is on the cluster already: an id, a name, a commit, a path; see target.ts. */
  readonly target: string | undefined;
  /** cancel: only this job, by its number in the chain or by Slurm's id. */
  readonly job: number | undefined;
  /** cancel: only this cell. */
  readonly cell: number | undefined;
  readonly overrides: readonly Override[];
}
