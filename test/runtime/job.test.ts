// job.sh directly, with the variables Slurm would set and a squeue that says what the test wants. What only the real
// cluster can show is in test/e2e/task.test.ts.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { checksumOf } from '../../src/audit/attribution.ts';
import { contains, parseRanges } from '../../src/audit/ranges.ts';
import { JOB_SCRIPT } from '../../src/cluster/programs/stage.ts';
import { ROOT } from '../support/action.ts';
import { until } from '../support/until.ts';

const root = mkdtempSync(join(tmpdir(), 'slurm-chain-job-'));
after(() => rmSync(root, { recursive: true, force: true }));
let count = 0;

interface Line {
  readonly event: string;
  readonly [key: string]: unknown;
}

interface Cell {
  readonly checkpoints: string;
  readonly chain: string;
  /** Makes a checkpoint directory with a file in it. */
  save(name: string, file?: string): void;
  /** What squeue knows: `task id state`, or an exit status with words on stderr. */
  queue(rows: string, failure?: { status: number; said: string }): void;
  environment(step: number, more?: Record<string, string>): Record<string, string>;
  task(step: number, more?: Record<string, string>): { status: number | null; log: string };
  journal(): Line[];
}

/** A cell of an experiment whose run is this shell text. */
function cell(run: string, { steps = '100', complete = '', offset = 1, prefix = 'step_', cells = 1 } = {}): Cell {
  count += 1;
  const directory = join(root, String(count));
  const bin = join(directory, 'bin');
  const checkpoints = join(directory, 'save/exp/0');
  mkdirSync(join(directory, 'exp'), { recursive: true });
  mkdirSync(checkpoints, { recursive: true });
  mkdirSync(bin);
  writeFileSync(join(directory, 'job.sh'), JOB_SCRIPT);
  writeFileSync(
    join(directory, 'exp/task.env'),
    `SAVE_PATH='${directory}/save'\nSAVE_PREFIX='${prefix}'\nSAVE_OFFSET=${offset}\nSAVE_COMPLETE='${complete}'\nN_STEPS=(${`'${steps}' `.repeat(cells)})\n`,
  );
  writeFileSync(join(directory, 'exp/manifest.json'), '{"version":1,"id":"exp"}\n');
  writeFileSync(join(directory, 'exp/run.sh'), `trap : USR1 USR2 TERM\n${run}\n`);
  const squeue = (text: string) => {
    writeFileSync(join(bin, 'squeue'), `#!/bin/bash\n${text}\n`);
    chmodSync(join(bin, 'squeue'), 0o755);
  };
  squeue('exit 0');
  writeFileSync(join(bin, 'scancel'), `#!/bin/bash\necho "$@" >> ${directory}/cancelled\n`);
  chmodSync(join(bin, 'scancel'), 0o755);
  const environment = (step: number, more: Record<string, string> = {}) => ({
    PATH: `${bin}:/usr/bin:/bin`,
    EXPERIMENT_ID: 'exp',
    EXPERIMENT_DIR: join(directory, 'exp'),
    EXPERIMENT_COMMIT: 'c',
    CHAIN_STEP: String(step),
    CHAIN_LENGTH: '9',
    CHAIN_LAUNCH: '1',
    CHAIN_STOP_AFTER: '2',
    CHAIN_CANCEL_WHEN_DONE: 'true',
    CHAIN_PAUSES: '0.1 0.1 0.2',
    CHAIN_WARN_SIGNAL: 'TERM',
    SLURM_ARRAY_TASK_ID: '0',
    SLURM_JOB_ID: String(1000 + step),
    SLURM_ARRAY_JOB_ID: String(1000 + step),
    ...more,
  });
  return {
    checkpoints,
    chain: join(directory, 'save/exp/.chain'),
    save(name, file = 'weights') {
      mkdirSync(join(checkpoints, name), { recursive: true });
      if (file !== '') writeFileSync(join(checkpoints, name, file), 'x');
    },
    queue(rows, failure) {
      squeue(failure ? `echo '${failure.said}' >&2; exit ${failure.status}` : `cat <<'EOF'\n${rows}\nEOF`);
    },
    environment,
    task(step, more) {
      const { status, stdout, stderr } = spawnSync('bash', [join(directory, 'job.sh')], { encoding: 'utf8', env: environment(step, more) });
      assert.equal(stderr.replace(/^.*(Terminated|Killed|User defined|Segmentation fault).*\n/gm, ''), '', stdout);
      return { status, log: stdout };
    },
    journal: () =>
      readFileSync(join(directory, 'save/exp/.chain/0.jsonl'), 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Line),
  };
}
const PRINT = 'echo "from=${RESUME_FROM##*/} step=$RESUME_STEP next=$NEXT_STEP"';

test('checkpoints compare as numbers; other names, files, links and empty directories do not count', () => {
  const one = cell(PRINT, { steps: '99999' });
  for (const name of ['step_500', 'step_2500', 'step_0900', 'step_9x', 'xstep_9999', 'step_', 'latest', 'step_3000.tmp']) one.save(name);
  writeFileSync(join(one.checkpoints, 'step_8000'), 'a file');
  symlinkSync('step_500', join(one.checkpoints, 'step_7000'));
  symlinkSync('step_500', join(one.checkpoints, 'latest2'));
  one.save('step_6000', '');
  const { log } = one.task(2);
  assert.match(log, /from=step_2500 step=2500 next=2501/);
  assert.ok(existsSync(join(one.checkpoints, 'incomplete.step_6000.1002.0')), 'the empty one is aside');
  assert.deepEqual(one.journal()[0]?.['moved_aside'], ['incomplete.step_6000.1002.0']);
  assert.ok(existsSync(join(one.checkpoints, 'step_3000.tmp')), 'other names are left alone');
});

test('with save.complete only a directory that has the file counts, whatever its number', () => {
  const one = cell(PRINT, { complete: '.metadata' });
  one.save('step_20', '.metadata');
  one.save('step_40', 'shard0');
  one.save('step_60', 'shard0');
  assert.match(one.task(2).log, /from=step_20 step=20 next=21/);
  assert.deepEqual(
    readdirSync(one.checkpoints).filter((name) => /^step_/.test(name)),
    ['step_20'],
  );
  assert.equal(readdirSync(one.checkpoints).filter((name) => name.startsWith('incomplete.')).length, 2, 'moved, not deleted');
});

test('an incomplete one below the newest complete one stays where it is', () => {
  const one = cell(PRINT, { complete: 'done' });
  one.save('step_20', 'x');
  one.save('step_40', 'done');
  one.task(2);
  assert.deepEqual(readdirSync(one.checkpoints).sort(), ['step_20', 'step_40']);
});

test('save.step: count, and other prefixes', () => {
  const one = cell(PRINT, { offset: 0, prefix: 'checkpoint-', steps: '500' });
  assert.match(one.task(1).log, /from= step= next=0/);
  one.save('checkpoint-499');
  one.save('step_600');
  assert.match(one.task(2).log, /from=checkpoint-499 step=499 next=499/);
  one.save('checkpoint-500');
  assert.match(one.task(3).log, /training is complete \(checkpoint-500\)/);
});

test('a task finds the newest of 2,000 checkpoints', () => {
  const one = cell(PRINT, { steps: '999999' });
  const make = 'cd "$1" && mkdir $(seq -f step_%.0f 1 2000) && touch $(seq -f step_%.0f/w 1 2000)';
  assert.equal(spawnSync('bash', ['-c', make, '-', one.checkpoints]).status, 0);
  assert.match(one.task(2).log, /from=step_2000 /);
});

test('done by n_steps: neither run nor checkpoint is touched, and it is on record', () => {
  const one = cell('echo it ran');
  one.save('step_99');
  one.save('step_120', '');
  const { status, log } = one.task(4);
  assert.equal(status, 0);
  assert.doesNotMatch(log, /it ran/);
  assert.deepEqual(
    one.journal().map((line) => [line.event, line['newest'], line['complete']]),
    [['done', 'step_99', true]],
  );
});

test('done by a COMPLETE file, without n_steps', () => {
  const one = cell('echo it ran; touch "$CHECKPOINT_DIR/COMPLETE"', { steps: '' });
  assert.match(one.task(1).log, /it ran/);
  assert.equal(one.journal().at(-1)?.['verdict'], 'complete');
  assert.match(one.task(2).log, /training is complete \(COMPLETE\)/);
});

test('when every cell is done, what is queued behind is cancelled, last step first; nothing else is', () => {
  const one = cell('true', { cells: 2 });
  one.save('step_99');
  one.queue('2005|exp.l1-0.s5\n2004|exp.l1-0.s4\n2006|exp.l1-0.s6.c1\n2001|exp.l1-0.s2\n3000|experiment.l1-0.s9\n3001|other');
  assert.match(one.task(3).log, /nothing to do/);
  const cancelled = join(one.chain, '../../../cancelled');
  assert.ok(!existsSync(cancelled), 'cell 1 is not done');
  writeFileSync(join(one.chain, '1.jsonl'), '{"event":"end","complete":true}\n');
  assert.match(one.task(3).log, /all 2 cells are complete; cancelling the jobs that are still in the queue: 2006 2005 2004/);
  assert.equal(readFileSync(cancelled, 'utf8'), '2006 2005 2004\n');
  rmSync(cancelled);
  one.task(3, { CHAIN_CANCEL_WHEN_DONE: 'false' });
  assert.ok(!existsSync(cancelled), 'only if asked for');
});

test('a crash uses two starts, then later steps end at once; a new launch goes on', () => {
  const one = cell('echo it ran; exit 3');
  assert.equal(one.task(1).status, 3);
  assert.match(one.task(2).log, /it ran/);
  const third = one.task(3);
  assert.equal(third.status, 1);
  assert.doesNotMatch(third.log, /it ran/);
  assert.match(third.log, /the last 2 tasks of cell 0 failed without a new checkpoint.*launch the experiment again to continue/);
  assert.equal(one.task(4).status, 1);
  assert.deepEqual(
    one.journal().map((line) => line.event),
    ['start', 'end', 'start', 'end', 'stopped', 'stopped'],
  );
  assert.match(one.task(5, { CHAIN_LAUNCH: '2' }).log, /it ran/);
});

test('a failure with a new checkpoint is no failure, and ends a row of them', () => {
  const one = cell('mkdir "$CHECKPOINT_DIR/step_$NEXT_STEP"; touch "$CHECKPOINT_DIR/step_$NEXT_STEP/w"; exit 1');
  for (let step = 1; step <= 5; step += 1) assert.equal(one.task(step).status, 1);
  assert.deepEqual(
    one
      .journal()
      .filter((line) => line.event === 'end')
      .map((line) => [line['newest'], line['verdict']]),
    [0, 1, 2, 3, 4].map((step) => [`step_${step}`, 'progress']),
  );
});

test('leaving with 0 without progress counts where n_steps says there is more to do', () => {
  const known = cell('echo it ran');
  known.task(1);
  known.task(2);
  assert.equal(known.task(3).status, 1);
  const unknown = cell('echo it ran', { steps: '' });
  for (const step of [1, 2, 3]) assert.match(unknown.task(step).log, /it ran/);
});

test('a task that was killed without a word counts, unless the next one found something new', () => {
  const one = cell(PRINT);
  const killed = (step: number) =>
    `{"event":"start","launch":1,"step":${step},"cell":0,"job":"1","task":"${step}","restart":0,"resumed_from":null,"resume_step":-1}\n`;
  mkdirSync(one.chain, { recursive: true });
  writeFileSync(join(one.chain, '0.jsonl'), killed(1) + killed(2));
  assert.match(one.task(3).log, /the last 2 tasks/);
  one.save('step_5');
  assert.match(one.task(4).log, /from=step_5/);
});

test('a requeued task is the same task: only its last end counts', () => {
  const one = cell('exit 1');
  one.task(1);
  one.task(1, { SLURM_RESTART_COUNT: '1' });
  one.task(1, { SLURM_RESTART_COUNT: '2' });
  assert.deepEqual(
    one.journal().map((line) => line['restart']),
    [0, 0, 1, 1, 2, 2],
  );
  assert.match(one.task(2).log, /the run ended with 1/);
  assert.match(one.task(3).log, /the last 2 tasks/);
});

test('checkpoints the journal knows of that are gone stop the cell instead of training from scratch', () => {
  const one = cell('mkdir "$CHECKPOINT_DIR/step_7" && touch "$CHECKPOINT_DIR/step_7/w"');
  one.task(1);
  rmSync(join(one.checkpoints, 'step_7'), { recursive: true });
  const { status, log } = one.task(2);
  assert.equal(status, 1);
  assert.match(log, /the journal has checkpoint 7 of cell 0, but .* holds no checkpoint\. This task does not train from scratch/);
});

test('a checkpoint that shows up late is waited for', async () => {
  const one = cell(PRINT);
  mkdirSync(one.chain, { recursive: true });
  writeFileSync(
    join(one.chain, '0.jsonl'),
    '{"event":"end","launch":1,"step":1,"cell":0,"job":"1","task":"1","restart":0,"exit":0,"newest_step":40,"new_checkpoint":true}\n',
  );
  one.save('step_20');
  const child = spawn('bash', [join(one.chain, '../../../job.sh')], { env: one.environment(2, { CHAIN_PAUSES: '0.2 0.2 0.2 0.2 0.2 5' }) });
  let log = '';
  child.stdout.on('data', (chunk: Buffer) => {
    log += chunk.toString();
  });
  await until('it to look again', () => /looking again/.test(log));
  one.save('step_40');
  await new Promise((resolve) => child.on('close', resolve));
  assert.match(log, /from=step_40/);
});

test('a half-written line in the journal is dropped, and every line stays valid', () => {
  const one = cell('true');
  one.task(1);
  appendFileSync(join(one.chain, '0.jsonl'), '{"event":"start","launch":1,"ste');
  one.task(2);
  assert.deepEqual(
    one.journal().map((line) => line.event),
    ['start', 'end', 'start', 'end'],
  );
});

test('what a task leaves on record', () => {
  const one = cell('mkdir "$CHECKPOINT_DIR/step_10"; touch "$CHECKPOINT_DIR/step_10/w"; kill -SEGV $BASHPID');
  one.save('step_4');
  one.task(2);
  const [start, end] = one.journal();
  const { time, host, sum, ...began } = start ?? { event: '' };
  assert.match(String(sum), /^[0-9a-f]{16}$/);
  assert.match(String(time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  assert.equal(typeof host, 'string');
  assert.deepEqual(began, {
    event: 'start',
    launch: 1,
    step: 2,
    cell: 0,
    job: '1002',
    task: '1002',
    restart: 0,
    resumed_from: 'step_4',
    resume_step: 4,
    next_step: 5,
    found: '4',
    moved_aside: [],
  });
  const { seconds, first_save_seconds, ...ended } = end ?? { event: '' };
  assert.equal(typeof seconds, 'number');
  assert.equal(typeof first_save_seconds, 'number');
  assert.deepEqual(
    [ended['exit'], ended['signal'], ended['resumed_from'], ended['newest'], ended['new_checkpoint'], ended['complete'], ended['verdict']],
    [139, 'SEGV', 'step_4', 'step_10', true, false, 'progress'],
  );
  assert.equal(ended['saved'], '10');
});

test('every line has a sum over itself and the sum before it, and the lock remembers the last one', () => {
  const one = cell('mkdir "$CHECKPOINT_DIR/step_$NEXT_STEP"; touch "$CHECKPOINT_DIR/step_$NEXT_STEP/w"');
  one.task(1);
  appendFileSync(join(one.chain, '0.jsonl'), '{"event":"start","launch":1,"ste');
  one.task(2);
  const texts = readFileSync(join(one.chain, '0.jsonl'), 'utf8').trim().split('\n');
  assert.equal(texts.length, 4);
  let previous = '';
  for (const text of texts) {
    const [, rest, sum = ''] = /^(.*),"sum":"([0-9a-f]{16})"\}$/.exec(text) ?? [];
    assert.equal(sum, checksumOf(previous, `${rest}}`));
    previous = sum;
  }
  assert.equal(readFileSync(join(one.chain, '0.lock.2/released'), 'utf8'), previous);
});

test('what was saved is on record as runs of one distance, however many and however irregular', () => {
  const one = cell('true', { steps: '999999' });
  const numbers = [7, ...Array.from({ length: 30 }, (_, index) => 20 * (index + 1)), 601];
  for (const number of numbers) one.save(`step_${number}`);
  one.save('step_0040');
  one.save('step_900', '');
  one.task(1);
  assert.deepEqual(parseRanges(String(one.journal()[0]?.['found'])), [
    { first: 7, last: 20, stride: 13 },
    { first: 40, last: 600, stride: 20 },
    { first: 601, last: 601, stride: 1 },
  ]);
  assert.equal(one.journal()[1]?.['saved'], '');
  const squares = Array.from({ length: 700 }, (_, index) => 1000 + index * index);
  for (const number of squares) one.save(`step_${number}`);
  one.task(2);
  const found = parseRanges(String(one.journal()[2]?.['found'])) ?? [];
  assert.equal(found.length, 101);
  const holds = (number: number) => contains(found, number);
  assert.ok([...numbers, ...squares].every(holds));
  assert.ok(!holds(8) && !holds(602));
});

const HOLDER = (one: Cell, task: number, number = 1) => {
  mkdirSync(join(one.chain, `0.lock.${number}`), { recursive: true });
  writeFileSync(join(one.chain, `0.lock.${number}/holder`), `${task} 0 - 1 900_0 n9\n`);
};

for (const [what, queue, taken] of [
  ['runs', ['900 RUNNING'], false],
  ['is suspended', ['900 SUSPENDED'], false],
  ['is being requeued', ['900 PENDING'], false],
  ['is gone from squeue', [''], true],
  ['is unknown to squeue', ['', { status: 1, said: 'slurm_load_jobs error: Invalid job id specified' }], true],
  ['cannot be asked for', ['', { status: 1, said: 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' }], false],
  [
    'cannot be asked for, and squeue says so with 0',
    ['', { status: 0, said: 'slurm_load_jobs error: Socket timed out on send/recv operation' }],
    false,
  ],
  ['shares its array with others that run', ['901 RUNNING\n902 RUNNING'], true],
] as const) {
  test(`the lock of a job that ${what} is ${taken ? 'taken over' : 'left alone'}`, () => {
    const one = cell('echo it ran');
    HOLDER(one, 900);
    one.queue(queue[0], queue[1]);
    const { status, log } = one.task(2);
    if (taken) assert.match(log, /it ran/);
    else {
      assert.equal(status, 75);
      assert.match(log, /cell 0 is held by task 900_0 \(job 1 of the chain, restart 0, on n9\)/);
      assert.ok(!existsSync(join(one.chain, '0.jsonl')), 'nothing was touched');
    }
  });
}

test('a requeued job takes over the lock it left itself', () => {
  const one = cell('echo it ran');
  HOLDER(one, 1002);
  one.queue('1002 RUNNING');
  assert.equal(one.task(2).status, 75, 'the same restart is another live process of it');
  assert.match(one.task(2, { SLURM_RESTART_COUNT: '1' }).log, /it ran/);
});

test('of many that meet a stale lock exactly one wins', async () => {
  const one = cell('echo run >> "$CHECKPOINT_DIR/runs"; sleep 2');
  HOLDER(one, 900);
  one.queue(Array.from({ length: 12 }, (_, index) => `${2000 + index} RUNNING`).join('\n'));
  const codes = await Promise.all(
    Array.from({ length: 12 }, (_, index) => {
      const child = spawn('bash', [join(one.chain, '../../../job.sh')], {
        env: one.environment(1, { SLURM_JOB_ID: String(2000 + index) }),
        stdio: 'ignore',
      });
      return new Promise<number | null>((resolve) => child.on('close', resolve));
    }),
  );
  assert.deepEqual(codes.sort(), [0, ...Array<number>(11).fill(75)]);
  assert.equal(readFileSync(join(one.checkpoints, 'runs'), 'utf8'), 'run\n');
});

for (const signal of ['USR1', 'USR2', 'TERM'] as const) {
  test(`${signal} reaches the training process, which has the time it needs to save`, async () => {
    const trainer = `import os, signal, sys, time
def on(number, frame):
    time.sleep(1)
    os.mkdir(os.environ["CHECKPOINT_DIR"] + "/step_33"); open(os.environ["CHECKPOINT_DIR"] + "/step_33/w", "w").close()
    sys.exit(7)
signal.signal(signal.SIG${signal}, on)
open(os.environ["CHECKPOINT_DIR"] + "/ready", "w").close()
time.sleep(60)`;
    const one = cell(`cat > "$CHECKPOINT_DIR/t.py" <<'PY'\n${trainer}\nPY\npython3 "$CHECKPOINT_DIR/t.py"`);
    const child = spawn('bash', [join(one.chain, '../../../job.sh')], { env: one.environment(1), stdio: 'ignore' });
    await until('the trainer to run', () => existsSync(join(one.checkpoints, 'ready')));
    child.kill(`SIG${signal}`);
    assert.equal(await new Promise((resolve) => child.on('close', resolve)), 7);
    const end = one.journal().at(-1);
    assert.deepEqual([end?.['exit'], end?.['newest'], end?.['verdict']], [7, 'step_33', 'progress']);
  });
}

test('the TERM that Slurm sends to every process of a job is not sent to them again', async () => {
  const trainer = `import os, signal, time
got = []
signal.signal(signal.SIGTERM, lambda number, frame: got.append(number))
open(os.environ["CHECKPOINT_DIR"] + "/ready", "w").close()
while not got: time.sleep(0.1)
time.sleep(1)
open(os.environ["CHECKPOINT_DIR"] + "/got", "w").write(str(len(got)))`;
  const one = cell(`cat > "$CHECKPOINT_DIR/t.py" <<'PY'\n${trainer}\nPY\npython3 "$CHECKPOINT_DIR/t.py"`);
  const child = spawn('bash', [join(one.chain, '../../../job.sh')], {
    env: one.environment(1, { CHAIN_WARN_SIGNAL: 'USR1' }),
    stdio: 'ignore',
  });
  await until('the trainer to run', () => existsSync(join(one.checkpoints, 'ready')));
  // As Slurm does at the time limit: the batch shell and everything below it.
  spawnSync('pkill', ['-TERM', '-f', one.checkpoints]);
  child.kill('SIGTERM');
  await new Promise((resolve) => child.on('close', resolve));
  assert.equal(readFileSync(join(one.checkpoints, 'got'), 'utf8'), '1');
});

test('a signal while a task looks for its checkpoint ends it, on record', async () => {
  const one = cell('echo it ran');
  const child = spawn('bash', [join(one.chain, '../../../job.sh')], { env: one.environment(2, { CHAIN_PAUSES: '2 2 2' }) });
  let log = '';
  child.stdout.on('data', (chunk: Buffer) => {
    log += chunk.toString();
  });
  await until('it to look again', () => /looking again/.test(log));
  child.kill('SIGUSR1');
  assert.equal(await new Promise((resolve) => child.on('close', resolve)), 138);
  assert.doesNotMatch(log, /it ran/);
  assert.deepEqual(
    one.journal().map((line) => [line.event, line['signal']]),
    [['left', 'USR1']],
  );
});

test('a checkpoint that looks half-written after a kill is looked at again before it is put aside', async () => {
  const one = cell(PRINT, { complete: '.metadata' });
  mkdirSync(one.chain, { recursive: true });
  writeFileSync(
    join(one.chain, '0.jsonl'),
    '{"event":"start","launch":1,"step":1,"cell":0,"job":"1","task":"1","restart":0,"resume_step":-1}\n',
  );
  one.save('step_20', '.metadata');
  one.save('step_40', 'shard');
  const child = spawn('bash', [join(one.chain, '../../../job.sh')], { env: one.environment(2, { CHAIN_PAUSES: '0.3 0.3 0.3 0.3 5' }) });
  let log = '';
  child.stdout.on('data', (chunk: Buffer) => {
    log += chunk.toString();
  });
  await until('it to look again', () => /looking again/.test(log));
  one.save('step_40', '.metadata');
  await new Promise((resolve) => child.on('close', resolve));
  assert.match(log, /from=step_40/);
});

test('the lock of a job on another cluster is left alone: our squeue knows nothing of it', () => {
  const one = cell('echo it ran');
  mkdirSync(join(one.chain, '0.lock.1'), { recursive: true });
  writeFileSync(join(one.chain, '0.lock.1/holder'), '900 0 other 1 900_0 n9\n');
  assert.equal(one.task(2, { SLURM_CLUSTER_NAME: 'ours' }).status, 75);
});

test('a squeue that does not answer at first costs no step', () => {
  const one = cell('echo it ran');
  HOLDER(one, 900);
  one.queue('', { status: 1, said: 'slurm_load_jobs error: Socket timed out on send/recv operation' });
  writeFileSync(
    join(one.chain, '../../../bin/squeue'),
    `#!/bin/bash\n[ -e ${one.chain}/asked ] && exit 0\ntouch ${one.chain}/asked\necho 'slurm_load_jobs error: Socket timed out' >&2\nexit 1\n`,
  );
  assert.match(one.task(2).log, /it ran/);
});

test('a holder that was overtaken leaves the records to its successor', () => {
  const one = cell('mkdir "$CHECKPOINT_DIR/../.chain/0.lock.2"; echo "2000 0 - 2 2000_0 n2" > "$CHECKPOINT_DIR/../.chain/0.lock.2/holder"');
  const { status, log } = one.task(1);
  assert.equal(status, 75);
  assert.match(log, /belongs to another task now/);
  assert.deepEqual(
    one.journal().map((line) => line.event),
    ['start'],
  );
  assert.ok(!existsSync(join(one.chain, '0.lock.2/released')));
});

test('a taker that was slow to look does not take a number that came and went meanwhile', () => {
  const directory = mkdtempSync(join(root, 'lock-'));
  const script = `
. "$1/trust.sh"
. "$1/lock.sh"
path=$2/l
lock_is_stale() { return 0; }
lock_try "$path" first
lock_is_stale() {
    # While this one looks at number 1, three others take theirs and leave.
    lock_is_stale() { return 0; }
    local n; for n in 2 3 4; do (lock_try "$path" "other $n" && lock_release); done
}
lock_try "$path" slow; echo "slow: $?"`;
  const { stdout } = spawnSync('bash', ['-c', script, '-', join(ROOT, 'src/runtime'), directory], { encoding: 'utf8' });
  assert.equal(stdout, 'slow: 1\n');
});

const full = (size: string): string => {
  const mount = mkdtempSync(join(tmpdir(), 'slurm-chain-full-'));
  assert.equal(spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', mount]).status, 0);
  after(() => spawnSync('umount', ['-l', mount]));
  return mount;
};
const isRoot = process.getuid?.() === 0 ? false : 'needs root, to mount a small file system';

test('on a full disk nothing starts, because nothing could be put on record', { skip: isRoot }, () => {
  const one = cell('echo it ran');
  const mount = full('64k');
  writeFileSync(
    join(one.chain, '../../../exp/task.env'),
    `SAVE_PATH='${mount}'\nSAVE_PREFIX=step_\nSAVE_OFFSET=1\nSAVE_COMPLETE=\nN_STEPS=(100)\n`,
  );
  mkdirSync(join(mount, 'exp/.chain'), { recursive: true });
  spawnSync('bash', ['-c', `head -c 1000000 /dev/zero > ${mount}/filler`]);
  const { status, stdout } = spawnSync('bash', [join(one.chain, '../../../job.sh')], { encoding: 'utf8', env: one.environment(1) });
  assert.equal(status, 73, stdout);
  assert.doesNotMatch(stdout, /it ran/);
});

test('a full temporary directory does not change how a run ended', { skip: isRoot }, () => {
  const mount = full('4k');
  spawnSync('bash', ['-c', `head -c 100000 /dev/zero > ${mount}/filler`]);
  for (const status of [0, 42]) {
    const one = cell(`exit ${status}`);
    const { stdout, status: left } = spawnSync('bash', [join(one.chain, '../../../job.sh')], {
      encoding: 'utf8',
      env: one.environment(1, { TMPDIR: mount }),
    });
    assert.equal(left, status, stdout);
    assert.equal(one.journal().at(-1)?.['exit'], status);
  }
});

test('a variable that the account exports under a name that job.sh uses reaches the program unchanged', () => {
  const one = cell('echo "CELL=$CELL DIR=$DIR LOGS=$LOGS TASK=$TASK name=$name CHECKPOINT_DIR=$CHECKPOINT_DIR"');
  const { log } = one.task(1, { CELL: 'mine', DIR: '/data', LOGS: 'l o g s', TASK: 'classify', name: "it's", CHECKPOINT_DIR: '/theirs' });
  assert.match(log, new RegExp(`^CELL=mine DIR=/data LOGS=l o g s TASK=classify name=it's CHECKPOINT_DIR=${one.checkpoints}$`, 'm'));
});

test('our files are private whatever the umask is, and the run has the umask of the account', () => {
  for (const [environment, mode] of [
    [{ CHAIN_UMASK: '0002', CHAIN_SHARE: '' }, '600'],
    [{ CHAIN_UMASK: '0002', CHAIN_SHARE: 'group' }, '640'],
    [{ CHAIN_UMASK: '$(touch x)', CHAIN_SHARE: '' }, '600'],
  ] as const) {
    const one = cell('umask; touch "$CHECKPOINT_DIR/made"');
    const stat = (path: string) => spawnSync('stat', ['-c', '%a', path], { encoding: 'utf8' }).stdout.trim();
    chmodSync(one.checkpoints, 0o777);
    const { log, status } = one.task(1, environment);
    assert.equal(status, 0, log);
    assert.equal(stat(join(one.chain, '0.jsonl')), mode);
    assert.equal(stat(one.checkpoints), '755', 'nobody else may write beside the checkpoints');
    if (environment.CHAIN_UMASK !== '0002') continue;
    assert.match(log, /^0002$/m);
    assert.equal(stat(join(one.checkpoints, 'made')), '664');
  }
});

test('a task opens nothing that is a link or belongs to somebody else, and resumes from nothing that the account did not make', () => {
  const elsewhere = mkdtempSync(join(root, 'elsewhere-'));
  writeFileSync(join(elsewhere, 'file'), 'SAVE_PATH=/nowhere\n');
  const link = (target: string) => (path: string) => {
    rmSync(path, { recursive: true, force: true });
    symlinkSync(join(elsewhere, target), path);
  };
  const foreign = (path: string) => {
    mkdirSync(path, { recursive: true });
    chownSync(path, 65534, 65534);
  };
  const cases: readonly [string, (path: string) => void, RegExp][] = [
    ['save/exp', link(''), /save\/exp is a link/],
    ['save/exp/0', link(''), /exp\/0 is a link/],
    ['save/exp/.chain', link(''), /\.chain is a link/],
    ['save/exp/.chain/0.jsonl', link('file'), /0\.jsonl is a link/],
    ['exp/run.sh', link('file'), /run\.sh is a link/],
    ['exp/task.env', link('file'), /task\.env is a link/],
    ['exp/secrets.env', link('file'), /secrets\.env is a link/],
    ['exp/manifest.json', (path) => writeFileSync(path, '{"id":"another"}'), /has checkpoints and no manifest of exp/],
    ['save/exp/.chain/manifest.json', (path) => writeFileSync(path, '{"id":"another"}'), /has checkpoints and no manifest of exp/],
    ...(isRoot === false
      ? ([
          ['save/exp', foreign, /save\/exp belongs to nobody and not to root/],
          ['save/exp/0', foreign, /exp\/0 belongs to nobody/],
          ['save/exp/0/step_10', foreign, /step_10 belongs to nobody/],
          ['save/exp/.chain/0.lock.999', foreign, /0\.lock\.999 belongs to nobody/],
        ] as [string, (path: string) => void, RegExp][])
      : []),
  ];
  for (const [path, plant, words] of cases) {
    const one = cell('echo it ran');
    one.save('step_10');
    mkdirSync(one.chain);
    plant(join(one.checkpoints, '../../..', path));
    const { status, log } = one.task(2);
    assert.match(log, words);
    assert.ok(status === 77 || status === 73, `${path}: ${status}`);
    assert.doesNotMatch(log, /it ran|resuming/);
    assert.deepEqual(readdirSync(elsewhere), ['file'], path);
    assert.equal(readFileSync(join(elsewhere, 'file'), 'utf8'), 'SAVE_PATH=/nowhere\n', path);
  }
});
