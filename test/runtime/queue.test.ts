// Functions of queue.sh that need no cluster.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { RUNTIME } from '../../src/cluster/runtime.ts';

/** Runs shell lines behind queue.sh. @returns their stdout */
function run(lines: string, ...rows: string[]): string {
  const script = `${RUNTIME['job-name']}\n${RUNTIME.queue}\n${lines}`;
  const { status, stdout, stderr } = spawnSync('bash', ['-c', script, 'bash', ...rows], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  return stdout.trim();
}

const row = (job: number, task: string, state: string) => `${job}|${job}_${task}|${state}|None|(null)|exp.l1-abcdef.s1`;

test('a job is completing if every row of it is', () => {
  const rows = [
    row(11, '0', 'COMPLETING'),
    row(11, '1', 'COMPLETING'),
    row(12, '0', 'COMPLETING'),
    row(12, '1', 'RUNNING'),
    row(13, '[1-3]', 'PENDING'),
    row(13, '0', 'COMPLETING'),
    row(111, '0', 'PENDING'),
  ].join('\n');
  assert.equal(run('completing_jobs "$1"', rows), '11');
  assert.equal(run('completing_jobs ""'), '');
});

test('a queue is settled at once when no job is completing, and a job that stays completing is kept', () => {
  const settle = (patience: number, rows: string) =>
    run(
      `COMPLETING_PATIENCE=${patience}; PAUSES=0; sleep() { PAUSES=$((PAUSES + 1)) SECONDS=$((SECONDS + 1)); }
       queue_of() { printf '%s\\n' '${rows}'; }; settled_queue_of exp; printf '%s' "$PAUSES $ROWS"`,
    );
  assert.equal(settle(45, row(12, '0', 'RUNNING')), `0 ${row(12, '0', 'RUNNING')}`);
  assert.equal(settle(0, row(11, '0', 'COMPLETING')), `0 ${row(11, '0', 'COMPLETING')}`);
  assert.match(settle(45, row(11, '0', 'COMPLETING')), /^[1-9]\d* 11\|11_0\|COMPLETING/);
});

test('a squeue that does not answer while the queue settles is no empty queue', () => {
  assert.equal(run('queue_of() { return 1; }; settled_queue_of exp || echo failed'), 'failed');
});
