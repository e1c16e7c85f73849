/** The text as one word of a POSIX shell. @throws RangeError for NUL, which no word can contain */
export function quote(text: string): string {
  if (text.includes('\0')) throw new RangeError('a NUL character cannot be in a shell word');
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
