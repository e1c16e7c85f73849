import { type Api, explained, type RepoName } from './github.ts';

interface Comment {
  readonly id: number;
  readonly html_url: string;
  readonly body?: string | undefined;
}

/**
 * Writes the comment that starts with a marker: edits it if it exists, else creates it.
 *
 * Only a comment of our own counts, because anybody can write the marker. If two writers find none and create one each, both then
 * see two, keep the older one, and delete the other.
 * @returns its address
 */
export async function upsertComment(api: Api, name: RepoName, number: number, marker: string, body: string): Promise<string> {
  const address = await writeComment(api, name, number, marker, body, true);
  if (address === undefined) throw new Error('a comment that may be created was not');
  return address;
}

/** Edits the comment that starts with a marker. @returns its address; undefined if there is no such comment of ours */
export function editComment(api: Api, name: RepoName, number: number, marker: string, body: string): Promise<string | undefined> {
  return writeComment(api, name, number, marker, body, false);
}

async function writeComment(
  api: Api,
  name: RepoName,
  number: number,
  marker: string,
  body: string,
  mayCreate: boolean,
): Promise<string | undefined> {
  try {
    const [existing] = await ownComments(api, name, number, marker);
    if (existing?.body === body) return existing.html_url;
    if (existing !== undefined) return await edit(api, name, existing, body);
    if (!mayCreate) return undefined;
    const { data: created } = await api.rest.issues.createComment({ ...name, issue_number: number, body });
    const [oldest, ...extra] = await ownComments(api, name, number, marker);
    if (oldest === undefined || oldest.id === created.id) return created.html_url;
    for (const comment of extra) await api.rest.issues.deleteComment({ ...name, comment_id: comment.id });
    return await edit(api, name, oldest, body);
  } catch (error) {
    throw explained(error, `writing the comment on pull request #${number}`, 'pull-requests: write');
  }
}

/** Deletes the comment with this marker, if there is one. */
export async function deleteComment(api: Api, name: RepoName, number: number, marker: string): Promise<void> {
  try {
    for (const comment of await ownComments(api, name, number, marker)) {
      await api.rest.issues.deleteComment({ ...name, comment_id: comment.id });
    }
  } catch (error) {
    throw explained(error, `deleting a comment on pull request #${number}`, 'pull-requests: write');
  }
}

async function edit(api: Api, name: RepoName, comment: Comment, body: string): Promise<string> {
  const { data } = await api.rest.issues.updateComment({ ...name, comment_id: comment.id, body });
  return data.html_url;
}

/** Our comments with the marker, oldest first. */
async function ownComments(api: Api, name: RepoName, number: number, marker: string): Promise<Comment[]> {
  const me = await login(api);
  const all = await api.paginate(api.rest.issues.listComments, { ...name, issue_number: number, per_page: 100 });
  return all.filter((comment) => comment.body?.startsWith(marker) === true && comment.user?.login === me).sort((a, b) => a.id - b.id);
}

/** The login of the token. GraphQL, because REST's /user refuses the token of a workflow. */
async function login(api: Api): Promise<string> {
  const { viewer } = await api.graphql<{ viewer: { login: string } }>('{ viewer { login } }');
  return viewer.login;
}
