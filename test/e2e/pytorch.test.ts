// The PyTorch example on the real cluster: cut by the time limit twice and resumed, it ends where an uncut run ends, bit for bit.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ROOT } from '../support/action.ts';
import { endOf, slurm, testCluster } from '../support/cluster.ts';
import { journalOf } from '../support/experiment.ts';
import { useLabs } from '../support/lab.ts';
import { until } from '../support/until.ts';

const bin = join(ROOT, '.venv/bin');
const skip = spawnSync(join(bin, 'python'), ['-c', 'import torch, yaml']).status === 0 ? false : 'torch could not be installed from PyPI';
const cluster = testCluster();
const newLab = useLabs(cluster);

async function launched(name: string, nJobs: number, secondsPerStep: number): Promise<{ jobs: string[]; checkpoints: string }> {
  const lab = await newLab(name);
  const yaml = readFileSync(join(ROOT, 'examples/pytorch/configs/mlp.yaml'), 'utf8')
    .replace('$SCRATCH/checkpoints', lab.save)
    .replace('source .venv/bin/activate', `export PATH=${bin}:$PATH PYTHONWARNINGS=ignore`)
    .replace('time: "1-00:00:00"', 'time: "00:10:00"')
    .replace('warn_before: 300', 'warn_before: 0')
    .replace('n_jobs: 4', `n_jobs: ${nJobs}`)
    .replace('seconds_per_step: 0', `seconds_per_step: ${secondsPerStep}`);
  lab.commit({ 'configs/mlp.yaml': yaml, 'train.py': readFileSync(join(ROOT, 'examples/pytorch/train.py'), 'utf8') });
  const result = await lab.dispatch({ config: 'mlp' });
  assert.equal(result.code, 0, result.log);
  return { jobs: (result.outputs['job-ids'] ?? '').split(','), checkpoints: result.outputs['checkpoint-dir'] ?? '' };
}

/** Loss curve and weights of the end, as text that keeps every bit. */
function endState(checkpoints: string): string {
  const script = `import torch, sys
end = torch.load(sys.argv[1])
print(torch.isnan(end["losses"]).any().item())
for name, value in [("losses", end["losses"]), *end["model"].items()]: print(name, value.flatten().view(torch.int32).tolist())`;
  return execFileSync(join(bin, 'python'), ['-W', 'ignore', '-c', script, join(checkpoints, '0/final.pt')], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
}

test('cut by the time limit twice and resumed: the same loss curve and weights, bit for bit', { skip }, async () => {
  const [whole, cut] = [await launched('uncut-mlp', 1, 0), await launched('cut-mlp', 4, 0.1)];
  for (const [index, job] of cut.jobs.slice(0, 2).entries()) {
    const saved = () => journalOf(cut.checkpoints, 0).findLast((line) => line.event === 'start')?.next_step ?? 0;
    await until(
      `step ${index + 1} to run`,
      () => slurm(cluster, 'squeue', '-h', '-t', 'R', '-j', job) !== '' && existsSync(join(cut.checkpoints, '.chain/0.jsonl')),
      90,
    );
    await until(
      'it to save something new',
      () => existsSync(join(cut.checkpoints, `0/step_${(Math.floor(saved() / 20) + 2) * 20}/.metadata`)),
      90,
    );
    slurm(cluster, 'scontrol', 'update', `jobid=${job}_0`, 'EndTime=now+1');
    await until('the time limit', () => slurm(cluster, 'squeue', '-h', '-t', 'R', '-j', job) === '', 90);
  }
  const states = await endOf(cluster, cut.jobs, { seconds: 240 });
  assert.deepEqual(
    cut.jobs.slice(0, 3).map((job) => (states.get(`${job}_0`) ?? '').split(' ')[0]),
    ['TIMEOUT', 'TIMEOUT', 'COMPLETED'],
  );
  const starts = journalOf(cut.checkpoints, 0).filter((line) => line.event === 'start');
  assert.equal(starts.length, 3);
  for (const start of starts.slice(1)) assert.match(start.resumed_from ?? '', /^step_\d+$/);
  await endOf(cluster, whole.jobs);
  const expected = endState(whole.checkpoints);
  assert.match(expected, /^False\nlosses \[/);
  assert.equal(endState(cut.checkpoints), expected);
});

test('the warning signal reaches a trainer under torchrun, and it saves', { skip }, async () => {
  const { jobs, checkpoints } = await launched('torchrun', 1, 0.2);
  await until('step_20', () => existsSync(join(checkpoints, '0/step_20/.metadata')), 90);
  // What --signal=B:USR1@… does when its time has come.
  slurm(cluster, 'scancel', '--batch', '--signal=USR1', jobs[0] ?? '');
  await endOf(cluster, jobs);
  const end = journalOf(checkpoints, 0).at(-1);
  assert.equal(end?.event, 'end');
  assert.ok(Number(end?.newest?.slice(5)) % 20 !== 0, `${end?.newest} was saved on the signal`);
});
