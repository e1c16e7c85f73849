// More forms of the commands in comments. test/action/comment-command.test.ts has each command.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COMMENT_FORMS, commandOfComment } from '../../src/action/comment-command.ts';
import { COMMANDS } from '../../src/commands/request.ts';

const ask = (body: string) => {
  const asked = commandOfComment(body);
  assert.ok(asked, body);
  const { overrides, ...rest } = asked;
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
  return { ...given, ...(overrides.length > 0 ? { overrides: overrides.map(({ path, value }) => `${path}=${value}`) } : {}) };
};

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
