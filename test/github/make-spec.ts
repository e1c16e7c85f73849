// Makes test/github/api.json: the part of GitHub's published OpenAPI description that the action uses, with the published
// examples the stand-in builds its answers from.
//   npm pack @octokit/openapi@23.0.2 && tar xzf octokit-openapi-*.tgz package/generated/api.github.com.json
//   node test/github/make-spec.ts package/generated/api.github.com.json
import { readFileSync, writeFileSync } from 'node:fs';

const OPERATIONS = [
  'repos/get',
  'repos/list-activities',
  'repos/get-collaborator-permission-level',
  'repos/list-pull-requests-associated-with-commit',
  'repos/create-commit-status',
  'repos/get-combined-status-for-ref',
  'repos/list-commit-statuses-for-ref',
  'pulls/get',
  'pulls/list',
  'pulls/list-files',
  'pulls/list-commits',
  'issues/get',
  'issues/list-labels-on-issue',
  'issues/add-labels',
  'issues/remove-label',
  'issues/list-comments',
  'issues/get-comment',
  'issues/create-comment',
  'issues/update-comment',
  'issues/delete-comment',
  'reactions/create-for-issue-comment',
];

type Json = Record<string, unknown>;
const [, , input] = process.argv;
if (input === undefined) throw new Error('usage: make-spec.ts api.github.com.json');
const whole = JSON.parse(readFileSync(input, 'utf8')) as Json & { paths: Record<string, Json>; components: Record<string, Json> };

const paths: Record<string, Json> = {};
for (const [path, methods] of Object.entries(whole.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    const { operationId } = operation as { operationId?: string };
    if (operationId !== undefined && OPERATIONS.includes(operationId)) paths[path] = { ...paths[path], [method]: operation };
  }
}

const components: Record<string, Json> = {};
const queue: unknown[] = [paths];
for (let value = queue.pop(); value !== undefined; value = queue.pop()) {
  if (Array.isArray(value)) queue.push(...value);
  else if (typeof value === 'object' && value !== null) {
    for (const [key, child] of Object.entries(value)) {
      const reference = key === '$ref' && typeof child === 'string' ? /^#\/components\/([^/]+)\/(.+)$/.exec(child) : null;
      const [, kind = '', name = ''] = reference ?? [];
      if (reference && components[kind]?.[name] === undefined) {
        const part = whole.components[kind]?.[name];
        components[kind] = { ...components[kind], [name]: part };
        queue.push(part);
      }
      if (typeof child === 'object' && child !== null) queue.push(child);
    }
  }
}

/** Prose is for people; the referee needs none of it. */
function bare(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(bare);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(
        ([key, child]) =>
          !(key === 'description' && typeof child === 'string') &&
          // Without a type beside it, it says nothing (OpenAPI 3.0.3), and Ajv refuses the whole schema.
          !(key === 'nullable' && child === true && !('type' in value)) &&
          !key.startsWith('x-') &&
          key !== 'externalDocs' &&
          key !== 'example',
      )
      .map(([key, child]) => [key, bare(child)]),
  );
}

const { examples, ...rest } = components;
const spec = {
  openapi: whole['openapi'],
  info: { title: "GitHub's REST API, the part the action uses", version: '@octokit/openapi 23.0.2' },
  paths: addDescriptions(bare(paths) as Record<string, Json>),
  components: { ...(bare(rest) as Json), examples },
};
/** OpenAPI wants a description on every response. */
function addDescriptions(all: Record<string, Json>): Record<string, Json> {
  for (const methods of Object.values(all)) {
    for (const operation of Object.values(methods)) {
      for (const response of Object.values((operation as { responses: Record<string, Json> }).responses)) {
        if (!('$ref' in response)) response['description'] = '';
      }
    }
  }
  return all;
}
writeFileSync(new URL('api.json', import.meta.url), `${JSON.stringify(spec)}\n`);
