// Comments that answer a request without a report: what went wrong, and which commands there are.
import { COMMENT_BYTES, capped, code, plain, table } from './markdown.ts';

/** Finds the comment that says why a request was not carried out. */
export const PROBLEM_MARKER = '<!-- slurm-chain problem -->';

/** @param asked what was asked for, such as `/extend` or `label launch:smoke` */
export function renderProblem(asked: string, messages: readonly string[]): string {
  const body = [
    PROBLEM_MARKER,
    `### Not done: ${code(asked)}`,
    ...messages.map((message) => `> [!CAUTION]\n> ${plain(message)}`),
    'Try again after fixing this.',
  ];
  return capped(body.join('\n\n'), COMMENT_BYTES, '\n');
}

/** Finds the comment that lists the commands. */
export const HELP_MARKER = '<!-- slurm-chain help -->';

/** @param forms a form and its meaning for each command */
export function renderHelp(message: string, forms: readonly (readonly [string, string])[]): string {
  const sentence = message.charAt(0).toUpperCase() + message.slice(1);
  return [
    HELP_MARKER,
    `${plain(sentence)}${/[?.]$/.test(sentence) ? '' : '.'} These are the commands:`,
    table(
      ['command', 'what it does'],
      forms.map(([form, what]) => [code(form), what]),
    ),
    '`WHAT` is an EXPERIMENT_ID, a name, a commit, a W&B run id or a path of checkpoints. Without it, the command is about what this pull request launched.',
  ].join('\n\n');
}
