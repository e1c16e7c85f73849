/** One word of a POSIX shell, whatever is in the text. @throws RangeError for NUL, which no word can hold. */
export function quote(text: string): string {
  if (text.includes('\0')) throw new RangeError('a NUL character cannot be in a shell word');
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
