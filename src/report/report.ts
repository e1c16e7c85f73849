import type { Launcher } from '../chain/manifest.ts';
import type { Submission } from '../chain/plan.ts';
import type { ChainStatus } from '../chain/status.ts';
import type { SubmittedJob } from '../cluster/programs/submit.ts';

/** The facts a command leaves behind: what the comment, the summary and the outputs are made of. Plain JSON. */
export interface Report {
  readonly command: 'plan' | 'launch' | 'status' | 'cancel';
  /**
   * planned: nothing was submitted. submitted: this launch put the chain there. extended: it put steps behind one that was
   * there. alive: it was there already. complete: training is done, so there is nothing to submit. cancelled: what was asked
   * for is no longer in the queue. Of a status, that of the chain.
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
  /** Length of the chain in steps, earlier launches included. */
  readonly jobCount: number;
  /** Upper bound of all its steps; undefined without a time limit in the yaml. */
  readonly gpuHours: number | undefined;
  readonly jobs: readonly SubmittedJob[];
  readonly places: { readonly experiment: string; readonly checkpoints: string };
  readonly wandb: { readonly group: string; readonly runs: readonly string[] } | undefined;
  readonly launcher: Launcher;
  /** What was asked for since: extensions, and launches that carried on. */
  readonly later: readonly (Pick<Launcher, 'actor' | 'runUrl' | 'at'> & { readonly command: string; readonly steps: readonly number[] })[];
  /** Where it is reported. */
  readonly pullRequests: readonly number[];
  /** What the chain is doing; undefined where nobody asked the cluster, or it did not answer. */
  readonly status?: ChainStatus;
  /** The ends of logs of tasks that failed; a log is `<step>_<job>_<cell>.out`. */
  readonly logs?: readonly { readonly file: string; readonly text: string }[];
  /** What to copy into a shell on the cluster. */
  readonly commands: Readonly<Record<'queue' | 'log' | 'cancel', string>> | undefined;
  /** What was or would be submitted. */
  readonly submissions: readonly Pick<Submission, 'jobNumber' | 'cell' | 'environment' | 'arguments'>[];
  /** Things worth knowing that stop nothing. */
  readonly notes: readonly string[];
}
