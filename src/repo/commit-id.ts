/** Is this a whole commit id: 40 lowercase hex digits? */
export function isCommitId(text: string): boolean {
  return /^[0-9a-f]{40}$/.test(text);
}

/** A commit id as people read it, 12 digits. */
export function shortId(commit: string): string {
  return commit.slice(0, 12);
}
