import * as core from '@actions/core';
import { Problem } from '../base/problem.ts';
import { didYouMean } from '../base/spelling.ts';
import { COMMANDS, type Command } from '../commands/request.ts';
import { type Override, parseOverrides } from '../experiment/overrides.ts';
import { checkVariableName } from '../experiment/settings.ts';

/** The inputs of action.yml, checked. */
export interface Inputs {
  readonly command: Command;
  readonly config: string;
  /** What status, extend, cancel and audit are about. */
  readonly target: string;
  readonly job: number | undefined;
  readonly cell: number | undefined;
  readonly overrides: readonly Override[];
  readonly pr: number | undefined;
  readonly sshKey: string;
  readonly sshPassphrase: string;
  /** NAME=value for the jobs. */
  readonly secrets: ReadonlyMap<string, string>;
  readonly token: string;
  readonly allowForks: boolean;
  /** Keep the whole jobs that Slurm accepted when it refuses a later one. */
  readonly keepPartial: boolean;
  readonly wait: 'no' | 'started' | 'finished';
  /** Seconds. */
  readonly waitTimeout: number;
  readonly cancelJobsOnCancel: boolean;
  /** Fail if an audit gives another verdict than `verified`. */
  readonly strict: boolean;
}

/**
 * Reads the inputs. Secrets are masked before anything can print them.
 * @throws Problem for a value that its input does not take; no value is coerced
 */
export function readInputs(): Inputs {
  const sshKey = masked(core.getInput('ssh-key'));
  const sshPassphrase = masked(core.getInput('ssh-passphrase', { trimWhitespace: false }));
  const secrets = parseSecrets(core.getInput('env'));
  const token = masked(core.getInput('github-token'));
  const command = core.getInput('command') || 'launch';
  if (!isCommand(command)) {
    throw new Problem(`the input command is '${command}'${didYouMean(command, COMMANDS) || `; it must be one of ${COMMANDS.join(', ')}`}`);
  }
  return {
    command,
    config: core.getInput('config'),
    target: core.getInput('target'),
    job: wholeNumber('job', 1) ?? wholeNumber('step', 1),
    cell: wholeNumber('cell', 0),
    overrides: withOwnInputs(parseOverrides(core.getInput('overrides'))),
    pr: pullRequestNumber(core.getInput('pr')),
    sshKey,
    sshPassphrase,
    secrets,
    token,
    allowForks: trueOrFalse('unsafe-allow-forks'),
    wait: oneOf('wait', ['no', 'started', 'finished'] as const),
    waitTimeout: (wholeNumber('wait-timeout', 1) ?? 300) * 60,
    cancelJobsOnCancel: trueOrFalse('cancel-jobs-on-cancel'),
    strict: trueOrFalse('strict'),
    keepPartial: oneOf('partial', ['cancel', 'keep'] as const) === 'keep',
  };
}

/** Two overrides have an input of their own. */
function withOwnInputs(overrides: readonly Override[]): Override[] {
  const own = [
    ['n_jobs', 'chain.n_jobs'],
    ['cluster', 'cluster'],
  ] as const;
  const added = own.flatMap(([input, path]): Override[] => {
    const value = core.getInput(input);
    if (value === '') return [];
    if (overrides.some((override) => override.path === path)) {
      throw new Problem(`${path} is given twice: in the input ${input} and in the input overrides. Remove one of them`);
    }
    return [{ path, value, mayAdd: true }];
  });
  return [...overrides, ...added];
}

function isCommand(text: string): text is Command {
  return (COMMANDS as readonly string[]).includes(text);
}

/** Masks a secret in the log: as a whole, and line by line, because the runner masks single lines. */
function masked(value: string): string {
  // Masking a value of a few characters would turn the whole log into asterisks.
  for (const text of [value, ...value.split(/\r?\n/)].map((line) => line.trim())) if (text.length >= 4) core.setSecret(text);
  return value;
}

function parseSecrets(text: string): Map<string, string> {
  masked(text); // even if the text is not valid, none of its lines may be shown
  const secrets = new Map<string, string>();
  for (const line of text.split(/\r?\n/)) {
    if (line.trim() === '') continue;
    const equals = line.indexOf('=');
    const name = line.slice(0, Math.max(equals, 0)).trim();
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      throw new Problem('a line of the input env is not NAME=value. The line is not shown because it may be a secret');
    }
    checkVariableName(name, 'input env');
    secrets.set(name, masked(line.slice(equals + 1)));
  }
  return secrets;
}

function pullRequestNumber(text: string): number | undefined {
  if (text === '') return undefined;
  if (!/^#?[1-9]\d{0,9}$/.test(text)) throw new Problem(`the input pr is '${text}'; it must be the number of a pull request`);
  return Number(text.replace('#', ''));
}

function oneOf<T extends string>(name: string, values: readonly [T, ...T[]]): T {
  const value = core.getInput(name);
  const found = values.find((one) => one === (value || values[0]));
  if (found === undefined) throw new Problem(`the input ${name} is '${value}'; it must be ${values.join(' or ')}`);
  return found;
}

function wholeNumber(name: string, least: number): number | undefined {
  const value = core.getInput(name);
  if (value === '') return undefined;
  if (!/^\d{1,15}$/.test(value) || Number(value) < least) {
    throw new Problem(`the input ${name} is '${value}'; it must be a whole number of at least ${least}`);
  }
  return Number(value);
}

function trueOrFalse(name: string): boolean {
  const value = core.getInput(name).toLowerCase();
  if (value === 'true') return true;
  if (value === 'false' || value === '') return false;
  throw new Problem(`the input ${name} is '${value}'; it must be true or false`);
}
