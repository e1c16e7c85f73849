import assert from 'node:assert/strict';
import { test } from 'node:test';
import { brokenLimits, noClusters, notesOnSite, refuseBeyondLimits } from '../../src/commands/site.ts';
import { parseSource } from '../../src/experiment/document.ts';
import { experimentFrom } from '../../src/experiment/experiment.ts';
import { parseRepoConfig, parseSiteConfig } from '../../src/experiment/repo-config.ts';

const CLUSTERS = 'clusters: {entropy: {host: h, user: u, workdir: /w, known_hosts: k}}\n';
const BASE =
  'run: x\nsave: {path: /scratch/lab/a}\nslurm: {partition: h100, account: nlp, gres: "gpu:2", time: "10:00:00"}\nchain: {n_jobs: 3}\n';
const siteWith = (limits: string) => parseSiteConfig(`${CLUSTERS}limits: {${limits}}\n`, 'main');
const experimentOf = (text: string) =>
  experimentFrom(parseSource('configs/smoke.yaml', text), 'c'.repeat(40), parseRepoConfig(''), [], siteWith(''));
const broken = (limits: string, text = BASE, askedBy = ['alice']) => brokenLimits(siteWith(limits).limits, experimentOf(text), askedBy);

test('a launch inside every limit goes', () => {
  assert.deepEqual(
    broken(
      'users: [Alice], clusters: entropy, partitions: [a100, h100], accounts: nlp, save_paths: [/scratch/lab], jobs: 3, cells: 1, gpu_hours: 60',
    ),
    [],
  );
  assert.deepEqual(broken(''), []);
});

for (const [limits, text, message] of [
  ['users: [bob]', BASE, 'limits.users does not list alice'],
  ['clusters: [helios]', BASE, 'limits.clusters does not list entropy, but helios'],
  ['partitions: [a100]', BASE, 'slurm.partition is h100, and limits.partitions allows a100'],
  ['partitions: [h100]', BASE.replace('h100', '"h100,a100"'), 'slurm.partition is h100,a100, and limits.partitions allows h100'],
  [
    'partitions: [h100]',
    BASE.replace('partition: h100, ', ''),
    'slurm.partition is not set, and limits.partitions allows h100; set one of them',
  ],
  ['accounts: [cv]', BASE, 'slurm.account is nlp, and limits.accounts allows cv'],
  ['accounts: [cv]', BASE.replace('account: nlp, ', ''), 'slurm.account is not set, and limits.accounts allows cv; set one of them'],
  ['save_paths: [/scratch/la]', BASE, 'save.path is /scratch/lab/a, and limits.save_paths allows /scratch/la'],
  ['save_paths: [$SCRATCH]', BASE, 'save.path is /scratch/lab/a, and limits.save_paths allows $SCRATCH'],
  ['jobs: 2', BASE, 'chain.n_jobs is 3, and limits.jobs is 2'],
  ['cells: 1', `${BASE}^a: [1, 2]\n`, 'the number of cells is 2, and limits.cells is 1'],
  ['gpu_hours: 59', BASE, 'the most GPU-hours that it can use is 60, and limits.gpu_hours is 59'],
  ['gpu_hours: 119', `${BASE}^a: [1, 2]\n`, 'the most GPU-hours that it can use is 120, and limits.gpu_hours is 119'],
  [
    'gpu_hours: 9',
    BASE.replace('"10:00:00"', 'UNLIMITED'),
    'slurm.time is no time limit, so the GPU-hours cannot be counted for limits.gpu_hours; set it',
  ],
  [
    'gpu_hours: 9',
    BASE.replace('gres: "gpu:2"', 'tres-per-task: "gres/gpu:2"'),
    'slurm.tres-per-task is set, so the GPUs cannot be counted for limits.gpu_hours; use gpus or gres',
  ],
] as const) {
  test(`a launch beyond ${limits} is refused: ${message}`, () => {
    assert.deepEqual(broken(limits, text), [message]);
  });
}

test('everybody who took part has to be listed, and a job without GPUs uses no GPU-hours', () => {
  assert.deepEqual(broken('users: [alice]', BASE, ['alice', 'mallory']), ['limits.users does not list mallory']);
  assert.deepEqual(broken('gpu_hours: 1', 'run: x\nsave: {path: /s}\n'), []);
});

test('each limit is one line of one error, which names the branch', () => {
  const site = siteWith('jobs: 1, users: [bob]');
  assert.throws(() => refuseBeyondLimits({ site, askedBy: ['alice'] }, experimentOf(BASE)), {
    message:
      'smoke is beyond the limits in .github/slurm-chain.yml of main: limits.users does not list alice. Nothing was submitted\n' +
      'smoke is beyond the limits in .github/slurm-chain.yml of main: chain.n_jobs is 3, and limits.jobs is 1. Nothing was submitted',
  });
});

test('a commit with other clusters or limits is told that they take effect once merged', () => {
  const site = siteWith('jobs: 2');
  const note = (text: string) => notesOnSite({ site, config: parseRepoConfig(text) });
  assert.deepEqual(note(''), []);
  assert.deepEqual(note(`# the same\n${CLUSTERS}limits: {jobs: 2}\n`), []);
  for (const other of [`${CLUSTERS}limits: {jobs: 3}\n`, CLUSTERS, `${CLUSTERS.replace('host: h', 'host: evil')}limits: {jobs: 2}\n`]) {
    assert.match(
      note(other).join(),
      /differ from those of the default branch main, which were used\. A change of them takes effect once merged/,
    );
  }
});

test('without a file on the default branch, the error shows what to merge', () => {
  const missing = parseSiteConfig(undefined, 'trunk');
  const { message } = noClusters({ site: missing, config: parseRepoConfig(CLUSTERS) });
  assert.match(message, /^the default branch trunk has no \.github\/slurm-chain\.yml\. .* Merge this into trunk/);
  assert.match(message, /clusters:\n {2}entropy:\n {4}host: h\n/);
  assert.match(noClusters({ site: missing, config: parseRepoConfig('') }).message, /mycluster:\n {4}host: login\.example\.edu\n/);
  const empty = parseSiteConfig('', 'main');
  assert.match(noClusters({ site: empty, config: parseRepoConfig('') }).message, /main has no clusters in \.github\/slurm-chain\.yml/);
});
