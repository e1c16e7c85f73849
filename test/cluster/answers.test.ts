import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { AUDIT } from '../../src/audit/program.ts';
import { Answers, type AnswerTable, decodeAnswer } from '../../src/cluster/answers.ts';
import { CANCEL } from '../../src/cluster/programs/cancel.ts';
import { PROBE } from '../../src/cluster/programs/probe.ts';
import { STAGE } from '../../src/cluster/programs/stage.ts';
import { SUBMIT } from '../../src/cluster/programs/submit.ts';
import { SURVEY } from '../../src/cluster/programs/survey.ts';
import { RUNTIME } from '../../src/cluster/runtime.ts';
import { LineReader, parseAnswer } from '../../src/cluster/shell.ts';
import { ROOT } from '../support/action.ts';

/** `CAMEL_CASE` of a field's name in TypeScript. */
const shellName = (field: string) => field.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();

/** The table in the head of a shell file: key and fields of each answer. */
function headOf(text: string): Map<string, string> {
  const table = /^# answers \(.*\):\n((?:# {3}\S.*\n)+)/m.exec(text)?.[1] ?? '';
  return new Map(
    table
      .trim()
      .split('\n')
      .filter(Boolean)
      .map((line) => {
        const [, key = '', fields = ''] = /^# {3}([a-z-]+)((?: [A-Z_]+…?)*)(?: {2,}.*| {1,3}[a-z`].*)?$/.exec(line) ?? assert.fail(line);
        return [key, fields.trim()] as const;
      }),
  );
}

const PROGRAMS = { probe: PROBE, stage: STAGE, submit: SUBMIT, cancel: CANCEL, survey: SURVEY, audit: AUDIT };

for (const [name, program] of Object.entries(PROGRAMS)) {
  const parts = ['frame', ...program.parts] as (keyof typeof RUNTIME)[];
  test(`the answers of ${name} are the same in shell and in TypeScript`, () => {
    const documented = new Map(parts.flatMap((part) => [...headOf(RUNTIME[part])]));
    const typed = new Map(Object.entries(program.answers as AnswerTable).map(([key, fields]) => [key, fields.map(shellName).join(' ')]));
    assert.deepEqual(new Map([...typed].sort()), new Map([...documented].sort()));
  });
}

test('each shell file gives the answers in its head, and no others', () => {
  for (const file of readdirSync(join(ROOT, 'src/runtime')).map((one) => one.replace('.sh', '') as keyof typeof RUNTIME)) {
    const text = RUNTIME[file] ?? assert.fail(`${file}.sh is not in RUNTIME`);
    const code = text.replace(/^ *#.*$/gm, '');
    const given = new Set([...code.matchAll(/(?:^|[{;&|()]|then|else|do) *answer(?:_first)? ([a-z][a-z-]*)/gm)].map(([, key]) => key));
    given.delete('end'); // the frame's own last line
    if (file !== 'frame') given.delete('problem'); // the frame has it for all
    assert.deepEqual([...given].sort(), [...headOf(text).keys()].sort(), `${file}.sh`);
  }
});

const TABLE = { paths: ['workdir', 'savePath'], jobs: ['reason', 'ids…'], queued: [] } as const satisfies AnswerTable;

test('an answer gets names for its fields', () => {
  assert.deepEqual(decodeAnswer(TABLE, { key: 'paths', values: ['/w', '/s'] }), { key: 'paths', workdir: '/w', savePath: '/s' });
  assert.deepEqual(decodeAnswer(TABLE, { key: 'jobs', values: ['why', '1', '2'] }), { key: 'jobs', reason: 'why', ids: ['1', '2'] });
  assert.deepEqual(decodeAnswer(TABLE, { key: 'jobs', values: ['why'] }), { key: 'jobs', reason: 'why', ids: [] });
  assert.deepEqual(decodeAnswer(TABLE, { key: 'queued', values: [] }), { key: 'queued' });
});

test('an answer that the program cannot give is an error, not an empty text', () => {
  for (const [key, values, message] of [
    ['paths', ['/w'], /'paths' has 1 fields instead of workdir savePath/],
    ['paths', ['/w', '/s', '/t'], /'paths' has 3 fields/],
    ['jobs', [], /'jobs' has 0 fields/],
    ['queued', ['x'], /'queued' has 1 fields instead of none/],
    ['other', [], /unknown answer 'other'/],
    ['constructor', [], /unknown answer/],
  ] as const) {
    assert.throws(() => decodeAnswer(TABLE, { key, values: [...values] }), message);
  }
});

test('answers are looked up by key', () => {
  const answers = new Answers<typeof TABLE>([
    { key: 'jobs', reason: 'a', ids: [] },
    { key: 'queued' },
    { key: 'jobs', reason: 'b', ids: ['1'] },
  ]);
  assert.deepEqual(
    answers.all('jobs').map(({ reason }) => reason),
    ['a', 'b'],
  );
  assert.ok(answers.has('queued') && !answers.has('paths'));
  assert.equal(answers.optional('paths'), undefined);
  assert.deepEqual(answers.one('queued'), { key: 'queued' });
  assert.throws(() => answers.one('paths'), /'paths' is missing/);
  assert.throws(() => answers.one('jobs'), /2 answers 'jobs' where one was expected/);
});

test('a line is an answer only behind the marker, and its escapes are undone once', () => {
  assert.deepEqual(parseAnswer('@ab', '@ab key\ta%0Ab%09c%0Dd\t%250A'), { key: 'key', values: ['a\nb\tc\rd', '%0A'] });
  assert.deepEqual(parseAnswer('@ab', '@ab key'), { key: 'key', values: [] });
  for (const noise of ['', 'Welcome', '@abc key', ' @ab key', '@ab', 'x@ab key']) assert.equal(parseAnswer('@ab', noise), undefined, noise);
});

test('lines of a stream, however it is cut; one without an end costs no memory', () => {
  const lines: string[] = [];
  const reader = new LineReader((line) => lines.push(line));
  for (const piece of ['on', 'e\ntw', 'o\n', '\nlast']) reader.push(Buffer.from(piece));
  assert.deepEqual(lines, ['one', 'two', '']);
  const long = new LineReader((line) => lines.push(line));
  for (let index = 0; index < 40; index += 1) long.push(Buffer.alloc(1_000_000, 'x'));
  long.push(Buffer.from('y\nnext\n'));
  assert.equal(lines.at(-1), 'next');
  assert.ok((lines.at(-2) ?? '').length < 32_000_001);
});
