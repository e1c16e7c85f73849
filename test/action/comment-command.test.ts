import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commandOfComment, UnknownCommand } from '../../src/action/comment-command.ts';

const COMMIT = '1a2b3c4d'.repeat(5);

const ask = (body: string) => {
  const asked = commandOfComment(body);
  assert.ok(asked, body);
  const { overrides, ...rest } = asked;
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
  return { ...given, ...(overrides.length > 0 ? { overrides: overrides.map(({ path, value }) => `${path}=${value}`) } : {}) };
};

test('each command in each of its forms', () => {
  for (const [body, wanted] of [
    ['/launch smoke', { command: 'launch', experiment: 'smoke' }],
    ['/launch', { command: 'launch' }],
    [
      '/launch configs/smoke.yaml n_jobs=4 train.lr=[1, 2] cluster=a',
      { command: 'launch', experiment: 'configs/smoke.yaml', overrides: ['train.lr=[1, 2]', 'cluster=a', 'chain.n_jobs=4'] },
    ],
    ['/plan smoke', { command: 'plan', experiment: 'smoke' }],
    ['/restart smoke', { command: 'restart', experiment: 'smoke' }],
    ['/status', { command: 'status' }],
    ['  /STATUS  smoke-1a2b3c4d5e6f\nand some words', { command: 'status', target: 'smoke-1a2b3c4d5e6f' }],
    ['/extend 2', { command: 'extend', overrides: ['chain.n_jobs=2'] }],
    ['/extend', { command: 'extend', overrides: ['chain.n_jobs=1'] }],
    ['/extend smoke 2', { command: 'extend', target: 'smoke', overrides: ['chain.n_jobs=2'] }],
    ['/extend smoke', { command: 'extend', target: 'smoke', overrides: ['chain.n_jobs=1'] }],
    ['/cancel', { command: 'cancel' }],
    ['/cancel smoke cell=3', { command: 'cancel', target: 'smoke', cell: 3 }],
    ['/cancel step=2', { command: 'cancel', job: 2 }],
    [`/launch smoke @${COMMIT}`, { command: 'launch', experiment: 'smoke', commit: COMMIT }],
    [`/launch @${COMMIT} n_jobs=4`, { command: 'launch', overrides: ['chain.n_jobs=4'], commit: COMMIT }],
    [`/plan smoke a=1 @${COMMIT}`, { command: 'plan', experiment: 'smoke', overrides: ['a=1'], commit: COMMIT }],
    [`/restart smoke @${COMMIT}`, { command: 'restart', experiment: 'smoke', commit: COMMIT }],
    ['/audit 1a2b3c4\r\n', { command: 'audit', target: '1a2b3c4' }],
  ] as const) {
    assert.deepEqual(ask(body), wanted, body);
  }
});

test('what is no command asks for nothing', () => {
  for (const body of [
    '',
    'looks good',
    'see /status',
    '> /launch smoke',
    '`/launch smoke`',
    '/ launch',
    '//',
    '/usr/bin/env',
    'a\n/launch smoke',
  ]) {
    assert.equal(commandOfComment(body), undefined, body);
  }
});

test('a command that is none is refused without repeating the comment', () => {
  assert.throws(() => commandOfComment('/lunch smoke'), /there is no command \/lunch; did you mean.*launch/);
  assert.throws(
    () => commandOfComment('/frob <img src=x> secret'),
    (error) => error instanceof UnknownCommand && error.message === 'there is no command /frob',
  );
});

test('a command that is not well-formed says its form', () => {
  for (const [body, message] of [
    ['/launch a b', /takes one experiment.*\/launch NAME/],
    ['/launch smoke @1a2b3c4', /named by @ and all of its 40 digits/],
    [`/launch @${COMMIT} @${COMMIT}`, /takes one commit/],
    [`/extend @${COMMIT}`, /\/extend takes no commit/],
    ['/extend a b 2', /\/extend \[WHAT\] \[N\]/],
    ['/cancel a b', /takes one chain/],
    ['/cancel cell=x', /cell must be a whole number of at least 0/],
    ['/cancel step=0', /job must be a whole number of at least 1/],
    ['/status a b', /takes one thing/],
  ] as const) {
    assert.throws(() => commandOfComment(body), message, body);
  }
});
