import * as core from '@actions/core';
import { Problem } from '../base/problem.ts';
import { didYouMean } from '../base/spelling.ts';
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
  readonly secrets: ReadonlyMap<string, string>;
  readonly token: string;
  readonly allowForks: boolean;
  /** Keep the whole steps that Slurm accepted when it refuses a later one. */
  readonly keepPartial: boolean;
  readonly wait: 'no' | 'started' | 'finished';
  /** Seconds. */
  readonly waitTimeout: number;
  readonly cancelJobsOnCancel: boolean;
  /** Fail when an audit finds anything but verified. */
  readonly strict: boolean;
}

export const COMMANDS = ['launch', 'plan', 'extend', 'restart', 'status', 'cancel', 'audit'] as const;
export type Command = (typeof COMMANDS)[number];

/**
 * Reads the inputs. Secrets are masked before anything else can print them.
 * @throws Problem for a value that is not what its input takes; nothing is coerced
 */
export function readInputs(): Inputs {
  // Masks are per line in the runner's log, and a value may be printed with or without its line breaks.
  const sshKey = secret(core.getInput('ssh-key'));
  const sshPassphrase = secret(core.getInput('ssh-passphrase', { trimWhitespace: false }));
  const secrets = secretsOf(core.getInput('env'));
  const token = secret(core.getInput('github-token'));
  const command = core.getInput('command') || 'launch';
  if (!isCommand(command)) {
    throw new Problem(`the input command is '${command}'${didYouMean(command, COMMANDS) || `; it must be one of ${COMMANDS.join(', ')}`}`);
  }
  const overrides = parseOverrides(core.getInput('overrides'));
  for (const [input, path] of [
    ['n_jobs', 'chain.n_jobs'],
    ['cluster', 'cluster'],
  ] as const) {
    const value = core.getInput(input);
    if (value === '') continue;
    if (overrides.some((override) => override.path === path))
      throw new Problem(`${path} is given twice: by the input ${input} and in overrides`);
    overrides.push({ path, value, mayAdd: true });
  }
  return {
    command,
    config: core.getInput('config'),
    target: core.getInput('target'),
    job: wholeNumber('job', 1) ?? wholeNumber('step', 1),
    cell: wholeNumber('cell', 0),
    overrides,
    pr: pullRequestNumber(core.getInput('pr')),
    sshKey,
    sshPassphrase,
    secrets,
    token,
    allowForks: yesOrNo('unsafe-allow-forks'),
    wait: oneOf('wait', ['no', 'started', 'finished'] as const),
    waitTimeout: (wholeNumber('wait-timeout', 1) ?? 300) * 60,
    cancelJobsOnCancel: yesOrNo('cancel-jobs-on-cancel'),
    strict: yesOrNo('strict'),
    keepPartial: oneOf('partial', ['cancel', 'keep'] as const) === 'keep',
  };
}

function isCommand(text: string): text is Command {
  return (COMMANDS as readonly string[]).includes(text);
}

function secret(value: string): string {
  if (value.trim() === '') return value;
  // A mask of a character or two would turn every log into asterisks, and hide outputs that happen to hold it.
  for (const text of [value, ...value.split(/\r?\n/)].map((line) => line.trim())) if (text.length >= 4) core.setSecret(text);
  return value;
}

function secretsOf(text: string): Map<string, string> {
  const secrets = new Map<string, string>();
  secret(text); // whatever is wrong with it, no line of it may be shown
  for (const line of text.split(/\r?\n/)) {
    if (line.trim() === '') continue;
    const equals = line.indexOf('=');
    const name = line.slice(0, Math.max(equals, 0)).trim();
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      throw new Problem('a line of the input env is not NAME=value; the line is not shown because it may be a secret');
    }
    checkVariableName(name, 'input env');
    secrets.set(name, secret(line.slice(equals + 1)));
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
  if (!/^\d{1,7}$/.test(value) || Number(value) < least) {
    throw new Problem(`the input ${name} is '${value}'; it must be a whole number from ${least}`);
  }
  return Number(value);
}

function yesOrNo(name: string): boolean {
  const value = core.getInput(name).toLowerCase();
  if (value === 'true') return true;
  if (value === 'false' || value === '') return false;
  throw new Problem(`the input ${name} is '${value}'; it must be true or false`);
}
