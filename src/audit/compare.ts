import { createHash } from 'node:crypto';
import { messageOf } from '../base/problem.ts';
import { count, some } from '../base/text.ts';
import { filesIn } from '../chain/layout.ts';
import { type ExperimentSummary, fieldDifferences, type Manifest, parseManifest, parseSummary, summaryOf } from '../chain/manifest.ts';
import { filesOf } from '../chain/task.ts';
import { JOB_SCRIPT } from '../cluster/programs/stage.ts';
import type { Code } from '../repo/code.ts';
import { type Findings, findings } from './findings.ts';
import { type AuditFacts, type AuditTarget, type PathList, pathsText, type StagedCode } from './program.ts';
import type { Recomputed } from './recompute.ts';

/** The copies of the manifest that can be read, and what is wrong with them. */
export interface ManifestCopies {
  readonly readable: readonly { readonly file: string; readonly text: string; readonly manifest: Manifest }[];
  readonly changed: readonly string[];
}

export function readManifests(facts: AuditFacts): ManifestCopies {
  const readable: { file: string; text: string; manifest: Manifest }[] = [];
  const changed: string[] = [];
  for (const { file, text } of facts.manifests) {
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
      .map(({ path, a, b }) => `${path} is ${valueText(b)} in ${other.file} and ${valueText(a)} in ${one.file}`);
    changed.push(
      ...(shown.length > 0 ? shown : [`${one.file} and ${other.file} have the same fields, but different bytes`]),
      ...(fields.length > shown.length ? [`${fields.length - shown.length} more fields differ between the two manifests`] : []),
    );
  }
  return { readable, changed };
}

function valueText(value: unknown): string {
  const text = JSON.stringify(value) ?? 'missing';
  return text.length > 100 ? `${text.slice(0, 99)}…` : text;
}

/** The fields of a summary that no later launch changes. */
const LASTING: readonly (keyof ExperimentSummary)[] = [
  'id',
  'name',
  'commit',
  'path',
  'attempt',
  'overrides',
  'save',
  'checkpoints',
  'codeName',
];

/** A summary repeats a part of its manifest, and a listing believes it. */
export function compareSummaries(facts: AuditFacts, manifest: Manifest): Findings {
  const expected = summaryOf(manifest);
  const changed = facts.summaries.flatMap(({ file, text }) => {
    try {
      const summary = parseSummary(text, file);
      return LASTING.flatMap((key) => fieldDifferences(summary[key], expected[key], key)).map(
        ({ path, a, b }) => `${path} is ${valueText(a)} in ${file} and ${valueText(b)} in the manifest`,
      );
    } catch (error) {
      return [messageOf(error)];
    }
  });
  return findings({ changed });
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
const OUR_JOB_SCRIPT = sha256(JOB_SCRIPT);

/** Compares configs and scripts on the cluster with what the commit gives. */
export function compareFiles(facts: AuditFacts, manifest: Manifest, { experiment, savePath }: Recomputed): Findings {
  const expected = new Map(filesOf(experiment, savePath).map(({ path, content }) => [path, sha256(content)]));
  const wrong = [...expected].filter(([path, digest]) => facts.files.has(path) && facts.files.get(path) !== digest).map(([path]) => path);
  const gone = [...expected.keys()].filter((path) => !facts.files.has(path));
  const extra = [...facts.files.keys()].filter((path) => path.startsWith('configs/') && !expected.has(path));
  const script = compareScript(facts.files.get('job.sh'), manifest.launches.at(-1)?.jobScript);
  return {
    changed: [
      ...(wrong.length > 0 ? [`${some(wrong, 10)} ${wrong.length === 1 ? 'does' : 'do'} not match the commit and the overrides`] : []),
      ...script.changed,
    ],
    missing: [...(gone.length > 0 ? [some(gone, 10)] : []), ...script.missing],
    notes: [
      ...(extra.length > 0 ? [`there are files beside the cell configs that this action did not make: ${some(extra, 10)}`] : []),
      ...script.notes,
    ],
  };
}

/** @param found SHA-256 of job.sh. @param recorded SHA-256 of the one that the last launch staged */
function compareScript(found: string | undefined, recorded: string | undefined): Findings {
  if (found === undefined) return findings({ missing: ['job.sh'] });
  if (found === recorded) {
    return findings({
      notes: found === OUR_JOB_SCRIPT ? [] : ['job.sh is the one of another version of the action, which made the last launch'],
    });
  }
  if (found === OUR_JOB_SCRIPT) {
    return findings({
      notes: [
        'job.sh is the one of this version of the action, but another version made the last launch; a launch that was rolled back leaves it so',
      ],
    });
  }
  return findings({ changed: ['job.sh is not the one that the last launch staged'] });
}

/** Compares the staged code and the experiment's copy with the commit. A recorded listing counts if its digest is the commit's. */
export function compareCode(target: AuditTarget, facts: AuditFacts, codes: ReadonlyMap<string, StagedCode>, code: Code): Findings {
  const { copy } = facts;
  if (copy.kind === 'not-examined') return findings({ missing: ['the staged code'] });
  const staged = codes.get(copy.dir) ?? { recorded: '', actual: '', bad: NO_PATHS };
  const own = target.experimentDirectory === undefined ? '' : `${target.experimentDirectory}/code`;
  const changed: string[] = [];
  if (staged.recorded !== '' && staged.recorded !== code.digest) changed.push(`the listing ${copy.dir}.sha256 does not match the commit`);
  if (staged.actual !== '' && staged.actual !== code.digest) {
    const which = staged.recorded === code.digest && staged.bad.count > 0 ? `: ${pathsText(staged.bad)}` : '';
    changed.push(`the staged code ${copy.dir} does not match the commit${which}`);
  }
  const trusted = staged.recorded === '' ? staged.actual : staged.recorded;
  switch (copy.kind) {
    case 'missing':
      return findings({ changed, missing: [`the experiment's copy of the code, ${own}`] });
    case 'unknown':
      return findings({ changed, missing: [`the staged code ${copy.dir} and its listing, to compare ${own} with`] });
    case 'compared':
      if (trusted !== code.digest) return findings({ changed, missing: [`a listing of the commit, to compare ${own} with`] });
      if (copy.changed.count > 0) changed.push(`${own}, where the jobs start, does not match the commit: ${pathsText(copy.changed)}`);
      if (copy.gone.count > 0) changed.push(`${own} lacks files of the commit: ${pathsText(copy.gone)}`);
      return findings({ changed, notes: notesOnCopy(copy.added, own, copy.dir, staged) });
    default:
      return copy satisfies never;
  }
}

const NO_PATHS: PathList = { count: 0, names: [] };

function notesOnCopy(added: PathList, own: string, dir: string, staged: StagedCode): string[] {
  return [
    ...(added.count > 0
      ? [
          `${count(added.count, 'file')} in ${own} ${added.count === 1 ? 'is' : 'are'} not in the commit, as jobs may add them: ${pathsText(added)}`,
        ]
      : []),
    ...(staged.actual === '' ? [`the shared copy ${dir} is gone; the experiment's copy was compared with its listing`] : []),
    ...(staged.recorded === '' ? [`the listing ${dir}.sha256 is gone; it was computed again`] : []),
  ];
}

/** What is missing on the cluster, before anything is compared. */
export function presence({ experimentDirectory, saveDirectory }: AuditTarget, facts: AuditFacts, savedManifest: string): Findings {
  const missing: string[] = [];
  if (!facts.savePresent) missing.push(`the directory of the checkpoints, ${saveDirectory}`);
  if (!facts.directoryPresent) {
    missing.push(
      `the directory of the experiment${experimentDirectory === undefined ? ' under workdir' : `, ${experimentDirectory}`}, and with it the staged code, the cell configs, the scripts, the ledger and one copy of the manifest`,
    );
  }
  const isRead = (file: string) => facts.manifests.some((one) => one.file === file);
  if (facts.savePresent && !isRead(savedManifest)) missing.push(`the manifest ${savedManifest}`);
  if (facts.directoryPresent && experimentDirectory !== undefined) {
    const files = filesIn(experimentDirectory);
    if (!isRead(files.manifest)) missing.push(`the manifest ${files.manifest}`);
    if (facts.ledger === undefined) missing.push(`the ledger ${files.ledger}`);
  }
  return findings({ missing });
}
