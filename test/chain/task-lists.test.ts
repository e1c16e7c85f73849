// More forms of what squeue and sacct print. test/chain/slurm-rows.test.ts has the usual ones.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ACCOUNTING_FORMAT, parseAccountingRow, parseQueueRow, parseTaskList, QUEUE_FORMAT } from '../../src/chain/slurm-rows.ts';

test('lists of tasks, and text that only looks like one', () => {
  for (const [text, cells] of [
    ['12', [12]],
    ['10-12%12', [10, 11, 12]],
    ['8-30:10', [8, 18, 28]],
    ['0-24:12', [0, 12, 24]],
    ['1, 5-6', [1, 5, 6]],
    ['1,x,3', [1, 3]],
    ['x1', []],
    ['1x', []],
    ['1-2-3', []],
    ['5%2,7', [7]],
    ['0-4:0', []],
  ] as const) {
    assert.deepEqual(parseTaskList(text), cells, text);
  }
});

test('times that Slurm does not know', () => {
  const start = (text: string) => parseQueueRow(`4711|2|PENDING|Priority|${text}||x`)?.start;
  assert.equal(start('1800000000'), 1_800_000_000);
  for (const text of ['', 'N/A', 'Unknown', '0', '2027-01-15T08:00:00', '18x', 'x18']) assert.equal(start(text), undefined, text);
});

test('users that the cluster has no name for', () => {
  const row = (state: string) => parseAccountingRow(`4711_2|t|${state}|0:15|||n1`, new Map([['1001', '']]));
  assert.deepEqual([row('CANCELLED by 1001')?.by, row('CANCELLED by 1001')?.state], ['user 1001', 'CANCELLED']);
  for (const odd of ['CANCELLED by 1001 x', 'x CANCELLED by 1001', 'CANCELLED by x']) assert.equal(row(odd)?.by, undefined, odd);
});

test('a row that ends early is no row', () => {
  const QUEUE = ['4711', '2', 'RUNNING', 'None', '0', 'n1', 'name'];
  const SACCT = ['4711_2', 'name', 'FAILED', '1:0', '', '', 'n1'];
  assert.ok(parseQueueRow(QUEUE.join('|')));
  assert.ok(parseAccountingRow(SACCT.join('|'), new Map()));
  for (const fields of [1, 2, 3, 4, 5, 6]) {
    assert.equal(parseQueueRow(QUEUE.slice(0, fields).join('|')), undefined);
    assert.equal(parseAccountingRow(SACCT.slice(0, fields).join('|'), new Map()), undefined);
  }
});

test('squeue and sacct are asked for the fields that are read', () => {
  const queue = ['%F', '%K', '%T', '%r', '%S', '%N', '%j']; // array, task, state, reason, start, nodes, name
  assert.equal(QUEUE_FORMAT, queue.join('|'));
  assert.equal(ACCOUNTING_FORMAT, ['JobID', 'JobName', 'State', 'ExitCode', 'Start', 'End', 'NodeList'].join(','));
});
