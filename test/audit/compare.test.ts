// What an audit finds when it compares the cluster with the commit.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { compareCode, compareFiles, compareSummaries, presence, readManifests } from '../../src/audit/compare.ts';
import type { AuditFacts, AuditTarget, CodeCopy, StagedCode } from '../../src/audit/program.ts';
import type { Recomputed } from '../../src/audit/recompute.ts';
import { type Manifest, summaryOf } from '../../src/chain/manifest.ts';
import { filesOf } from '../../src/chain/task.ts';
import { JOB_SCRIPT } from '../../src/cluster/programs/stage.ts';
import { parseSource } from '../../src/experiment/document.ts';
import { experimentFrom } from '../../src/experiment/experiment.ts';
import { parseRepoConfig } from '../../src/experiment/repo-config.ts';
import type { Code } from '../../src/repo/code.ts';

const ID = 'smoke-1a2b3c4d5e6f';
const COMMIT = '1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b';
const NOTHING = { changed: [], missing: [], notes: [] };
const NO_PATHS = { count: 0, names: [] };
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

function facts(more: Partial<AuditFacts> = {}): AuditFacts {
  return {
    ...{ savePresent: true, directoryPresent: true, manifests: [], summaries: [], ledger: [], journals: new Map(), unreadable: new Set() },
    ...{ releasedChecksums: new Map(), checkpoints: [], files: new Map(), copy: { kind: 'not-examined' }, distrusted: [] },
    ...more,
  };
}
const MANIFEST = {
  ...{ version: 1, id: ID, name: 'smoke', commit: COMMIT, path: 'a.yaml', attempt: 1, overrides: [], subject: 'Try', chain: [] },
  ...{ repository: 'lab/nano', pullRequests: [], cluster: 'entropy', workdir: '/w', save: `/ckpt/${ID}`, slurm: [], wandb: null },
  ...{
    checkpoints: { prefix: 'step_', complete: '', offset: 1 },
    code: { name: COMMIT, digest: 'd'.repeat(64), submodules: [], lfsPointers: [] },
  },
  cells: [],
  launches: [
    {
      ...{
        launch: 1,
        command: 'launch',
        steps: [1],
        overrides: [],
        slurm: '',
        sbatchVariables: [],
        jobScript: sha256(JOB_SCRIPT),
        sbatch: [],
      },
      ...{ actor: 'alice', runUrl: '', repository: 'lab/nano', at: '2026-12-01T10:00:00Z' },
    },
  ],
} as unknown as Manifest;
const TARGET: AuditTarget = {
  id: ID,
  experimentDirectory: `/w/experiments/${ID}`,
  saveDirectory: `/ckpt/${ID}`,
  summary: summaryOf(MANIFEST),
};

const copies = (...texts: string[]) => readManifests(facts({ manifests: texts.map((text, index) => ({ file: `/m${index}`, text })) }));
const text = (more: object = {}) => JSON.stringify({ ...MANIFEST, ...more });

test('two copies of the manifest: the same, one that cannot be read, and two that differ', () => {
  assert.deepEqual(copies(text(), text()).changed, []);
  assert.deepEqual(copies(text()).changed, []);
  const broken = copies('{', text());
  assert.deepEqual(
    broken.readable.map(({ file }) => file),
    ['/m1'],
  );
  assert.match(broken.changed.join(), /^\/m0 is not valid JSON/);
  assert.deepEqual(copies(text(), text({ path: 'b.yaml' })).changed, ['path is "b.yaml" in /m1 and "a.yaml" in /m0']);
  assert.deepEqual(copies(text(), text({ overrides: ['a=1'] })).changed, ['overrides.0 is "a=1" in /m1 and missing in /m0']);
  assert.deepEqual(copies(text(), `${text()} `).changed, ['/m0 and /m1 have the same fields, but different bytes']);
});

test('of many differences the first five, and long values cut', () => {
  const all = { name: 'x', path: 'x', attempt: 2, repository: 'lab/x', cluster: 'x', workdir: '/x', subject: 'y'.repeat(200) };
  const many = copies(text(), text(all)).changed;
  assert.equal(many.length, 6);
  assert.equal(many[5], '2 more fields differ between the two manifests');
  assert.ok(many.includes(`subject is "${'y'.repeat(98)}… in /m1 and "Try" in /m0`), many.join('\n'));
  const five = copies(text(), text({ name: 'x', path: 'x', attempt: 2, cluster: 'x', subject: 'y'.repeat(98) })).changed;
  assert.equal(five.length, 5);
  assert.ok(five.includes(`subject is "${'y'.repeat(98)}" in /m1 and "Try" in /m0`), 'a hundred characters are shown');
});

test('a summary must repeat what no later launch changes', () => {
  const summary = summaryOf(MANIFEST);
  const found = (...texts: string[]) =>
    compareSummaries(facts({ summaries: texts.map((one, index) => ({ file: `/s${index}`, text: one })) }), MANIFEST);
  assert.deepEqual(
    found(JSON.stringify(summary), JSON.stringify({ ...summary, chain: ['a=1'], pullRequests: [7], subject: 'x' })),
    NOTHING,
  );
  const [OTHER, ELSEWHERE] = ['b'.repeat(40), `/other/${ID}`];
  for (const [change, expected] of [
    [{ name: 'x' }, 'name is "x" in /s0 and "smoke" in the manifest'],
    [{ commit: OTHER }, `commit is "${OTHER}" in /s0 and "${COMMIT}" in the manifest`],
    [{ path: 'x' }, 'path is "x" in /s0 and "a.yaml" in the manifest'],
    [{ save: ELSEWHERE }, `save is "${ELSEWHERE}" in /s0 and "/ckpt/${ID}" in the manifest`],
    [{ codeName: OTHER }, `codeName is "${OTHER}" in /s0 and "${COMMIT}" in the manifest`],
    [{ attempt: 2 }, 'attempt is 2 in /s0 and 1 in the manifest'],
    [{ overrides: ['a=1'] }, 'overrides.0 is "a=1" in /s0 and missing in the manifest'],
    [{ checkpoints: { ...summary.checkpoints, offset: 0 } }, 'checkpoints.offset is 0 in /s0 and 1 in the manifest'],
  ] as const) {
    assert.deepEqual(found(JSON.stringify({ ...summary, ...change })).changed, [expected]);
  }
  const moved = found(JSON.stringify({ ...summary, id: `${ID}-a2`, save: `/ckpt/${ID}-a2` })).changed;
  assert.equal(moved[0], `id is "${ID}-a2" in /s0 and "${ID}" in the manifest`);
  const broken = found('{', JSON.stringify(summary)).changed;
  assert.equal(broken.length, 1);
  assert.match(broken[0] ?? '', /^\/s0 /);
});

const experiment = experimentFrom(
  parseSource('configs/smoke.yaml', 'run: train\nsave: {path: /ckpt}\n^lr: [1, 2]\n'),
  COMMIT,
  parseRepoConfig(''),
  [],
);
const RECOMPUTED = { experiment, savePath: '/ckpt', different: [] } as unknown as Recomputed;
const STAGED = new Map([
  ...filesOf(experiment, '/ckpt').map(({ path, content }) => [path, sha256(content)] as const),
  ['job.sh', sha256(JOB_SCRIPT)],
]);
const comparedFiles = (files: ReadonlyMap<string, string>, manifest = MANIFEST) => compareFiles(facts({ files }), manifest, RECOMPUTED);
const without = (...paths: string[]) => new Map([...STAGED].filter(([path]) => !paths.includes(path)));

test('configs and scripts that the commit gives', () => {
  assert.deepEqual(comparedFiles(STAGED), NOTHING);
  assert.deepEqual(comparedFiles(new Map([...STAGED, ['run.sh', 'x']])).changed, ['run.sh does not match the commit and the overrides']);
  assert.deepEqual(comparedFiles(new Map([...STAGED, ['run.sh', 'x'], ['task.env', 'x']])).changed, [
    'run.sh, task.env do not match the commit and the overrides',
  ]);
  assert.deepEqual(comparedFiles(without('configs/config_1.yaml', 'run.sh')), { ...NOTHING, missing: ['configs/config_1.yaml, run.sh'] });
  assert.deepEqual(comparedFiles(new Map([...STAGED, ['configs/mine.yaml', 'x'], ['notes.txt', 'x']])), {
    ...NOTHING,
    notes: ['there are files beside the cell configs that this action did not make: configs/mine.yaml'],
  });
});

test('job.sh must be the one that the last launch staged', () => {
  const recorded = (jobScript: string) => ({ ...MANIFEST, launches: [{ jobScript: 'older' }, { jobScript }] }) as unknown as Manifest;
  const script = (digest: string) => new Map([...without('job.sh'), ['job.sh', digest]]);
  assert.deepEqual(comparedFiles(without('job.sh')), { ...NOTHING, missing: ['job.sh'] });
  assert.deepEqual(comparedFiles(script('edited'), recorded('other')), {
    ...NOTHING,
    changed: ['job.sh is not the one that the last launch staged'],
  });
  assert.deepEqual(comparedFiles(script('other'), recorded('other')), {
    ...{ ...NOTHING, notes: ['job.sh is the one of another version of the action, which made the last launch'] },
  });
  const ours = comparedFiles(STAGED, recorded('other'));
  assert.deepEqual([ours.changed, ours.missing], [[], []]);
  assert.match(ours.notes.join(), /^job\.sh is the one of this version of the action, but another version made the last launch/);
  assert.deepEqual(comparedFiles(script('x'), { ...MANIFEST, launches: [] }).changed, [
    'job.sh is not the one that the last launch staged',
  ]);
});

const CODE = { digest: 'good' } as Code;
const DIR = '/w/code/c0de';
const OWN = `/w/experiments/${ID}/code`;
const staged = (more: Partial<StagedCode> = {}): StagedCode => ({ recorded: 'good', actual: 'good', bad: NO_PATHS, ...more });
const copy = (more: object = {}): CodeCopy => ({ kind: 'compared', dir: DIR, changed: NO_PATHS, gone: NO_PATHS, added: NO_PATHS, ...more });
const comparedCode = (one: CodeCopy, shared?: StagedCode) =>
  compareCode(TARGET, facts({ copy: one }), new Map(shared === undefined ? [] : [[DIR, shared]]), CODE);

for (const [what, one, shared, expected] of [
  ['everything matches', copy(), staged(), {}],
  ['nobody looked', { kind: 'not-examined' }, undefined, { missing: ['the staged code'] }],
  [
    'the shared copy was edited',
    ...([copy(), staged({ actual: 'bad', bad: { count: 2, names: ['a.py'] } })] as const),
    { changed: [`the staged code ${DIR} does not match the commit: a.py and 1 more`] },
  ],
  [
    'the shared copy was edited, and its listing as well',
    ...([copy(), staged({ recorded: 'bad', actual: 'bad', bad: { count: 1, names: ['a.py'] } })] as const),
    {
      changed: [`the listing ${DIR}.sha256 does not match the commit`, `the staged code ${DIR} does not match the commit`],
      missing: [`a listing of the commit, to compare ${OWN} with`],
    },
  ],
  [
    'the shared copy is not that of the commit, and nobody knows where',
    ...([copy(), staged({ actual: 'bad' })] as const),
    { changed: [`the staged code ${DIR} does not match the commit`] },
  ],
  [
    'the shared copy is gone',
    ...([copy(), staged({ actual: '' })] as const),
    { notes: [`the shared copy ${DIR} is gone; the experiment's copy was compared with its listing`] },
  ],
  [
    'the listing is gone',
    ...([copy(), staged({ recorded: '' })] as const),
    { notes: [`the listing ${DIR}.sha256 is gone; it was computed again`] },
  ],
  ['both are gone', copy(), undefined, { missing: [`a listing of the commit, to compare ${OWN} with`] }],
  ['the experiment has no copy', { kind: 'missing', dir: DIR }, staged(), { missing: [`the experiment's copy of the code, ${OWN}`] }],
  [
    'there is nothing to compare with',
    ...([{ kind: 'unknown', dir: DIR }, staged({ recorded: '', actual: '' })] as const),
    { missing: [`the staged code ${DIR} and its listing, to compare ${OWN} with`] },
  ],
  [
    'the experiment has another copy',
    ...([copy({ changed: { count: 1, names: ['a.py'] }, gone: { count: 1, names: ['b.py'] } }), staged()] as const),
    { changed: [`${OWN}, where the jobs start, does not match the commit: a.py`, `${OWN} lacks files of the commit: b.py`] },
  ],
  [
    'jobs added a file',
    ...([copy({ added: { count: 1, names: ['out.log'] } }), staged()] as const),
    { notes: [`1 file in ${OWN} is not in the commit, as jobs may add them: out.log`] },
  ],
  [
    'jobs added files',
    ...([copy({ added: { count: 3, names: ['out.log'] } }), staged()] as const),
    { notes: [`3 files in ${OWN} are not in the commit, as jobs may add them: out.log and 2 more`] },
  ],
] as const) {
  test(`the code on the cluster: ${what}`, () => assert.deepEqual(comparedCode(one, shared), { ...NOTHING, ...expected }));
}

test('an experiment whose directory is not known has no copy to name', () => {
  const found = compareCode({ ...TARGET, experimentDirectory: undefined }, facts({ copy: { kind: 'missing', dir: DIR } }), new Map(), CODE);
  assert.deepEqual(found.missing, ["the experiment's copy of the code, "]);
});

test('what is missing on the cluster, before anything is compared', () => {
  const SAVED = `/ckpt/${ID}/.chain/manifest.json`;
  const own = `/w/experiments/${ID}/manifest.json`;
  const both = [SAVED, own].map((file) => ({ file, text: '' }));
  const missing = (more: Partial<AuditFacts>, target = TARGET) => presence(target, facts({ manifests: both, ...more }), SAVED).missing;
  assert.deepEqual(missing({}), []);
  assert.deepEqual(missing({ manifests: [] }), [`the manifest ${SAVED}`, `the manifest ${own}`]);
  assert.deepEqual(missing({ ledger: undefined }), [`the ledger /w/experiments/${ID}/ledger.jsonl`]);
  assert.deepEqual(missing({ savePresent: false, manifests: both.slice(1) }), [`the directory of the checkpoints, /ckpt/${ID}`]);
  const gone = missing({ directoryPresent: false, manifests: both.slice(0, 1), ledger: undefined });
  assert.match(
    gone.join('\n'),
    new RegExp(`^the directory of the experiment, /w/experiments/${ID}, and with it the staged code.*manifest$`),
  );
  const unknown = missing({ directoryPresent: false }, { ...TARGET, experimentDirectory: undefined });
  assert.match(unknown.join('\n'), /^the directory of the experiment under workdir, and with it/);
  assert.deepEqual(missing({ manifests: [], ledger: undefined }, { ...TARGET, experimentDirectory: undefined }), [`the manifest ${SAVED}`]);
});
