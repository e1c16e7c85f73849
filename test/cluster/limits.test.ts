import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exceeded, type LimitRow, limitName, submitLimits } from '../../src/cluster/limits.ts';

const rows = (...all: readonly string[]): LimitRow[] =>
  all.map((row) => ({ kind: row.split('|')[0] ?? '', values: row.split('|').slice(1) }));
const NOTHING = { account: undefined, partition: undefined, qos: undefined };
const found = (all: LimitRow[], asked: Parameters<typeof submitLimits>[1] = NOTHING) =>
  submitLimits(all, asked).map((limit) => `${limitName(limit)}: ${limit.used} of ${limit.most}`);

test('the limits of the default account, and of the accounts above it', () => {
  const all = rows(
    'user|lab',
    'association|lab|alice||root|N|50(3)',
    'association|lab|||root(1)|200(120)|N',
    'association|root||||1000(5)|N',
  );
  assert.deepEqual(found(all), [
    'MaxSubmitJobs in account lab: 3 of 50',
    'GrpSubmitJobs of account lab: 120 of 200',
    'GrpSubmitJobs of account root: 5 of 1000',
  ]);
  assert.deepEqual(found(all, { ...NOTHING, account: 'other' }), []);
});

test('the association for the partition comes before the one for all, and the default partition counts', () => {
  const all = rows(
    'user|lab',
    'association|lab|alice||root|N|50(3)',
    'association|lab|alice|h100|root|9(1)|7(2)',
    'partition|cpu|NO|N/A',
    'partition|h100|YES|N/A',
  );
  assert.deepEqual(found(all), ['MaxSubmitJobs in account lab: 2 of 7', 'GrpSubmitJobs of the user in account lab: 1 of 9']);
  assert.deepEqual(found(all, { ...NOTHING, partition: 'cpu' }), ['MaxSubmitJobs in account lab: 3 of 50']);
});

test('a limit of the QOS replaces the same limit of the association', () => {
  const all = rows('user|lab', 'association|lab|alice||root|9(1)|50(3)', 'qos|normal|N|20(4)', 'default-qos|lab|normal');
  assert.deepEqual(found(all), ['GrpSubmitJobs of the user in account lab: 1 of 9', 'MaxSubmitJobsPerUser of QOS normal: 4 of 20']);
  const group = rows('user|lab', 'association|lab|alice||root|9(1)|50(3)', 'qos|big|30(2)|', 'default-qos|lab|normal');
  assert.deepEqual(found(group, { ...NOTHING, qos: 'big' }), [
    'MaxSubmitJobs in account lab: 3 of 50',
    'GrpSubmitJobs of QOS big: 2 of 30',
  ]);
});

test('of a user without jobs only sacctmgr knows the limit, and the QOS of the partition counts as well', () => {
  const all = rows('user|lab', 'qos|normal|N|', 'qos-limit|normal|12', 'qos|part|N|8(1)', 'partition|h100|YES|part');
  assert.deepEqual(found(all), ['MaxSubmitJobsPerUser of QOS normal: 0 of 12', 'MaxSubmitJobsPerUser of QOS part: 1 of 8']);
});

test('what cannot be read is no limit, and accounts in a circle end', () => {
  assert.deepEqual(found(rows('user|a', 'association|a|alice||b|N|many', 'association|a|||b|N|N', 'association|b|||a|x|N')), []);
  assert.deepEqual(found([]), []);
});

test('the tightest limit comes first', () => {
  const all = submitLimits(rows('user|lab', 'association|lab|alice||root|N|50(3)', 'association|lab|||root(1)|200(190)|N'), NOTHING);
  assert.deepEqual(exceeded(all, 10), []);
  assert.deepEqual(exceeded(all, 11).map(limitName), ['GrpSubmitJobs of account lab']);
  assert.deepEqual(exceeded(all, 48).map(limitName), ['GrpSubmitJobs of account lab', 'MaxSubmitJobs in account lab']);
});

test('the default QOS is the one of the account, and each QOS has its own limits', () => {
  const all = rows('user|lab', 'default-qos|other|big', 'default-qos|lab|small', 'qos|big|N|9(1)', 'qos|small|N|5(2)', 'qos|normal|N|1(0)');
  assert.deepEqual(found(all), ['MaxSubmitJobsPerUser of QOS small: 2 of 5']);
  assert.deepEqual(found(all, { ...NOTHING, account: 'other' }), ['MaxSubmitJobsPerUser of QOS big: 1 of 9']);
  assert.deepEqual(found(all, { ...NOTHING, account: 'third' }), ['MaxSubmitJobsPerUser of QOS normal: 0 of 1'], 'Slurm calls it normal');
  const partitions = rows(
    'user|lab',
    'partition|cpu|NO|p1',
    'partition|h100|YES|p2',
    'qos|p1|3(0)|',
    'qos|p2|4(0)|',
    'qos-limit|x|7',
    'qos-limit|p2|6',
  );
  assert.deepEqual(found(partitions, { ...NOTHING, partition: 'cpu' }), ['GrpSubmitJobs of QOS p1: 0 of 3']);
  assert.deepEqual(found(partitions), ['GrpSubmitJobs of QOS p2: 0 of 4', 'MaxSubmitJobsPerUser of QOS p2: 0 of 6']);
});

test('a number with something around it is no limit', () => {
  for (const value of ['x50(3)', '50(3)x', '50', '-1(0)']) {
    assert.deepEqual(found(rows('user|lab', `association|lab|alice||root|N|${value}`)), [], value);
  }
});
