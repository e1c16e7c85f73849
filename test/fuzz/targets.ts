// What script/fuzz feeds with random input. A target must come to an end, and may throw nothing but what its contract allows.
import fc from 'fast-check';
import { askedOf, commandOfComment } from '../../src/action/comment-command.ts';
import { accountFor } from '../../src/audit/attribution.ts';
import { contains, parseRanges } from '../../src/audit/ranges.ts';
import { Problem } from '../../src/base/problem.ts';
import { redact } from '../../src/base/redact.ts';
import { formatJobName, parseJobName } from '../../src/chain/job-name.ts';
import { parseJournalLine } from '../../src/chain/journal.ts';
import { nextLaunch, parseLedger, releasedJobs } from '../../src/chain/ledger.ts';
import { parseManifest, parseSummary } from '../../src/chain/manifest.ts';
import { parseAccountingRow, parseQueueRow, parseTaskList } from '../../src/chain/slurm-rows.ts';
import { decodeAnswer } from '../../src/cluster/answers.ts';
import { checkHostKey, knownKeyTypes, parseKnownHosts } from '../../src/cluster/known-hosts.ts';
import { SURVEY } from '../../src/cluster/programs/survey.ts';
import { parseAnswer } from '../../src/cluster/shell.ts';
import { stationsOf } from '../../src/cluster/ssh-config.ts';
import { algorithmList } from '../../src/cluster/transport/ssh2.ts';
import { parseSource } from '../../src/experiment/document.ts';
import { experimentFrom } from '../../src/experiment/experiment.ts';
import { globOf } from '../../src/experiment/glob.ts';
import { applyOverrides, parseOverrides } from '../../src/experiment/overrides.ts';
import { type Cluster, parseRepoConfig } from '../../src/experiment/repo-config.ts';
import { HOSTILE } from '../support/hostile.ts';

export interface Target {
  readonly name: string;
  readonly input: fc.Arbitrary<string>;
  /** @throws Problem where the contract allows one; anything else is a fault */
  run(input: string): void;
}

const CLUSTER: Cluster = {
  name: 'e',
  transport: 'ssh2',
  login: { host: 'h', port: 22, user: 'carol' },
  jumps: [],
  knownHosts: '',
  workdir: '/w',
  prelude: '',
};

/** Text of pieces of a language, broken up by hostile and random text. */
function piecesOf(...pieces: readonly string[]): fc.Arbitrary<string> {
  const piece = fc.oneof(
    { weight: 12, arbitrary: fc.constantFrom(...pieces) },
    { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 8 }) },
    { weight: 1, arbitrary: fc.constantFrom(...HOSTILE.map(([, text]) => text.slice(0, 200))) },
    { weight: 1, arbitrary: fc.nat().map(String) },
  );
  return fc.oneof(
    { weight: 9, arbitrary: fc.array(piece, { maxLength: 25 }).map((all) => all.join('')) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 100 }) },
  );
}

/** A valid text with a few pieces of it replaced, removed or doubled. */
function changed(...valid: readonly string[]): fc.Arbitrary<string> {
  const change = fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    length: fc.nat({ max: 20 }),
    by: piecesOf('"', '{', '}', '[', ']', ':', ',', '-', '0', 'null'),
  });
  return fc.tuple(fc.constantFrom(...valid), fc.array(change, { maxLength: 4 })).map(([text, changes]) =>
    changes.reduce((one, { at, length, by }) => {
      const from = Math.floor(at * one.length);
      return one.slice(0, from) + by + one.slice(from + length);
    }, text),
  );
}

const COMMIT = '1a2b3c4d5e6f'.padEnd(40, 'a');
const ID = 'smoke-1a2b3c4d5e6f';
const BASE = 'run: x\nsave: {path: /ckpt}\n';
const CONFIG = parseRepoConfig('');

const IDENTITY = {
  ...{ id: ID, name: 'smoke', commit: COMMIT, path: 'configs/smoke.yaml', attempt: 1, overrides: ['lr=1'], subject: 'Try', chain: [] },
  ...{ repository: 'lab/nano', pullRequests: [7], cluster: 'entropy', save: `/ckpt/${ID}` },
  checkpoints: { prefix: 'step_', complete: '', offset: 1 },
};
const SUMMARY = JSON.stringify({ ...IDENTITY, codeName: COMMIT });
const MANIFEST = JSON.stringify({
  ...{ ...IDENTITY, version: 1, workdir: '/w', slurm: [['gres', 'gpu:1']], wandb: null },
  code: { name: COMMIT, digest: 'd'.repeat(64), submodules: [], lfsPointers: [] },
  cells: [{ cell: 0, choices: { lr: '1' }, nSteps: 500 }],
  launches: [
    {
      ...{
        launch: 1,
        command: 'launch',
        steps: [1],
        overrides: [],
        slurm: 'slurm 22.05.8',
        sbatchVariables: [],
        jobScript: '',
        sbatch: [['--hold']],
      },
      ...{ actor: 'alice', runUrl: '', repository: 'lab/nano', at: '2026-12-01T10:02:03Z' },
    },
  ],
});
const TAG = formatJobName({ experimentId: ID, launch: 1, nonce: '0fe9c1', jobNumber: 1, cell: undefined });
const LEDGER = [
  `{"event":"submitted","launch":1,"step":1,"cell":null,"job":"4711","cluster":"","after":"4710","tag":"${TAG}","time":"2026-12-01T10:00:00Z"}`,
  '{"event":"cancelled","launch":0,"job":"4711_3","time":"2026-12-01T10:00:00Z","by":"alice https://x"}',
  '{"event":"releasing","launch":1,"job":"4711","time":"2026-12-01T10:00:00Z"}',
];
const JOURNAL = [
  '{"event":"start","launch":1,"step":1,"cell":0,"job":"1","task":"2","restart":0,"host":"n1","time":"2026-12-01T10:00:00Z","resume_step":-1,"sum":"0123456789abcdef"}',
  '{"event":"end","launch":1,"step":1,"cell":0,"job":"1","task":"2","restart":0,"host":"n1","time":"2026-12-01T11:00:00Z","found":"20-480/20","saved":"20-480/20,499","newest_step":499,"seconds":3600,"exit":0,"signal":null,"new_checkpoint":true,"complete":false,"sum":"0123456789abcdef"}',
];
const KEY = Buffer.concat([Buffer.from([0, 0, 0, 11]), Buffer.from('ssh-ed25519'), Buffer.from([0, 0, 0, 32]), Buffer.alloc(32, 7)]);

export const TARGETS: readonly Target[] = [
  {
    name: 'yaml',
    input: piecesOf(
      ...'a:|b: |^c: |run: |save: |path|slurm: |n_steps: |env: |- |  |\n|\n  |[|]|{|}|, |&a |*a|<<: |"|\'|# |>\n|!!str |---\n|1e-10|~|? '.split(
        '|',
      ),
      '|',
    ),
    run: (text) => {
      const { cells } = experimentFrom(parseSource('x.yaml', BASE + text), COMMIT, CONFIG, []);
      cells[0]?.config();
    },
  },
  {
    name: 'slurm-chain.yml',
    input: piecesOf(
      ...'clusters: |a: |host: |user: |port: |22|known_hosts: |workdir: |experiments: |defaults: |\n|\n  |\n    |[|]|{|}|, |&a |*a|<<: |"|/x'.split(
        '|',
      ),
    ),
    run: (text) => void parseRepoConfig(text),
  },
  {
    name: 'overrides',
    input: piecesOf(...'a=|a.b=|+|^|chain.n_jobs=|.0|[|]|{|}|,| |"|\'|=|*x|\n|1e-3|m'.split('|')),
    run: (text) => {
      const source = parseSource('x.yaml', `${BASE}a: {b: 1, c: [1, {d: 2}]}\nm: &x {k: 1}\n`);
      applyOverrides(source, parseOverrides(text));
      experimentFrom(source, COMMIT, CONFIG, parseOverrides(text));
    },
  },
  {
    name: 'globs',
    input: piecesOf(...'*|**|?|/|[|]|{|}|,|a|!|-|\\|.|configs|.yaml'.split('|')),
    run: (text) => void globOf(text)('configs/a/b.yaml'),
  },
  {
    name: 'known_hosts',
    input: piecesOf(
      ...`host|[host]:22|,|*|?|!| |\n|ssh-ed25519|ssh-rsa|${KEY.toString('base64')}|@revoked|@cert-authority|#|AAAA`.split('|'),
      '|1|',
      '|1|c2FsdA==|aGFzaA=',
    ),
    run: (text) => {
      const known = parseKnownHosts(text, 'known_hosts');
      knownKeyTypes(known, 'host', 22);
      checkHostKey(known, 'host', 22, KEY);
    },
  },
  {
    name: 'ssh config',
    input: piecesOf(
      ...'Host|Match|exec|all|HostName|ProxyJump|ProxyCommand|Port|User|Include|Ciphers|h|g|h,g|*|?|!h|%h|%%|%|=| |\t|"|#|22|99999|none'.split(
        '|',
      ),
      '\n',
      '\nHost h\n  ',
      '\nProxyJump h\n',
    ),
    run: (text) => {
      for (const station of stationsOf(CLUSTER, text))
        for (const list of station.algorithms.values()) algorithmList(list, ['aes128-ctr'], ['aes128-ctr']);
    },
  },
  {
    name: 'replies',
    input: piecesOf('@m ', '@m journal', '\t', 'cell', 'queue', 'manifest', '%0A', '%09', '%25', '%', ' ', 'x', '\r', '__proto__', 'end'),
    run: (text) => {
      const answer = parseAnswer('@m', text);
      if (answer === undefined) return;
      try {
        decodeAnswer(SURVEY.answers, answer);
      } catch (error) {
        // runProgram makes a Problem of it, which says that the outcome is unknown.
        if (!/^(unknown answer|the answer) '/.test((error as Error).message)) throw error;
      }
    },
  },
  { name: 'manifests', input: changed(MANIFEST), run: (text) => void parseManifest(text, 'x') },
  { name: 'summaries', input: changed(SUMMARY, MANIFEST), run: (text) => void parseSummary(text, 'x') },
  {
    name: 'ledgers',
    input: fc.array(changed(...LEDGER), { maxLength: 5 }).map((lines) => lines.join('\n')),
    run: (text) => {
      const ledger = parseLedger(text.split('\n'));
      releasedJobs(ledger);
      nextLaunch(ledger);
    },
  },
  {
    name: 'journals',
    input: fc.array(changed(...JOURNAL), { maxLength: 5 }).map((lines) => lines.join('\n')),
    run: (text) => {
      const journal = text.split('\n');
      for (const line of journal) parseJournalLine(line);
      const checkpoint = { name: 'step_20', number: 20, complete: true, modified: 1_800_000_000, touched: 1_800_000_000 };
      accountFor({ cell: 0, journal, cut: false, releasedChecksum: undefined, checkpoints: [checkpoint] });
    },
  },
  { name: 'squeue rows', input: changed(`4711|0-3%2,7|PENDING|Dependency|N/A|n[1-2]|${TAG}`), run: (text) => void parseQueueRow(text) },
  {
    name: 'sacct rows',
    input: changed(`4711_[0-3]|${TAG}|CANCELLED by 1001|0:15|1800000000|Unknown|n1`),
    run: (text) => void parseAccountingRow(text, new Map([['1001', 'alice']])),
  },
  { name: 'task lists', input: piecesOf(...'0|-|,|:|%|3999999|1|9999999| '.split('|')), run: (text) => void parseTaskList(text) },
  {
    name: 'comments',
    input: piecesOf(
      ...'/|/launch |/plan |/status |/extend |/cancel |/audit |/restart |smoke| |n_jobs=|cell=|job=|4|#7|\n|@|a.b=|"|['.split('|'),
    ),
    run: (text) => {
      commandOfComment(text);
      askedOf('extend', text);
    },
  },
  {
    name: 'job names',
    input: changed(TAG, `${TAG}.c3`),
    run: (text) => {
      const name = parseJobName(text);
      if (name !== undefined && formatJobName(name) !== text) throw new Error(`${text} is read as ${formatJobName(name)}`);
    },
  },
  {
    name: 'ranges',
    input: piecesOf(...'0|-|,|/|20|480|999999999999999999'.split('|')),
    run: (text) => void contains(parseRanges(text) ?? [], 20),
  },
  {
    name: 'redaction',
    input: piecesOf(...`correct-horse|correct|horse|\\|'|"|\n|\u001b[31m|%27|Y29ycmVjdC1ob3JzZQ==`.split('|')),
    run: (text) => {
      const shown = redact(text, ['correct-horse', "it's"]);
      if (shown.includes('correct-horse')) throw new Error(`the secret is in ${shown}`);
    },
  },
];

/** An input may take this long. A busy machine and a first call take a part of it. */
const MOST_MILLISECONDS = 5000;

/** Runs an input. @throws Error that says what is wrong */
export function check({ name, run }: Target, input: string): void {
  const started = performance.now();
  try {
    run(input);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.message.trim() === '') throw new Error(`${name}: a Problem without a message`);
  }
  const milliseconds = performance.now() - started;
  if (milliseconds > MOST_MILLISECONDS) throw new Error(`${name}: it took ${milliseconds} ms`);
}

/** Feeds a target. @throws Error with the smallest input that fails, and with the seed */
export function fuzz(target: Target, count: number, seed: number): void {
  fc.assert(
    fc.property(target.input, (input) => check(target, input)),
    { numRuns: count, seed },
  );
}
