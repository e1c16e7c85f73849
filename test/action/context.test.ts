import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commitOf } from '../../src/action/context.ts';
import type { Api } from '../../src/action/github.ts';
import type { Request } from '../../src/action/request.ts';

const HEAD = 'a'.repeat(40);
const NOW = 'b'.repeat(40);
const NAME = { owner: 'lab', repo: 'nano' };

const ZEROS = '0'.repeat(40);
/** What was pushed, the newest first: GitHub's times have whole seconds. */
const PUSHES = [
  { after: NOW, timestamp: '2026-01-01T00:00:20Z' },
  { after: HEAD, timestamp: '2026-01-01T00:00:10Z' },
];

/** GitHub with one pull request. */
function api(isFork: boolean, activity: () => { after: string; timestamp: string }[] = () => PUSHES): { api: Api; asked: () => number } {
  let asked = 0;
  const get = async () => {
    asked += 1;
    return { data: { head: { sha: NOW, ref: 'topic', repo: { id: isFork ? 2 : 1 } }, base: { repo: { id: 1 } }, state: 'open' } };
  };
  const paginate = Object.assign(async () => [{ sha: HEAD }, { sha: NOW }], {
    // One activity on each page.
    async *iterator(_: unknown, { ref }: { ref: string }) {
      assert.equal(ref, 'refs/heads/topic');
      for (const one of activity()) yield { data: [one] };
    },
  });
  return { api: { rest: { pulls: { get }, repos: {} }, paginate } as unknown as Api, asked: () => asked };
}
const request = (more: Partial<Request>) =>
  ({ pullRequest: undefined, commit: undefined, command: 'launch', label: undefined, ...more }) as Request;
const pull = (isFork: boolean | undefined, head: string | undefined = HEAD) => ({ number: 12, head, isFork });

test('the commit of the event counts, and GitHub is asked only if the event names none', async () => {
  const here = api(false);
  assert.equal(await commitOf(here.api, NAME, request({ commit: HEAD }), false), HEAD);
  assert.equal(await commitOf(here.api, NAME, request({ commit: HEAD, pullRequest: pull(false), label: 'launch' }), false), HEAD);
  assert.equal(here.asked(), 0);
  assert.equal(await commitOf(here.api, NAME, request({ command: 'status', ...COMMENT }), false), NOW);
  assert.equal(here.asked(), 1);
  await assert.rejects(commitOf(here.api, NAME, request({}), false), /the event names no commit/);
});

const COMMENT = { pullRequest: pull(undefined, undefined), comment: 1 };

test('a comment means the head when it was written, and a launch of another one names both', async () => {
  const launch = (writtenAt: string | undefined, given = api(false), more: Partial<Request> = {}) =>
    commitOf(given.api, NAME, request({ ...COMMENT, experiment: 'smoke', writtenAt, ...more }), false);
  assert.equal(await launch('2026-01-01T00:00:21Z'), NOW);
  for (const command of ['launch', 'plan', 'restart'] as const) {
    await assert.rejects(launch('2026-01-01T00:00:11Z', api(false), { command }), {
      message: `pull request #12 was at ${HEAD} when the comment was written, and is at ${NOW} now. Nothing was submitted. Look at the new commit and ask again, or name it: /${command} smoke @${NOW}`,
    });
  }
  // Which came first within a second is not known.
  await assert.rejects(launch('2026-01-01T00:00:20Z'), /was at a{40} when the comment was written/);
  for (const command of ['status', 'extend', 'cancel', 'audit'] as const) {
    assert.equal(await launch('2026-01-01T00:00:11Z', api(false), { command }), NOW, command);
  }
  // Pushed away and back: the head is the one that was seen.
  const back = [
    { after: NOW, timestamp: '2026-01-01T00:00:30Z' },
    { after: HEAD, timestamp: '2026-01-01T00:00:20Z' },
    { after: NOW, timestamp: '2026-01-01T00:00:10Z' },
  ];
  assert.equal(
    await launch(
      '2026-01-01T00:00:15Z',
      api(false, () => back),
    ),
    NOW,
  );
  await assert.rejects(
    launch(
      '2026-01-01T00:00:15Z',
      api(false, () => [{ after: ZEROS, timestamp: '2026-01-01T00:00:12Z' }]),
    ),
    /was at 0{40}/,
  );
});

test('when the time of the push is not known, the comment has to name the commit', async () => {
  const forbidden = api(false, () => {
    throw Object.assign(new Error('Not Found'), { status: 404 });
  });
  const launch = (given: { api: Api }, writtenAt: string | undefined, more: Partial<Request> = {}) =>
    commitOf(given.api, NAME, request({ ...COMMENT, writtenAt, ...more }), false);
  const form = new RegExp(
    `is not known \\(.*\\)\\. Nothing was submitted\\. Name the commit that you mean, such as its head: /launch @${NOW}`,
  );
  await assert.rejects(launch(forbidden, '2026-01-01T00:00:21Z'), form);
  await assert.rejects(launch(api(false), undefined), form);
  await assert.rejects(launch(api(false), 'soon'), form);
  await assert.rejects(launch(api(false), '2026-01-01T00:00:10Z'), /does not go back so far/);
  assert.equal(await launch(forbidden, undefined, { commit: NOW }), NOW);
});

test('a commit that a comment names has to be one of the pull request', async () => {
  const { api: here } = api(false);
  assert.equal(await commitOf(here, NAME, request({ ...COMMENT, commit: HEAD }), false), HEAD);
  await assert.rejects(commitOf(here, NAME, request({ ...COMMENT, commit: ZEROS }), false), /commit 0{40} is not one of pull request #12/);
  await assert.rejects(commitOf(api(true).api, NAME, request({ ...COMMENT, commit: HEAD }), true), /only a label can launch/);
});

test('a fork may do nothing unless it is allowed, and then only a launch label counts', async () => {
  const { api: fork } = api(true);
  const label = { commit: HEAD, pullRequest: pull(true), label: 'launch' };
  await assert.rejects(commitOf(fork, NAME, request(label), false), /comes from a fork.*unsafe-allow-forks/);
  assert.equal(await commitOf(fork, NAME, request(label), true), HEAD);
  for (const command of ['plan', 'restart', 'extend', 'status', 'cancel', 'audit'] as const) {
    await assert.rejects(commitOf(fork, NAME, request({ ...label, command }), true), /only a label can launch/, command);
  }
  const comment = COMMENT;
  await assert.rejects(commitOf(fork, NAME, request(comment), false), /comes from a fork/);
  await assert.rejects(commitOf(fork, NAME, request(comment), true), /only a label can launch/);
});
