/**
 * Does a pattern of OpenSSH hold for all of the text? `*` stands for any letters and `?` for one (ssh_config(5), PATTERNS). When
 * a part does not fit, only the last `*` takes one letter more, so the time is at most the product of both lengths.
 */
export function globMatches(pattern: string, text: string): boolean {
  let at = 0;
  let inPattern = 0;
  let star = -1;
  let afterStar = 0;
  while (at < text.length) {
    if (pattern[inPattern] === '*') {
      star = inPattern;
      afterStar = at;
      inPattern += 1;
    } else if (inPattern < pattern.length && (pattern[inPattern] === '?' || pattern[inPattern] === text[at])) {
      inPattern += 1;
      at += 1;
    } else if (star >= 0) {
      afterStar += 1;
      at = afterStar;
      inPattern = star + 1;
    } else return false;
  }
  while (pattern[inPattern] === '*') inPattern += 1;
  return inPattern === pattern.length;
}
