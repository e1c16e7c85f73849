import { Problem } from '../base/problem.ts';
import { didYouMean } from '../base/spelling.ts';
import { type Override, parseOverrides } from '../experiment/overrides.ts';
import { COMMANDS, type Command } from './inputs.ts';

/** What a comment or a label asks for, beside who and where. */
export interface Asked {
  readonly command: Command;
  /** The experiment to launch, by path or by name. */
  readonly called: string | undefined;
  /** What is there already: an id, a name, a commit, a path; see src/commands/target.ts. */
  readonly target: string | undefined;
  /** cancel: only this step, only this cell. */
  readonly job: number | undefined;
  readonly cell: number | undefined;
  readonly overrides: readonly Override[];
}

/** The forms of the commands, as a person is told of them. */
export const COMMENT_FORMS: readonly (readonly [string, string])[] = [
  ['/launch NAME [n_jobs=4] [path=value …]', 'launch an experiment, by name or by path, at the head of the pull request'],
  ['/plan NAME [path=value …]', 'say what a launch would do'],
  ['/status [WHAT]', 'look again and bring the comments up to date'],
  ['/extend [WHAT] [N]', 'add N steps (1) to a chain'],
  ['/cancel [WHAT] [job=K] [cell=K]', 'take a chain out of the queue; the checkpoints stay'],
  ['/restart NAME', 'begin a new attempt, with directories and W&B runs of its own'],
  ['/audit [WHAT]', 'check what made the checkpoints'],
];

/**
 * The command in the first line of a comment; undefined when it is no command: it does not begin with a slash and a word.
 * What follows the first line is for people.
 * @throws Problem for a command that is not ours or not well-formed; the message repeats nothing of the comment but a word of
 * letters
 */
export function commandOfComment(body: string): Asked | undefined {
  const line = body.split(/\r?\n/, 1)[0]?.trim() ?? '';
  const [, word, rest = ''] = /^\/([a-z][a-z-]{0,30})(?:\s+(.*))?$/i.exec(line) ?? [];
  if (word === undefined) return undefined;
  const command = COMMANDS.find((one) => one === word.toLowerCase());
  if (command === undefined) throw new UnknownCommand(`there is no command /${word}${didYouMean(word, COMMANDS)}`);
  return askedOf(command, rest);
}

/** Answered with the list of commands. */
export class UnknownCommand extends Problem {}

/** @param rest what follows the command: words, and `key=value` */
export function askedOf(command: Command, rest: string): Asked {
  const words = rest.split(/\s+/).filter(Boolean);
  const firstOverride = words.findIndex((word) => word.includes('='));
  const plain = firstOverride < 0 ? words : words.slice(0, firstOverride);
  const given = parseOverrides(words.slice(plain.length).join(' '));
  const take = (path: string) => given.find((override) => override.path === path)?.value;
  const others = (...ours: string[]) => given.filter((override) => !ours.includes(override.path));
  const nothing = { called: undefined, target: undefined, job: undefined, cell: undefined, overrides: [] };
  switch (command) {
    case 'launch':
    case 'plan':
    case 'restart': {
      const nJobs = take('n_jobs');
      if (plain.length > 1) throw new Problem(`/${command} takes one experiment, then path=value: ${formOf(command)}`);
      const overrides = [...others('n_jobs'), ...(nJobs === undefined ? [] : [length(nJobs)])];
      return { ...nothing, command, called: plain[0], overrides };
    }
    case 'extend': {
      const last = plain.at(-1);
      const number = take('n_jobs') ?? (last !== undefined && /^\d{1,3}$/.test(last) ? last : undefined);
      const targets = number === last ? plain.slice(0, -1) : plain;
      if (targets.length > 1 || others('n_jobs').length > 0) throw new Problem(`/extend takes a chain and a number: ${formOf(command)}`);
      return { ...nothing, command, target: targets[0], overrides: [length(number ?? '1')] };
    }
    case 'cancel':
      if (plain.length > 1 || others('job', 'step', 'cell').length > 0) throw new Problem(`/cancel takes one chain: ${formOf(command)}`);
      return {
        ...nothing,
        command,
        target: plain[0],
        job: whole('job', take('job') ?? take('step'), 1),
        cell: whole('cell', take('cell'), 0),
      };
    case 'status':
    case 'audit':
      if (words.length > 1) throw new Problem(`/${command} takes one thing to look at: ${formOf(command)}`);
      return { ...nothing, command, target: words[0] };
    default:
      return command satisfies never;
  }
}

function formOf(command: Command): string {
  return COMMENT_FORMS.find(([form]) => form.startsWith(`/${command}`))?.[0] ?? '';
}

function length(value: string): Override {
  return { path: 'chain.n_jobs', value, mayAdd: true };
}

function whole(name: string, value: string | undefined, least: number): number | undefined {
  if (value === undefined) return undefined;
  if (!/^\d{1,7}$/.test(value) || Number(value) < least) throw new Problem(`${name} must be a whole number from ${least}`);
  return Number(value);
}
