// How a secret may be spelled where somebody looks for it. A new spelling that redaction knows belongs here, and every test that
// searches for secrets finds it then.
import { quote } from '../../src/base/shell-quote.ts';

/** Each gives texts of which a place holds one if it holds the secret in this spelling. Short texts would match anything. */
const SPELLINGS: Readonly<Record<string, (secret: string) => readonly string[]>> = {
  'as it is': (secret) => [secret],
  'quoted for a shell': (secret) => [quote(secret), secret.replaceAll(/([^A-Za-z0-9_./-])/g, '\\$1')],
  JSON: (secret) => [JSON.stringify(secret).slice(1, -1)],
  URL: (secret) => [encodeURIComponent(secret), new URLSearchParams({ s: secret }).toString().slice(2)],
  hexadecimal: (secret) => [Buffer.from(secret).toString('hex')],
  // Whatever stands before a secret shifts its base64 by 0, 1 or 2 bytes. The ends depend on what is around it.
  base64: (secret) =>
    [0, 1, 2].map((shift) => {
      const text = Buffer.from('x'.repeat(shift) + secret).toString('base64');
      return text.slice(shift === 0 ? 0 : 4, Math.floor((shift + Buffer.byteLength(secret)) / 3) * 4);
    }),
  'folded into lines': (secret) => secret.match(/.{1,76}/gs) ?? [],
};

const SHORTEST = 8;

/** Single lines, each of which gives a secret away. */
export function spellingsOf(secret: string): string[] {
  const lines = Object.values(SPELLINGS)
    .flatMap((spell) => [...spell(secret)])
    .flatMap((text) => text.split(/\r?\n/))
    .map((line) => line.trim());
  return [...new Set(lines)].filter((line) => line.length >= SHORTEST);
}
