import { type Api, explained, type RepoName } from './github.ts';

interface Comment {
  readonly id: number;
  readonly html_url: string;
  readonly body?: string | undefined;
}

/**
 * Writes the one comment that starts with the marker: edited where it is there already, else made.
 *
 * Only a comment of our own counts, because anybody can write the marker. Two writers may both find none and make one each;
 * both then see two, keep the oldest, and take the other away.
 * @returns its address
 */
export async function upsertComment(api: Api, name: RepoName, number: number, marker: string, body: string): Promise<string> {
  try {
    const [first] = await ours(api, name, number, marker);
    if (first?.body === body) return first.html_url;
    if (first !== undefined) return await edit(api, name, first, body);
    const { data: made } = await api.rest.issues.createComment({ ...name, issue_number: number, body });
    const [oldest, ...extra] = await ours(api, name, number, marker);
    if (oldest === undefined || oldest.id === made.id) return made.html_url;
    for (const comment of extra) await api.rest.issues.deleteComment({ ...name, comment_id: comment.id });
    return await edit(api, name, oldest, body);
  } catch (error) {
    throw explained(error, `writing the comment on pull request #${number}`, 'pull-requests: write');
  }
}

/** Takes the comment with this marker away, if there is one. */
export async function deleteComment(api: Api, name: RepoName, number: number, marker: string): Promise<void> {
  try {
    for (const comment of await ours(api, name, number, marker)) await api.rest.issues.deleteComment({ ...name, comment_id: comment.id });
  } catch (error) {
    throw explained(error, `removing a comment on pull request #${number}`, 'pull-requests: write');
  }
}

async function edit(api: Api, name: RepoName, comment: Comment, body: string): Promise<string> {
  const { data } = await api.rest.issues.updateComment({ ...name, comment_id: comment.id, body });
  return data.html_url;
}

/** Our comments with the marker, oldest first. */
async function ours(api: Api, name: RepoName, number: number, marker: string): Promise<Comment[]> {
  const me = await login(api);
  const all = await api.paginate(api.rest.issues.listComments, { ...name, issue_number: number, per_page: 100 });
  return all.filter((comment) => comment.body?.startsWith(marker) === true && comment.user?.login === me).sort((a, b) => a.id - b.id);
}

/** Who the token is. GraphQL, because REST's /user refuses the token of a workflow. */
async function login(api: Api): Promise<string> {
  const { viewer } = await api.graphql<{ viewer: { login: string } }>('{ viewer { login } }');
  return viewer.login;
}
