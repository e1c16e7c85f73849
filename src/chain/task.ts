import { quote } from '../base/shell-quote.ts';
import type { Experiment } from '../experiment/experiment.ts';
import type { CheckpointNames } from './manifest.ts';

/** A small file that is staged in the experiment's directory. */
export interface StagedFile {
  readonly path: string;
  readonly content: string;
}

/**
 * The files of an experiment that are computed from the commit: one config per cell, run.sh with the user's commands, and
 * task.env with what job.sh has to know. Nothing in them depends on the launch, so the same experiment gives the same bytes.
 * @param savePath `{save.path}`, expanded on the cluster
 */
export function filesOf(experiment: Experiment, savePath: string): StagedFile[] {
  return [
    ...experiment.cells.map((cell) => ({ path: `configs/config_${cell.number}.yaml`, content: cell.config() })),
    { path: 'run.sh', content: runScript(experiment) },
    { path: 'task.env', content: taskVariables(experiment, savePath) },
  ];
}

/**
 * `setup`, then `run`, in one shell with -e and pipefail, like a `run` step of GitHub Actions. The traps keep this shell alive,
 * so that the command it waits for gets the signal and has time to save. A signal during `setup` ends the shell.
 */
function runScript(experiment: Experiment): string {
  const { setup, run, env, wandb } = experiment.settings;
  const variables: [string, string | undefined][] = [
    ['WANDB_PROJECT', wandb.project],
    ['WANDB_ENTITY', wandb.entity],
    ['WANDB_BASE_URL', wandb.baseUrl],
    ...env,
  ];
  return [
    `# setup and run of ${experiment.path} at ${experiment.commit}`,
    'set -eo pipefail',
    "trap 'exit 138' USR1 USR2",
    "trap 'exit 143' TERM",
    ...variables.flatMap(([name, value]) => (value === undefined ? [] : [`export ${name}=${quote(value)}`])),
    'set -a',
    '. "$EXPERIMENT_DIR/secrets.env"',
    'set +a',
    ...setup,
    'trap : USR1 USR2 TERM',
    run.replace(/\n*$/, ''),
    '',
  ].join('\n');
}

function taskVariables(experiment: Experiment, savePath: string): string {
  const { settings, cells } = experiment;
  return [
    `SAVE_PATH=${quote(savePath)}`,
    `SAVE_PREFIX=${quote(settings.save.prefix)}`,
    `SAVE_OFFSET=${settings.save.step === 'index' ? 1 : 0}`,
    `SAVE_COMPLETE=${quote(settings.save.complete ?? '')}`,
    `N_STEPS=(${cells.map((cell) => quote(cell.nSteps === undefined ? '' : String(cell.nSteps))).join(' ')})`,
    '',
  ].join('\n');
}

/** The settings by which src/runtime/checkpoints.sh recognises checkpoints, as NAME=VALUE arguments of a shell function. */
export function checkpointArguments({ prefix, complete }: CheckpointNames): string[] {
  return [`SAVE_PREFIX=${prefix}`, `SAVE_COMPLETE=${complete}`];
}

/** Secrets as assignments that run.sh reads. They go into a file that only the account can read. */
export function secretAssignments(secrets: ReadonlyMap<string, string>): string {
  return [...secrets].map(([name, value]) => `${name}=${quote(value)}\n`).join('');
}
