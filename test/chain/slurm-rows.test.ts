import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isJobId, parseAccountingRow, parseQueueRow, parseTaskList } from '../../src/chain/slurm-rows.ts';

test('task lists as squeue and sacct write them', () => {
  assert.deepEqual(parseTaskList('3'), [3]);
  assert.deepEqual(parseTaskList('0-3%2'), [0, 1, 2, 3]);
  assert.deepEqual(parseTaskList('1,5-6,9'), [1, 5, 6, 9]);
  assert.deepEqual(parseTaskList('0-6:3'), [0, 3, 6]);
  assert.deepEqual(parseTaskList(''), []);
  assert.deepEqual(parseTaskList('4294967294'), [], 'NO_VAL, which Slurm prints for a job that is not an array');
  assert.deepEqual(parseTaskList('N/A'), []);
  assert.deepEqual(parseTaskList('5-3'), []);
});

test('a row of squeue', () => {
  assert.deepEqual(parseQueueRow('4711|0-3%2|PENDING|Dependency|N/A||smoke-1a2b3c4d5e6f.l1-0.s2'), {
    ...{ jobId: '4711', cells: [0, 1, 2, 3], state: 'PENDING', reason: 'Dependency', start: undefined, node: '' },
    name: 'smoke-1a2b3c4d5e6f.l1-0.s2',
  });
  assert.equal(parseQueueRow('4711|2|RUNNING|None|1800000000|n1|x')?.start, 1_800_000_000);
  for (const bad of ['', '4711', 'x|2|RUNNING|None|0|n1|name', '4711|2|RUNNING|None|0|n1|name|more', '0|2|RUNNING|None|0|n1|name']) {
    assert.equal(parseQueueRow(bad), undefined, bad);
  }
});

test('a row of sacct', () => {
  const users = new Map([['1001', 'alice']]);
  const row = parseAccountingRow('4711_2|t|CANCELLED by 1001|0:15|1800000000|1800000100|n1', users);
  assert.deepEqual(row, {
    ...{ jobId: '4711', cells: [2], name: 't', state: 'CANCELLED', by: 'alice', exit: '0:15' },
    ...{ start: 1_800_000_000, end: 1_800_000_100, node: 'n1' },
  });
  assert.equal(parseAccountingRow('4711_2|t|CANCELLED by 7|0:15|||n1', users)?.by, 'user 7');
  assert.deepEqual(parseAccountingRow('4711_[0-2]|t|PENDING|0:0|Unknown|Unknown|', users)?.cells, [0, 1, 2]);
  assert.equal(parseAccountingRow('4711_2|t|COMPLETED|0:0|||n1', users)?.by, undefined);
  for (const bad of ['', 'x_1|t|FAILED|1:0|||n1', '4711_1|t|FAILED|1:0|||n1|more', '4711_1|t|FAILED']) {
    assert.equal(parseAccountingRow(bad, users), undefined, bad);
  }
});

test('what may be a job id', () => {
  assert.ok(isJobId('1') && isJobId('67108863') && isJobId('999999999999999'));
  for (const bad of ['', '0', '012', '-1', '1 2', '1e3', '9999999999999999', '4711_1']) assert.ok(!isJobId(bad), bad);
});

test('a row that Slurm does not print is no row, and no row has more cells than a grid', () => {
  const row = (more: { state?: string; exit?: string; cells?: string; node?: string }) => {
    const { state = 'RUNNING', exit = '0:0', cells = '2', node = 'n1' } = more;
    return [
      parseQueueRow(`4711|${cells}|${state}|None|0|${node}|t`),
      parseAccountingRow(`4711_${cells}|t|${state}|${exit}|||${node}`, new Map()),
    ];
  };
  assert.ok(row({}).every((one) => one !== undefined));
  for (const state of ['', 'running', '<b>', 'RUNNING; rm', 'X'.repeat(60), '5'])
    assert.deepEqual(row({ state }), [undefined, undefined], state);
  assert.deepEqual(row({ node: 'n'.repeat(30_000) }), [undefined, undefined]);
  for (const exit of ['x', '1', '1:x', '-1:0', '1:0:0']) assert.equal(row({ exit })[1], undefined, exit);
  for (const cells of ['0-3999999', '0-3999999,'.repeat(10_000), '0-9999999:1,'.repeat(10_000), '1,'.repeat(500_000), '9999999-9999999']) {
    assert.ok(parseTaskList(cells).length <= 100_000, cells.slice(0, 20));
  }
  assert.deepEqual(parseTaskList('99998-100005'), [99_998, 99_999], 'no grid has more cells');
});
