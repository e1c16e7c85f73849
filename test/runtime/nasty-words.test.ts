// Nothing from outside becomes shell: every function that the action calls gets words that a careless bash would run, in every
// place, and so do the files and the Slurm commands that the functions read. test/static/shell-words.test.ts reads the code for the
// same mistakes.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { AUDIT } from '../../src/audit/program.ts';
import { quote } from '../../src/base/shell-quote.ts';
import { CANCEL } from '../../src/cluster/programs/cancel.ts';
import { PROBE } from '../../src/cluster/programs/probe.ts';
import { JOB_SCRIPT, STAGE } from '../../src/cluster/programs/stage.ts';
import { SUBMIT } from '../../src/cluster/programs/submit.ts';
import { SURVEY } from '../../src/cluster/programs/survey.ts';
import { RUNTIME } from '../../src/cluster/runtime.ts';

const root = mkdtempSync(join(tmpdir(), 'slurm-chain-nasty-'));
after(() => rmSync(root, { recursive: true, force: true }));
/** Whatever runs a word makes this file. */
const canary = join(root, 'canary');

// The words make the file by its name in $CANARY, because a slash in the word would end a name.
const WORDS = [
  '$a[$(touch${IFS}$CANARY)]',
  'a[$(touch${IFS}$CANARY)]',
  `-n $(touch $CANARY) \`touch $CANARY\`\n; touch $CANARY; ' "; touch $CANARY " * [!a] \\`,
];

interface Sandbox {
  readonly directory: string;
  readonly environment: Record<string, string>;
}

/** A home with an experiment whose records are made of a nasty word, and Slurm commands that print it. */
function sandbox(name: string, word: string): Sandbox {
  rmSync(canary, { force: true }); // of a test that failed
  const directory = join(root, name);
  const bin = join(directory, 'bin');
  const experiment = join(directory, 'work/experiments/exp');
  const records = join(directory, 'save/exp/.chain');
  for (const path of [bin, join(experiment, 'logs'), join(directory, 'work/code/c'), records]) mkdirSync(path, { recursive: true });
  const file = word.replaceAll('/', '_');
  for (const path of [`${experiment}/logs/${file}`, `${experiment}/logs/1_2_0.out`, `${records}/0${file}.jsonl`])
    writeFileSync(path, `${word}\n`);
  for (const path of [`${directory}/save/exp/0/step_1${file}`, `${directory}/save/exp/0/step_10`, `${directory}/save/exp/${file}`])
    mkdirSync(path, { recursive: true });
  // A lock that looks stale, and one whose number is the word.
  for (const lock of [`${experiment}/launch.lock.1`, `${records}/0.lock.1`, `${records}/0.lock.1${file}`]) {
    mkdirSync(lock);
    writeFileSync(join(lock, 'holder'), `${word} ${word} ${word}\n`);
    writeFileSync(join(lock, 'released'), word);
  }
  const text = JSON.stringify(word).slice(1, -1);
  writeFileSync(`${experiment}/ledger.jsonl`, `{"event":"submitted","launch":${text},"job":"${text}"}\n`);
  writeFileSync(`${records}/0.jsonl`, `{"event":"start","launch":1,"resume_step":${text},"task":"1"}\n{"event":"end","task":"${text}"}\n`);
  for (const place of [`${experiment}/manifest.json`, `${records}/manifest.json`, `${experiment}/summary.json`])
    writeFileSync(place, `{"id":"exp","commit":"${text}"}\n`);
  writeFileSync(`${experiment}/secrets.env`, `TOKEN=${quote(word)}\n`);
  writeFileSync(
    `${experiment}/task.env`,
    `SAVE_PATH=${quote(`${directory}/save`)}\nSAVE_PREFIX='step_'\nSAVE_OFFSET=1\nSAVE_COMPLETE=${quote(word)}\nN_STEPS=('100')\n`,
  );
  writeFileSync(`${experiment}/run.sh`, 'true\n');
  const rows = [word, word, word, word, word, `exp.l1-ab.s1.c${word}`].join('|');
  for (const command of ['squeue', 'sbatch', 'scontrol', 'sacct', 'sacctmgr', 'scancel']) {
    writeFileSync(join(bin, command), `#!/bin/bash\nprintf '%s\\n' ${quote(rows)} ${quote(`UserName=${word} DefAccount=${word} `)}\n`);
    chmodSync(join(bin, command), 0o755);
  }
  return {
    directory,
    environment: {
      PATH: `${bin}:/usr/bin:/bin`,
      HOME: directory,
      CANARY: canary,
      ...{ CHAIN_LOOK_PAUSES: '0', CHAIN_RETRY_PAUSES: '0', CHAIN_CANCEL_PAUSES: '0', CHAIN_PAUSES: '0' },
    },
  };
}

interface Calls {
  readonly parts: readonly (keyof typeof RUNTIME)[];
  /** Good arguments; a word takes the place of each in turn. Functions before the last one prepare it. */
  readonly calls: (directory: string) => readonly (readonly string[][])[];
}

const PROGRAMS: Readonly<Record<string, Calls>> = {
  probe: {
    parts: PROBE.parts,
    calls: (d) => [[['probe', `${d}/work`, `${d}/save`, 'c', 'exp', '--time=1']], [['expand_path', 'workdir', '$HOME/x']]],
  },
  stage: {
    parts: STAGE.parts,
    calls: (d) => [
      [['stage_code', `${d}/work`, 'c', 'digest', 'nonce', 'false']],
      [['stage_experiment', `${d}/work`, 'c', 'digest', 'exp', 'digest', 'nonce', `${d}/save`]],
    ],
  },
  submit: {
    parts: SUBMIT.parts,
    calls: (d) => {
      const begin = ['submit_begin', `${d}/work`, 'exp', `${d}/save/exp`, '1', 'exp.l1-ab', '1', 'somebody', 'extend', 'cancel'];
      return [
        [begin],
        [begin, ['submit_files', 'true', 'A=1']],
        [begin, ['submit_job', '1', '0', '0', 'exp.l1-ab.s1', 'A=1', '--', '--dependency=afterany:@']],
        [begin, ['submit_job', '1', '0', 'tail', 'exp.l1-ab.s1', '--', '--time=1']],
        [begin, ['submit_end', '{}', '{}', '0']],
      ];
    },
  },
  cancel: { parts: CANCEL.parts, calls: (d) => [[['cancel_jobs', `${d}/work`, 'exp', 'somebody', '"somebody"', '1', '0']]] },
  survey: {
    parts: SURVEY.parts,
    calls: (d) => {
      const use = ['use_workdir', `${d}/work`];
      return [
        [use],
        [['list_experiments', `${d}/work`, '10', '%i']],
        [['list_saved', `${d}/save`]],
        [use, ['look_at', 'exp', `${d}/save/exp`, 'SAVE_PREFIX=step_', 'SAVE_COMPLETE=']],
        [use, ['tail_logs', 'exp', '100', '1_2_0.out']],
        [use, ['look_at', 'exp', `${d}/save/exp`], ['ask_accounting', 'JobID']],
      ];
    },
  },
  audit: {
    parts: AUDIT.parts,
    calls: (d) => [[['audit_begin'], ['audit_experiment', '0', `${d}/work/experiments/exp`, `${d}/save/exp`, 'c', ''], ['audit_end']]],
  },
};

/** The arguments of the last call that has any, with the word in place of each in turn. */
function variants(calls: readonly (readonly string[])[], word: string): string[] {
  const last = calls.findLastIndex((one) => one.length > 1);
  const [name = '', ...args] = calls[last] ?? [];
  return [undefined, ...args.keys()].map((place) =>
    calls
      .map((one, index) => (index === last ? [name, ...args.map((arg, at) => (at === place ? word : arg))] : one))
      .map(([name = '', ...args]) => [name, ...args.map(quote)].join(' '))
      .join('; '),
  );
}

for (const [name, { parts, calls }] of Object.entries(PROGRAMS)) {
  for (const [index, word] of WORDS.entries()) {
    test(`${name}: no function runs ${JSON.stringify(word)}`, async () => {
      const { directory, environment } = sandbox(`${name}-${index}`, word);
      const all = calls(directory).flatMap((one) => variants(one, word));
      const program = [
        ...['MARK=mark', RUNTIME.trust, RUNTIME.frame, ...parts.map((part) => RUNTIME[part])],
        'LOCK_PATIENCE=0',
        ...all.map((one) => `( ${one} ) 3</dev/null; answer ran`),
      ].join('\n');
      const child = spawn('bash', ['-c', program], { env: environment, cwd: directory, stdio: ['ignore', 'pipe', 'ignore'] });
      let said = '';
      child.stdout.on('data', (chunk) => {
        said += chunk;
      });
      await new Promise((settle) => child.on('close', settle));
      assert.equal(said.match(/^mark ran$/gm)?.length, all.length, 'every call came back');
      assert.ok(!existsSync(canary), said);
      assert.deepEqual(
        readdirSync(root).filter((entry) => !/^[a-z]+-\d$/.test(entry)),
        [],
      );
    });
  }
}

for (const [index, word] of WORDS.entries()) {
  test(`job.sh runs no ${JSON.stringify(word)}, in its variables or in the records that it reads`, () => {
    const { directory, environment } = sandbox(`job-${index}`, word);
    writeFileSync(join(directory, 'job.sh'), JOB_SCRIPT);
    const good = {
      ...environment,
      ...{ EXPERIMENT_ID: 'exp', EXPERIMENT_DIR: join(directory, 'work/experiments/exp'), CHAIN_STEP: '2', CHAIN_LENGTH: '9' },
      ...{ CHAIN_LAUNCH: '1', CHAIN_STOP_AFTER: '2', CHAIN_CANCEL_WHEN_DONE: 'true', CHAIN_UMASK: '022', CHAIN_SHARE: '' },
      ...{ SLURM_ARRAY_TASK_ID: '0', SLURM_JOB_ID: '7', SLURM_ARRAY_JOB_ID: '7', SLURM_RESTART_COUNT: '1', SLURM_CLUSTER_NAME: 'x' },
    };
    for (const variable of ['', 'UNRELATED', ...Object.keys(good).filter((name) => !['PATH', 'CANARY', 'CHAIN_PAUSES'].includes(name))]) {
      spawnSync('bash', [join(directory, 'job.sh')], { env: variable === '' ? good : { ...good, [variable]: word }, cwd: directory });
      assert.ok(!existsSync(canary), variable);
    }
  });
}
