import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import { type Api, apiWith, requireWrite } from '../../src/action/github.ts';

const NAME = { owner: 'lab', repo: 'nano' };

test('a bot is told that it is one, and goes only if it is listed', async () => {
  let asked = 0;
  const get = async () => {
    asked += 1;
    return { data: { permission: 'write' } };
  };
  const api = { rest: { repos: { getCollaboratorPermissionLevel: get } } } as unknown as Api;
  await assert.rejects(
    requireWrite(api, NAME, ['alice', 'dependabot[bot]'], []),
    /dependabot\[bot\] is a bot, and bots may ask for nothing unless the input allowed-bots/,
  );
  await assert.rejects(requireWrite(api, NAME, ['dependabot[bot]'], ['renovate[bot]']), /is a bot/);
  asked = 0;
  await requireWrite(api, NAME, ['renovate[bot]', 'alice'], ['renovate[bot]']);
  assert.equal(asked, 1, 'a listed bot does not speak for others');
});

test('the token goes to the host of the API alone, whatever the next page is said to be', async () => {
  const seen: string[] = [];
  const serve = async (link: string) => {
    const server = createServer((request, response) => {
      seen.push(`${request.headers.host} ${request.headers.authorization}`);
      response.writeHead(200, { 'content-type': 'application/json', ...(link && { link: `<${link}>; rel="next"` }) });
      response.end('[]');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    after(() => server.close());
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  };
  const other = await serve('');
  const hub = await serve(`${other}/repos/lab/nano/issues/1/comments?page=2`);
  const api = apiWith('ghs_secret', hub);
  await assert.rejects(api.paginate(api.rest.issues.listComments, { ...NAME, issue_number: 1 }), /is not the host of GitHub's API/);
  assert.deepEqual(seen, [`${new URL(hub).host} token ghs_secret`]);
});
