import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COMMENT_FORMS, commandOfComment, UnknownCommand } from '../../src/action/comment-command.ts';
import { COMMANDS } from '../../src/commands/request.ts';

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

test('n_jobs and job may be given by name, and a name may hold digits', () => {
  for (const [body, wanted] of [
    ['/extend smoke n_jobs=3', { command: 'extend', target: 'smoke', overrides: ['chain.n_jobs=3'] }],
    ['/extend n_jobs=12', { command: 'extend', overrides: ['chain.n_jobs=12'] }],
    ['/extend smoke 12', { command: 'extend', target: 'smoke', overrides: ['chain.n_jobs=12'] }],
    ['/extend resnet50', { command: 'extend', target: 'resnet50', overrides: ['chain.n_jobs=1'] }],
    ['/extend 50percent', { command: 'extend', target: '50percent', overrides: ['chain.n_jobs=1'] }],
    ['/extend 1234567', { command: 'extend', target: '1234567', overrides: ['chain.n_jobs=1'] }],
    ['/cancel smoke job=2 cell=0', { command: 'cancel', target: 'smoke', job: 2, cell: 0 }],
    ['/cancel job=4711', { command: 'cancel', job: 4711 }],
    ['/cancel job=1', { command: 'cancel', job: 1 }],
    ['/launch   smoke    n_jobs=2', { command: 'launch', experiment: 'smoke', overrides: ['chain.n_jobs=2'] }],
    ['/audit', { command: 'audit' }],
  ] as const) {
    assert.deepEqual(ask(body), wanted, body);
  }
  // chain.n_jobs has a default, so an experiment that does not set it takes it all the same.
  assert.deepEqual(commandOfComment('/launch smoke n_jobs=2')?.overrides, [{ path: 'chain.n_jobs', value: '2', mayAdd: true }]);
});

test('what a command does not take is refused', () => {
  for (const [body, message] of [
    ['/extend smoke train.lr=1', /\/extend takes a chain and a number/],
    ['/cancel smoke train.lr=1', /\/cancel takes one chain: \/cancel \[WHAT\] \[job=K\] \[cell=K\]/],
    ['/cancel job=2x', /job must be a whole number of at least 1/],
    ['/cancel job=x2', /job must be a whole number/],
    ['/cancel cell=-1', /cell must be a whole number of at least 0/],
    ['/audit a b', /\/audit takes one thing to look at: \/audit \[WHAT\]/],
    ['/restart a b', /\/restart takes one experiment.*: \/restart NAME/],
  ] as const) {
    assert.throws(() => commandOfComment(body), message, body);
  }
});

test('the help has a form and a meaning for each command', () => {
  assert.deepEqual(COMMENT_FORMS.map(([form]) => /^\/([a-z]+)\b/.exec(form)?.[1]).sort(), [...COMMANDS].sort());
  for (const [form, meaning] of COMMENT_FORMS) assert.match(meaning, /^[a-z].{20,}/, form);
});
