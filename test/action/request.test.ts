import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Inputs } from '../../src/action/inputs.ts';
import { requestOf } from '../../src/action/request.ts';

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
