// Secrets of nasty shapes, and how programs print them.
import { quote } from '../../src/base/shell-quote.ts';

/** Each has one line. */
export const SECRETS = [
  'correct-horse-battery-staple',
  'it\'s-a-"quoted"\\secret',
  'with spaces in it and / slashes & more',
  'pässwörd-ünïcode-日本',
  '$HOME`id`$(id)!{}[]*?~#;|<>',
  'sk-proj-AAAA+BBBB/CCCC==',
  '--looks-like=an-option %41%zz',
  'tab\there-and-::add-mask::x',
];

function percent(secret: string, keep: RegExp, isUpper: boolean): string {
  return [...Buffer.from(secret)]
    .map((byte) => {
      const letter = String.fromCharCode(byte);
      const hex = byte.toString(16).padStart(2, '0');
      return keep.test(letter) ? letter : `%${isUpper ? hex.toUpperCase() : hex}`;
    })
    .join('');
}

const every = (text: string, length: number, between: string) => (text.match(new RegExp(`.{1,${length}}`, 'gsu')) ?? []).join(between);

/** How the spelling is called, and the text. */
export function spelledByPrograms(secret: string): [string, string][] {
  const base64 = Buffer.from(secret).toString('base64');
  return [
    ['as it is', secret],
    ['quote', quote(secret)],
    ['JSON', JSON.stringify(secret)],
    ['JSON in JSON', JSON.stringify(JSON.stringify(secret))],
    [
      'JSON in ASCII',
      JSON.stringify(secret).replace(/[^\0-\x7f]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`),
    ],
    ['encodeURIComponent', encodeURIComponent(secret)],
    ['encodeURI', encodeURI(secret)],
    ['a form', new URLSearchParams({ a: secret }).toString().slice(2)],
    ['urllib.parse.quote', percent(secret, /[\w.~/-]/, true)],
    ['lower case URL', percent(secret, /[\w.~-]/, false)],
    ['base64', base64],
    ['base64 in lines', every(base64, 20, '\n')],
    ['base64 behind one letter', Buffer.from(`x${secret}y`).toString('base64')],
    ['base64 behind two letters', Buffer.from(`xx${secret}yy`).toString('base64')],
    ['base64 of a header', Buffer.from(`user:${secret}`).toString('base64')],
    ['base64url', Buffer.from(`xx${secret}`).toString('base64url')],
    ['hex', Buffer.from(secret).toString('hex')],
    ['upper case hex', Buffer.from(secret).toString('hex').toUpperCase()],
    ['folded', every(secret, 10, '\n')],
    ['folded and indented', every(secret, 7, '\r\n    ')],
    ['folded JSON', every(JSON.stringify(secret), 9, '\n')],
    ['a colour inside', `${secret.slice(0, 6)}\u001b[1;31m${secret.slice(6)}\u001b[0m`],
    ['a colour around each letter', [...secret].map((letter) => `\u001b[32m${letter}\u001b[0m`).join('')],
    ['a link inside', `${secret.slice(0, 5)}\u001b]8;;http://x\u0007${secret.slice(5)}`],
    ['marks without width', [...secret].join('\u200b')],
  ];
}
