// The one way to the log of the workflow run. Much of what is printed comes from outside: from the cluster, the yaml, a comment.
import * as core from '@actions/core';
import { visible } from '../base/text.ts';
import type { Log } from '../commands/context.ts';

/**
 * Text for the log that the runner takes for nothing but text. The runner reads a line that begins with `::`, spaces aside, and
 * `##[` anywhere in a line, as a workflow command (actions/runner, src/Runner.Common/ActionCommand.cs, TryParseV2 and TryParse).
 * @returns the text with its further lines indented, both marks broken, and control characters written out
 */
export function harmless(text: string): string {
  return visible(text.replace(/\r\n?/g, '\n'))
    .replaceAll('\n', '\n  ')
    .replace(/^(\s*):(?=:)/gm, '$1: ')
    .replaceAll('##[', '# #[');
}

function group<T>(title: string, act: () => Promise<T>): Promise<T> {
  return core.group(harmless(title), act);
}

export const log = {
  info: (text) => core.info(harmless(text)),
  warning: (text) => core.warning(harmless(text)),
  group,
  /** An annotation, which does not fail the workflow step. @param place in a file, for the annotation */
  error: (text, place = {}) => core.error(harmless(text), place),
  debug: (text) => core.debug(harmless(text)),
} satisfies Log & {
  error: (text: string, place?: core.AnnotationProperties) => void;
  debug: (text: string) => void;
};
