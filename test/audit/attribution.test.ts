import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accountFor, type CellRecord, type CheckpointEntry, checksumOf } from '../../src/audit/attribution.ts';
import { foldRanges, parseRanges } from '../../src/audit/ranges.ts';
import { compareRecords } from '../../src/audit/records.ts';
import { parseLedger } from '../../src/chain/ledger.ts';
import type { LaunchRecord } from '../../src/chain/manifest.ts';

// Minutes after this; a task of the tests takes ten.
const T0 = Date.parse('2026-12-01T00:00:00Z') / 1000;
const at = (minutes: number) => T0 + minutes * 60;
const iso = (minutes: number) => new Date(at(minutes) * 1000).toISOString().replace('.000', '');

function line(event: string, step: number, minutes: number, fields: Readonly<Record<string, unknown>> = {}): string {
  const task = String(100 + step);
  const head = { event, launch: 1, step, cell: 0, job: task, task, restart: 0, host: 'n1', time: iso(minutes) };
  return JSON.stringify({ ...head, ...fields });
}
const start = (step: number, minutes: number, resume: number, found = '', fields = {}) =>
  line('start', step, minutes, { resume_step: resume, found, ...fields });
const end = (step: number, minutes: number, newest: number, saved: string, fields = {}) =>
  line('end', step, minutes, { newest_step: newest, saved, ...fields });

function summed(lines: readonly string[]): string[] {
  let previous = '';
  return lines.map((one) => {
    previous = checksumOf(previous, one);
    return `${one.slice(0, -1)},"sum":"${previous}"}`;
  });
}
const sumIn = (text: string | undefined) => /"sum":"([0-9a-f]{16})"\}$/.exec(text ?? '')?.[1];

const saved = (number: number, minutes: number, fields: Partial<CheckpointEntry> = {}): CheckpointEntry => ({
  name: `step_${number}`,
  number,
  complete: true,
  modified: at(minutes),
  touched: at(minutes),
  ...fields,
});
function record(lines: readonly string[], checkpoints: readonly CheckpointEntry[], fields: Partial<CellRecord> = {}): CellRecord {
  return { cell: 0, journal: lines, cut: false, releasedChecksum: sumIn(lines.at(-1)), checkpoints, ...fields };
}
const owners = (account: ReturnType<typeof accountFor>) =>
  account.tasks.map(({ task, checkpoints }) => [task.jobId, task.outcome, checkpoints.map(({ number }) => number)]);
const strangers = (account: ReturnType<typeof accountFor>) => account.unaccounted.map(({ checkpoint }) => checkpoint.number);

const TWO = summed([start(1, 0, -1), end(1, 10, 40, '20-40/20'), start(2, 11, 40, '20-40/20'), end(2, 20, 99, '60-80/20,99')]);
const FIVE = [saved(20, 3), saved(40, 9), saved(60, 13), saved(80, 16), saved(99, 20)];

test('each checkpoint is the one of the task that says it saved it', () => {
  const account = accountFor(record(TWO, FIVE));
  assert.deepEqual(owners(account), [
    ['101', 'ended', [20, 40]],
    ['102', 'ended', [60, 80, 99]],
  ]);
  assert.deepEqual([account.unaccounted, account.gaps, account.notes], [[], [], []]);
});

test('a number nobody names is unaccounted for, between those that are named as well as above them', () => {
  const account = accountFor(record(TWO, [...FIVE, saved(30, 5), saved(120, 15), saved(10, 30)]));
  assert.deepEqual(strangers(account), [10, 30, 120]);
  assert.match(account.unaccounted[0]?.why ?? '', /no task on record has saved it/);
});

test('a number that is named, last written at another time', () => {
  const late = FIVE.map((one) => (one.number === 80 ? saved(80, 60) : one));
  const account = accountFor(record(TWO, late));
  assert.deepEqual(strangers(account), [80]);
  assert.match(
    account.unaccounted[0]?.why ?? '',
    /last written at 2026-12-01T01:00:00Z, but task 102_0, which saved this number, ran from 2026-12-01T00:11:00Z to 2026-12-01T00:20:00Z/,
  );
  // Clocks differ by minutes; what a later task of the chain has written to is worth a word.
  assert.deepEqual(strangers(accountFor(record(TWO, [saved(99, 24)]))), []);
  const again = accountFor(record(TWO, [saved(20, 19)]));
  assert.deepEqual(strangers(again), []);
  assert.match(again.notes.join(), /step_20 was written to again by a later task/);
  // The time of the inode nobody can set.
  const copied = accountFor(record(TWO, [saved(20, 3, { touched: at(600) })]));
  assert.deepEqual(strangers(copied), []);
  assert.match(copied.notes.join(), /step_20 changed after the task that saved it had ended/);
});

test('a task without an end is normal: what the next one found above its start is its own', () => {
  const lines = summed([start(1, 0, -1), start(2, 11, 40, '20-40/20'), end(2, 20, 99, '60-99/39')]);
  const account = accountFor(record(lines, [saved(20, 3), saved(30, 5), saved(40, 9), saved(99, 19)]));
  assert.deepEqual(owners(account), [
    ['101', 'killed', [20, 40]],
    ['102', 'ended', [99]],
  ]);
  assert.deepEqual(strangers(account), [30]);
  assert.deepEqual(account.gaps, []);
  // It may have saved the last one of all, which the next task then only sees.
  const done = summed([start(1, 0, -1), line('done', 2, 11, { found: '20-99/79', complete: true })]);
  const last = accountFor(record(done, [saved(20, 3), saved(99, 9)]));
  assert.deepEqual([owners(last), last.gaps], [[['101', 'killed', [20, 99]]], []]);
});

test('the last task without an end accounts for what is newer than its start, up to its end by accounting', () => {
  const lines = summed([start(1, 0, -1), end(1, 10, 40, '20-40/20'), start(2, 11, 40, '20-40/20')]);
  const checkpoints = [saved(20, 3), saved(40, 9), saved(60, 13), saved(80, 300), saved(30, 13)];
  const open = accountFor(record(lines, checkpoints));
  assert.deepEqual(owners(open).at(-1), ['102', 'open', [60, 80]]);
  assert.deepEqual(strangers(open), [30]);
  assert.match(open.notes.join(), /task 102_0 has a start and no end on record: it is running or was killed/);
  const killed = accountFor(record(lines, checkpoints), new Map([['102', at(20)]]));
  assert.deepEqual(owners(killed).at(-1), ['102', 'killed', [60]]);
  assert.deepEqual(strangers(killed), [30, 80]);
});

test('a requeued task is two tasks, and what was saved twice is the later one', () => {
  const lines = summed([
    start(1, 0, -1),
    start(1, 11, 20, '20', { restart: 1 }),
    end(1, 20, 40, '40', { restart: 1 }),
    start(2, 21, 20, '20'),
    end(2, 30, 40, '40'),
  ]);
  const account = accountFor(record(lines, [saved(20, 9), saved(40, 29)]));
  assert.deepEqual(owners(account), [
    ['101', 'killed', [20]],
    ['101', 'ended', []],
    ['102', 'ended', [40]],
  ]);
  assert.deepEqual(account.gaps, [
    'line 4 of its journal resumes from checkpoint 20, but according to line 3 the newest one is checkpoint 40',
  ]);
});

test('an incomplete directory is no checkpoint, and no stranger', () => {
  const account = accountFor(record(TWO, [...FIVE, saved(120, 90, { complete: false })]));
  assert.deepEqual(strangers(account), []);
  assert.match(account.notes.join(), /step_120 is not complete/);
});

for (const [what, change, gap] of [
  [
    'edited',
    (lines: string[]) => lines.with(1, lines[1]?.replace('"newest_step":40', '"newest_step":41') ?? ''),
    /^line 2 .* does not match its checksum/,
  ],
  ['put in', (lines: string[]) => lines.toSpliced(2, 0, lines[1] ?? ''), /^line 3 .* does not match its checksum/],
  ['taken out', (lines: string[]) => lines.toSpliced(0, 1), /^line 1 .* does not match its checksum/],
  ['taken out at the end', (lines: string[]) => lines.slice(0, -1), /^its journal lacks the line that was the last one/],
  ['all taken out', () => [], /^its journal lacks the line that was the last one/],
  [
    'without a sum',
    (lines: string[]) => lines.with(3, lines[3]?.replace(/,"sum":"\w+"/, '') ?? ''),
    /^line 4 of its journal has no checksum/,
  ],
  ['not to be read', (lines: string[]) => [...lines, 'hello'], /^line 5 of its journal cannot be read/],
] as const) {
  test(`a journal line that was ${what}`, () => {
    const account = accountFor(record(change([...TWO]), FIVE, { releasedChecksum: sumIn(TWO.at(-1)) }));
    assert.ok(
      account.gaps.some((one) => gap.test(one)),
      account.gaps.join('\n'),
    );
  });
}

test('no journal at all, and a last line that is half-written', () => {
  const gone = accountFor(record([], FIVE, { journal: undefined, releasedChecksum: sumIn(TWO.at(-1)) }));
  assert.deepEqual(gone.gaps, ['its journal is gone']);
  assert.equal(gone.unaccounted.length, 5);
  const never = accountFor(record([], [], { journal: undefined, releasedChecksum: undefined }));
  assert.deepEqual([never.gaps, never.unaccounted, never.tasks], [[], [], []]);
  const half = accountFor(record([...TWO, '{"event":"sta'], FIVE, { cut: true, releasedChecksum: sumIn(TWO.at(-1)) }));
  assert.deepEqual([half.gaps, half.unaccounted], [[], []]);
  assert.match(half.notes.join(), /is incomplete; a task is writing it/);
});

test('lines that do not follow from each other', () => {
  const account = accountFor(record(summed([start(1, 0, 60, '60'), end(1, 10, 80, '80'), end(1, 11, 99, '99'), start(2, 12, 99)]), []));
  assert.deepEqual(account.gaps, [
    'line 1 of its journal resumes from checkpoint 60, which no task before it has saved',
    'line 3 of its journal is the end of task 101_0, whose start is not on record',
    'line 4 of its journal resumes from checkpoint 99, but according to line 2 the newest one is checkpoint 80',
  ]);
});

test('a journal from before the numbers were on record counts as ranges', () => {
  const lines = summed([line('start', 1, 0, { resume_step: -1 }), line('end', 1, 10, { newest_step: 40 })]);
  const account = accountFor(record(lines, [saved(20, 5), saved(33, 5), saved(60, 5)]));
  assert.deepEqual(owners(account), [['101', 'ended', [20, 33]]]);
  assert.deepEqual(strangers(account), [60]);
});

test('runs of numbers, both ways', () => {
  assert.deepEqual(parseRanges('20-480/20,499'), [
    { first: 20, last: 480, stride: 20 },
    { first: 499, last: 499, stride: 1 },
  ]);
  assert.deepEqual(parseRanges(''), []);
  for (const bad of [undefined, 'x', '1-', '9-1/1', '1-9/0', '1,,2', `1-${'9'.repeat(19)}/1`]) assert.equal(parseRanges(bad), undefined);
  assert.deepEqual(foldRanges([499, 40, 20, 60, 60]), [
    { first: 20, last: 60, stride: 20 },
    { first: 499, last: 499, stride: 1 },
  ]);
  assert.deepEqual(foldRanges([]), []);
});

const launch = (number: number, steps: readonly number[]) => ({ launch: number, steps }) as unknown as LaunchRecord;
const ledger = (...events: readonly (readonly [string, number, string, number?])[]) =>
  parseLedger(events.map(([event, number, job, step]) => JSON.stringify({ event, launch: number, job, ...(step && { step }) })));
const WHOLE = ledger(['submitted', 1, '101', 1], ['submitted', 1, '102', 2], ['releasing', 1, '101'], ['released', 1, '101']);
const ran = (...lines: readonly (readonly [number, number, string])[]) => [
  { cell: 0, lines: lines.map(([number, jobNumber, jobId]) => ({ launch: number, jobNumber, jobId })) },
];

test('manifest, ledger and journals that agree', () => {
  const found = compareRecords({ launches: [launch(1, [1, 2])] }, WHOLE, 0, ran([1, 1, '101'], [1, 2, '102']));
  assert.deepEqual(found, { changed: [], missing: [], notes: [] });
});

test('what one of the three knows and another does not', () => {
  const changed = (...args: Parameters<typeof compareRecords>) => compareRecords(...args).changed.join('\n');
  const manifest = { launches: [launch(1, [1, 2])] };
  assert.match(changed(manifest, WHOLE, 0, ran([1, 1, '999'])), /has job 999, which the ledger lacks/);
  assert.match(changed(manifest, WHOLE, 0, ran([1, 1, '998'], [1, 1, '999'], [1, 1, '101'])), /998.*\n.*999/, 'every job is compared');
  assert.match(
    changed({ launches: [launch(1, [1, 2]), launch(2, [1])] }, WHOLE, 0, ran([2, 1, '101'])),
    /101 is job 1 of launch 2 in the journal of cell 0, and job 1 of launch 1 in the ledger/,
  );
  assert.match(changed(manifest, WHOLE, 0, ran([2, 3, '103'])), /job 103 of launch 2, which the manifest lacks/);
  assert.match(changed(manifest, WHOLE, 0, ran([1, 2, '101'])), /101 is job 2 of launch 1 in the journal of cell 0, and job 1/);
  assert.match(changed({ launches: [] }, WHOLE, 0, []), /the ledger has launch 1, which the manifest lacks/);
  assert.match(changed({ launches: [launch(1, [1])] }, WHOLE, 0, []), /the ledger has job 2 of the chain \(102\) in launch 1/);
  assert.match(
    changed({ launches: [launch(1, [1])] }, undefined, 0, ran([1, 2, '102'])),
    /102 as job 2 of the chain, which launch 1 in the manifest did not ask for/,
  );
});

test('a launch that was never released has not run; a new ledger is incomplete', () => {
  const manifest = { launches: [launch(1, [1, 2]), launch(2, [3])] };
  const held = compareRecords(manifest, [...WHOLE, ...ledger(['submitted', 2, '103', 3], ['cancelled', 2, '103'])], 1, ran([1, 1, '101']));
  assert.deepEqual([held.changed, held.missing], [[], []]);
  assert.match(held.notes.join('\n'), /launch 2 was never released/);
  assert.match(held.notes.join('\n'), /1 line of the ledger cannot be read/);
  assert.match(
    compareRecords(manifest, [...WHOLE, ...ledger(['submitted', 2, '103', 3])], 0, ran([2, 3, '103'])).changed.join(),
    /job 103 of launch 2, which the ledger does not list as released/,
  );
  const anew = compareRecords(manifest, ledger(['submitted', 2, '103', 3], ['releasing', 2, '103']), 0, ran([1, 1, '101'], [2, 3, '103']));
  assert.deepEqual(anew, { changed: [], missing: ['the ledger from before launch 2'], notes: [] });
});

test('which jobs wrote a line, also those that did not run', () => {
  const account = accountFor(record(summed([start(1, 0, -1), end(1, 10, 40, '40'), line('done', 2, 11, { found: '40' })]), []));
  assert.deepEqual(account.lines, [
    { launch: 1, jobNumber: 1, jobId: '101' },
    { launch: 1, jobNumber: 1, jobId: '101' },
    { launch: 1, jobNumber: 2, jobId: '102' },
  ]);
});

test('an end is the end of the task that started, and of no other', () => {
  for (const fields of [{ task: '999' }, { restart: 1 }, { newest_step: null }]) {
    const account = accountFor(record(summed([start(1, 0, -1), end(1, 10, 40, '40', fields)]), [saved(40, 9)]));
    assert.match(account.gaps.join(), /^line 2 of its journal is the end of task 101_0( \(restart 1\))?, whose start is not on record$/);
    assert.deepEqual(owners(account), [['101', 'open', [40]]], 'the task that started is still open');
  }
});

test('a start that does not say where it resumed from owns nothing', () => {
  const account = accountFor(record(summed([line('start', 1, 0), end(1, 10, 40, '40')]), [saved(40, 9)]));
  assert.match(account.gaps[0] ?? '', /^line 1 of its journal does not say which checkpoint the task resumed from$/);
  assert.deepEqual(strangers(account), [40]);
});

test('a chain that starts from checkpoint 0, which nobody saved', () => {
  assert.match(
    accountFor(record(summed([start(1, 0, 0, '0')]), [])).gaps.join(),
    /resumes from checkpoint 0, which no task before it has saved/,
  );
  const reset = accountFor(record(summed([start(1, 0, -1), end(1, 9, 40, '40'), start(2, 11, -1)]), []));
  assert.match(reset.gaps.join(), /line 3 .* resumes from no checkpoint, but according to line 2 the newest one is checkpoint 40/);
});

test('a killed task without a list owns what lies between its start and that of the next one', () => {
  const bare = (step: number, minutes: number, resume: number) => line('start', step, minutes, { resume_step: resume });
  const lines = summed([bare(1, 0, -1), bare(2, 11, 40), bare(3, 21, 80), line('end', 3, 30, { newest_step: 80 })]);
  const account = accountFor(record(lines, [saved(0, 1), saved(20, 3), saved(40, 9), saved(41, 12), saved(80, 15), saved(99, 29)]));
  assert.deepEqual(owners(account), [
    ['101', 'killed', [0, 20, 40]],
    ['102', 'killed', [41, 80]],
    ['103', 'ended', []],
  ]);
  assert.deepEqual(strangers(account), [99]);
  assert.deepEqual(account.gaps, []);
  // A start that does not say where it resumed from tells nothing about the task before it, which then counts as the last one.
  const unknown = accountFor(record(summed([bare(1, 0, -1), line('start', 2, 11)]), [saved(20, 3)]));
  assert.deepEqual(owners(unknown), [['101', 'killed', [20]]]);
});

test('a task that was killed and listed does not own what is newer than the list', () => {
  const lines = summed([start(1, 0, 20, '20'), line('done', 2, 11, { found: '20-40/20' })]);
  const account = accountFor(record(lines, [saved(20, 3), saved(40, 9), saved(60, 9)]));
  assert.deepEqual(owners(account), [['101', 'killed', [40]]]);
  assert.deepEqual(strangers(account), [20, 60]);
});

test('a task that resumed from its newest checkpoint and saved nothing owns nothing', () => {
  const lines = summed([line('start', 1, 0, { resume_step: -1 }), line('end', 1, 10, { newest_step: -1 })]);
  assert.deepEqual(owners(accountFor(record(lines, [saved(0, 5)]))), [['101', 'ended', []]]);
});

test('clocks may differ by five minutes, before the start and after the end', () => {
  const seconds = (minutes: number, more: number) => ({ modified: at(minutes) + more, touched: at(minutes) + more });
  const at20 = (more: number, minutes: number) => strangers(accountFor(record(TWO, [saved(60, 0, seconds(minutes, more))])));
  assert.deepEqual([at20(300, 20), at20(301, 20)], [[], [60]]);
  assert.deepEqual([at20(-300, 11), at20(-301, 11)], [[], [60]]);
});

test('what was written before the task that saved its number is not its own, whoever ran then', () => {
  const account = accountFor(record(TWO, [saved(60, 4)]));
  assert.deepEqual(strangers(account), [60]);
  assert.match(account.unaccounted[0]?.why ?? '', /last written at 2026-12-01T00:04:00Z, but task 102_0/);
});

test('a checkpoint of a task that is still open may have been written until now', () => {
  const lines = summed([start(1, 0, -1), end(1, 10, 40, '40'), start(2, 100, 40, '40', { restart: 2 })]);
  const account = accountFor(record(lines, [saved(60, 50)]));
  assert.match(
    account.unaccounted[0]?.why ?? '',
    /task 102_0 \(restart 2\), which saved this number, ran from 2026-12-01T01:40:00Z to now$/,
  );
  const killed = accountFor(record(lines, []), new Map([['102', at(105)]]));
  assert.match(
    killed.notes.join(),
    /task 102_0 \(restart 2\) has a start and no end on record: it was killed; checkpoints newer than checkpoint 40/,
  );
});

test('without any task, checkpoints are unaccounted for', () => {
  const account = accountFor(record([], [saved(20, 3)], { journal: [], releasedChecksum: undefined }));
  assert.deepEqual(
    account.unaccounted.map(({ why }) => why),
    ['no task is on record'],
  );
});

test('notes name one checkpoint or several', () => {
  const many = (fields: (number: number) => Partial<CheckpointEntry>) =>
    accountFor(record(TWO, [saved(20, 3, fields(20)), saved(40, 9, fields(40))])).notes.join('\n');
  assert.equal(
    many(() => ({ complete: false })),
    'cell 0: step_20, step_40 are not complete; no task resumes from them',
  );
  assert.match(
    many(() => ({ modified: at(19) })),
    /step_20, step_40 were written to again by a later task of the chain/,
  );
  assert.match(
    many(() => ({ touched: at(600) })),
    /step_20, step_40 changed after the tasks that saved them had ended/,
  );
});

test('a line of another cell, and text around a line', () => {
  assert.match(accountFor(record(summed([start(1, 0, -1, '', { cell: 3 })]), [])).gaps.join(), /line 1 of its journal belongs to cell 3/);
  const [first = ''] = summed([start(1, 0, -1)]);
  for (const text of [`${first} `, `x\n${first}`]) assert.notDeepEqual(accountFor(record([text], [])).gaps, [], JSON.stringify(text));
  const unlocked = accountFor(record(TWO, FIVE, { releasedChecksum: '' }));
  assert.deepEqual(unlocked.gaps, [], 'an empty lock says nothing about the journal');
});
