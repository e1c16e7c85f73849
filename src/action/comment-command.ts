import { Problem } from '../base/problem.ts';
import { didYouMean } from '../base/spelling.ts';
import { type Asked, COMMANDS, type Command } from '../commands/request.ts';
import { type Override, parseOverrides } from '../experiment/overrides.ts';

/** The forms of the commands and what they do, for help and README. */
export const COMMENT_FORMS: readonly (readonly [string, string])[] = [
  ['/launch NAME [@COMMIT] [n_jobs=4] [path=value …]', 'launch an experiment, by name or by path, at the head of the pull request'],
  ['/plan NAME [@COMMIT] [path=value …]', 'show what a launch would do'],
  ['/status [WHAT]', 'look again and update the comments'],
  ['/extend [WHAT] [N]', 'add N jobs to a chain (1 by default)'],
  ['/cancel [WHAT] [job=K] [cell=K]', 'take a chain, or a part of it, out of the queue; the checkpoints stay'],
  ['/restart NAME [@COMMIT]', 'start a new attempt, with its own directories and W&B runs'],
  ['/audit [WHAT]', 'verify which commit produced the checkpoints'],
];

/** What a comment asks for, and the commit that it names. */
export interface AskedByComment extends Asked {
  readonly commit: string | undefined;
}

/** A command that does not exist. It is answered with the list of commands. */
export class UnknownCommand extends Problem {}

/**
 * The command in the first line of a comment; undefined if the line does not start with a slash and a word. The other lines are
 * for people.
 * @throws Problem for a command that does not exist or is not well-formed. Its message repeats nothing of the comment but a word
 * of letters
 */
export function commandOfComment(body: string): AskedByComment | undefined {
  const line = body.split(/\r?\n/, 1)[0]?.trim() ?? '';
  const [, word, rest = ''] = /^\/([a-z][a-z-]{0,30})(?:\s+(.*))?$/i.exec(line) ?? [];
  if (word === undefined) return undefined;
  const command = COMMANDS.find((one) => one === word.toLowerCase());
  if (command === undefined) throw new UnknownCommand(`there is no command /${word}${didYouMean(word, COMMANDS)}`);
  const words = rest.split(/\s+/);
  const [commit, ...others] = words.filter((one) => WHOLE_COMMIT.test(one));
  if (others.length > 0) throw new Problem(`/${command} takes one commit: ${formOf(command)}`);
  if (commit === undefined) return { ...askedOf(command, rest), commit };
  if (!['launch', 'plan', 'restart'].includes(command)) throw new Problem(`/${command} takes no commit: ${formOf(command)}`);
  return { ...askedOf(command, words.filter((one) => one !== commit).join(' ')), commit: commit.slice(1) };
}

// A short id would not do: whoever pushes can make another commit with the same first digits.
const WHOLE_COMMIT = /^@[0-9a-f]{40}$/;

/** @param rest what follows the command: words, then `key=value` */
export function askedOf(command: Command, rest: string): Asked {
  const words = rest.split(/\s+/).filter(Boolean);
  const firstOverride = words.findIndex((word) => word.includes('='));
  const names = firstOverride < 0 ? words : words.slice(0, firstOverride);
  const given = parseOverrides(words.slice(names.length).join(' '));
  const take = (path: string) => given.find((override) => override.path === path)?.value;
  const others = (...ours: string[]) => given.filter((override) => !ours.includes(override.path));
  const nothing = { experiment: undefined, target: undefined, job: undefined, cell: undefined, overrides: [] };
  switch (command) {
    case 'launch':
    case 'plan':
    case 'restart': {
      const nJobs = take('n_jobs');
      if (names.some((name) => name.startsWith('@'))) throw new Problem('a commit is named by @ and all of its 40 digits');
      if (names.length > 1) throw new Problem(`/${command} takes one experiment, then path=value: ${formOf(command)}`);
      const overrides = [...others('n_jobs'), ...(nJobs === undefined ? [] : [length(nJobs)])];
      return { ...nothing, command, experiment: names[0], overrides };
    }
    case 'extend': {
      const last = names.at(-1);
      const number = take('n_jobs') ?? (last !== undefined && /^\d{1,3}$/.test(last) ? last : undefined);
      const targets = number === last ? names.slice(0, -1) : names;
      if (targets.length > 1 || others('n_jobs').length > 0) throw new Problem(`/extend takes a chain and a number: ${formOf(command)}`);
      return { ...nothing, command, target: targets[0], overrides: [length(number ?? '1')] };
    }
    case 'cancel':
      // `step` is the old name of `job`.
      if (names.length > 1 || others('job', 'step', 'cell').length > 0) throw new Problem(`/cancel takes one chain: ${formOf(command)}`);
      return {
        ...{ ...nothing, command, target: names[0] },
        job: wholeNumber('job', take('job') ?? take('step'), 1),
        cell: wholeNumber('cell', take('cell'), 0),
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

function wholeNumber(name: string, value: string | undefined, least: number): number | undefined {
  if (value === undefined) return undefined;
  if (!/^\d{1,15}$/.test(value) || Number(value) < least) throw new Problem(`${name} must be a whole number of at least ${least}`);
  return Number(value);
}
