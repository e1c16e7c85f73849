// A record that no launch has written, among others that are fine, on the real cluster.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { asUser, cancelQueue, queueOf, testCluster } from '../support/cluster.ts';
import { type Lab, useLabs } from '../support/lab.ts';

const cluster = testCluster();
const newLab = useLabs(cluster, { experiment: { secondsPerStep: 1 } });

/** As somebody else on the cluster, or a full quota, may leave it. */
const HOSTILE = JSON.stringify({
  version: 1,
  id: '](https://evil.example) <!-- slurm-chain --> ::set-output name=x::y',
  commit: '--upload-pack=touch /tmp/pwned',
  cells: [{ cell: -1, choices: '@octocat' }],
  pullRequests: [1, 2, 3],
});

const ids: string[] = [];
let lab: Lab;

/** Both copies under workdir, without a line end. */
function spoil(id: string, text: string): void {
  const directory = join(lab.workdir, 'experiments', id);
  asUser(cluster, `printf %s '${text}' >${directory}/summary.json && printf %s '${text}' >${directory}/manifest.json`);
}

before(async () => {
  lab = await newLab('bad');
  lab.commit({ 'notes.txt': 'a pull request needs a change\n' });
  const pull = lab.openPull();
  for (const lr of ['0.1', '0.2', '0.3']) {
    const launched = await lab.comment(pull, `/launch bad train.lr=${lr}`);
    assert.equal(launched.code, 0, launched.log);
    ids.push(launched.outputs['experiment-id'] ?? '');
  }
  assert.equal(new Set(ids).size, 3);
});

for (const [what, text, file] of [
  ['empty', '', 'manifest.json'],
  ['of somebody hostile', HOSTILE, 'summary.json'],
] as const) {
  test(`a schedule reports on the others, and names the one whose record is ${what}`, async () => {
    spoil(ids[1] ?? '', text);
    lab.hub.comments.splice(0);
    const looked = await lab.schedule();
    assert.notEqual(looked.code, 0, 'somebody has to look');
    const reported = looked.outputs['experiment-id']?.split('\n').toSorted();
    assert.deepEqual(reported, [ids[0], ids[2]].toSorted());
    assert.equal(lab.hub.comments.length, 2);
    assert.ok(
      looked.errors.some((error) => error.includes(`experiments/${ids[1]}/${file} on entropy`)),
      looked.log,
    );
    assert.doesNotMatch(looked.log, /^::set-output/m);
  });
}

test('a cancel cancels the others, and says that the bad one is still in the queue', async () => {
  const [pull] = lab.hub.pulls;
  assert.ok(pull !== undefined);
  const cancelled = await lab.comment(pull, '/cancel');
  assert.ok(
    cancelled.errors.some((error) => error.includes(`${ids[1]} is in the queue and was not cancelled`)),
    cancelled.log,
  );
  for (const [index, id] of ids.entries()) {
    assert.equal(queueOf(cluster, id).length > 0, index === 1, id);
    cancelQueue(cluster, id);
  }
});
