// Every event that a workflow may be started by, and what it asks for. test/action/request.test.ts has the usual ones.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Inputs } from '../../src/action/inputs.ts';
import { isClosing, requestOf } from '../../src/action/request.ts';

const HEAD = 'a'.repeat(40);
const MERGE = 'f'.repeat(40);
const inputs = {
  command: 'launch',
  config: '',
  overrides: [],
  pr: undefined,
  target: '',
  job: undefined,
  cell: undefined,
} as Partial<Inputs> as Inputs;

function labeled(name: string, { labels = [] as string[], headRepo = 1 as number | null, action = 'labeled' } = {}) {
  return {
    action,
    label: { name },
    sender: { login: 'alice' },
    pull_request: {
      number: 12,
      labels: [name, ...labels].map((label) => ({ name: label })),
      head: { sha: HEAD, repo: headRepo === null ? null : { id: headRepo } },
      base: { repo: { id: 1 } },
    },
  };
}
const ask = (payload: unknown, given: Partial<Inputs> = {}, eventName = 'pull_request') =>
  requestOf({ eventName, payload, sha: MERGE, actors: ['alice', 'bob'] }, { ...inputs, ...given });
const request = (...args: Parameters<typeof ask>) => {
  const answer = ask(...args);
  assert.ok(!('nothing' in answer), 'it asks for something');
  return answer;
};

function comment(body: string | null, more: object = {}) {
  return {
    action: 'created',
    issue: { number: 12, pull_request: { url: 'https://api.github.com/repos/lab/nano/pulls/12' } },
    comment: { id: 99, body, user: { login: 'carol' } },
    sender: { login: 'dave' },
    ...more,
  };
}
const reason = (answer: ReturnType<typeof requestOf>) => ('nothing' in answer ? answer.nothing : assert.fail('it asks for something'));

test('a payload that does not name the repositories is one of a fork', () => {
  const nameless = { ...labeled('launch').pull_request, head: { sha: HEAD }, base: {} };
  assert.equal(request({ ...labeled('launch'), pull_request: nameless }).pullRequest?.isFork, true);
});

test('everybody who took part needs permission: who put the label on, and who ran the workflow', () => {
  const byCarol = { ...labeled('launch'), sender: { login: 'carol' } };
  assert.deepEqual(request(byCarol).actors, ['carol', 'alice', 'bob']);
  // A payload without a sender names nobody of its own.
  assert.deepEqual(request({ ...labeled('launch'), sender: undefined }).actors, ['alice', 'bob']);
  const noRun = requestOf({ eventName: 'pull_request', payload: labeled('launch'), sha: MERGE, actors: ['', 'bob'] }, inputs);
  assert.deepEqual('actors' in noRun && noRun.actors, ['alice', 'bob']);
});

for (const [name, wanted] of [
  ['launch: smoke', { command: 'launch', experiment: 'smoke' }],
  ['launch: smoke ', { command: 'launch', experiment: 'smoke' }],
  ['chain:status', { command: 'status' }],
  ['chain: status smoke', { command: 'status', target: 'smoke' }],
  ['chain:  audit', { command: 'audit' }],
  ['chain:cancel:smoke', { command: 'cancel', target: 'smoke' }],
  ['chain:cancel = smoke', { command: 'cancel', target: 'smoke' }],
  ['chain:cancel smoke cell=3', { command: 'cancel', target: 'smoke', cell: 3 }],
  ['chain:extend', { command: 'extend', overrides: [{ path: 'chain.n_jobs', value: '1', mayAdd: true }] }],
  ['chain:extend:2', { command: 'extend', overrides: [{ path: 'chain.n_jobs', value: '2', mayAdd: true }] }],
] as const) {
  test(`the label '${name}' asks for ${wanted.command}`, () => {
    const { command, experiment, target, job, cell, overrides, label, commit } = request(labeled(name));
    const nothing = { experiment: undefined, target: undefined, job: undefined, cell: undefined, overrides: [] };
    assert.deepEqual({ command, experiment, target, job, cell, overrides }, { ...nothing, ...wanted });
    assert.deepEqual({ label, commit }, { label: name, commit: HEAD }, 'the label is taken off, and the commit is the head');
  });
}

for (const name of ['relaunch', 'prelaunch:smoke', 'chain:statusbar', 'chain:restart', 'my chain:cancel', 'chain:', 'bug']) {
  test(`the label '${name}' asks for nothing, and the log says which labels do`, () => {
    assert.deepEqual(ask(labeled(name)), {
      nothing: `the label '${name}' is not launch, launch:<experiment> or chain:status|extend|cancel|audit`,
    });
  });
}

test('labels that set no length leave the length alone', () => {
  const lengthWith = (...labels: string[]) => request(labeled('launch', { labels })).overrides.map(({ value }) => value);
  assert.deepEqual(lengthWith('chain:status', 'chain: cancel smoke', 'blockchain:9', 'bug'), []);
  assert.deepEqual(lengthWith('chain: 12'), ['12']);
  assert.deepEqual(lengthWith('chain:4', 'chain: 4'), ['4'], 'the same length twice');
  assert.throws(() => lengthWith('chain:2', 'chain:3', 'chain:5'), /chain:2 and chain:3, chain:5\. Keep one/);
  assert.throws(() => lengthWith('chain:statuses'), /'chain:statuses' sets no length/);
  assert.deepEqual(request({ ...labeled('launch'), pull_request: { ...labeled('launch').pull_request, labels: null } }).overrides, []);
  const other = [{ path: 'train.lr', value: '1', mayAdd: false }];
  assert.deepEqual(
    request(labeled('launch', { labels: ['chain:4'] }), { overrides: other }).overrides.map(({ path }) => path),
    ['train.lr', 'chain.n_jobs'],
  );
});

test('a pull request event without a label says that it asks for nothing', () => {
  assert.deepEqual(ask(labeled('launch', { action: 'opened' })), { nothing: 'the event pull_request opened asks for nothing' });
  assert.equal(request(labeled('launch'), {}, 'pull_request_target').experiment, undefined, 'both events of pull requests count');
  assert.throws(() => ask({}, {}, 'pull_request_target'), /names no experiment/, 'a payload that was not read is no request');
});

test('a closed pull request cancels its chains if the workflow says so, except those of a fork', () => {
  const cancels = { command: 'cancel' } as const;
  const closed = request(labeled('launch', { action: 'closed' }), cancels);
  const { command, label, target, commit } = closed;
  assert.deepEqual({ command, label, target, commit }, { command: 'cancel', label: undefined, target: undefined, commit: HEAD });
  assert.ok(isClosing(closed));
  assert.match(reason(ask(labeled('launch', { action: 'closed', headRepo: 2 }), cancels)), /from a fork are cancelled by hand/);
  assert.match(reason(ask(labeled('bug', { action: 'opened' }), cancels)), /asks for nothing/);
  assert.match(reason(ask(labeled('bug', { action: 'closed' }))), /asks for nothing/);
});

test('a cancel that somebody asks for is not one of a closed pull request', () => {
  assert.ok(!isClosing(request(labeled('chain:cancel'))));
  assert.ok(!isClosing(request(comment('/cancel'), {}, 'issue_comment')));
  assert.ok(!isClosing(request({}, { command: 'cancel', pr: 7 }, 'workflow_dispatch')));
  assert.ok(!isClosing(request({}, { command: 'cancel' }, 'workflow_dispatch')));
  assert.ok(!isClosing(request(labeled('chain:status'))));
});

test('a comment asks for the head of its pull request, in the name of everybody who took part', () => {
  const {
    command,
    experiment,
    commit,
    refs,
    pullRequest,
    label,
    comment: id,
    actors,
  } = request(comment('/launch smoke'), {}, 'issue_comment');
  assert.deepEqual({ command, experiment, label, id }, { command: 'launch', experiment: 'smoke', label: undefined, id: 99 });
  // The head is looked up later: the payload of a comment names no commit, and GITHUB_SHA is the default branch.
  assert.deepEqual({ commit, refs }, { commit: undefined, refs: ['refs/pull/12/head'] });
  assert.deepEqual(pullRequest, { number: 12, head: undefined, isFork: undefined });
  assert.deepEqual(actors, ['carol', 'dave', 'alice', 'bob']);
  const anonymous = comment('/status', { sender: undefined, comment: { id: 1, body: '/status' } });
  assert.deepEqual(request(anonymous, {}, 'issue_comment').actors, ['alice', 'bob']);
});

test('overrides of the workflow apply to a comment, and those in the comment come before them', () => {
  const ofWorkflow = [
    { path: 'train.lr', value: '1', mayAdd: false },
    { path: 'slurm.partition', value: 'h100', mayAdd: false },
  ];
  const { overrides } = request(comment('/launch smoke train.lr=2 train.seed=7'), { overrides: ofWorkflow }, 'issue_comment');
  assert.deepEqual(
    overrides.map(({ path, value }) => `${path}=${value}`),
    ['slurm.partition=h100', 'train.lr=2', 'train.seed=7'],
  );
});

for (const [what, payload, why] of [
  ['an edited comment', comment('/launch smoke', { action: 'edited' }), 'only new comments are commands'],
  ['a comment on an issue', comment('/launch smoke', { issue: { number: 12 } }), 'the comment is on an issue, not on a pull request'],
  ['a comment on an issue, with null', comment('/launch smoke', { issue: { number: 12, pull_request: null } }), /on an issue/],
  ['a remark', comment('looks good'), 'the comment is not a command'],
  ['an empty comment', comment(null), 'the comment is not a command'],
] as const) {
  test(`${what} asks for nothing`, () => {
    const said = reason(ask(payload, {}, 'issue_comment'));
    if (typeof why === 'string') assert.equal(said, why);
    else assert.match(said, why);
  });
}

test('a schedule only looks, in nobody’s name, whatever command the workflow gives', () => {
  for (const [command, expected] of [
    ['launch', 'status'],
    ['cancel', 'status'],
    ['status', 'status'],
    ['audit', 'audit'],
  ] as const) {
    const { command: asked, actors, commit } = request({}, { command }, 'schedule');
    assert.deepEqual({ asked, actors, commit }, { asked: expected, actors: [], commit: MERGE });
  }
});

test('by hand: which commands need an experiment, and what the others are about', () => {
  for (const command of ['launch', 'plan', 'restart'] as const)
    assert.throws(() => ask({}, { command }, 'push'), /the event push names no experiment/);
  const about = (given: Partial<Inputs>) => request({}, { command: 'status', ...given }, 'workflow_dispatch');
  assert.equal(about({}).target, undefined);
  assert.equal(about({ config: 'smoke' }).target, 'smoke');
  assert.equal(about({ config: 'smoke', target: '#12' }).target, '#12');
  assert.equal(about({ target: '#12' }).experiment, undefined);
  assert.deepEqual([about({}).pullRequest, about({}).refs, about({}).actors], [undefined, [], ['alice', 'bob']]);
});

test('a GITHUB_SHA that is no commit id is a problem, and not a request', () => {
  assert.throws(
    () => requestOf({ eventName: 'workflow_dispatch', payload: null, sha: 'main', actors: [] }, { ...inputs, config: 'smoke' }),
    /GITHUB_SHA is 'main', which is not a commit id/,
  );
});
