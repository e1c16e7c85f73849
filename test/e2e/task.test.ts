// What happens on clusters to the tasks of a chain: killed in the middle of a save, a node that goes down, a step that is
// cancelled, a job started twice, a trainer that crashes at once, a cell that is slow.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { asUser, endOf, ownCluster, slurm } from '../support/cluster.ts';
import { journalOf, regression } from '../support/experiment.ts';
import { type Lab, type LabOptions, useLabs } from '../support/lab.ts';
import { until } from '../support/until.ts';

const cluster = ownCluster('--node-count', '2');
const newLab = useLabs(cluster);

async function launched(
  name: string,
  yaml: (lab: Lab) => string,
  options: LabOptions = {},
): Promise<{ lab: Lab; id: string; jobs: string[]; checkpoints: string; experiment: string }> {
  const lab = await newLab(name, options);
  lab.commit({ [`configs/${name}.yaml`]: yaml(lab) });
  const result = await lab.dispatch({ config: name });
  assert.equal(result.code, 0, result.log);
  const id = result.outputs['experiment-id'] ?? '';
  return {
    lab,
    id,
    jobs: (result.outputs['job-ids'] ?? '').split(','),
    checkpoints: join(lab.save, id),
    experiment: join(lab.workdir, 'experiments', id),
  };
}
const shell = (lab: Lab, run: string, more = '') =>
  `run: |\n${run.replace(/^/gm, '  ')}\nsave: {path: ${lab.save}}\nslurm: {time: "00:05:00"}\n${more}`;

test('SIGKILL in the middle of a save: the half-written checkpoint is put aside, the next step resumes from the one before', async () => {
  // A task looks again at a checkpoint that seems half-written, for a minute on a real cluster.
  const clusterFields = { prelude: "export CHAIN_PAUSES='0.5 0.5 1'" };
  const yaml = (lab: Lab) =>
    shell(
      lab,
      [
        'cd "$CHECKPOINT_DIR"',
        'if [ -z "$RESUME_FROM" ]; then',
        '  mkdir step_10; touch step_10/shard step_10/.metadata',
        '  mkdir step_20; touch step_20/shard; touch half; sleep 300',
        'fi',
        'mkdir step_99; touch step_99/.metadata',
      ].join('\n'),
      'chain: {n_jobs: 2}\nn_steps: 100\n',
    ).replace('save: {', 'save: {complete: .metadata, ');
  const { jobs, checkpoints } = await launched('halfsave', yaml, { clusterFields });
  await until('the save to be half-way', () => existsSync(join(checkpoints, '0/half')));
  // The batch shell first: slurmd clears away what it leaves behind.
  execFileSync('pkill', ['-KILL', '-u', cluster.CLUSTER_USER, '-f', `/job0*${jobs[0]}/slurm_script`]);
  await endOf(cluster, jobs);
  const journal = journalOf(checkpoints, 0);
  assert.deepEqual(
    journal.map((line) => `${line.step} ${line.event}`),
    ['1 start', '2 start', '2 end'],
    'the killed task never came to its end',
  );
  assert.equal(journal[1]?.resumed_from, 'step_10');
  assert.match(journal[1]?.moved_aside?.[0] ?? '', /^incomplete\.step_20\.\d+\.0$/);
  assert.deepEqual(
    readdirSync(join(checkpoints, '0'))
      .filter((name) => name.startsWith('step_'))
      .sort(),
    ['step_10', 'step_99'],
  );
});

test('a node that goes down under a task: the task runs again elsewhere, counts the restart, appends to its log and resumes', async () => {
  const { jobs, checkpoints, experiment } = await launched('nodedown', (lab) =>
    regression(lab, { name: 'nodedown', nSteps: 400, secondsPerStep: 0.05, nJobs: 1 }),
  );
  const [job = ''] = jobs;
  await until('step_40', () => existsSync(join(checkpoints, '0/step_40')));
  const node = slurm(cluster, 'squeue', '-h', '-j', job, '-o', '%N');
  slurm(cluster, 'scontrol', 'update', `nodename=${node}`, 'state=down', 'reason=test');
  try {
    // A requeued job has to wait for two minutes; an operator makes that sooner, once Slurm has put the wait on it. Not in
    // the same second: slurmd takes the start for the one it was told to revoke ("Job credential revoked") and the job fails.
    await until('the wait that Slurm puts on it', () => slurm(cluster, 'squeue', '-h', '-j', job, '-o', '%r') === 'BeginTime');
    slurm(cluster, 'scontrol', 'update', `jobid=${job}_0`, 'StartTime=now+3');
    const startedAgain = () => journalOf(checkpoints, 0).filter((line) => line.event === 'start').length === 2;
    await until('the second start', startedAgain, 200);
  } finally {
    if (/DOWN/.test(slurm(cluster, 'sinfo', '-h', '-N', '-n', node, '-o', '%T').toUpperCase()))
      slurm(cluster, 'scontrol', 'update', `nodename=${node}`, 'state=resume');
  }
  await endOf(cluster, jobs);
  const starts = journalOf(checkpoints, 0).filter((line) => line.event === 'start');
  assert.deepEqual(
    starts.map((line) => line.restart),
    [0, 1],
  );
  assert.ok(Number(starts[1]?.resumed_from?.slice(5)) >= 40);
  const log = readFileSync(join(experiment, `logs/1_${job}_0.out`), 'utf8');
  assert.match(log, /restart 0[\s\S]*restart 1[\s\S]*done: y/, 'one log, appended to');
});

test('cancelling step 1 alone starts step 2, which takes over where it was', async () => {
  const { jobs, checkpoints } = await launched('cancelled', (lab) =>
    regression(lab, { name: 'cancelled', nSteps: 200, secondsPerStep: 0.05 }),
  );
  await until('step_40', () => existsSync(join(checkpoints, '0/step_40')));
  slurm(cluster, 'scancel', jobs[0] ?? '');
  const states = await endOf(cluster, jobs);
  assert.match(states.get(`${jobs[0]}_0`) ?? '', /^CANCELLED/);
  const journal = journalOf(checkpoints, 0);
  const [cut, resumed] = [journal.find((line) => line.event === 'end'), journal.find((line) => line.event === 'start' && line.step === 2)];
  assert.equal(cut?.signal, 'TERM', 'it had the time to save and to say so');
  assert.equal(resumed?.resumed_from, cut?.newest);
  assert.equal(journal.at(-1)?.newest, 'step_199');
});

test('two jobs for one cell, started by hand at the same moment, 50 times: never both running', async () => {
  const { id, jobs, checkpoints, experiment } = await launched('twice', (lab) =>
    shell(
      lab,
      'if mkdir "$CHECKPOINT_DIR/inside"; then sleep 0.3; rmdir "$CHECKPOINT_DIR/inside"; echo ran >> "$CHECKPOINT_DIR/ran"; else echo both >> "$CHECKPOINT_DIR/both"; fi',
      'chain: {n_jobs: 1}\n',
    ),
  );
  await endOf(cluster, jobs);
  const environment = `EXPERIMENT_ID=${id} EXPERIMENT_DIR=${experiment} EXPERIMENT_COMMIT=x CHAIN_STEP=1 CHAIN_LENGTH=1 CHAIN_LAUNCH=1 CHAIN_STOP_AFTER=2 CHAIN_CANCEL_WHEN_DONE=true`;
  const sbatch = `${environment} sbatch --parsable --hold --array=0 --output=${experiment}/logs/hand_%A.out --export=ALL ${experiment}/job.sh`;
  const ids = asUser(cluster, `for i in $(seq 100); do ${sbatch}; done`).split('\n');
  assert.equal(ids.length, 100);
  for (let pair = 0; pair < 100; pair += 2) {
    slurm(cluster, 'scontrol', 'release', ids[pair] ?? '', ids[pair + 1] ?? '');
    await until('both to have started', () => slurm(cluster, 'squeue', '-h', '-t', 'PD', '-j', `${ids[pair]},${ids[pair + 1]}`) === '');
  }
  const states = await endOf(cluster, ids, { seconds: 180 });
  assert.ok(!existsSync(join(checkpoints, '0/both')), 'two ran at once');
  const left = [...states.values()].filter((state) => state === 'FAILED 75:0').length;
  const ran = readFileSync(join(checkpoints, '0/ran'), 'utf8').trim().split('\n').length - 1;
  assert.equal(left + ran, 100);
  assert.ok(left >= 25, `${left} of 50 second jobs met a live holder; the rest came when it was free again`);
  assert.match(
    asUser(cluster, `cat ${experiment}/logs/hand_*.out | grep -m1 'is held by'`),
    /Two tasks must not write to one checkpoint directory/,
  );
});

test('a trainer that crashes at once: ten jobs, two starts', async () => {
  const { jobs, checkpoints, experiment } = await launched('crash', (lab) =>
    shell(lab, 'echo started; exit 1', 'chain: {n_jobs: 10}\nn_steps: 10\n'),
  );
  assert.equal(jobs.length, 10);
  await endOf(cluster, jobs);
  const journal = journalOf(checkpoints, 0);
  assert.equal(journal.filter((line) => line.event === 'start').length, 2);
  assert.equal(journal.filter((line) => line.event === 'stopped').length, 8);
  assert.match(
    readFileSync(join(experiment, `logs/3_${jobs[2]}_0.out`), 'utf8'),
    /the last 2 tasks of cell 0 failed without a new checkpoint/,
  );
});

test('done in step 1: step 2 is a no-op and what is queued behind it is cancelled', async () => {
  const { jobs, checkpoints, experiment } = await launched('early', (lab) =>
    regression(lab, { name: 'early', nSteps: 60, nJobs: 5, grid: '^lr: [0.1, 0.2]' }),
  );
  const states = await endOf(cluster, jobs, { cells: 2 });
  for (const cell of [0, 1]) {
    assert.equal(states.get(`${jobs[0]}_${cell}`), 'COMPLETED 0:0');
    assert.equal(states.get(`${jobs[1]}_${cell}`), 'COMPLETED 0:0');
    assert.deepEqual(
      journalOf(checkpoints, cell)
        .map((line) => line.event)
        .slice(0, 3),
      ['start', 'end', 'done'],
    );
  }
  for (const job of jobs.slice(3))
    assert.ok(
      [...states].some(([id, state]) => id.startsWith(job) && state.startsWith('CANCELLED')),
      `${job} is cancelled`,
    );
  const ledger = readFileSync(join(experiment, 'ledger.jsonl'), 'utf8');
  assert.match(ledger, new RegExp(`"event":"cancelled","launch":1,"job":"${jobs[4]}","time":"[^"]+","why":"done"`));
});

test('the warning signal reaches python and srun, and the chain goes on from what they saved', async () => {
  const follow = async (name: string, run: string) => {
    const { jobs, checkpoints } = await launched(name, (lab) =>
      regression(lab, { name, nSteps: 1500, secondsPerStep: 0.05 })
        .replace('run: python3 train.py', `run: ${run}`)
        .replace('n_jobs: 2', 'n_jobs: 2, warn_before: 60'),
    );
    await until('step_40', () => existsSync(join(checkpoints, '0/step_40')));
    // Slurm looks every 30 s; a minute before the end the signal is due.
    slurm(cluster, 'scontrol', 'update', `jobid=${jobs[0]}_0`, 'EndTime=now+75');
    const states = await endOf(cluster, jobs, { seconds: 200 });
    assert.equal(states.get(`${jobs[0]}_0`), 'COMPLETED 0:0', 'it left by itself');
    const journal = journalOf(checkpoints, 0);
    const [saved, resumed] = [
      journal.find((line) => line.event === 'end'),
      journal.find((line) => line.event === 'start' && line.step === 2),
    ];
    assert.notEqual(saved?.newest, 'step_1499');
    assert.equal(resumed?.resumed_from, saved?.newest);
    assert.equal(journal.at(-1)?.newest, 'step_1499');
  };
  await Promise.all([follow('warnplain', 'python3 train.py'), follow('warnsrun', 'srun python3 train.py')]);
});

test('one cell five times slower: in cell scope the others do not wait for it', async (t) => {
  const seconds: Record<string, number> = {};
  const yaml = (lab: Lab, scope: string) =>
    shell(
      lab,
      'delay=1; [ "$SLURM_ARRAY_TASK_ID" != 2 ] || delay=5; sleep $delay; mkdir "$CHECKPOINT_DIR/step_$NEXT_STEP"; touch "$CHECKPOINT_DIR/step_$NEXT_STEP/w"; date +%s.%N > "$CHECKPOINT_DIR/ended"',
      `chain: {n_jobs: 4, scope: ${scope}}\n^lr: [1, 2, 3]\n`,
    );
  for (const scope of ['array', 'cell']) {
    const { jobs, checkpoints, experiment } = await launched(`scope${scope}`, (lab) => yaml(lab, scope));
    assert.equal(jobs.length, scope === 'array' ? 4 : 1 + 3 * 3);
    await endOf(cluster, scope === 'array' ? jobs : jobs.slice(0, 1), { cells: 3 });
    if (scope === 'cell') await endOf(cluster, jobs.slice(1));
    for (const cell of [0, 1, 2]) {
      assert.deepEqual(
        readdirSync(join(checkpoints, String(cell)))
          .filter((name) => name.startsWith('step_'))
          .sort(),
        ['step_0', 'step_1', 'step_2', 'step_3'],
      );
      assert.deepEqual(
        journalOf(checkpoints, cell)
          .filter((line) => line.event === 'start')
          .map((line) => [line.step, line.cell]),
        [1, 2, 3, 4].map((step) => [step, cell]),
      );
    }
    const released = JSON.parse(readFileSync(join(experiment, 'ledger.jsonl'), 'utf8').trim().split('\n').at(-1) ?? '{}') as {
      time: string;
    };
    const ended = Math.max(...[0, 1].map((cell) => Number(readFileSync(join(checkpoints, String(cell), 'ended'), 'utf8'))));
    seconds[scope] = ended - Date.parse(released.time) / 1000;
  }
  const ratio = (seconds['array'] ?? 0) / (seconds['cell'] ?? 1);
  t.diagnostic(
    `the fast cells' chains took ${seconds['array']?.toFixed(1)} s in array scope and ${seconds['cell']?.toFixed(1)} s in cell scope: ratio ${ratio.toFixed(1)}`,
  );
  assert.ok(ratio > 1.3, String(ratio));
});

const wandb = existsSync('.venv/bin/wandb') ? false : 'wandb could not be installed from PyPI';
test('the real wandb, offline: two steps of two cells are two runs', { skip: wandb }, async () => {
  const python = join(process.cwd(), '.venv/bin/python');
  const { jobs, checkpoints, id } = await launched('wandb', (lab) =>
    shell(
      lab,
      `mkdir -p "$CHECKPOINT_DIR/w$CHAIN_STEP"\nWANDB_DIR="$CHECKPOINT_DIR/w$CHAIN_STEP" ${python} -c 'import wandb; r = wandb.init(config={"lr": 1}); r.log({"loss": 1}); r.finish()'\nmkdir "$CHECKPOINT_DIR/step_$NEXT_STEP"; touch "$CHECKPOINT_DIR/step_$NEXT_STEP/w"`,
      'chain: {n_jobs: 2}\n^lr: [1, 2]\nwandb: {entity: e, project: p}\nenv: {WANDB_MODE: offline, WANDB_SILENT: "true"}\n',
    ),
  );
  const states = await endOf(cluster, jobs, { cells: 2 });
  assert.deepEqual(new Set(states.values()), new Set(['COMPLETED 0:0']));
  const runs = [0, 1].flatMap((cell) =>
    [1, 2].flatMap((step) =>
      readdirSync(join(checkpoints, String(cell), `w${step}`, 'wandb')).filter((name) => name.startsWith('offline-run-')),
    ),
  );
  assert.equal(runs.length, 4);
  assert.deepEqual([...new Set(runs.map((name) => name.replace(/^offline-run-\d+_\d+-/, '')))].sort(), [`${id}-0`, `${id}-1`]);
});

test('a task that is told to stop gets TERM once, has the time to save, and leaves its end on record', async () => {
  const trainer = `import os, signal, time
got = []
signal.signal(signal.SIGTERM, lambda number, frame: got.append(number))
directory = os.environ["CHECKPOINT_DIR"]
open(directory + "/ready", "w").close()
while not got: time.sleep(0.1)
time.sleep(2)
os.mkdir(directory + "/step_5"); open(directory + "/step_5/" + str(len(got)), "w").close()
raise SystemExit(3)`;
  const { jobs, checkpoints } = await launched('byhand', (lab) =>
    shell(lab, `cat > "$CHECKPOINT_DIR/t.py" <<'PY'\n${trainer}\nPY\npython3 "$CHECKPOINT_DIR/t.py"`, 'chain: {n_jobs: 1}\n'),
  );
  await until('it to run', () => existsSync(join(checkpoints, '0/ready')));
  slurm(cluster, 'scancel', jobs[0] ?? '');
  await endOf(cluster, jobs);
  assert.deepEqual(readdirSync(join(checkpoints, '0/step_5')), ['1']);
  const end = journalOf(checkpoints, 0).at(-1);
  assert.deepEqual([end?.event, end?.exit, end?.newest], ['end', 3, 'step_5']);
});
