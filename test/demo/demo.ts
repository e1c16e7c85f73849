// The main job from end to end: a label on a pull request, a chain that the time limit cuts, and training that is complete
// in a later job. script/demo brings the cluster up and stops it.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../support/action.ts';
import { readCluster, slurm } from '../support/cluster.ts';
import { makeLab } from '../support/lab.ts';
import { until } from '../support/until.ts';

const [directory] = process.argv.slice(2);
if (directory === undefined) throw new Error('usage: demo.ts CLUSTER_DIR');
const began = Date.now();
const say = (line: string) => console.log(`\n\u001b[1m[${String(Math.round((Date.now() - began) / 1000)).padStart(3)} s] ${line}\u001b[0m`);

interface JournalLine {
  readonly event: string;
  readonly step: number;
  readonly job: string;
  readonly resumed_from?: string | null;
  readonly newest?: string | null;
  readonly exit?: number;
  readonly signal?: string | null;
}

const cluster = readCluster(directory);
const lab = await makeLab(cluster, 'demo');
try {
  say('A pull request with an experiment: 2 cells, 3 chained jobs of one minute, and more training than one minute holds');
  const yaml = readFileSync(join(ROOT, 'examples/regression/configs/regression.yaml'), 'utf8').replace('$SAVE', lab.save);
  lab.commit({ 'configs/regression.yaml': yaml });
  console.log(yaml);
  const pull = lab.openPull();

  say("Alice puts the label 'launch:regression' on it");
  const result = await lab.label(pull, 'launch:regression', {
    onLine: (line) => {
      if (!line.startsWith('::')) console.log(`  ${line}`);
    },
  });
  if (result.code !== 0) throw new Error(`the action failed: ${result.errors.join('\n')}`);
  say('The comment on the pull request');
  const comment = lab.hub.comments[0]?.body ?? '';
  console.log(comment);
  // script/picture wants the comments as they are when there is something to see.
  const keep = (name: string, marker: string) => {
    const directory = process.env['DEMO_COMMENTS'];
    const body = lab.hub.comments.find((one) => one.body.startsWith(marker))?.body;
    if (directory && body) writeFileSync(join(directory, `${name}.md`), body);
  };

  const jobs = (result.outputs['job-ids'] ?? '').split(',');
  const states = () =>
    slurm(cluster, 'sacct', '-X', '-n', '-P', '-j', jobs.join(','), '-o', 'JobID,State,ExitCode,Elapsed')
      .split('\n')
      .filter(Boolean)
      .map((line) => line.split('|'));
  say('Waiting for Slurm: job 1 runs into its time limit (Slurm looks every 30 s), job 2 resumes, job 3 finds nothing to do');
  let shown = '';
  const watch = () => {
    const now = states()
      .map(([job, state]) => `${job} ${state}`)
      .join('   ');
    if (now !== shown) console.log(`  ${Math.round((Date.now() - began) / 1000)} s: ${now}`);
    shown = now;
  };
  const checkpoints = result.outputs['checkpoint-dir'] ?? '';
  await until(
    'job 2 to have saved',
    () => {
      watch();
      return existsSync(join(checkpoints, '0/step_420'));
    },
    150,
  );
  say('Alice comments /status while job 2 runs');
  const running = await lab.comment(pull, '/status');
  if (running.outputs['state'] !== 'running') throw new Error(`/status says ${running.outputs['state']}: ${running.log}`);
  console.log(running.summary.split('<details>')[0]?.trim());
  keep('comment', '<!-- slurm-chain regression');
  await until(
    'the chain to end',
    () => {
      watch();
      return slurm(cluster, 'squeue', '-h', '-j', jobs.join(',')) === '';
    },
    120,
  );

  say('What Slurm says of it');
  const ended = await until('accounting to catch up', () => {
    const all = states();
    return all.length === 6 && all.every(([, state]) => !/RUNNING|PENDING/.test(state ?? '')) && all;
  });
  for (const row of ended) console.log(`  ${row.map((field) => field.padEnd(12)).join('')}`);

  say(`The checkpoints: ${checkpoints}`);
  for (const cell of ['0', '1']) {
    const steps = readdirSync(join(checkpoints, cell)).filter((name) => name.startsWith('step_'));
    console.log(`  ${cell}/  ${steps.sort((a, b) => Number(a.slice(5)) - Number(b.slice(5))).join(' ')}`);
  }
  say('Which job wrote which steps');
  for (const cell of ['0', '1']) {
    const journal = readFileSync(join(checkpoints, '.chain', `${cell}.jsonl`), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as JournalLine);
    for (const line of journal) {
      if (line.event === 'end')
        console.log(
          `  cell ${cell}, job ${line.step} (Slurm id ${line.job}): ${line.resumed_from ?? 'from scratch'} → ${line.newest ?? 'nothing'} (${line.signal ?? `exit ${line.exit}`})`,
        );
      else if (line.event === 'done')
        console.log(`  cell ${cell}, job ${line.step} (Slurm id ${line.job}): complete at ${line.newest}, nothing to do`);
    }
    const last = journal.at(-1);
    if (last?.event !== 'done' || last.newest !== 'step_499') throw new Error(`cell ${cell} did not end as a no-op on step_499`);
  }
  for (const command of ['/status', '/audit']) {
    say(`Alice comments ${command}`);
    const answer = await lab.comment(pull, command);
    if (answer.code !== 0) throw new Error(`${command} failed: ${answer.errors.join('\n')}`);
    // What is folded away is in the comment above already.
    console.log(answer.summary.split('<details>')[0]?.trim());
    if (command === '/audit') keep('audit', '<!-- slurm-chain audit');
    const wanted = command === '/status' ? 'complete' : 'verified';
    if (answer.outputs['state'] !== wanted) throw new Error(`${command} says ${answer.outputs['state']}, not ${wanted}`);
  }
  if (!ended.some(([, state]) => state === 'TIMEOUT')) throw new Error('no job reached its time limit');
  if (lab.hub.violations.length > 0) throw new Error(lab.hub.violations.join('\n'));
  say('Done: trained in the second job, from the checkpoint the time limit left; every checkpoint accounted for');
} finally {
  await lab.close();
}
