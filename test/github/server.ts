// A GitHub for tests and the demo: the part of its REST API that the action uses, on loopback, with state, and with GitHub's
// published OpenAPI description as referee of every request and response. Pull requests follow branches of a real git repo.
//
//   node test/github/server.ts --dir DIR     starts alone, writes DIR/env, lives until it is killed
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseArgs } from 'node:util';
import { type Context, type Document, OpenAPIBackend } from 'openapi-backend';

type Json = Record<string, unknown>;

const SPEC = JSON.parse(readFileSync(new URL('api.json', import.meta.url), 'utf8')) as {
  components: { examples: Record<string, { value: unknown }> };
};

export interface Issue {
  readonly number: number;
  readonly title: string;
  labels: string[];
  state: 'open' | 'closed';
}

export interface PullRequest extends Issue {
  readonly branch: string;
  readonly base: string;
  readonly fork: boolean;
  /** The commit on the base branch that merged it. */
  mergeCommit: string | undefined;
}

export type Association =
  | 'COLLABORATOR'
  | 'CONTRIBUTOR'
  | 'FIRST_TIMER'
  | 'FIRST_TIME_CONTRIBUTOR'
  | 'MANNEQUIN'
  | 'MEMBER'
  | 'NONE'
  | 'OWNER';

/** A change of a branch, as GitHub keeps it on the repository's page Activity. */
export interface Activity {
  readonly id: number;
  readonly ref: string;
  /** 40 zeros for none. */
  readonly before: string;
  readonly after: string;
  readonly at: string;
}

export interface Comment {
  readonly id: number;
  /** When it was written, in whole seconds as GitHub's times are; long ago unless said. */
  readonly at?: string;
  /** Number of the pull request, or of the issue. */
  readonly pull: number;
  readonly author: string;
  /** NONE unless said. */
  readonly association?: Association;
  body: string;
}

export interface Reaction {
  readonly id: number;
  /** Id of the comment. */
  readonly comment: number;
  readonly author: string;
  readonly content: '+1' | '-1' | 'laugh' | 'confused' | 'heart' | 'hooray' | 'rocket' | 'eyes';
}

export interface Status {
  readonly id: number;
  readonly sha: string;
  readonly author: string;
  readonly state: 'error' | 'failure' | 'pending' | 'success';
  readonly context: string;
  readonly description: string | null;
  readonly targetUrl: string | null;
}

/** Makes matching requests fail; `times` counts down. */
export interface Fault {
  readonly method: string;
  readonly path: RegExp;
  readonly status: 401 | 403 | 404 | 422 | 429 | 502;
  times: number;
}

export interface GitHub {
  readonly url: string;
  readonly repository: string;
  /** Bare git repository that stands behind it. */
  readonly gitDirectory: string;
  /** login -> admin | write | read | none */
  readonly permissions: Map<string, string>;
  /** token -> login */
  readonly tokens: Map<string, string>;
  readonly pulls: PullRequest[];
  /** Those that are no pull requests. Both are numbered in one sequence. */
  readonly issues: Issue[];
  readonly comments: Comment[];
  /** In the order they happened. A push is noticed at the next request, comment or event. */
  readonly activities: Activity[];
  /** Notes the pushes since the last time. */
  notice(): void;
  /** In the order they were made. */
  readonly reactions: Reaction[];
  /** Of all commits, the newest first. */
  readonly statuses: Status[];
  readonly faults: Fault[];
  /** What was asked, `METHOD path`. */
  readonly requests: string[];
  /** What GitHub's description does not allow, in requests or in our answers. Tests keep it empty. */
  readonly violations: string[];
  /** Runs before an answer is made; for pushing at the wrong moment. */
  before: (request: string) => void;
  headOf(pull: PullRequest): string;
  /** The commit it is compared with; once merged, the one it was merged onto. */
  baseOf(pull: PullRequest): string;
  /** As if somebody wrote it on the page. @param number of a pull request or an issue */
  addComment(number: number, author: string, body: string, association?: Association): Comment;
  close(): Promise<void>;
}

const BASE_REPO_ID = 1296269;
const FORK_REPO_ID = 9900001;
const NO_COMMIT = '0'.repeat(40);

export async function startGitHub(gitDirectory: string, repository = 'lab/nano'): Promise<GitHub> {
  const git = (...args: string[]) => execFileSync('git', ['-C', gitDirectory, ...args], { encoding: 'utf8' }).trim();
  const api = new OpenAPIBackend({
    definition: SPEC as unknown as Document,
    quick: true,
    strict: false,
    ajvOpts: { strict: false, validateFormats: false },
  });
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      hub.violations.push(`the stand-in failed: ${String(error)}`);
      send(response, 500, { message: String(error) });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let nextComment = 1_000_001;
  let nextReaction = 1;
  let nextStatus = 1;
  // The time passes by a second with everything that happens, so that the order of things is never in doubt.
  let clock = Date.parse('2026-01-01T00:00:00Z');
  const now = () => {
    clock += 1000;
    return new Date(clock).toISOString().replace('.000', '');
  };
  const branches = new Map<string, string>();

  const hub: GitHub = {
    url,
    repository,
    gitDirectory,
    permissions: new Map(),
    tokens: new Map(),
    pulls: [],
    issues: [],
    comments: [],
    activities: [],
    notice: () => {
      const lines = git('for-each-ref', '--format=%(refname) %(objectname)', 'refs/heads').split('\n').filter(Boolean);
      const refs = new Map(lines.map((line) => line.split(' ') as [string, string]));
      for (const ref of new Set([...branches.keys(), ...refs.keys()])) {
        const [before, after] = [branches.get(ref) ?? NO_COMMIT, refs.get(ref) ?? NO_COMMIT];
        if (before === after) continue;
        hub.activities.push({ id: hub.activities.length + 1, ref, before, after, at: now() });
        branches.set(ref, after);
      }
    },
    reactions: [],
    statuses: [],
    faults: [],
    requests: [],
    violations: [],
    before: () => {},
    headOf: (pull) => git('rev-parse', pull.branch),
    baseOf: (pull) => git('rev-parse', pull.mergeCommit === undefined ? pull.base : `${pull.mergeCommit}^1`),
    addComment: (number, author, body, association = 'NONE') => {
      hub.notice();
      const comment = { id: nextComment, at: now(), pull: number, author, association, body };
      nextComment += 1;
      hub.comments.push(comment);
      return comment;
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };

  const example = (name: string): Json => {
    const value = SPEC.components.examples[name]?.value;
    return structuredClone((Array.isArray(value) ? value[0] : value) as Json);
  };
  const user = (login: string): Json => ({
    ...(example('issue-comment')['user'] as Json),
    login,
    type: login.endsWith('[bot]') ? 'Bot' : 'User',
  });
  const label = (name: string): Json => ({ ...example('label-items'), name, default: false });
  const pullBody = (pull: PullRequest, from: string): Json => {
    const body = example(from);
    const side = (which: string, branch: string, id: number, sha: string) => {
      const whole = body[which] as Json;
      return { ...whole, ref: branch, label: `lab:${branch}`, sha, repo: { ...(whole['repo'] as Json), id } };
    };
    return {
      ...body,
      requested_teams: [], // the published example lacks a field the description requires of them
      number: pull.number,
      title: pull.title,
      state: pull.state,
      labels: pull.labels.map(label),
      closed_at: pull.state === 'closed' ? body['closed_at'] : null,
      merged_at: pull.mergeCommit === undefined ? null : body['merged_at'],
      merge_commit_sha: pull.mergeCommit ?? body['merge_commit_sha'],
      // Lists leave it out.
      ...('merged' in body && { merged: pull.mergeCommit !== undefined }),
      head: side('head', pull.branch, pull.fork ? FORK_REPO_ID : BASE_REPO_ID, hub.headOf(pull)),
      base: side('base', pull.base, BASE_REPO_ID, hub.baseOf(pull)),
    };
  };
  const issueBody = (issue: Issue): Json => {
    const { pull_request: link, ...body } = example('issue');
    const pull = hub.pulls.find((candidate) => candidate.number === issue.number);
    return {
      ...body,
      number: issue.number,
      html_url: `${url}/${repository}/${pull ? 'pull' : 'issues'}/${issue.number}`,
      title: issue.title,
      state: issue.state,
      state_reason: undefined, // GitHub says null, which its description forgets to list
      labels: issue.labels.map(label),
      comments: hub.comments.filter((comment) => comment.pull === issue.number).length,
      closed_at: issue.state === 'closed' ? body['updated_at'] : null,
      closed_by: issue.state === 'closed' ? body['closed_by'] : null,
      // How a client tells the two apart.
      ...(pull && { pull_request: { ...(link as Json), merged_at: pull.mergeCommit === undefined ? null : body['updated_at'] } }),
    };
  };
  const commentBody = (comment: Comment): Json => ({
    ...example('issue-comment'),
    id: comment.id,
    html_url: `${url}/${repository}/${hub.issues.some((issue) => issue.number === comment.pull) ? 'issues' : 'pull'}/${comment.pull}#issuecomment-${comment.id}`,
    body: comment.body,
    ...(comment.at !== undefined && { created_at: comment.at, updated_at: comment.at }),
    user: user(comment.author),
    author_association: comment.association ?? 'NONE',
  });
  const statusBody = (status: Status): Json => ({
    ...example('status'),
    id: status.id,
    url: `${url}/repos/${repository}/statuses/${status.sha}`,
    state: status.state,
    context: status.context,
    description: status.description,
    target_url: status.targetUrl,
    creator: user(status.author),
  });

  /** Status, body, and how many there are of what the body has a page of. */
  type Answer = [number, unknown, number?];
  type Handler = (context: Context, login: string) => Answer;
  const pullOf = (context: Context, name: string) => hub.pulls.find((pull) => pull.number === Number(context.request.params[name]));
  const issueOf = (context: Context) =>
    [...hub.pulls, ...hub.issues].find((issue) => issue.number === Number(context.request.params['issue_number']));
  const commentOf = (context: Context) => hub.comments.find((comment) => comment.id === Number(context.request.params['comment_id']));
  const NOT_FOUND: [number, unknown] = [404, { message: 'Not Found', documentation_url: 'https://docs.github.com/rest', status: '404' }];
  const invalid = (error: Json): [number, unknown] => [
    422,
    { message: 'Validation Failed', errors: [error], documentation_url: 'https://docs.github.com/rest', status: '422' },
  ];
  const TOO_LONG = invalid({
    resource: 'IssueComment',
    code: 'unprocessable',
    field: 'data',
    message: 'Body is too long (maximum is 65536 characters)',
  });
  const invalidStatus = (message: string, field?: string) =>
    invalid({ resource: 'Status', code: 'custom', ...(field && { field }), message });
  const slice = (context: Context, all: unknown[]): unknown[] => {
    const size = Number(context.request.query['per_page'] ?? 30);
    const number = Number(context.request.query['page'] ?? 1);
    return all.slice((number - 1) * size, number * size);
  };
  const page = (context: Context, all: unknown[]): Answer => [200, slice(context, all), all.length];
  const commitOf = (ref: string): string | undefined => {
    try {
      return git('rev-parse', '--verify', '--quiet', '--end-of-options', `${ref}^{commit}`);
    } catch {
      return undefined;
    }
  };
  const refOf = (context: Context) => commitOf(decodeURIComponent(String(context.request.params['ref'])));
  // Contexts that differ only in case are one.
  const isOf = (status: Status, sha: string, context: string) =>
    status.sha === sha && status.context.toLowerCase() === context.toLowerCase();

  const isAncestor = (one: string, other: string): boolean => {
    try {
      git('merge-base', '--is-ancestor', one, other);
      return true;
    } catch {
      return false;
    }
  };
  // The published example has fields of an older version, so it is not used.
  const activityBody = ({ id, ref, before, after, at }: Activity): Json => ({
    ...{ id, node_id: `A${id}`, ref, before, after, timestamp: at, actor: user('alice') },
    activity_type:
      before === NO_COMMIT
        ? 'branch_creation'
        : after === NO_COMMIT
          ? 'branch_deletion'
          : isAncestor(before, after)
            ? 'push'
            : 'force_push',
  });

  const handlers: Record<string, Handler> = {
    'repos/get': () => {
      const [owner = '', name = ''] = repository.split('/');
      // The published example is of a fork, and lacks a field.
      const { parent: _, source: __, template_repository: ___, ...body } = example('full-repository-default-response');
      return [
        200,
        {
          ...body,
          language: null,
          fork: false,
          id: BASE_REPO_ID,
          name,
          full_name: repository,
          owner: user(owner),
          default_branch: git('symbolic-ref', '--short', 'HEAD'),
        },
      ];
    },
    // Its pages are found by a cursor, not by a number.
    'repos/list-activities': (context) => {
      const { ref, per_page: size = '30', after = '0' } = context.request.query as Record<string, string>;
      const found = hub.activities.filter((one) => ref === undefined || one.ref === ref || one.ref === `refs/heads/${ref}`).toReversed();
      const from = Number(after);
      return [200, found.slice(from, from + Number(size)).map(activityBody), found.length];
    },
    'repos/get-collaborator-permission-level': (context) => {
      const login = String(context.request.params['username']);
      const permission = hub.permissions.get(login);
      if (permission === undefined) return NOT_FOUND;
      return [200, { permission, role_name: permission, user: { ...user(login), role_name: permission } }];
    },
    'repos/list-pull-requests-associated-with-commit': (context) => {
      const sha = String(context.request.params['commit_sha']);
      const containing = hub.pulls
        .filter((pull) => pull.state === 'open' || pull.mergeCommit !== undefined)
        .filter((pull) =>
          git('rev-list', `${hub.baseOf(pull)}..${pull.branch}`)
            .split('\n')
            .includes(sha),
        );
      return page(
        context,
        containing.map((pull) => pullBody(pull, 'pull-request-simple-items')),
      );
    },
    'repos/create-commit-status': (context, login) => {
      const sha = String(context.request.params['sha']);
      const given = context.request.requestBody as {
        state: Status['state'];
        context?: string;
        description?: string | null;
        target_url?: string | null;
      };
      const { state, context: name = 'default', description = null, target_url: targetUrl = null } = given;
      if (!/^[0-9a-f]{40}$/.test(sha)) return invalidStatus('sha must be a 40 character SHA1', 'sha');
      if (commitOf(sha) === undefined)
        return [422, { message: `No commit found for SHA: ${sha}`, documentation_url: 'https://docs.github.com/rest', status: '422' }];
      if (description !== null && [...description].length > 140)
        return invalidStatus('description is too long (maximum is 140 characters)', 'description');
      if (targetUrl !== null && !/^https?:\/\//.test(targetUrl)) return invalidStatus('target_url must use http(s) scheme', 'target_url');
      if (hub.statuses.filter((status) => isOf(status, sha, name)).length >= 1000)
        return invalidStatus('This SHA and context has reached the maximum number of statuses.');
      const status = { id: nextStatus, sha, author: login, state, context: name, description, targetUrl };
      nextStatus += 1;
      hub.statuses.unshift(status);
      return [201, statusBody(status)];
    },
    'repos/list-commit-statuses-for-ref': (context) => {
      const sha = refOf(context);
      if (sha === undefined) return NOT_FOUND;
      return page(context, hub.statuses.filter((status) => status.sha === sha).map(statusBody));
    },
    'repos/get-combined-status-for-ref': (context) => {
      const sha = refOf(context);
      if (sha === undefined) return NOT_FOUND;
      const newest = hub.statuses.filter(
        (status) => status.sha === sha && status === hub.statuses.find((other) => isOf(other, sha, status.context)),
      );
      const failed = newest.some((status) => status.state === 'error' || status.state === 'failure');
      const pending = newest.length === 0 || newest.some((status) => status.state === 'pending');
      return [
        200,
        {
          ...example('combined-commit-status'),
          state: failed ? 'failure' : pending ? 'pending' : 'success',
          // Who made them is left out here.
          statuses: slice(context, newest.map(statusBody)).map((status) => ({ ...(status as Json), creator: undefined })),
          sha,
          total_count: newest.length,
        },
      ];
    },
    'pulls/list': (context) => {
      const { state = 'open', head, base, sort = 'created', direction = 'desc' } = context.request.query as Record<string, string>;
      if (sort !== 'created') throw new Error(`the stand-in does not sort pull requests by ${sort}`);
      const listed = hub.pulls
        .filter((pull) => state === 'all' || pull.state === state)
        .filter((pull) => (head === undefined || head === `lab:${pull.branch}`) && (base === undefined || base === pull.base))
        .toSorted((a, b) => (direction === 'asc' ? a.number - b.number : b.number - a.number));
      return page(
        context,
        listed.map((pull) => pullBody(pull, 'pull-request-simple-items')),
      );
    },
    'pulls/get': (context) => {
      const pull = pullOf(context, 'pull_number');
      return pull ? [200, pullBody(pull, 'pull-request')] : NOT_FOUND;
    },
    'pulls/list-files': (context) => {
      const pull = pullOf(context, 'pull_number');
      if (!pull) return NOT_FOUND;
      const status: Record<string, string> = { A: 'added', M: 'modified', D: 'removed', T: 'changed' };
      const files = git('diff', '--name-status', '--no-renames', `${hub.baseOf(pull)}...${pull.branch}`)
        .split('\n')
        .filter(Boolean);
      return page(
        context,
        files.map((line) => ({ ...example('diff-entry-items'), status: status[line[0] ?? ''] ?? 'modified', filename: line.slice(2) })),
      );
    },
    'pulls/list-commits': (context) => {
      const pull = pullOf(context, 'pull_number');
      if (!pull) return NOT_FOUND;
      // GitHub lists no more than 250 of them, the oldest first.
      const commits = git('rev-list', '--reverse', `${hub.baseOf(pull)}..${hub.headOf(pull)}`)
        .split('\n')
        .filter(Boolean)
        .slice(0, 250);
      return page(
        context,
        commits.map((sha) => ({ ...example('commit-items'), sha })),
      );
    },
    'issues/get': (context) => {
      const issue = issueOf(context);
      return issue ? [200, issueBody(issue)] : NOT_FOUND;
    },
    'issues/list-labels-on-issue': (context) => {
      const issue = issueOf(context);
      return issue ? page(context, issue.labels.map(label)) : NOT_FOUND;
    },
    'issues/add-labels': (context) => {
      const issue = issueOf(context);
      if (!issue) return NOT_FOUND;
      const { labels } = context.request.requestBody as { labels: string[] };
      issue.labels = [...new Set([...issue.labels, ...labels])];
      return [200, issue.labels.map(label)];
    },
    'issues/remove-label': (context) => {
      const issue = issueOf(context);
      const name = decodeURIComponent(String(context.request.params['name']));
      if (!issue?.labels.includes(name))
        return [404, { message: 'Label does not exist', documentation_url: 'https://docs.github.com/rest', status: '404' }];
      issue.labels = issue.labels.filter((other) => other !== name);
      return [200, issue.labels.map(label)];
    },
    'issues/list-comments': (context) =>
      page(context, hub.comments.filter((comment) => comment.pull === Number(context.request.params['issue_number'])).map(commentBody)),
    'issues/get-comment': (context) => {
      const comment = commentOf(context);
      return comment ? [200, commentBody(comment)] : NOT_FOUND;
    },
    'issues/create-comment': (context, login) => {
      const issue = issueOf(context);
      if (!issue) return NOT_FOUND;
      const { body } = context.request.requestBody as { body: string };
      if (body.length > 65_536) return TOO_LONG;
      return [201, commentBody(hub.addComment(issue.number, login, body))];
    },
    'issues/update-comment': (context) => {
      const comment = commentOf(context);
      if (!comment) return NOT_FOUND;
      const { body } = context.request.requestBody as { body: string };
      if (body.length > 65_536) return TOO_LONG;
      comment.body = body;
      return [200, commentBody(comment)];
    },
    'issues/delete-comment': (context) => {
      const comment = commentOf(context);
      if (!comment) return NOT_FOUND;
      hub.comments.splice(hub.comments.indexOf(comment), 1);
      hub.reactions.splice(0, hub.reactions.length, ...hub.reactions.filter((reaction) => reaction.comment !== comment.id));
      return [204, undefined];
    },
    'reactions/create-for-issue-comment': (context, login) => {
      const comment = commentOf(context);
      if (!comment) return NOT_FOUND;
      const { content } = context.request.requestBody as { content: Reaction['content'] };
      const existing = hub.reactions.find((one) => one.comment === comment.id && one.author === login && one.content === content);
      const reaction = existing ?? { id: nextReaction, comment: comment.id, author: login, content };
      if (!existing) {
        nextReaction += 1;
        hub.reactions.push(reaction);
      }
      return [existing ? 200 : 201, { ...example('reaction'), id: reaction.id, user: user(login), content }];
    },
  };

  for (const [operation, handler] of Object.entries(handlers)) {
    api.registerHandler(operation, (context, login: string) => {
      const [status, body, total] = handler(context, login);
      // 401, 403, 422, 429 and 502 are not described for every operation; what is described must fit.
      if (status < 400) {
        const checked = api.validateResponse(body ?? '', context.operation, status);
        if (body !== undefined && checked.errors?.length) {
          hub.violations.push(`our answer to ${operation}: ${JSON.stringify(checked.errors.slice(0, 2))}`);
        }
      }
      return [status, body, total];
    });
  }
  api.register('validationFail', (context) => {
    hub.violations.push(`${context.request.method} ${context.request.path}: ${JSON.stringify(context.validation.errors?.slice(0, 2))}`);
    return [422, { message: 'Validation Failed', documentation_url: 'https://docs.github.com/rest', errors: [] }];
  });
  api.register('notFound', (context) => {
    hub.violations.push(`${context.request.method} ${context.request.path} is not in the part of the API that is described here`);
    return NOT_FOUND;
  });
  await api.init();

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = chunks.length > 0 ? (JSON.parse(Buffer.concat(chunks).toString()) as unknown) : undefined;
    const { pathname, searchParams } = new URL(request.url ?? '/', url);
    const method = request.method ?? 'GET';
    hub.requests.push(`${method} ${pathname}`);
    hub.before(`${method} ${pathname}`);
    hub.notice();
    const login = hub.tokens.get(/^(?:token|bearer) (.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? '');
    if (login === undefined) return send(response, 401, { message: 'Bad credentials', documentation_url: 'https://docs.github.com/rest' });
    const fault = hub.faults.find((candidate) => candidate.times > 0 && candidate.method === method && candidate.path.test(pathname));
    if (fault) {
      fault.times -= 1;
      return send(response, fault.status, { message: FAULTS[fault.status], documentation_url: 'https://docs.github.com/rest' });
    }
    if (pathname === '/graphql') {
      const { query } = body as { query: string };
      if (query.replace(/\s+/g, '') !== '{viewer{login}}') hub.violations.push(`GraphQL query ${query}`);
      return send(response, 200, { data: { viewer: { login } } });
    }
    const query = Object.fromEntries(searchParams);
    const [status, answered, total] = (await api.handleRequest(
      { method, path: pathname, query, body, headers: request.headers as Record<string, string> },
      login,
    )) as [number, unknown, number?];
    const next = total === undefined ? undefined : nextPage(new URL(request.url ?? '/', url), total);
    send(response, status, answered, next && { link: `<${next}>; rel="next"` });
  }

  return hub;
}

const FAULTS: Record<Fault['status'], string> = {
  401: 'Bad credentials',
  403: 'Resource not accessible by integration',
  404: 'Not Found',
  422: 'Validation Failed',
  429: 'API rate limit exceeded',
  502: 'Bad Gateway',
};

/** The address of the page after this one; undefined after the last one. https://docs.github.com/rest/using-the-rest-api/using-pagination-in-the-rest-api */
function nextPage(address: URL, total: number): URL | undefined {
  const next = new URL(address);
  const size = Number(address.searchParams.get('per_page') ?? 30);
  if (address.pathname.endsWith('/activity')) {
    const end = Number(address.searchParams.get('after') ?? 0) + size;
    next.searchParams.set('after', String(end));
    return end < total ? next : undefined;
  }
  const number = Number(address.searchParams.get('page') ?? 1);
  next.searchParams.set('page', String(number + 1));
  return number * size < total ? next : undefined;
}

function send(response: ServerResponse, status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8', ...headers });
  response.end(body === undefined ? undefined : JSON.stringify(body));
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { dir: { type: 'string' }, repository: { type: 'string', default: 'lab/nano' } } });
  if (values.dir === undefined) throw new Error('usage: node test/github/server.ts --dir DIR [--repository OWNER/NAME]');
  const gitDirectory = `${values.dir}/repo.git`;
  mkdirSync(values.dir, { recursive: true });
  execFileSync('git', ['init', '--quiet', '--bare', '--initial-branch=main', gitDirectory]);
  const hub = await startGitHub(gitDirectory, values.repository);
  hub.permissions.set('alice', 'admin');
  hub.tokens.set('ghs_standalone', 'github-actions[bot]');
  const env = {
    GITHUB_API_URL: hub.url,
    GITHUB_GRAPHQL_URL: `${hub.url}/graphql`,
    GITHUB_SERVER_URL: hub.url,
    GITHUB_REPOSITORY: hub.repository,
    GITHUB_TOKEN: 'ghs_standalone',
    GITHUB_ACTOR: 'alice',
    GITHUB_GIT_DIR: gitDirectory,
  };
  writeFileSync(
    `${values.dir}/env`,
    Object.entries(env)
      .map(([name, value]) => `${name}='${value}'\n`)
      .join(''),
  );
  console.log(`GitHub stand-in at ${hub.url}, repository ${hub.repository} in ${gitDirectory}; ${values.dir}/env says how to reach it`);
}
