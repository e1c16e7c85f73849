import { Problem } from '../../base/problem.ts';
import { type LedgerLine, parseLedger } from '../../chain/ledger.ts';
import { type Manifest, parseManifest } from '../../chain/manifest.ts';
import { type Places, testArguments } from '../../chain/plan.ts';
import type { Experiment } from '../../experiment/experiment.ts';
import type { Cluster } from '../../experiment/repo-config.ts';
import type { Code } from '../../repo/code.ts';
import type { Connection } from '../connection.ts';
import { type SubmitLimit, submitLimits } from '../limits.ts';
import { call, runChecked } from '../shell.ts';

/** What the cluster said before anything was sent. */
export interface Probe {
  readonly places: Places;
  /** The account and the node it landed on. */
  readonly account: string;
  readonly node: string;
  /** `slurm 22.05.8` */
  readonly slurm: string;
  /** Names of SBATCH_* variables the account sets. */
  readonly sbatchVariables: readonly string[];
  /** What `sbatch --test-only` says of the array. */
  readonly testOnly: { readonly accepted: boolean; readonly said: string };
  /** How many tasks may be queued. */
  readonly limits: readonly SubmitLimit[];
  /** The newest attempt there is, from 1; all that follows is of that one. */
  readonly attempt: number;
  /** Is the code there already? */
  readonly codeStaged: boolean;
  readonly ledger: readonly LedgerLine[];
  /** How many lines the ledger has, unreadable ones included; a launch goes on only while that is so. */
  readonly ledgerLines: number;
  /** How many cells are done, as their journals say. */
  readonly cellsDone: number;
  /** Are there jobs of this experiment in the queue, whoever put them there? */
  readonly queued: boolean;
  /** The manifest of an earlier launch. */
  readonly manifest: Manifest | undefined;
}

/**
 * One round trip that changes nothing.
 * @throws Problem for what makes a launch impossible: no sbatch, an unset $NAME, a grid over MaxArraySize, options sbatch
 * refuses, code on the cluster that is not the commit's
 */
export async function probe(connection: Connection, cluster: Cluster, experiment: Experiment, code: Code): Promise<Probe> {
  const answers = await runChecked(connection, {
    purpose: 'looking at the cluster',
    parts: ['probe'],
    prelude: cluster.prelude,
    calls: [call('probe', cluster.workdir, experiment.settings.save.path, code.name, experiment.id, ...testArguments(experiment))],
    deadlineSeconds: 600,
  });
  const valuesOf = (key: string) => answers.find((answer) => answer.key === key)?.values ?? [];
  const all = (key: string) => answers.filter((answer) => answer.key === key).map((answer) => answer.values[0] ?? '');
  const [workdir, save] = valuesOf('paths');
  const [account = '', node = ''] = valuesOf('host');
  const [maxArraySize = Number.NaN, maxJobCount = Number.NaN] = valuesOf('limits').map(Number);
  if (workdir === undefined || save === undefined || !Number.isInteger(maxArraySize) || !Number.isInteger(maxJobCount)) {
    throw new Problem(`${connection.name}: the answer while looking at the cluster makes no sense: ${JSON.stringify(answers)}`);
  }
  // MaxArraySize is one more than the highest task id (slurm.conf(5)).
  if (experiment.cells.length > maxArraySize) {
    throw new Problem(
      `the grid of ${experiment.path} has ${experiment.cells.length} cells, and ${cluster.name} takes arrays of at most ${maxArraySize} (MaxArraySize); make the grid smaller or split it into two experiments`,
    );
  }
  // Every task counts, waiting ones too (slurm.conf(5), MaxJobCount).
  const { nJobs } = experiment.settings.chain;
  const tasks = experiment.cells.length * nJobs;
  if (tasks > maxJobCount) {
    throw new Problem(
      `${experiment.path} asks for ${experiment.cells.length} cells × ${nJobs} steps = ${tasks} tasks, and ${cluster.name} holds at most ${maxJobCount} jobs of all its users together (MaxJobCount)`,
    );
  }
  const [file, text] = valuesOf('manifest');
  const manifest = file === undefined || text === undefined ? undefined : parseManifest(text, `${file} on ${cluster.name}`);
  if (manifest !== undefined && manifest.path !== experiment.path) {
    throw new Problem(
      `${experiment.id} on ${cluster.name} is ${manifest.path}, and ${experiment.path} has the same name at the same commit; give one of them a name: of its own`,
    );
  }
  const asked = valuesOf('asked');
  const option = (name: string, variable: number) => {
    const written = experiment.settings.slurm.get(name);
    return typeof written === 'string' ? written : asked[variable] || undefined;
  };
  const [outcome, said = ''] = valuesOf('test-only');
  const stagedDigest = valuesOf('code')[0];
  if (stagedDigest !== undefined && stagedDigest !== code.digest) {
    throw new Problem(
      `${workdir}/code/${code.name} on ${cluster.name} is not the code of commit ${experiment.commit.slice(0, 12)}: its recorded digest is ${stagedDigest || 'missing'}, the commit's is ${code.digest}. Find out who changed it; once no job needs it, remove it and launch again`,
    );
  }
  return {
    places: { workdir, savePath: save },
    account,
    node,
    slurm: valuesOf('slurm')[0] ?? '',
    sbatchVariables: all('sbatch-variable'),
    testOnly: { accepted: outcome === 'accepted', said: tidy(said) },
    limits: submitLimits(
      answers.filter((answer) => answer.key === 'limit').map((answer) => answer.values),
      { account: option('account', 0), partition: option('partition', 1), qos: option('qos', 2) },
    ),
    attempt: Number(valuesOf('attempt')[0] ?? 1),
    codeStaged: stagedDigest !== undefined,
    ledger: parseLedger(all('ledger')),
    ledgerLines: all('ledger').length,
    cellsDone: Number(valuesOf('complete')[0] ?? 0),
    queued: answers.some((answer) => answer.key === 'queued'),
    manifest,
  };
}

/** sbatch's own words without the program's name in front of each line. */
export function tidy(said: string): string {
  return said
    .split('\n')
    .map((line) => line.replace(/^sbatch: (error: )?/, '').trim())
    .filter((line) => line !== '')
    .join('; ');
}
