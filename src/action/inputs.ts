import * as core from '@actions/core';
import { Problem } from '../base/problem.ts';
import { didYouMean } from '../base/spelling.ts';
import { COMMANDS, type Command } from '../commands/request.ts';
import { type Override, parseOverrides } from '../experiment/overrides.ts';
import { checkVariableName } from '../experiment/settings.ts';
import { basicCredentials } from '../repo/git.ts';
import { log } from './log.ts';

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
  readonly sshCertificate: string;
  readonly sshConfig: string;
  /** The text of a known_hosts file; empty if the clusters' own count. */
  readonly knownHosts: string;
  /** NAME=value for the jobs. */
  readonly secrets: ReadonlyMap<string, string>;
  readonly token: string;
  readonly allowForks: boolean;
  /** Logins such as `renovate[bot]` whose requests count. */
  readonly allowedBots: readonly string[];
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
  const secrets = secretsOf(core.getInput('env', { trimWhitespace: false }));
  const token = masked(core.getInput('github-token'));
  if (token !== '') masked(basicCredentials(token));
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
    sshCertificate: core.getInput('ssh-certificate'),
    sshConfig: core.getInput('ssh-config'),
    knownHosts: core.getInput('known-hosts'),
    secrets,
    token,
    allowForks: trueOrFalse('unsafe-allow-forks'),
    allowedBots: core
      .getInput('allowed-bots')
      .split(/[\s,]+/)
      .filter(Boolean),
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

function secretsOf(text: string): Map<string, string> {
  masked(text); // even if the text is not valid, none of its lines may be shown
  const { secrets, empty } = parseSecrets(text);
  for (const value of secrets.values()) masked(value);
  for (const line of empty) {
    log.warning(
      `line ${line} of the input env gives an empty value. Is the secret set, for this repository or its environment? If the line is the rest of a value of several lines, write NAME<<END, the lines, and END`,
    );
  }
  return secrets;
}

/**
 * The variables in the input `env`: `NAME=value`, or the form of GITHUB_ENV for several lines: `NAME<<END`, the lines, `END`
 * (https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands, multiline strings).
 * @returns the values, and the lines, from 1, that give an empty one
 * @throws Problem for whatever may be the rest of a value that was cut. It names the line and shows nothing of it
 */
export function parseSecrets(text: string): { readonly secrets: Map<string, string>; readonly empty: readonly number[] } {
  const secrets = new Map<string, string>();
  const empty: number[] = [];
  const lines = text.split(/\r?\n/);
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? '';
    if (line.trim() === '') continue;
    const wrong = (what: string) =>
      new Problem(`line ${at + 1} of the input env ${what}. The line is not shown because it may be a secret`);
    const [, name = '', sign, rest = ''] = /^\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=|<<)(.*)$/.exec(line) ?? [];
    if (sign === undefined) throw wrong('is not NAME=value. For a value of several lines write NAME<<END, the lines, and END');
    checkVariableName(name, 'input env');
    if (secrets.has(name)) throw wrong('gives a variable that a line before gives');
    let value = rest;
    if (sign === '<<') {
      const mark = rest.trim();
      const end = lines.findIndex((other, index) => index > at && other === mark);
      if (!/^\w[\w-]*$/.test(mark) || end < 0)
        throw wrong('begins a value of several lines that does not end: there is no line with the word after <<');
      value = lines.slice(at + 1, end).join('\n');
      at = end;
    } else if (/^\s*(["'])/.test(rest) && !/^\s*(["'])(.*\1)?\s*$/.test(rest)) {
      throw wrong('begins a quotation that does not end in this line. For a value of several lines write NAME<<END, the lines, and END');
    } else if (/^=\s*$/.test(rest)) {
      throw wrong('looks like the end of a value of several lines. Write NAME<<END, the lines, and END');
    }
    if (value === '') empty.push(at + 1);
    secrets.set(name, value);
  }
  return { secrets, empty };
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
