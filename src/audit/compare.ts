import { createHash } from 'node:crypto';
import { messageOf } from '../base/problem.ts';
import { fieldDifferences, type Manifest, parseManifest } from '../chain/manifest.ts';
import { filesOf } from '../chain/task.ts';
import { JOB_SCRIPT } from '../cluster/programs/stage.ts';
import type { Code } from '../repo/code.ts';
import { count } from '../report/markdown.ts';
import { type AuditFacts, type AuditTarget, joinNames, NONE, type StagedCode } from './answers.ts';
import type { Recomputed } from './recompute.ts';

/** Where comparisons write down what they find. */
export interface Findings {
  readonly changed: string[];
  readonly missing: string[];
  readonly notes: string[];
}

export interface Copies {
  readonly readable: readonly { readonly file: string; readonly text: string; readonly manifest: Manifest }[];
  readonly changed: readonly string[];
}

export function readManifests(found: AuditFacts): Copies {
  const readable: { file: string; text: string; manifest: Manifest }[] = [];
  const changed: string[] = [];
  for (const { file, text } of found.manifests) {
    try {
      readable.push({ file, text, manifest: parseManifest(text, file) });
    } catch (error) {
      changed.push(messageOf(error));
    }
  }
  const [one, other] = readable;
  if (one !== undefined && other !== undefined && one.text !== other.text) {
    const fields = fieldDifferences(one.manifest, other.manifest);
    const shown = fields
      .slice(0, 5)
      .map(({ path, a, b }) => `${path} is ${shownValue(b)} in ${other.file} and ${shownValue(a)} in ${one.file}`);
    changed.push(
      ...(shown.length > 0 ? shown : [`${one.file} and ${other.file} say the same with other bytes`]),
      ...(fields.length > shown.length ? [`${fields.length - shown.length} more fields differ between the two manifests`] : []),
    );
  }
  return { readable, changed };
}

function shownValue(value: unknown): string {
  const text = JSON.stringify(value) ?? 'not there';
  return text.length > 100 ? `${text.slice(0, 99)}…` : text;
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
const OUR_JOB_SCRIPT = sha256(JOB_SCRIPT);

export function compareFiles(found: AuditFacts, manifest: Manifest, { experiment, save }: Recomputed, to: Findings): void {
  const expected = new Map(filesOf(experiment, save).map((file) => [file.path, sha256(file.content)]));
  const wrong = [...expected].filter(([path, digest]) => found.files.has(path) && found.files.get(path) !== digest).map(([path]) => path);
  const gone = [...expected.keys()].filter((path) => !found.files.has(path));
  if (wrong.length > 0) to.changed.push(`${someOf(wrong)} ${wrong.length === 1 ? 'is' : 'are'} not what the commit and the overrides give`);
  if (gone.length > 0) to.missing.push(someOf(gone));
  const extra = [...found.files.keys()].filter((path) => path.startsWith('configs/') && !expected.has(path));
  if (extra.length > 0) to.notes.push(`files beside the cell configs that nothing of this action made: ${someOf(extra)}`);

  const script = found.files.get('job.sh');
  const launched = manifest.launches.at(-1)?.jobScript;
  if (script === undefined) to.missing.push('job.sh');
  else if (script === launched) {
    if (script !== OUR_JOB_SCRIPT) to.notes.push('job.sh is of another version of the action, the one that made the last launch');
  } else if (script === OUR_JOB_SCRIPT) {
    to.notes.push('job.sh is of this version of the action and not of that of the last launch; a launch that was taken back leaves it so');
  } else to.changed.push('job.sh is not the one that the last launch has staged');
}

function someOf(paths: readonly string[]): string {
  return joinNames({ count: paths.length, names: paths.slice(0, 10) });
}

/** The listing that was recorded is believed when its digest is the one that git gives. */
export function compareCode(
  target: AuditTarget,
  found: AuditFacts,
  codes: ReadonlyMap<string, StagedCode>,
  code: Code,
  to: Findings,
): void {
  const { copy } = found;
  if (copy.kind === 'not looked at') {
    to.missing.push('the staged code');
    return;
  }
  const own = `${target.experimentDirectory}/code`;
  const staged = codes.get(copy.code) ?? { recorded: '', actual: '', bad: NONE };
  if (staged.recorded !== '' && staged.recorded !== code.digest) {
    to.changed.push(`the listing ${copy.code}.sha256 is not that of the commit's tree`);
  }
  if (staged.actual !== '' && staged.actual !== code.digest) {
    const which = staged.recorded === code.digest && staged.bad.count > 0 ? `: ${joinNames(staged.bad)}` : '';
    to.changed.push(`the staged code ${copy.code} is not the commit's tree${which}`);
  }
  const believed = staged.recorded === '' ? staged.actual : staged.recorded;
  if (copy.kind === 'missing') to.missing.push(`the experiment's own copy of the code, ${own}`);
  else if (copy.kind === 'unknown') to.missing.push(`the staged code ${copy.code} and its listing, with which ${own} would be compared`);
  else if (believed !== code.digest) to.missing.push(`a listing of the commit's tree, with which ${own} would be compared`);
  else {
    if (copy.changed.count > 0) to.changed.push(`${own}, where its jobs start, is not the commit's tree: ${joinNames(copy.changed)}`);
    if (copy.gone.count > 0) to.changed.push(`${own} lacks files of the commit: ${joinNames(copy.gone)}`);
    if (copy.added.count > 0) {
      to.notes.push(`${count(copy.added.count, 'file')} beside the commit's in ${own}, as jobs may make them: ${joinNames(copy.added)}`);
    }
    if (staged.actual === '') to.notes.push(`the shared copy ${copy.code} is gone; the experiment's own was compared with its listing`);
    if (staged.recorded === '') to.notes.push(`the listing ${copy.code}.sha256 is gone; it was made anew`);
  }
}
