import { Problem } from '../../base/problem.ts';
import type { Places } from '../../chain/layout.ts';
import { type LedgerLine, parseLedger } from '../../chain/ledger.ts';
import { type Manifest, parseManifest } from '../../chain/manifest.ts';
import { testArguments } from '../../chain/plan.ts';
import type { Experiment } from '../../experiment/experiment.ts';
import type { Code } from '../../repo/code.ts';
import { shortId } from '../../repo/commit-id.ts';
import type { Answers, AnswerTable } from '../answers.ts';
import { type SubmitLimit, submitLimits } from '../limits.ts';
import type { Login } from '../login.ts';
import { call, FRAME_ANSWERS, type Program, runChecked } from '../shell.ts';

const ANSWERS = {
  ...FRAME_ANSWERS,
  paths: ['workdir', 'savePath'],
  note: ['text'],
  slurm: ['version'],
  limits: ['maxArraySize', 'maxJobCount'],
  'sbatch-variable': ['name'],
  'test-only': ['outcome', 'message'],
  'submit-limit': ['kind', 'values…'],
  defaults: ['account', 'partition', 'qos'],
  attempt: ['number'],
  code: ['digest'],
  queued: [],
  'complete-cells': ['count'],
  ledger: ['line'],
  manifest: ['file', 'text'],
} as const satisfies AnswerTable;

export const PROBE: Program<typeof ANSWERS> = { parts: ['layout', 'job-name', 'queue', 'probe'], answers: ANSWERS };

/** What the cluster says before anything is sent. */
export interface Probe {
  readonly places: Places;
  /** What a person should know about the directories. */
  readonly notes: readonly string[];
  /** `slurm 22.05.8` */
  readonly slurm: string;
  /** Names of the SBATCH_* variables that the account sets. */
  readonly sbatchVariables: readonly string[];
  /** What `sbatch --test-only` says about the array. */
  readonly testOnly: { readonly accepted: boolean; readonly message: string };
  /** The limits on how many tasks may be in the queue. */
  readonly limits: readonly SubmitLimit[];
  /** The newest attempt on the cluster, from 1. Everything that follows is about that one. */
  readonly attempt: number;
  /** Is the code on the cluster already? */
  readonly codeStaged: boolean;
  readonly ledger: readonly LedgerLine[];
  /** The number of lines in the ledger, with those that cannot be read. A launch stops if it changes meanwhile. */
  readonly ledgerLines: number;
  /** The number of cells whose journal says that training is complete. */
  readonly completeCells: number;
  /** Are jobs of this experiment in the queue, whoever put them there? */
  readonly queued: boolean;
  /** The manifest of an earlier launch. */
  readonly manifest: Manifest | undefined;
}

/**
 * Looks at the cluster in one round trip that changes nothing.
 * @throws Problem for what makes a launch impossible: no sbatch, a $NAME that is not set, a grid over MaxArraySize, code on the
 * cluster that does not match the commit
 */
export async function probe(login: Login, experiment: Experiment, code: Code): Promise<Probe> {
  const { cluster } = login;
  const answers = await runChecked(login, PROBE, {
    purpose: 'looking at the cluster',
    calls: [call('probe', cluster.workdir, experiment.settings.save.path, code.name, experiment.id, ...testArguments(experiment))],
    deadlineSeconds: 600,
  });
  const { workdir, savePath } = answers.one('paths');
  const { maxArraySize, maxJobCount } = answers.one('limits');
  refuseTooMany(experiment, cluster.name, wholeNumber('MaxArraySize', maxArraySize), wholeNumber('MaxJobCount', maxJobCount));
  const testOnly = answers.one('test-only');
  const ledger = answers.all('ledger').map(({ line }) => line);
  return {
    places: { workdir, savePath },
    notes: answers.all('note').map(({ text }) => text),
    slurm: answers.one('slurm').version,
    sbatchVariables: answers.all('sbatch-variable').map(({ name }) => name),
    testOnly: { accepted: testOnly.outcome === 'accepted', message: sbatchMessage(testOnly.message) },
    limits: limitsOf(answers, experiment),
    attempt: wholeNumber('the attempt', answers.one('attempt').number),
    codeStaged: isCodeStaged(answers, experiment, code, cluster.name, workdir),
    ledger: parseLedger(ledger),
    ledgerLines: ledger.length,
    completeCells: wholeNumber('the number of complete cells', answers.optional('complete-cells')?.count ?? '0'),
    queued: answers.has('queued'),
    manifest: manifestFrom(answers, experiment, cluster.name),
  };
}

function wholeNumber(what: string, text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new Problem(`the cluster gives '${text.slice(0, 100)}' as ${what}, which is not a number`);
  return Number(text);
}

function refuseTooMany(experiment: Experiment, clusterName: string, maxArraySize: number, maxJobCount: number): void {
  const cells = experiment.cells.length;
  // MaxArraySize is one more than the highest task id (slurm.conf(5)).
  if (cells > maxArraySize) {
    throw new Problem(
      `the grid of ${experiment.path} has ${cells} cells, and ${clusterName} takes arrays of at most ${maxArraySize} tasks (MaxArraySize). Make the grid smaller, or split it into two experiments`,
    );
  }
  // Every task counts, also while it waits (slurm.conf(5), MaxJobCount).
  const { nJobs } = experiment.settings.chain;
  if (cells * nJobs > maxJobCount) {
    throw new Problem(
      `${experiment.path} asks for ${cells} cells × ${nJobs} jobs = ${cells * nJobs} tasks, and ${clusterName} holds at most ${maxJobCount} tasks of all its users together (MaxJobCount). Make the chain shorter or the grid smaller`,
    );
  }
}

function limitsOf(answers: Answers<typeof ANSWERS>, experiment: Experiment): SubmitLimit[] {
  const defaults = answers.one('defaults');
  const option = (name: 'account' | 'partition' | 'qos') => {
    const written = experiment.settings.slurm.get(name);
    return typeof written === 'string' ? written : defaults[name] || undefined;
  };
  return submitLimits(answers.all('submit-limit'), {
    account: option('account'),
    partition: option('partition'),
    qos: option('qos'),
  });
}

/** @throws Problem when the staged code was changed */
function isCodeStaged(answers: Answers<typeof ANSWERS>, experiment: Experiment, code: Code, clusterName: string, workdir: string): boolean {
  const staged = answers.optional('code');
  if (staged !== undefined && staged.digest !== code.digest) {
    throw new Problem(
      `${workdir}/code/${code.name} on ${clusterName} does not match commit ${shortId(experiment.commit)}: its recorded digest is ${staged.digest || 'missing'}, the commit's is ${code.digest}. Find out who changed it. Once no job needs it, remove it and launch again`,
    );
  }
  return staged !== undefined;
}

/** @throws Problem when the manifest on the cluster belongs to another experiment */
function manifestFrom(answers: Answers<typeof ANSWERS>, experiment: Experiment, clusterName: string): Manifest | undefined {
  const found = answers.optional('manifest');
  if (found === undefined) return undefined;
  const manifest = parseManifest(found.text, `${found.file} on ${clusterName}`);
  if (manifest.path !== experiment.path) {
    throw new Problem(
      `${experiment.id} on ${clusterName} was launched from ${manifest.path}, and ${experiment.path} has the same name at the same commit. Give one of the two experiments another name`,
    );
  }
  return manifest;
}

/** sbatch's own words, without the name of the program in front of each line. */
export function sbatchMessage(text: string): string {
  return text
    .split('\n')
    .map((line) => line.replace(/^sbatch: (error: )?/, '').trim())
    .filter((line) => line !== '')
    .join('; ');
}
