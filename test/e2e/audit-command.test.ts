// The audit as people ask for it: by comment, by every way of naming an experiment, strictly, and with workdir gone.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asUser, endOf, testCluster } from '../support/cluster.ts';
import { regression } from '../support/experiment.ts';
import { useLabs } from '../support/lab.ts';

const cluster = testCluster();
const newLab = useLabs(cluster);

test('an audit by comment, by every name of an experiment, strict, and from the records beside the checkpoints alone', async () => {
  const lab = await newLab('auditing');
  const wandb = 'wandb: {entity: team, project: proj}';
  const yaml = regression(lab, { name: 'auditing', nSteps: 100, secondsPerStep: 0.002, nJobs: 2, grid: '^lr: [0.1, 0.2]', more: wandb });
  const commit = lab.commit({ 'configs/auditing.yaml': yaml });
  const pull = lab.openPull();
  const launched = await lab.label(pull, 'launch:auditing');
  const id = launched.outputs['experiment-id'] ?? '';
  await endOf(cluster, (launched.outputs['job-ids'] ?? '').split(','), { cells: 2 });

  const asked = await lab.comment(pull, '/audit');
  assert.equal(asked.code, 0, asked.log);
  assert.equal(asked.outputs['state'], 'verified');
  const [audit] = JSON.parse(asked.outputs['report'] ?? '[]') as { id: string; identity: { commit: string } }[];
  assert.deepEqual([audit?.id, audit?.identity.commit], [id, commit]);
  const body = lab.hub.comments.find((one) => one.body.startsWith('<!-- slurm-chain audit -->'))?.body ?? '';
  assert.match(body, new RegExp(`### ${id}: verified`));
  assert.match(body, /\| 0 \| `train\.lr=0\.1` \| 20 to 80 by 20, 99 \| 5 \| `\d+_0` \| 1 \|/);
  assert.match(body, /_Cost: 1 experiment, \d+ files hashed/);
  assert.match(body, /wandb\.ai\/team\/proj\/groups\//);

  // Another commit on the branch: the branch still leads to what was launched.
  lab.commit({ 'README.md': 'more\n' });
  const names = [
    id,
    `${id}-1`,
    `https://wandb.ai/team/proj/runs/${id}-1`,
    commit,
    commit.slice(0, 7),
    'auditing',
    'configs/auditing.yaml',
    'experiment',
    '#1',
    `${lab.save}/${id}/0/step_20`,
    lab.save,
  ];
  for (const target of names) {
    const result = await lab.dispatch({ command: 'audit', target, strict: 'true' });
    assert.deepEqual(
      [result.code, result.outputs['experiment-id'], result.outputs['state']],
      [0, id, 'verified'],
      `${target}: ${result.log}`,
    );
  }
  assert.match(
    (await lab.dispatch({ command: 'audit', target: 'nonsense' })).errors[0] ?? '',
    /no experiment of lab\/nano on the cluster matches 'nonsense'/,
  );

  // workdir is purged: what is beside the checkpoints still answers, and says what is missing.
  asUser(cluster, `chmod -R u+w ${lab.workdir} && rm -rf ${lab.workdir}`);
  for (const target of [id, commit.slice(0, 7), lab.save, `${lab.save}/${id}/0/step_20`]) {
    const result = await lab.dispatch({ command: 'audit', target });
    assert.deepEqual([result.code, result.outputs['state']], [0, 'incomplete'], `${target}: ${result.log}`);
    assert.match(result.summary, /20 to 80 by 20, 99/);
  }
  const strict = await lab.dispatch({ command: 'audit', target: id, strict: 'true' });
  assert.equal(strict.code, 1);
  assert.match(strict.errors[0] ?? '', /1 of 1 experiments are not verified: auditing-\S+ \(incomplete\)/);

  // A checkpoint somebody copied in.
  asUser(cluster, `cp -r ${lab.save}/${id}/0/step_20 ${lab.save}/${id}/0/step_777`);
  const changed = await lab.dispatch({ command: 'audit', target: id });
  assert.equal(changed.outputs['state'], 'changed');
  assert.match(changed.summary, /step\\?_777/);
});
