// What src/runtime/survey.sh sends of a log, with the secrets of earlier launches, which only the cluster knows.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { redact } from '../../src/base/redact.ts';
import { secretAssignments } from '../../src/chain/task.ts';
import { RUNTIME } from '../../src/cluster/runtime.ts';
import { parseAnswer } from '../../src/cluster/shell.ts';
import { SECRETS, spelledByPrograms } from '../support/secrets.ts';

const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-logs-'));
after(() => rmSync(directory, { recursive: true }));
const experiment = join(directory, 'experiments', 'x');
mkdirSync(join(experiment, 'logs'), { recursive: true });

/** The logs as they come over the wire, by name. */
function sent(secrets: readonly string[], logs: Readonly<Record<string, string>>, bytes = 4000): Map<string, string> {
  writeFileSync(join(experiment, 'secrets.env'), secretAssignments(new Map(secrets.map((secret, index) => [`S${index}`, secret]))));
  for (const [name, text] of Object.entries(logs)) writeFileSync(join(experiment, 'logs', name), text);
  const script = [
    "MARK='@m'",
    RUNTIME.frame,
    RUNTIME.trust,
    RUNTIME.layout,
    RUNTIME.checkpoints,
    RUNTIME.survey,
    'use_workdir "$1"; shift; tail_logs "$@"',
  ];
  const out = execFileSync('bash', ['-c', script.join('\n'), '-', directory, 'x', String(bytes), ...Object.keys(logs)], {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: 60_000,
  });
  const answers = out.split('\n').flatMap((line) => parseAnswer('@m', line) ?? []);
  return new Map(answers.filter(({ key }) => key === 'log').map(({ values: [name = '', text = ''] }) => [name, text]));
}

test('no spelling of a secret leaves the cluster', () => {
  const spelled = SECRETS.flatMap((secret) =>
    spelledByPrograms(secret)
      .filter(([how]) => how !== 'marks without width')
      .map(([how, text]) => ({ about: `${how} of ${secret}`, text })),
  );
  const shown = sent(SECRETS, Object.fromEntries(spelled.map(({ text }, index) => [String(index), `before ${text} after\n`])));
  assert.equal(shown.size, spelled.length);
  for (const [index, { about }] of spelled.entries()) {
    const text = shown.get(String(index)) ?? '';
    assert.equal(redact(text, SECRETS), text, `${about}: the runner finds nothing more`);
    assert.match(text, /^before .*\*\*\*.* after$|^\(This log is not shown: it has a secret in it/s, about);
  }
});

test('a log without secrets is sent as it is, without colours and NULs', () => {
  const log = `step 1 "it's" \\ %20\n\u001b[1;32mstep 2\u001b[0m\u0000 done\u001b]0;title\u0007\n`;
  assert.equal(sent(['correct-horse'], { a: log }).get('a'), `step 1 "it's" \\ %20\nstep 2 done`);
  assert.equal(sent([], { a: log }).get('a'), `step 1 "it's" \\ %20\nstep 2 done`);
  const long = Array.from({ length: 2000 }, (_, line) => `line ${line}`).join('\n');
  const shown = sent(['correct-horse'], { a: long }, 500).get('a') ?? '';
  assert.ok(shown.length <= 500 && shown.startsWith('line ') && shown.endsWith('line 1999'), shown);
});

test('a secret of 10 KB that begins long before the shown part', () => {
  const secret = Array.from({ length: 10_000 }, (_, index) => 'ab"c\'d e'[index % 7]).join('');
  const shown = sent([secret], { a: `before ${secret} after`, b: `${secret}\nslurmstepd: error: *** JOB 1 ON n1 CANCELLED ***` });
  assert.equal(shown.get('a'), 'before *** after');
  assert.equal(shown.get('b'), '***\nslurmstepd: error: *** JOB 1 ON n1 CANCELLED ***');
});

test('each line of a secret counts, and short ones do not', () => {
  const shown = sent(['-----BEGIN KEY-----\n  abcdef123\nxyz\n-----END KEY-----\n', 'abc'], { a: 'x abcdef123 abc xyz\n' });
  assert.equal(shown.get('a'), 'x *** abc xyz');
});
