// Secrets of nasty shapes go to a job, and then everything is searched for them in every spelling: the processes of the machine
// while the launch and the job run, every file of the cluster, Slurm, the log of the action with debug on, and GitHub.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { asUser, endOf, slurm, testCluster } from '../support/cluster.ts';
import { regression } from '../support/experiment.ts';
import { useLabs } from '../support/lab.ts';
import { spellingsOf } from '../support/spellings.ts';

const cluster = testCluster();
const newLab = useLabs(cluster);

const random = (bytes = 12) => randomBytes(bytes).toString('hex');
const SECRETS: Readonly<Record<string, string>> = {
  QUOTES: `it's "${random()}" \`id\` '"'"'`,
  SPACES: `  two  words ${random()} and a tab\t `,
  DOLLARS: `$(id) \${HOME} $${random()} $'\\n' $$`,
  DASHES: `--export=ALL -rf ${random()}`,
  LONG: random(5_000),
  SIGNS: `;|&<>(){}[]*?!#~%=\\${random()}\\`,
  UNICODE: `pässwörd-${random()}-✓`,
  LINES: `first ${random()}\n  "second": ${random()}\n\nlast=${random()}`,
};
const ENV = Object.entries(SECRETS).map(([name, value]) => (value.includes('\n') ? `${name}<<END\n${value}\nEND` : `${name}=${value}`));
// The first line is the same for all keys of a kind.
const KEY_LINES = readFileSync(cluster.CLUSTER_KEY, 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('-----'))
  .slice(1);
const NEEDLES = [
  ...Object.values(SECRETS).flatMap(spellingsOf),
  ...KEY_LINES,
  'ghs_test_token',
  ...spellingsOf('x-access-token:ghs_test_token'),
];

function assertClean(place: string, text: string): void {
  const found = NEEDLES.find((needle) => text.includes(needle));
  assert.equal(found, undefined, `${place} holds ${found?.slice(0, 100)}`);
}

/** Paths of files under the directories that hold a needle, whatever they are; read as root. */
function filesWithSecrets(directories: readonly string[]): string[] {
  const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-needles-'));
  writeFileSync(join(directory, 'needles'), `${NEEDLES.join('\n')}\n`);
  const { stdout } = spawnSync('grep', ['-r', '-a', '-l', '-F', '-f', join(directory, 'needles'), ...directories], { encoding: 'utf8' });
  rmSync(directory, { recursive: true });
  return stdout.split('\n').filter((line) => line !== '');
}

/** Collects the command lines of all processes, as everybody's ps shows them, until it is stopped. */
function watchProcesses(): () => { lines: Set<string>; looks: number } {
  const lines = new Set<string>();
  let looks = 0;
  const timer = setInterval(() => {
    looks += 1;
    for (const pid of readdirSync('/proc')) {
      if (!/^\d+$/.test(pid)) continue;
      try {
        lines.add(readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' '));
      } catch {
        // It has ended.
      }
    }
  }, 50);
  return () => {
    clearInterval(timer);
    return { lines, looks };
  };
}

test('secrets reach the job as they are, and are nowhere but in a file that only the account reads', async (t) => {
  const lab = await newLab('hidden');
  const check = Object.entries(SECRETS).map(([name, value]) => {
    const digest = createHash('sha256').update(value).digest('hex');
    return `printf %s "$${name}" | sha256sum | grep -q ${digest} || { echo ${name} differs; exit 9; }`;
  });
  lab.commit({
    'configs/hidden.yaml': regression(lab, { name: 'hidden', nSteps: 60, secondsPerStep: 0.05, nJobs: 2 }).replace(
      'setup: echo setup ran',
      `setup: ${JSON.stringify(check)}`,
    ),
  });
  const pull = lab.openPull();
  const debug = { RUNNER_DEBUG: '1', ACTIONS_STEP_DEBUG: 'true', ACTIONS_RUNNER_DEBUG: 'true' };
  const stop = watchProcesses();
  const results = [await lab.label(pull, 'launch:hidden', { inputs: { env: ENV.join('\n') }, environment: debug })];
  const [launch] = results;
  assert.equal(launch?.code, 0, launch?.log);
  const id = launch?.outputs['experiment-id'] ?? '';
  const jobs = (launch?.outputs['job-ids'] ?? '').split(',');
  const details = jobs.map((job) => slurm(cluster, 'scontrol', '-dd', 'show', 'job', job));
  const scripts = jobs.map((job) => slurm(cluster, 'scontrol', 'write', 'batch_script', job, '-'));
  const states = await endOf(cluster, jobs);
  for (const command of ['status', 'audit', 'extend'])
    results.push(await lab.comment(pull, `/${command} ${id}`, { inputs: { env: ENV.join('\n') }, environment: debug }));
  const { lines, looks } = stop();

  const experiment = join(lab.workdir, 'experiments', id);
  assert.equal(states.get(`${jobs[0]}_0`), 'COMPLETED 0:0', asUser(cluster, `cat ${experiment}/logs/1_${jobs[0]}_0.out`));
  t.diagnostic(`${looks} looks at the processes, ${lines.size} command lines`);
  assert.ok(
    [...lines].some((line) => line.includes(`${experiment}/run.sh`)),
    'the job was seen while it ran',
  );
  assertClean('a process', [...lines].join('\n'));
  for (const [index, result] of results.entries()) {
    const written = result.raw.split('\n').filter((line) => !line.startsWith('::add-mask::'));
    assertClean(`what run ${index} wrote`, written.join('\n'));
    assertClean(`summary and outputs of run ${index}`, result.summary + JSON.stringify(result.outputs));
  }
  const { comments, statuses, reactions, pulls, requests } = lab.hub;
  // As text, and as it would be inside JSON.
  for (const { body } of comments) assertClean('a comment', body);
  for (const { description } of statuses) assertClean('a commit status', description ?? '');
  assertClean('GitHub', JSON.stringify({ comments, statuses, reactions, pulls, requests }));
  assertClean('scontrol', [...details, ...scripts].join('\n'));
  assertClean('sacct', slurm(cluster, 'sacct', '-P', '-D', '-j', jobs.join(','), '-o', 'ALL'));
  assertClean('sacct -B', slurm(cluster, 'sacct', '-P', '-B', '-j', jobs.join(',')));

  const everywhere = ['home', 'work', 'save', 'log', 'slurmctld', 'mysql', 'run'].map((name) => join(cluster.CLUSTER_DIR, name));
  const spools = readdirSync(cluster.CLUSTER_DIR).filter((name) => name.startsWith('slurmd.'));
  const holding = filesWithSecrets([...everywhere, ...spools.map((name) => join(cluster.CLUSTER_DIR, name))]);
  assert.deepEqual(holding, [join(experiment, 'secrets.env')]);
  assert.equal(asUser(cluster, `stat -c '%a %U %F' ${experiment}/secrets.env`), `600 ${cluster.CLUSTER_USER} regular file`);
  const modes = execFileSync(
    'find',
    [lab.workdir, join(lab.save, id, '.chain'), '!', '-type', 'l', '-perm', '/077', '-printf', '%m %p\\n'],
    {
      encoding: 'utf8',
    },
  );
  assert.equal(modes.replace(`755 ${lab.workdir}\n`, ''), '', 'everything of ours is private');
});

test('secrets that a job prints are neither in the comment nor readable by others in its log', async () => {
  const lab = await newLab('printed');
  const print = Object.keys(SECRETS).map((name) => `printf '%s\\n' "$${name}"`);
  lab.commit({
    'configs/printed.yaml': regression(lab, { name: 'printed', nSteps: 60, nJobs: 1 }).replace(
      'run: python3 train.py',
      `run: ${JSON.stringify(`${print.join('\n')}\necho that was all; exit 3`)}`,
    ),
  });
  const pull = lab.openPull();
  const launch = await lab.label(pull, 'launch:printed', { inputs: { env: ENV.join('\n') } });
  const job = launch.outputs['job-ids'] ?? '';
  await endOf(cluster, [job]);
  // Without the secrets as an input: secrets.env says what to remove.
  const status = await lab.comment(pull, `/status ${launch.outputs['experiment-id']}`);
  const comments = lab.hub.comments.map(({ body }) => body).join('\n');
  assert.match(comments, /that was all/);
  for (const place of [comments, status.log, status.summary]) {
    for (const [name, value] of Object.entries(SECRETS)) assert.ok(!place.includes(value.trim()), name);
  }
  const log = join(lab.workdir, 'experiments', launch.outputs['experiment-id'] ?? '', 'logs', `1_${job}_0.out`);
  assert.ok(readFileSync(log, 'utf8').includes(SECRETS['LONG'] ?? '?'), 'the job has printed them');
  assert.equal(asUser(cluster, `stat -c %a ${log}`), '600');
});
