import { quote } from '../base/shell-quote.ts';
import type { Experiment } from '../experiment/experiment.ts';

/** A small file that is staged beside the cell configs. */
export interface StagedFile {
  readonly path: string;
  readonly content: string;
  readonly executable?: boolean;
}

/**
 * The files of an experiment that do not come from the commit: one config per cell, run.sh with the user's commands, and
 * task.env with what job.sh has to know. Same experiment, same bytes: nothing in them depends on the launch.
 * @param save `{save.path}`, expanded on the cluster
 */
export function filesOf(experiment: Experiment, save: string): StagedFile[] {
  return [
    ...experiment.cells.map((cell) => ({ path: `configs/config_${cell.number}.yaml`, content: cell.config() })),
    { path: 'run.sh', content: runScript(experiment) },
    { path: 'task.env', content: taskEnvironment(experiment, save) },
  ];
}

/**
 * setup, then run, in one shell with -e and pipefail, as a step of GitHub Actions has them. The traps keep this shell alive
 * so that the command it waits for gets the signal and has time to save; a signal during setup ends it.
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

function taskEnvironment(experiment: Experiment, save: string): string {
  const { settings, cells } = experiment;
  return [
    `SAVE_PATH=${quote(save)}`,
    `SAVE_PREFIX=${quote(settings.save.prefix)}`,
    `SAVE_OFFSET=${settings.save.step === 'index' ? 1 : 0}`,
    `SAVE_COMPLETE=${quote(settings.save.complete ?? '')}`,
    `N_STEPS=(${cells.map((cell) => quote(cell.nSteps === undefined ? '' : String(cell.nSteps))).join(' ')})`,
    '',
  ].join('\n');
}

/** Secrets as assignments for run.sh to source; written to a file that only the account can read. */
export function secretAssignments(secrets: ReadonlyMap<string, string>): string {
  return [...secrets].map(([name, value]) => `${name}=${quote(value)}\n`).join('');
}
