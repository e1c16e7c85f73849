import { createDecipheriv, createPrivateKey, type DecipherGCM, type JsonWebKey } from 'node:crypto';
import bcrypt from 'bcrypt-pbkdf';
import { messageOf, Problem } from '../base/problem.ts';
import { fingerprintOf } from './known-hosts.ts';
import { Reader, stringOf } from './ssh-bytes.ts';

export interface PrivateKey {
  /** Without encryption, in OpenSSH's own format, which ssh2 and every ssh since 2014 read. */
  readonly text: string;
  /** Such as `ssh-ed25519`. */
  readonly type: string;
  readonly fingerprint: string;
}

/**
 * Reads the input ssh-key: one private key or several, one after the other, in any format that OpenSSH has ever written, or in
 * PKCS#8. Line ends that a secret has lost or gained do not matter.
 * @param passphrase for those that are encrypted
 * @returns the keys in their order, at least one
 * @throws Problem with one message per cause; none of them shows a part of a key
 */
export function parsePrivateKeys(text: string, passphrase: string): PrivateKey[] {
  const blocks = [...text.matchAll(/-----BEGIN ([A-Z0-9 ]+)-----([\s\S]*?)-----END \1-----/g)].flatMap(([, label = '', body = '']) =>
    // Others may stand around it: openssl writes EC PARAMETERS in front of a key.
    label.endsWith('PRIVATE KEY') ? [{ label, body }] : [],
  );
  if (blocks.length === 0) throw notAKey(text.trim());
  return blocks.map(({ label, body }, index) => {
    const which = blocks.length === 1 ? 'the ssh-key' : `key ${index + 1} of the ssh-key`;
    return label === 'OPENSSH PRIVATE KEY' ? fromOpenssh(body, passphrase, which) : fromPem(label, body, passphrase, which);
  });
}

function notAKey(text: string): Problem {
  if (/^PuTTY-User-Key-File/.test(text)) {
    return new Problem("the ssh-key is in PuTTY's format. Export it as an OpenSSH key: puttygen key.ppk -O private-openssh -o key");
  }
  if (/^\S+-cert-v01@openssh\.com AAAA/.test(text)) {
    return new Problem('the ssh-key is a certificate. Give the private key in ssh-key, and the certificate in ssh-certificate');
  }
  if (/^(ssh-|ecdsa-|sk-)\S+ AAAA/.test(text))
    return new Problem('the ssh-key is a public key. Give the private key, the file without .pub');
  if (/^-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/.test(text)) {
    return new Problem("the ssh-key has no line '-----END … PRIVATE KEY-----', so its end is missing. Give the whole private key file");
  }
  return new Problem("the ssh-key does not start with '-----BEGIN … PRIVATE KEY-----'. Give the whole private key file");
}

function noPassphrase(which: string): Problem {
  return new Problem(`${which} is encrypted and there is no ssh-passphrase. Set the input ssh-passphrase`);
}

function wrongPassphrase(which: string): Problem {
  return new Problem(`the ssh-passphrase does not decrypt ${which}. Check the input ssh-passphrase`);
}

function unreadable(which: string, why: string): Problem {
  return new Problem(`${which} cannot be read (${why}). Store the file itself as the secret, not a copy from a screen`);
}

/** The bytes of a text in base64, whose line ends may be gone, doubled, or written as \n. */
function bytesOf(body: string): Buffer {
  return Buffer.from(body.replace(/\\n|\s/g, ''), 'base64');
}

const MAGIC = 'openssh-key-v1\0';

interface Cipher {
  readonly name: string;
  /** Bytes of key, start value and authentication tag. */
  readonly sizes: readonly [number, number, number];
}

/** The ciphers that ssh-keygen -Z takes (cipher.c). */
const CIPHERS: Readonly<Record<string, Cipher>> = {
  ...Object.fromEntries(
    [128, 192, 256].flatMap((bits) =>
      ['cbc', 'ctr'].map((mode) => [`aes${bits}-${mode}`, { name: `aes-${bits}-${mode}`, sizes: [bits / 8, 16, 0] }]),
    ),
  ),
  'aes128-gcm@openssh.com': { name: 'aes-128-gcm', sizes: [16, 12, 16] },
  'aes256-gcm@openssh.com': { name: 'aes-256-gcm', sizes: [32, 12, 16] },
  '3des-cbc': { name: 'des-ede3-cbc', sizes: [24, 8, 0] },
  'chacha20-poly1305@openssh.com': { name: 'chacha20', sizes: [64, 0, 16] },
};

/** OpenSSH's own format (PROTOCOL.key): in it, a secret part with the key, which may be encrypted. */
function fromOpenssh(body: string, passphrase: string, which: string): PrivateKey {
  const reader = new Reader(bytesOf(body));
  try {
    if (reader.take(MAGIC.length).toString('latin1') !== MAGIC) throw new RangeError('it does not begin like one');
    const cipherName = reader.string().toString('latin1');
    const kdf = reader.string().toString('latin1');
    const options = reader.string();
    reader.number(); // how many keys; OpenSSH writes one
    const publicKey = reader.string();
    const encrypted = reader.string();
    if (cipherName === 'none') return keyOf(publicKey, encrypted);
    const cipher = CIPHERS[cipherName];
    if (cipher === undefined || kdf !== 'bcrypt') throw new RangeError(`its cipher ${cipherName} is not known`);
    if (passphrase === '') throw noPassphrase(which);
    const secret = decrypt(cipher, options, encrypted, reader, passphrase);
    // The secret part starts with the same random number twice.
    if (secret === undefined || !secret.subarray(0, 4).equals(secret.subarray(4, 8))) throw wrongPassphrase(which);
    return keyOf(publicKey, secret);
  } catch (error) {
    throw error instanceof Problem ? error : unreadable(which, messageOf(error));
  }
}

/** @returns undefined if the authentication tag is not that of the bytes */
function decrypt(cipher: Cipher, options: Buffer, encrypted: Buffer, rest: Reader, passphrase: string): Buffer | undefined {
  const kdf = new Reader(options);
  const [salt, rounds] = [kdf.string(), kdf.number()];
  const [keySize, startSize, tagSize] = cipher.sizes;
  const derived = Buffer.alloc(keySize + startSize);
  const password = Buffer.from(passphrase);
  if (bcrypt.pbkdf(password, password.length, salt, salt.length, derived, derived.length, rounds) !== 0) return undefined;
  const key = derived.subarray(0, keySize);
  const tag = rest.take(tagSize);
  if (cipher.name === 'chacha20') {
    // The first half of the key encrypts the data, from block 1 on (PROTOCOL.chacha20poly1305).
    return createDecipheriv('chacha20', key.subarray(0, 32), Buffer.from([1, ...Array(15).fill(0)])).update(encrypted);
  }
  const decipher = createDecipheriv(cipher.name, key, derived.subarray(keySize));
  decipher.setAutoPadding(false);
  if (tagSize > 0 && 'setAuthTag' in decipher) (decipher as DecipherGCM).setAuthTag(tag);
  try {
    return Buffer.concat([decipher.update(encrypted), decipher.final()]);
  } catch {
    return undefined;
  }
}

/** What openssl and older OpenSSH write: PKCS#1, SEC1, PKCS#8, each with or without encryption. */
function fromPem(label: string, body: string, passphrase: string, which: string): PrivateKey {
  const lines = /Proc-Type:/.test(body)
    ? `${body
        .replace(/\r\n?/g, '\n')
        .replace(/^[ \t]+/gm, '')
        .trim()}\n`
    : bytesOf(body)
        .toString('base64')
        .replace(/.{1,64}/g, '$&\n');
  const pem = `-----BEGIN ${label}-----\n${lines}-----END ${label}-----\n`;
  if (passphrase === '' && /ENCRYPTED/.test(pem)) throw noPassphrase(which);
  let key: ReturnType<typeof createPrivateKey>;
  try {
    key = createPrivateKey({ key: pem, passphrase });
  } catch (error) {
    throw /ENCRYPTED/.test(pem) ? wrongPassphrase(which) : unreadable(which, messageOf(error));
  }
  const kind = key.asymmetricKeyType;
  if (kind !== 'rsa' && kind !== 'ec' && kind !== 'ed25519') {
    throw new Problem(`${which} is of the kind ${kind}, which SSH servers do not take. Make a new one: ssh-keygen -t ed25519`);
  }
  const parts = partsOf(key.export({ format: 'jwk' }));
  if (parts === undefined) throw unreadable(which, 'its curve is not one that SSH has');
  const secret = Buffer.concat([Buffer.alloc(8), ...parts.secret.map(stringOf), stringOf(Buffer.alloc(0))]);
  const padding = Buffer.from(Array.from({ length: (8 - (secret.length % 8)) % 8 }, (_, index) => index + 1));
  return keyOf(Buffer.concat(parts.public.map(stringOf)), Buffer.concat([secret, padding]));
}

/** The fields of a key in the order of sshkey.c, sshkey_serialize_private; undefined for a curve that SSH does not have. */
function partsOf(jwk: JsonWebKey): { readonly public: Buffer[]; readonly secret: Buffer[] } | undefined {
  const bytes = (field: keyof JsonWebKey) => Buffer.from(String(jwk[field]), 'base64url');
  const whole = (field: keyof JsonWebKey) => positive(bytes(field));
  if (jwk.kty === 'RSA') {
    const type = Buffer.from('ssh-rsa');
    return {
      public: [type, whole('e'), whole('n')],
      secret: [type, whole('n'), whole('e'), whole('d'), whole('qi'), whole('p'), whole('q')],
    };
  }
  if (jwk.kty === 'EC') {
    const curve = { 'P-256': 'nistp256', 'P-384': 'nistp384', 'P-521': 'nistp521' }[String(jwk.crv)];
    if (curve === undefined) return undefined;
    const publicParts = [Buffer.from(`ecdsa-sha2-${curve}`), Buffer.from(curve), Buffer.concat([Buffer.from([4]), bytes('x'), bytes('y')])];
    return { public: publicParts, secret: [...publicParts, whole('d')] };
  }
  const publicParts = [Buffer.from('ssh-ed25519'), bytes('x')];
  return { public: publicParts, secret: [...publicParts, Buffer.concat([bytes('d'), bytes('x')])] };
}

/** A whole number as SSH writes it: no leading zeros, but one where it would otherwise count as negative (RFC 4251, section 5). */
function positive(bytes: Buffer): Buffer {
  const first = bytes.findIndex((byte) => byte !== 0);
  const digits = bytes.subarray(Math.max(first, 0));
  return (digits[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.from([0]), digits]) : digits;
}

/** @param secret the part that holds the key, without encryption */
function keyOf(publicKey: Buffer, secret: Buffer): PrivateKey {
  const one = Buffer.from([0, 0, 0, 1]);
  const none = stringOf(Buffer.from('none'));
  const whole = Buffer.concat([Buffer.from(MAGIC), none, none, stringOf(Buffer.alloc(0)), one, stringOf(publicKey), stringOf(secret)]);
  const lines = whole.toString('base64').replace(/.{1,70}/g, '$&\n');
  return {
    text: `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines}-----END OPENSSH PRIVATE KEY-----\n`,
    type: new Reader(publicKey).string().toString('latin1'),
    fingerprint: fingerprintOf(publicKey),
  };
}
