import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commitOf } from '../../src/action/context.ts';
import type { Api } from '../../src/action/github.ts';
import type { Request } from '../../src/action/request.ts';

const HEAD = 'a'.repeat(40);
const NOW = 'b'.repeat(40);
const NAME = { owner: 'lab', repo: 'nano' };

/** GitHub with one pull request. */
function api(isFork: boolean): { api: Api; asked: () => number } {
  let asked = 0;
  const get = async () => {
    asked += 1;
    return { data: { head: { sha: NOW, repo: { id: isFork ? 2 : 1 } }, base: { repo: { id: 1 } }, state: 'open' } };
  };
  return { api: { rest: { pulls: { get } } } as unknown as Api, asked: () => asked };
}
const request = (more: Partial<Request>) =>
  ({ pullRequest: undefined, commit: undefined, command: 'launch', label: undefined, ...more }) as Request;
const pull = (isFork: boolean | undefined, head: string | undefined = HEAD) => ({ number: 12, head, isFork });

test('the commit of the event counts, and GitHub is asked only if the event names none', async () => {
  const here = api(false);
  assert.equal(await commitOf(here.api, NAME, request({ commit: HEAD }), false), HEAD);
  assert.equal(await commitOf(here.api, NAME, request({ commit: HEAD, pullRequest: pull(false), label: 'launch' }), false), HEAD);
  assert.equal(here.asked(), 0);
  assert.equal(await commitOf(here.api, NAME, request({ pullRequest: pull(undefined, undefined) }), false), NOW);
  assert.equal(here.asked(), 1);
  await assert.rejects(commitOf(here.api, NAME, request({}), false), /the event names no commit/);
});

test('a fork may do nothing unless it is allowed, and then only a launch label counts', async () => {
  const { api: fork } = api(true);
  const label = { commit: HEAD, pullRequest: pull(true), label: 'launch' };
  await assert.rejects(commitOf(fork, NAME, request(label), false), /comes from a fork.*unsafe-allow-forks/);
  assert.equal(await commitOf(fork, NAME, request(label), true), HEAD);
  for (const command of ['plan', 'restart', 'extend', 'status', 'cancel', 'audit'] as const) {
    await assert.rejects(commitOf(fork, NAME, request({ ...label, command }), true), /only a label can launch/, command);
  }
  const comment = { pullRequest: pull(undefined, undefined) };
  await assert.rejects(commitOf(fork, NAME, request(comment), false), /comes from a fork/);
  await assert.rejects(commitOf(fork, NAME, request(comment), true), /only a label can launch/);
});
