import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Inputs } from '../../src/action/inputs.ts';
import { isClosing, requestOf } from '../../src/action/request.ts';

const HEAD = 'a'.repeat(40);
const MERGE = 'f'.repeat(40);
const inputs: Inputs = {
  command: 'launch',
  config: '',
  overrides: [],
  pr: undefined,
  sshKey: 'k',
  sshPassphrase: '',
  sshCertificate: '',
  sshConfig: '',
  knownHosts: '',
  secrets: new Map(),
  token: 't',
  allowForks: false,
  allowedBots: [],
  keepPartial: false,
  target: '',
  job: undefined,
  cell: undefined,
  wait: 'no',
  waitTimeout: 60,
  cancelJobsOnCancel: false,
  strict: false,
};

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

test('a label names the experiment; the commit is the head, never the merge commit', () => {
  const { experiment, commit, label, pullRequest, refs, actors } = request(labeled('launch:smoke'));
  assert.deepEqual(
    { experiment, commit, label, refs },
    { experiment: 'smoke', commit: HEAD, label: 'launch:smoke', refs: ['refs/pull/12/head'] },
  );
  assert.deepEqual(pullRequest, { number: 12, head: HEAD, isFork: false });
  assert.deepEqual(actors, ['alice', 'bob']);
});

test('plain launch means what the pull request changes', () => {
  assert.equal(request(labeled('launch')).experiment, undefined);
});

test('only the label of the event counts', () => {
  assert.ok('nothing' in ask(labeled('bug', { labels: ['launch', 'launch:smoke'] })));
  assert.ok('nothing' in ask(labeled('chain:4', { labels: ['launch'] })));
  assert.ok('nothing' in ask(labeled('launches')));
  assert.ok('nothing' in ask(labeled('launch', { action: 'unlabeled' })));
  assert.ok('nothing' in ask(labeled('launch', { action: 'synchronize' })));
});

test('an input config changes what plain launch means, and not which events launch', () => {
  const given = { config: 'configs/x.yaml' };
  assert.equal(request(labeled('launch'), given).experiment, 'configs/x.yaml');
  assert.equal(request(labeled('launch:smoke'), given).experiment, 'smoke');
  assert.ok('nothing' in ask(labeled('documentation'), given));
  assert.ok('nothing' in ask(labeled('launch', { action: 'closed' }), given));
});

test('chain:<N> sets the length, an input comes before it', () => {
  assert.deepEqual(request(labeled('launch', { labels: ['chain:4'] })).overrides, [{ path: 'chain.n_jobs', value: '4', mayAdd: true }]);
  const given = [{ path: 'chain.n_jobs', value: '9', mayAdd: true }];
  assert.deepEqual(request(labeled('launch', { labels: ['chain:4'] }), { overrides: given }).overrides, given);
  for (const bad of ['chain:0', 'chain:x', 'chain:', 'chain:-1', 'chain:2.5'])
    assert.throws(() => ask(labeled('launch', { labels: [bad] })), /sets no length/);
  assert.throws(() => ask(labeled('launch', { labels: ['chain:2', 'chain:3'] })), /several lengths/);
});

test('a fork is told by the repository id, and a deleted one counts', () => {
  assert.equal(request(labeled('launch', { headRepo: 2 })).pullRequest?.isFork, true);
  assert.equal(request(labeled('launch', { headRepo: null })).pullRequest?.isFork, true);
});

test('by hand it is the dispatched commit, and the pull request is where to report', () => {
  const { commit, experiment, pullRequest } = request({ inputs: {} }, { config: 'configs/x.yaml', pr: 7 }, 'workflow_dispatch');
  assert.deepEqual(
    { commit, experiment, pullRequest },
    { commit: MERGE, experiment: 'configs/x.yaml', pullRequest: { number: 7, head: undefined, isFork: false } },
  );
  assert.throws(() => ask({}, {}, 'workflow_dispatch'), /names no experiment/);
});

test('a comment tells when it was written, and which commit it names', () => {
  const comment = (body: string) =>
    request(
      {
        action: 'created',
        issue: { number: 12, pull_request: {} },
        comment: { id: 5, body, created_at: '2026-01-01T00:00:00Z', user: { login: 'alice' } },
      },
      {},
      'issue_comment',
    );
  assert.deepEqual([comment('/launch smoke').writtenAt, comment('/launch smoke').commit], ['2026-01-01T00:00:00Z', undefined]);
  assert.equal(comment(`/launch smoke @${HEAD}`).commit, HEAD);
});

test('a request that nobody made is refused, except on a schedule', () => {
  const unnamed = (eventName: string) =>
    requestOf({ eventName, payload: {}, sha: MERGE, actors: ['', ''] }, { ...inputs, config: 'configs/x.yaml' });
  assert.throws(() => unnamed('workflow_dispatch'), /names nobody.*nobody's permission can be checked\. Nothing was submitted/);
  const scheduled = unnamed('schedule');
  assert.deepEqual('nothing' in scheduled ? undefined : scheduled.actors, []);
  assert.throws(
    () => requestOf({ eventName: 'pull_request', payload: { ...labeled('launch'), sender: null }, sha: MERGE, actors: [] }, inputs),
    /names nobody/,
  );
});

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
