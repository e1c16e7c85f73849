// The experiment and the training loop of the README, cut and resumed by job.sh itself. Slurm is a stand-in here: `srun` runs
// its command and `squeue` knows no jobs. On a real cluster the same files are the quick start.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { planOf } from '../../src/chain/plan.ts';
import { filesOf } from '../../src/chain/task.ts';
import { JOB_SCRIPT } from '../../src/cluster/programs/stage.ts';
import { parseSource } from '../../src/experiment/document.ts';
import { type Experiment, experimentFrom } from '../../src/experiment/experiment.ts';
import { parseRepoConfig } from '../../src/experiment/repo-config.ts';
import { ROOT } from '../support/action.ts';
import { until } from '../support/until.ts';

const EXAMPLE = join(ROOT, 'examples/quickstart');
const root = mkdtempSync(join(tmpdir(), 'slurm-chain-quickstart-'));
after(() => rmSync(root, { recursive: true, force: true }));

interface JournalLine {
  readonly event: string;
  readonly step: number;
  readonly resumed_from?: string | null;
  readonly next_step?: number;
  readonly moved_aside?: readonly string[];
  readonly newest?: string | null;
  readonly exit?: number;
  readonly verdict?: string;
}

interface Chain {
  readonly experiment: Experiment;
  readonly checkpoints: string;
  /** Starts one job of the chain. */
  start(jobNumber: number): Promise<Job>;
  saved(): string[];
  weight(checkpoint: string): number;
  journal(): JournalLine[];
}

interface Job {
  /** Sends a signal to every process of the job, as Slurm does at the time limit and when a node fails. */
  signalAll(signal: NodeJS.Signals): void;
  readonly end: Promise<number | null>;
  log(): string;
}

/** The quick start on a "cluster" that is a directory. */
function chainOf(name: string): Chain {
  const yaml = readFileSync(join(EXAMPLE, 'configs/quickstart.yaml'), 'utf8');
  const config = parseRepoConfig(readFileSync(join(EXAMPLE, '.github/slurm-chain.yml'), 'utf8'));
  const experiment = experimentFrom(parseSource('configs/quickstart.yaml', yaml), 'c'.repeat(40), config, []);
  const workdir = join(root, name);
  const savePath = join(workdir, 'save');
  const directory = join(workdir, 'experiments', experiment.id);
  const checkpoints = join(savePath, experiment.id, '0');
  const write = (path: string, text: string, mode = 0o644) => {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    chmodSync(path, mode);
  };
  write(join(directory, 'job.sh'), JOB_SCRIPT);
  write(join(directory, 'secrets.env'), '');
  write(join(directory, 'manifest.json'), JSON.stringify({ id: experiment.id }));
  for (const file of filesOf(experiment, savePath)) write(join(directory, file.path), file.content);
  cpSync(join(EXAMPLE, 'train.py'), join(directory, 'code/train.py'));
  const bin = join(workdir, 'bin');
  write(join(bin, 'srun'), `#!/bin/bash\nps -o pgid= -p $$ > ${workdir}/group\nexec "$@"\n`, 0o755);
  for (const command of ['squeue', 'scancel']) write(join(bin, command), '#!/bin/bash\nexit 0\n', 0o755);
  // A training step of the example takes a second.
  write(join(bin, 'sitecustomize.py'), 'import time\nsleep = time.sleep\ntime.sleep = lambda seconds: sleep(seconds / 50)\n');

  const plan = planOf(experiment, { workdir, savePath });
  return {
    experiment,
    checkpoints,
    async start(jobNumber) {
      const submission = plan.submissions[jobNumber - 1];
      assert.ok(submission, `the chain has no job ${jobNumber}`);
      let log = '';
      const child = spawn('bash', [join(directory, 'job.sh')], {
        cwd: join(directory, 'code'),
        env: {
          PATH: `${bin}:/usr/bin:/bin`,
          PYTHONPATH: bin,
          ...submission.environment,
          CHAIN_PAUSES: '0.1 0.1 0.1',
          SLURM_ARRAY_TASK_ID: '0',
          SLURM_JOB_ID: String(1000 + jobNumber),
          SLURM_ARRAY_JOB_ID: String(1000 + jobNumber),
        },
        stdio: ['ignore', 'pipe', 'pipe'],
        detached: true, // a process group of its own
      });
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (log += chunk.toString()));
      const end = new Promise<number | null>((resolve) => child.on('close', resolve));
      return {
        signalAll(signal) {
          assert.ok(child.pid);
          for (const group of [child.pid, Number(readFileSync(join(workdir, 'group'), 'utf8'))]) process.kill(-group, signal);
        },
        end,
        log: () => log,
      };
    },
    saved: () =>
      readdirSync(checkpoints)
        .filter((entry) => entry.startsWith('step_'))
        .sort((a, b) => Number(a.slice(5)) - Number(b.slice(5))),
    weight: (checkpoint) => {
      const { weight } = JSON.parse(readFileSync(join(checkpoints, checkpoint, 'state.json'), 'utf8')) as { weight: number };
      return weight;
    },
    journal: () =>
      readFileSync(join(savePath, experiment.id, '.chain/0.jsonl'), 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as JournalLine),
  };
}

const has = (chain: Chain, checkpoint: string) => () => existsSync(join(chain.checkpoints, checkpoint));

test('the quick start, cut by the time limit and killed in a later job, resumes and ends with the weights of an uncut run', async () => {
  const uncut = chainOf('uncut');
  assert.equal(await (await uncut.start(1)).end, 0);
  assert.deepEqual(uncut.saved().at(-1), 'step_99');

  const chain = chainOf('cut');
  const first = await chain.start(1);
  await until('job 1 to save', has(chain, 'step_29'));
  // At the time limit Slurm sends TERM to every process of the job.
  first.signalAll('SIGTERM');
  assert.equal(await first.end, 143, first.log());
  const afterFirst = chain.saved().at(-1);

  const second = await chain.start(2);
  await until('job 2 to save', has(chain, 'step_69'));
  // A node that fails leaves no last word in the journal, and perhaps half a checkpoint.
  second.signalAll('SIGKILL');
  await second.end;
  const afterSecond = chain.saved().at(-1);

  const third = await chain.start(3);
  assert.equal(await third.end, 0, third.log());

  const journal = chain.journal();
  const starts = journal.filter((line) => line.event === 'start');
  assert.deepEqual(
    starts.map((line) => [line.step, line.resumed_from ?? null]),
    [
      [1, null],
      [2, afterFirst],
      [3, afterSecond],
    ],
  );
  assert.deepEqual(
    starts.flatMap((line) => line.moved_aside ?? []),
    [],
    'no checkpoint was put aside',
  );
  assert.equal(journal.at(-1)?.verdict, 'complete');
  assert.deepEqual(
    chain.saved(),
    Array.from({ length: 10 }, (_, index) => `step_${index * 10 + 9}`),
  );
  assert.equal(chain.weight('step_99'), uncut.weight('step_99'));
});

test('once training is complete, a later job of the quick start does nothing', async () => {
  const chain = chainOf('complete');
  assert.equal(await (await chain.start(1)).end, 0);
  const second = await chain.start(2);
  assert.equal(await second.end, 0);
  assert.doesNotMatch(second.log(), /saved step_/);
  assert.equal(chain.journal().at(-1)?.event, 'done');
});

test('the quick start sets nothing that its training loop does not serve', () => {
  const { settings, cells } = chainOf('settings').experiment;
  assert.equal(settings.save.complete, undefined, 'the loop writes no marker file');
  assert.equal(settings.chain.warnBefore, 0, 'the loop handles no warning signal');
  assert.equal(settings.chain.nJobs, 3);
  assert.deepEqual(
    cells.map((cell) => cell.nSteps),
    [100],
  );
});
