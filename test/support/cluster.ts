// The cluster under a test: its commands, its queue, and what is put in front of them.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import type { Credentials } from '../../src/cluster/transport.ts';
import { ROOT } from './action.ts';
import { until } from './until.ts';

/** What script/cluster wrote into DIR/env. */
export interface ClusterEnvironment {
  readonly CLUSTER_DIR: string;
  readonly CLUSTER_HOST: string;
  readonly CLUSTER_PORT: string;
  readonly CLUSTER_USER: string;
  readonly CLUSTER_KEY: string;
  readonly CLUSTER_KNOWN_HOSTS: string;
  readonly CLUSTER_WORKDIR: string;
  readonly CLUSTER_SAVE: string;
  readonly SLURM_CONF: string;
}

/** @param directory of script/cluster up */
export function readCluster(directory: string): ClusterEnvironment {
  const lines = readFileSync(join(directory, 'env'), 'utf8').trim().split('\n');
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  ) as unknown as ClusterEnvironment;
}

/** Runs a Slurm command as the machine's root, who is an operator of the cluster. */
export function slurm(cluster: ClusterEnvironment, command: string, ...args: string[]): string {
  return execFileSync(command, args, { encoding: 'utf8', env: { ...process.env, SLURM_CONF: cluster.SLURM_CONF } }).trim();
}

/** Runs a shell line as the cluster's ordinary account, in its home, without its start-up files. */
export function asUser(cluster: ClusterEnvironment, line: string): string {
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin', SLURM_CONF: cluster.SLURM_CONF, USER: cluster.CLUSTER_USER };
  const { status, stdout, stderr } = spawnSync(
    'setpriv',
    [`--reuid=${cluster.CLUSTER_USER}`, '--regid=' + cluster.CLUSTER_USER, '--clear-groups', 'bash', '--noprofile', '--norc', '-c', line],
    {
      encoding: 'utf8',
      env,
      cwd: '/',
    },
  );
  if (status !== 0) throw new Error(`as ${cluster.CLUSTER_USER}: ${line}: ${stderr}${stdout}`);
  return stdout.trim();
}

/**
 * Puts a script in front of Slurm commands, to inject a fault into the real ones: each body runs with the real command in
 * $REAL and the number of sbatch calls so far, this one included, in $CALL, and goes on to the real command.
 * @returns the prelude that makes a login find them
 */
export function inFront(cluster: ClusterEnvironment, name: string, bodies: Readonly<Record<string, string>>): string {
  const directory = `${cluster.CLUSTER_DIR}/home/front-${process.pid}-${name}`; // goes with the cluster
  asUser(cluster, `mkdir -p ${directory}`);
  for (const [command, body] of Object.entries(bodies)) {
    const script = [
      '#!/bin/bash',
      `REAL=/usr/bin/${command}`,
      // --test-only and --version are no submissions and are not counted.
      ...(command === 'sbatch'
        ? ['case " $* " in *" --test-only "* | *" --version "*) exec $REAL "$@" ;; esac', `echo x >> ${directory}/calls`]
        : []),
      `CALL=$(cat ${directory}/calls 2>/dev/null | wc -l)`,
      body,
      'exec $REAL "$@"',
    ].join('\n');
    asUser(cluster, `cat > ${directory}/${command} <<'EOF'\n${script}\nEOF\nchmod +x ${directory}/${command}`);
  }
  return `export PATH=${directory}:$PATH`;
}

/** The cluster that script/test brought up. */
export function testCluster(): ClusterEnvironment {
  const directory = process.env['CLUSTER_DIR'];
  if (directory === undefined)
    throw new Error('CLUSTER_DIR is not set: run script/test, or script/cluster up --dir DIR and CLUSTER_DIR=DIR');
  return readCluster(directory);
}

/** A cluster for one test file alone, for tests that change what others would notice. @param options of script/cluster up */
export function ownCluster(...options: string[]): ClusterEnvironment {
  const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-own-'));
  const script = (...args: string[]) => execFileSync(join(ROOT, 'script/cluster'), args, { stdio: ['ignore', 'pipe', 'pipe'] });
  script('up', '--dir', directory, '--node-count', '1', ...options);
  after(() => {
    script('down', '--dir', directory);
  });
  return readCluster(directory);
}

/**
 * A prelude that makes the programs on the login node look again sooner than they do for people; src/runtime/change.sh says
 * what the variables are.
 */
export const QUICK = "export CHAIN_LOOK_PAUSES='0 0.2 0.5' CHAIN_RETRY_PAUSES='0 0.2 0.5 1 2' CHAIN_CANCEL_PAUSES='0.2 0.3 0.5 1 2 4 8'";

/** One job of a chain in the queue: an array over the cells, or one over a single cell. */
export interface QueuedJob {
  readonly jobId: string;
  readonly experiment: string;
  /** `l<number>-<random part>`. */
  readonly launch: string;
  readonly jobNumber: number;
  /** The cell of a job that has only one. */
  readonly cell: number | undefined;
  /** Array task ids that are still in the queue. */
  readonly tasks: number[];
  /** Of the first task, as squeue shows them. */
  readonly state: string;
  readonly reason: string;
  readonly dependency: string;
}

/** What the queue holds of the experiment with this id, or of all that have this name; in the order it was submitted. */
export function queueOf(cluster: ClusterEnvironment, experiment: string): QueuedJob[] {
  const jobs = new Map<string, QueuedJob>();
  for (const row of slurm(cluster, 'squeue', '-a', '-r', '-h', '-o', '%F|%K|%T|%r|%E|%j').split('\n')) {
    const [jobId = '', task, state = '', reason = '', dependency = '', tag = ''] = row.split('|');
    const [, id = '', launch = '', jobNumber, cell] = /^(.+)\.(l\d+-[0-9a-f]+)\.s(\d+)(?:\.c(\d+))?$/.exec(tag) ?? [];
    if (id !== experiment && !/^-[0-9a-f]{12}(-|$)/.test(id.startsWith(experiment) ? id.slice(experiment.length) : '')) continue;
    const seen = jobs.get(jobId);
    if (seen !== undefined) seen.tasks.push(Number(task));
    else {
      const ofCell = cell === undefined ? undefined : Number(cell);
      const tasks = [Number(task)];
      jobs.set(jobId, { jobId, experiment: id, launch, jobNumber: Number(jobNumber), cell: ofCell, tasks, state, reason, dependency });
    }
  }
  return [...jobs.values()].sort((a, b) => Number(a.jobId) - Number(b.jobId));
}

/** Cancels what queueOf shows, the last job first, because a cancelled one starts the next. Does not wait until it is gone. */
export function cancelQueue(cluster: ClusterEnvironment, experiment: string): void {
  const ids = queueOf(cluster, experiment).map((job) => job.jobId);
  if (ids.length > 0) slurm(cluster, 'scancel', ...ids.toReversed());
}

/** State and exit code of every task of these arrays of so many cells, by `job_task`, once all have ended. */
export async function endOf(
  cluster: ClusterEnvironment,
  jobs: readonly string[],
  { cells = 1, seconds = 120 } = {},
): Promise<Map<string, string>> {
  return until(
    `jobs ${jobs.join(' ')} to end`,
    () => {
      if (slurm(cluster, 'squeue', '-h', '-j', jobs.join(',')) !== '') return undefined;
      const rows = slurm(cluster, 'sacct', '-X', '-n', '-P', '-j', jobs.join(','), '-o', 'JobID,State,ExitCode').split('\n');
      const states = new Map(rows.map((row) => [row.split('|')[0] ?? '', row.split('|').slice(1).join(' ')]));
      // Accounting lags: until it has caught up, tasks are missing, still pending, or one row stands for the array.
      const settled = [...states].every(
        ([id, state]) => /^CANCELLED/.test(state) || (/_\d+$/.test(id) && !/PENDING|RUNNING|COMPLETING/.test(state)),
      );
      const rowsOf = (job: string) => [...states.keys()].filter((id) => id.startsWith(`${job}_`));
      // One row with a range stands for what never ran.
      const all = jobs.every((job) => rowsOf(job).length === cells || rowsOf(job).some((id) => id.includes('[')));
      return settled && all ? states : undefined;
    },
    seconds,
  );
}

/** Logs in with the key of the cluster's account alone. */
export function keyOnly(cluster: ClusterEnvironment): Credentials {
  return {
    privateKey: readFileSync(cluster.CLUSTER_KEY, 'utf8'),
    passphrase: '',
    certificate: '',
    knownHosts: '',
    sshConfig: '',
    agent: '',
  };
}
