// What an audit finds of a chain that ran on the real cluster: as it was left, and after somebody laid hands on it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { checksumOf } from '../../src/audit/attribution.ts';
import { auditExperiments } from '../../src/audit/audit.ts';
import type { AuditTarget } from '../../src/audit/program.ts';
import { renderAudit } from '../../src/audit/render.ts';
import type { Audit, AuditReport } from '../../src/audit/report.ts';
import { connect } from '../../src/cluster/connection.ts';
import type { Connection } from '../../src/cluster/transport.ts';
import { type Cluster, siteConfigOf } from '../../src/experiment/repo-config.ts';
import type { Repo } from '../../src/repo/git.ts';
import { asUser, endOf, keyOnly, slurm, testCluster } from '../support/cluster.ts';
import { regression } from '../support/experiment.ts';
import { type Lab, makeLab } from '../support/lab.ts';
import { until } from '../support/until.ts';

const environment = testCluster();
const scratch = mkdtempSync(join(tmpdir(), 'slurm-chain-audit-'));
let lab: Lab;
let connection: Connection;
let cluster: Cluster;
let id: string;
let commit: string;
let jobs: string[];
let target: AuditTarget;

const git = (directory: string, ...args: string[]) =>
  execFileSync('git', ['-C', directory, '-c', 'user.name=A', '-c', 'user.email=a@b', ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  }).trim();
const remote = () => git(lab.workspace, 'remote', 'get-url', 'origin').replace('file://', '');
let checkouts = 0;
/** A checkout as actions/checkout makes it, that no other test has fetched into. */
function checkout(): Repo {
  const directory = join(scratch, `checkout-${++checkouts}`);
  execFileSync('git', ['clone', '--quiet', '--depth=1', `file://${remote()}`, directory], { stdio: 'ignore' });
  return { directory, token: '' };
}

/** Two cells; step 1 is asked to stop on the way, step 2 goes on to the end. */
before(async () => {
  lab = await makeLab(environment, 'audit');
  remove(lab.save, lab.workdir, `${lab.save}.kept`, `${lab.save}-many`);
  commit = lab.commit({
    'configs/audit.yaml': regression(lab, { name: 'audit', nSteps: 150, secondsPerStep: 0.05, grid: '^lr: [0.1, 0.2]' }),
    'tools/run.sh': '#!/bin/sh\n',
    'a b/ü.txt': 'x',
  });
  const launched = await lab.dispatch({ config: 'audit', overrides: 'train.save_every=10' });
  assert.equal(launched.code, 0, launched.log);
  id = launched.outputs['experiment-id'] ?? '';
  jobs = (launched.outputs['job-ids'] ?? '').split(',');
  await until('checkpoints of step 1', () => [0, 1].every((cell) => existsSync(join(lab.save, id, String(cell), 'step_20'))));
  slurm(environment, 'scancel', '--batch', '--signal=USR1', jobs[0] ?? '');
  await endOf(environment, jobs, { cells: 2 });
  const summary = { codeName: commit, checkpoints: { prefix: 'step_', complete: '', offset: 1 } } as const;
  target = { id, experimentDirectory: `${lab.workdir}/experiments/${id}`, saveDirectory: `${lab.save}/${id}`, summary };
  const site = await siteConfigOf({ directory: lab.workspace, token: '' }, 'main');
  cluster = site.clusters.get('entropy') ?? assert.fail();
  connection = await connect(cluster, keyOnly(environment));
  // As it was left; hard links stay hard links.
  asUser(environment, `mkdir ${lab.save}.kept && cp -a ${lab.save} ${lab.save}.kept/save && cp -a ${lab.workdir} ${lab.save}.kept/work`);
});
after(async () => {
  connection?.close();
  await lab?.close();
  rmSync(scratch, { recursive: true, force: true });
});

const remove = (...directories: string[]) =>
  asUser(environment, directories.map((one) => `chmod -R u+w ${one} 2>/dev/null; rm -rf ${one}`).join('; '));
const restore = () => {
  remove(lab.save, lab.workdir);
  asUser(environment, `cd ${lab.save}.kept && cp -a save ${lab.save} && cp -a work ${lab.workdir}`);
};

async function auditAll(targets: readonly AuditTarget[], repo = checkout()): Promise<AuditReport> {
  return auditExperiments({ connection, cluster }, repo, targets, () => {});
}
async function audit(): Promise<Audit> {
  const { audits } = await auditAll([target]);
  return audits[0] ?? assert.fail();
}
/** After a shell line of the account. */
async function auditAfter(line: string): Promise<Audit> {
  asUser(environment, `cd ${target.saveDirectory} && {\n${line}\n}`);
  try {
    return await audit();
  } finally {
    restore();
  }
}
const findings = ({ verdict }: Audit) => verdict.changed.join('\n');
function names(audit: Audit, ...wanted: RegExp[]): void {
  assert.equal(audit.verdict.kind, 'changed', JSON.stringify(audit.verdict));
  for (const one of wanted) assert.match(findings(audit), one);
}

test('as it was left: verified, with everything that was asked', async () => {
  const found = await audit();
  assert.deepEqual(found.verdict, { kind: 'verified', changed: [], missing: [] });
  assert.deepEqual(
    [found.identity?.commit, found.identity?.path, found.identity?.overrides, found.identity?.subject],
    [commit, 'configs/audit.yaml', ['train.save_every=10'], 'Try something'],
  );
  assert.deepEqual(
    found.launches.map((launch) => [launch.actor, launch.command, launch.jobNumbers, launch.jobs.map(({ jobId }) => jobId)]),
    [['alice', 'launch', [1, 2], jobs]],
  );
  assert.match(found.launches[0]?.runUrl ?? '', /\/actions\/runs\/4242$/);
  assert.deepEqual([found.reachability.reachable, found.reachability.branches, found.reachability.tags], [true, ['experiment'], []]);
  for (const cell of found.cells) {
    assert.deepEqual(cell.choices, { 'train.lr': cell.cell === 0 ? '0.1' : '0.2' });
    assert.deepEqual(
      cell.tasks.map((task) => [task.jobNumber, task.jobId]),
      jobs.map((job, index) => [index + 1, job]),
    );
    const [first, second] = cell.tasks;
    assert.equal(first?.resumeStep, -1);
    assert.deepEqual(first?.checkpoints[0], { first: 10, last: first?.checkpoints[0]?.last, stride: 10 });
    assert.equal(second?.checkpoints.at(-1)?.last, 149);
    const onDisk = asUser(environment, `ls -d ${target.saveDirectory}/${cell.cell}/step_* | wc -l`);
    assert.equal((first?.count ?? 0) + (second?.count ?? 0), Number(onDisk));
  }
  const text = renderAudit({ audits: [found], cost: (await auditAll([target])).cost });
  assert.match(text, /^### audit-\S+: verified/);
  assert.match(text, /1 experiment, \d+ files hashed/);
});

test('one byte of staged code, changed in place where all copies share it', async () => {
  const file = `${lab.workdir}/code/${commit}/train.py`;
  const found = await auditAfter(`chmod u+w ${file} && printf X | dd of=${file} bs=1 seek=5 conv=notrunc status=none`);
  names(
    found,
    /the staged code \S+ does not match the commit: train\.py$/m,
    /\/code, where the jobs start, does not match the commit: train\.py$/m,
  );
  assert.equal(found.verdict.changed.length, 2);
});

test("the experiment's own copy: a byte, a mode, a link in place of a file, a file that is gone; added files are no change", async () => {
  const copy = `${target.experimentDirectory}/code`;
  const edit = `cp train.py t && chmod u+w t && printf X | dd of=t bs=1 seek=5 conv=notrunc status=none && mv -f t train.py`;
  names(await auditAfter(`cd ${copy} && ${edit}`), /where the jobs start, does not match the commit: train\.py$/m);
  names(
    await auditAfter(`cd ${copy} && cp README.md r && chmod +x r && mv -f r README.md`),
    /jobs start, does not match the commit: README\.md$/m,
  );
  names(
    await auditAfter(`cd ${copy} && cp README.md /tmp/r.$$ && ln -sf /tmp/r.$$ README.md`),
    /jobs start, does not match the commit: README\.md$/m,
  );
  names(await auditAfter(`cd ${copy} && rm -f 'a b/ü.txt'`), /\/code lacks files of the commit: a b\/ü\.txt$/m);
  const added = await auditAfter(`cd ${copy} && mkdir __pycache__ && echo x >__pycache__/t.pyc`);
  assert.equal(added.verdict.kind, 'verified', JSON.stringify(added.verdict));
  assert.match(added.notes.join('\n'), /1 file in .* is not in the commit, as jobs may add them: __pycache__\/t\.pyc/);
  // The same file again, not shared any more, is as good.
  const same = await auditAfter(`cd ${copy} && cp -p train.py t && mv -f t train.py`);
  assert.equal(same.verdict.kind, 'verified', JSON.stringify(same.verdict));
});

test('one cell config, run.sh, job.sh', async () => {
  const at = target.experimentDirectory;
  names(
    await auditAfter(`sed -i 's/lr: 0.2/lr: 0.3/' ${at}/configs/config_1.yaml`),
    /^configs\/config_1\.yaml does not match the commit and the overrides$/m,
  );
  names(await auditAfter(`echo >>${at}/run.sh`), /^run\.sh does not match/m);
  names(await auditAfter(`echo >>${at}/job.sh`), /^job\.sh is not the one/m);
  const gone = await auditAfter(`rm ${at}/configs/config_0.yaml`);
  assert.deepEqual(gone.verdict, { kind: 'incomplete', changed: [], missing: ['configs/config_0.yaml'] });
});

test('one field of one manifest, whichever copy it is; and of both', async () => {
  const [here, there] = [`${target.experimentDirectory}/manifest.json`, '.chain/manifest.json'];
  for (const file of [here, there]) {
    names(
      await auditAfter(`sed -i 's/"nSteps":150/"nSteps":140/' ${file}`),
      /cells\.0\.nSteps is 1[45]0 in \S+ and 1[45]0 in/,
      /cells\.0\.nSteps is/,
    );
    names(await auditAfter(`sed -i 's/"actor":"alice"/"actor":"bob"/' ${file}`), /launches\.0\.actor is "\w+" in \S+ and "\w+" in/);
    const moved = await auditAfter(`sed -i 's/"commit":"${commit}"/"commit":"${'1'.repeat(40)}"/' ${file}`);
    names(moved, /commit is "/);
    assert.equal(moved.identity?.commit, commit, 'the copy that agrees with the repository is gone by');
  }
  names(
    await auditAfter(`sed -i 's/train.save_every=10/train.save_every=5/' ${here} ${there}`),
    /id is .* in the manifest and .* at the commit/,
  );
  names(await auditAfter(`sed -i 's/"path":"configs\\/audit.yaml"/"path":"--evil"/' ${here} ${there}`), /does not give this experiment/);
  names(
    await auditAfter(`sed -i 's/Try something/Try nothing/' ${here} ${there}`),
    /subject is "Try nothing" in the manifest and "Try something"/,
  );
  names(await auditAfter(`printf '{' > ${there}`), /\.chain\/manifest\.json is not valid JSON/);
});

test('a journal line that was edited, put in or taken out, the last one included', async () => {
  names(await auditAfter(`sed -i '2s/"exit":0/"exit":1/' .chain/1.jsonl`), /^cell 1: line 2 of its journal does not match its checksum/m);
  names(await auditAfter(`sed -i 2d .chain/0.jsonl`), /^cell 0: line 2 of its journal does not match its checksum/m);
  names(await auditAfter(`sed -i 1d .chain/0.jsonl`), /^cell 0: line 1 of its journal does not match its checksum/m);
  names(await auditAfter(`sed -i 2p .chain/0.jsonl`), /^cell 0: line 3 of its journal does not match its checksum/m);
  names(await auditAfter(`sed -i '$d' .chain/0.jsonl`), /^cell 0: its journal lacks the line that was the last one/m);
  const gone = await auditAfter(`rm .chain/0.jsonl`);
  names(gone, /^cell 0: its journal is gone$/m, /^0\/step_10 is unaccounted for: no task is on record/m);
  assert.deepEqual(gone.verdict.missing, ['the journal of cell 0']);
  const closed = await auditAfter(`chmod 000 .chain/0.jsonl`);
  assert.deepEqual(closed.verdict, {
    kind: 'incomplete',
    changed: [],
    missing: ['the journal of cell 0, which this account may not read'],
  });
});

test('a journal with new sums still has to fit ledger and manifest', async () => {
  const lines = readFileSync(join(target.saveDirectory, '.chain/0.jsonl'), 'utf8').trim().split('\n');
  let previous = '';
  const forged = lines.map((line) => {
    const plain = line.replace(/,"sum":"[0-9a-f]+"\}$/, '}').replaceAll(`"job":"${jobs[0]}"`, '"job":"999999"');
    const sum = checksumOf(previous, plain);
    previous = sum;
    return `${plain.slice(0, -1)},"sum":"${sum}"}`;
  });
  const found = await auditAfter(`cat > .chain/0.jsonl <<'EOF'\n${forged.join('\n')}\nEOF`);
  names(found, /the journal of cell 0 has job 999999, which the ledger lacks/);
});

test('a checkpoint that was copied in by hand is unaccounted for, by cp -r and cp -a, inside and outside the ranges', async () => {
  for (const copy of ['cp -r', 'cp -a']) {
    for (const number of [15, 145, 5, 300]) {
      const found = await auditAfter(`${copy} 0/step_20 0/step_${number}`);
      assert.deepEqual(found.verdict.changed, [`0/step_${number} is unaccounted for: no task on record has saved it`], copy);
      assert.deepEqual(
        found.cells.map((cell) => cell.unaccounted.map(({ name }) => name)),
        [[`step_${number}`], []],
      );
    }
  }
  // In place of one that was saved, an hour later.
  const later = await auditAfter(`rm -r 0/step_20 && cp -r 0/step_10 0/step_20 && touch -d '+1 hour' 0/step_20`);
  names(later, /^0\/step_20 is unaccounted for: it was last written at \S+, but task \d+_0, which saved this number, ran from/m);
  const half = await auditAfter('mkdir 0/step_900');
  assert.equal(half.verdict.kind, 'verified');
  assert.match(half.notes.join('\n'), /step_900 is not complete/);
});

test('workdir was purged: what is beside the checkpoints still answers', async () => {
  const found = await auditAfter(`chmod -R u+w ${lab.workdir} && rm -rf ${lab.workdir}`);
  assert.equal(found.verdict.kind, 'incomplete', JSON.stringify(found.verdict));
  assert.deepEqual(found.verdict.changed, []);
  assert.match(found.verdict.missing.join('\n'), /the directory of the experiment, .*, and with it the staged code, the cell configs/);
  assert.deepEqual(
    [found.identity?.commit, found.identity?.path, found.identity?.overrides],
    [commit, 'configs/audit.yaml', ['train.save_every=10']],
  );
  assert.equal(found.cells[1]?.tasks.at(-1)?.checkpoints.at(-1)?.last, 149);
  assert.deepEqual(
    found.launches[0]?.jobs.map(({ jobId }) => jobId),
    jobs,
  );
  // Without the shared copy alone nothing is missing: the experiment has its own, and the listing is there.
  const shared = await auditAfter(`chmod -R u+w ${lab.workdir}/code && rm -rf ${lab.workdir}/code/${commit}`);
  assert.equal(shared.verdict.kind, 'verified', JSON.stringify(shared.verdict));
  const [none] = (
    await auditAll([
      { id: 'nothing-here', experimentDirectory: undefined, saveDirectory: '/nowhere/nothing-here', summary: target.summary },
    ])
  ).audits;
  assert.equal(none?.verdict.kind, 'incomplete');
});

test('branches and tags that lead to the commit, and a commit that is gone', async () => {
  const bare = remote();
  git(bare, 'tag', 'v1.0', commit);
  git(bare, 'branch', 'paper', commit);
  const repo = checkout();
  const [both] = (await auditAll([target], repo)).audits;
  assert.deepEqual([both?.reachability.branches, both?.reachability.tags], [['experiment', 'paper'], ['v1.0']]);
  git(bare, 'branch', '-D', 'paper');
  git(bare, 'branch', '-D', 'experiment');
  const [tagged] = (await auditAll([target], repo)).audits;
  assert.deepEqual([tagged?.reachability.reachable, tagged?.reachability.branches, tagged?.reachability.tags], [true, [], ['v1.0']]);
  git(bare, 'tag', '-d', 'v1.0');
  const [loose] = (await auditAll([target], repo)).audits;
  assert.equal(loose?.verdict.kind, 'verified', 'nothing leads to it, and it is still here to compare with');
  assert.equal(loose?.reachability.reachable, false);
  git(bare, 'reflog', 'expire', '--expire=now', '--all');
  git(bare, 'gc', '--quiet', '--prune=now');
  // A fresh checkout, so that no copy of it is left here.
  const gone = await audit();
  assert.equal(gone.verdict.kind, 'incomplete', JSON.stringify(gone.verdict));
  assert.match(gone.verdict.missing.join('\n'), /the commit [0-9a-f]{12} is no longer in the repository/);
  assert.deepEqual([gone.reachability.reachable, gone.reachability.unknown], [false, undefined]);
  assert.equal(gone.cells[0]?.tasks.length, 2, 'the rest is still told');
  const away = checkout();
  git(away.directory, 'remote', 'set-url', 'origin', 'file:///nowhere');
  git(away.directory, 'fetch', '--quiet', '--depth=1', `file://${repo.directory}`, commit);
  const [cut] = (await auditAll([target], away)).audits;
  assert.equal(cut?.verdict.kind, 'verified', 'whether it is reachable is not known, and what is here agrees');
  assert.match(cut?.reachability.unknown ?? '', /could not be fetched/);
  // Back for whoever comes next.
  git(repo.directory, 'push', '--quiet', 'origin', `${commit}:refs/heads/experiment`);
});

test('a thousand experiments under one save.path in one go, at a cost that is stated', async (context) => {
  const made = `${lab.save}-many`;
  asUser(
    environment,
    `mkdir ${made} && cd ${made} && for n in $(seq 1000); do cp -r ${target.saveDirectory}/.chain m-$n.chain && mkdir m-$n && mv m-$n.chain m-$n/.chain && mkdir -p m-$n/0/step_10 && echo x >m-$n/0/step_10/w; done`,
  );
  const targets = [
    target,
    ...Array.from({ length: 1000 }, (_, index) => ({
      id: `m-${index + 1}`,
      // The first half as if workdir were there.
      experimentDirectory: index < 500 ? target.experimentDirectory : undefined,
      saveDirectory: `${made}/m-${index + 1}`,
      summary: target.summary,
    })),
  ];
  const lines: string[] = [];
  const started = performance.now();
  const { audits, cost } = await auditExperiments({ connection, cluster }, checkout(), targets, (line) => lines.push(line));
  const seconds = (performance.now() - started) / 1000;
  assert.equal(audits.length, 1001);
  assert.equal(audits[0]?.verdict.kind, 'verified');
  for (const [index, found] of audits.slice(1).entries()) {
    assert.equal(found.id, `m-${index + 1}`);
    assert.ok(found.verdict.changed.includes(`the manifest belongs to ${id}`));
    assert.equal(found.identity?.commit, commit);
    assert.equal(found.cells[0]?.tasks[0]?.count, 1);
  }
  assert.equal(cost.experiments, 1001);
  assert.ok(cost.filesHashed > 0 && cost.bytesHashed > 0 && cost.clusterSeconds > 0 && cost.clusterSeconds <= cost.seconds);
  assert.ok(
    lines.some((line) => line.includes('examined 500 experiments of 1001')),
    lines.join('\n'),
  );
  const text = renderAudit({ audits, cost });
  assert.ok(Buffer.byteLength(text) <= 1_000_000);
  assert.match(text, /^### Audit of 1,001 experiments: 1,000 changed, 1 verified/);
  context.diagnostic(`${text.split('\n')[2]} measured ${seconds.toFixed(1)} s`);
  // Generous: the machine is shared.
  assert.ok(seconds < 240);
});
