import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { formatJobName, type JobName, launchPrefix, parseJobName } from '../../src/chain/job-name.ts';
import { RUNTIME } from '../../src/cluster/runtime.ts';

const NAMES: readonly [string, JobName][] = [
  ['smoke-1a2b3c4d5e6f.l1-0.s1', { experimentId: 'smoke-1a2b3c4d5e6f', launch: 1, nonce: '0', jobNumber: 1, cell: undefined }],
  [
    'smoke-1a2b3c4d5e6f-a2.l12-0fe9c1.s30.c0',
    { experimentId: 'smoke-1a2b3c4d5e6f-a2', launch: 12, nonce: '0fe9c1', jobNumber: 30, cell: 0 },
  ],
  // A name may look like the end of a job name itself.
  ['x.l1-0.s1.c7-1a2b3c4d5e6f.l2-a.s3.c4', { experimentId: 'x.l1-0.s1.c7-1a2b3c4d5e6f', launch: 2, nonce: 'a', jobNumber: 3, cell: 4 }],
];
const OTHERS = [
  '',
  'other',
  'x.s1',
  'x.l1.s1',
  'x.l1-0',
  'x.l0-0.s1',
  'x.l1-0.s0',
  'x.l1-0.s01',
  'x.l1-Z.s1',
  '.l1-0.s1',
  'x.l1-0.s1.c',
  'x.l1-0.s1.c01',
  'x.l1-0.s1.d2',
  '-x.l1-0.s1',
  '$(touch x).l1-0.s1',
  'a b.l1-0.s1',
  '<img>.l1-0.s1',
  `${'x'.repeat(65)}.l1-0.s1`,
  `x.l1-${'0'.repeat(33)}.s1`,
];

test('a job name says where the job belongs, both ways', () => {
  for (const [text, name] of NAMES) {
    assert.equal(formatJobName(name), text);
    assert.deepEqual(parseJobName(text), name);
    assert.ok(text.startsWith(`${launchPrefix(name.experimentId, name.launch, name.nonce)}.`));
  }
  for (const text of OTHERS) assert.equal(parseJobName(text), undefined, text);
});

test('the shell reads the same names', () => {
  const script = `${RUNTIME['job-name']}
    for name; do
      if parse_job_name "$name"; then echo "$JOB_EXPERIMENT $JOB_LAUNCH $JOB_NONCE $JOB_NUMBER \${JOB_CELL:-none}"; else echo no; fi
    done`;
  const texts = [...NAMES.map(([text]) => text), ...OTHERS];
  const lines = execFileSync('bash', ['-c', script, 'bash', ...texts], { encoding: 'utf8' })
    .trim()
    .split('\n');
  const expected = texts.map((text) => {
    const name = parseJobName(text);
    return name ? `${name.experimentId} ${name.launch} ${name.nonce} ${name.jobNumber} ${name.cell ?? 'none'}` : 'no';
  });
  assert.deepEqual(lines, expected);
});
