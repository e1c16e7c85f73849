import type { Launcher } from '../chain/manifest.ts';
import type { QueuedJob, Submission } from '../chain/plan.ts';
import type { ChainStatus } from '../chain/status.ts';
import type { ShellCommands } from '../cluster/programs/submit.ts';

/** The facts that a command leaves behind. Comment, summary and outputs are made of them. Plain JSON. */
export interface Report {
  readonly command: 'plan' | 'launch' | 'status' | 'cancel';
  /**
   * planned: nothing was submitted. submitted: this launch queued the chain. extended: it queued jobs behind a chain that was
   * alive. alive: the chain was in the queue already. complete: training is complete, so there was nothing to submit. cancelled:
   * nothing of what was asked for is in the queue any more. For a status, the state of the chain.
   */
  readonly state: 'planned' | 'submitted' | 'extended' | 'alive' | 'cancelled' | ChainStatus['state'];
  readonly id: string;
  readonly name: string;
  readonly commit: string;
  readonly subject: string;
  readonly path: string;
  readonly overrides: readonly string[];
  readonly cluster: string | undefined;
  readonly slurm: readonly (readonly [string, string | true])[];
  readonly cells: readonly {
    readonly number: number;
    readonly choices: Readonly<Record<string, string>>;
    readonly nSteps: number | undefined;
  }[];
  /** Length of the chain in jobs, with earlier launches. */
  readonly jobCount: number;
  /** The most that all its jobs can use; undefined without a time limit in the yaml. */
  readonly gpuHours: number | undefined;
  readonly jobs: readonly QueuedJob[];
  readonly places: { readonly experiment: string; readonly checkpoints: string };
  readonly wandb: { readonly group: string; readonly runs: readonly string[] } | undefined;
  readonly launcher: Launcher;
  /** Later launches: extensions, and launches that continued a chain. */
  readonly later: readonly (Pick<Launcher, 'actor' | 'runUrl' | 'at'> & {
    readonly command: string;
    readonly jobNumbers: readonly number[];
  })[];
  /** The pull requests on which it is reported. */
  readonly pullRequests: readonly number[];
  /** What the chain is doing; undefined if the cluster was not asked, or did not answer. */
  readonly status?: ChainStatus;
  /** The ends of the logs of tasks that failed. */
  readonly logs?: readonly { readonly file: string; readonly text: string }[];
  /** For a person to copy into a shell on the cluster. */
  readonly commands: ShellCommands | undefined;
  /** What was or would be submitted. */
  readonly submissions: readonly Pick<Submission, 'jobNumber' | 'cell' | 'environment' | 'arguments'>[];
  /** Facts that a person should know and that stop nothing. */
  readonly notes: readonly string[];
}
