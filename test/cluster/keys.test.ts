import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import ssh2 from 'ssh2';
import { parsePrivateKeys } from '../../src/cluster/keys.ts';

const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-keys-'));
after(() => rmSync(directory, { recursive: true }));

let made = 0;
function keygen(...args: string[]): { readonly text: string; readonly fingerprint: string; readonly publicKey: string } {
  made += 1;
  const file = join(directory, `key${made}`);
  // One round of the key derivation is enough here.
  execFileSync('ssh-keygen', ['-q', '-a', '1', '-f', file, ...(args.includes('-N') ? [] : ['-N', '']), ...args], { stdio: 'pipe' });
  return { text: readFileSync(file, 'utf8'), fingerprint: fingerprint(`${file}.pub`), publicKey: readFileSync(`${file}.pub`, 'utf8') };
}
function fingerprint(file: string): string {
  return execFileSync('ssh-keygen', ['-lf', file], { encoding: 'utf8' }).split(' ')[1] ?? '?';
}

/** The one key in the text, which ssh2 and OpenSSH read and sign with. */
function check(text: string, passphrase: string, expected: string): void {
  const [key, ...others] = parsePrivateKeys(text, passphrase);
  assert.ok(key !== undefined && others.length === 0);
  assert.equal(key.fingerprint, expected);
  const parsed = ssh2.utils.parseKey(key.text);
  assert.ok(!(parsed instanceof Error), String(parsed));
  const [one] = [parsed].flat();
  const signature = one?.sign('data');
  assert.ok(Buffer.isBuffer(signature) && one?.verify('data', signature) === true);
  const file = join(directory, 'converted');
  writeFileSync(file, key.text, { mode: 0o600 });
  assert.equal(fingerprint(file), expected, 'its public part');
  const { stdout, stderr } = spawnSync('ssh-keygen', ['-y', '-P', '', '-f', file], { encoding: 'utf8' });
  writeFileSync(`${file}.public`, stdout);
  assert.equal(fingerprint(`${file}.public`), expected, stderr);
  rmSync(file);
}

for (const [type, bits] of [
  ['ed25519', ''],
  ['rsa', '2048'],
  ['ecdsa', '256'],
  ['ecdsa', '384'],
  ['ecdsa', '521'],
] as const) {
  for (const format of type === 'ed25519' ? ['RFC4716'] : ['RFC4716', 'PEM', 'PKCS8']) {
    test(`${type} ${bits} in the format ${format}, with and without a passphrase`, () => {
      const kind = ['-t', type, ...(bits === '' ? [] : ['-b', bits]), '-m', format];
      const plain = keygen(...kind);
      check(plain.text, '', plain.fingerprint);
      check(plain.text, 'not needed', plain.fingerprint);
      const encrypted = keygen(...kind, '-N', 'sword fish');
      check(encrypted.text, 'sword fish', encrypted.fingerprint);
      assert.throws(() => parsePrivateKeys(encrypted.text, ''), { message: /the ssh-key is encrypted and there is no ssh-passphrase/ });
      assert.throws(() => parsePrivateKeys(encrypted.text, 'halibut'), { message: /the ssh-passphrase does not decrypt the ssh-key/ });
    });
  }
}

test('every cipher that ssh-keygen encrypts with', () => {
  const ciphers = execFileSync('ssh', ['-Q', 'cipher'], { encoding: 'utf8' }).trim().split('\n');
  assert.ok(ciphers.includes('chacha20-poly1305@openssh.com') && ciphers.length >= 9);
  for (const cipher of ciphers) {
    const key = keygen('-t', 'ed25519', '-N', 'sword fish', '-Z', cipher);
    check(key.text, 'sword fish', key.fingerprint);
    assert.throws(() => parsePrivateKeys(key.text, 'halibut'), { message: /does not decrypt/ }, cipher);
  }
});

test('PKCS#8 as openssl writes it, ed25519 included', () => {
  for (const pair of [
    generateKeyPairSync('ed25519'),
    generateKeyPairSync('ec', { namedCurve: 'P-521' }),
    generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ]) {
    const file = join(directory, 'public.pem');
    writeFileSync(file, pair.publicKey.export({ type: 'spki', format: 'pem' }));
    const { publicKey } = pair;
    const line = ssh2.utils.parseKey(pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
    assert.ok(line instanceof Error, 'ssh2 does not read PKCS#8 by itself');
    const text = pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    const [key] = parsePrivateKeys(text, '');
    if (publicKey.asymmetricKeyType === 'ed25519') check(text, '', key?.fingerprint ?? '');
    else {
      const converted = execFileSync('ssh-keygen', ['-i', '-m', 'PKCS8', '-f', file], { encoding: 'utf8' });
      writeFileSync(`${file}.ssh`, converted);
      check(text, '', fingerprint(`${file}.ssh`));
    }
    const encrypted = pair.privateKey.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'sword fish' });
    check(encrypted.toString(), 'sword fish', key?.fingerprint ?? '');
    assert.throws(() => parsePrivateKeys(encrypted.toString(), ''), { message: /is encrypted/ });
  }
});

test('what a secret does to a key is repaired', () => {
  const { text, fingerprint: expected } = keygen('-t', 'ed25519');
  const { text: pem, fingerprint: expectedPem } = keygen('-t', 'rsa', '-b', '2048', '-m', 'PEM', '-N', 'sword fish');
  for (const spoil of [
    (whole: string) => whole.trim(),
    (whole: string) => whole.replaceAll('\n', '\r\n'),
    (whole: string) => whole.replaceAll('\n', '\r'),
    (whole: string) => `\ufeff\n\n  ${whole}\n\n`,
    (whole: string) => whole.replace(/^/gm, '    '),
  ]) {
    check(spoil(text), '', expected);
    check(spoil(pem), 'sword fish', expectedPem);
  }
  for (const spoil of [
    (whole: string) => whole.replaceAll('\n', ' '),
    (whole: string) => whole.replaceAll('\n', ''),
    (whole: string) => whole.replaceAll('\n', '\\n'),
  ]) {
    check(spoil(text), '', expected);
  }
});

test('several keys, one after the other', () => {
  const keys = [keygen('-t', 'ed25519'), keygen('-t', 'rsa', '-b', '2048', '-m', 'PEM'), keygen('-t', 'ecdsa', '-m', 'PKCS8')];
  for (const between of ['', '\n', '\n# the old one\n']) {
    const parsed = parsePrivateKeys(keys.map(({ text }) => text.trim()).join(between), '');
    assert.deepEqual(
      parsed.map((key) => key.fingerprint),
      keys.map((key) => key.fingerprint),
    );
  }
  const second = keygen('-t', 'ed25519', '-N', 'sword fish');
  assert.throws(() => parsePrivateKeys(`${keys[0]?.text}${second.text}`, ''), { message: /^key 2 of the ssh-key is encrypted/ });
});

const plain = keygen('-t', 'ed25519');
for (const [what, text, words] of [
  ['a PuTTY key', 'PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none', /PuTTY's format.*puttygen/],
  ['a public key', plain.publicKey, /is a public key/],
  ['a certificate', 'ssh-ed25519-cert-v01@openssh.com AAAAIHNzaC1lZDI1', /is a certificate.*ssh-certificate/],
  ['something else', 'hunter2', /does not start with '-----BEGIN/],
  ['nothing', '', /does not start with '-----BEGIN/],
  [
    'a public key in PEM',
    generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    /does not start with/,
  ],
  ['a cut key', plain.text.slice(0, 200), /no line '-----END/],
  ['a damaged key', plain.text.replace(/\n.{50}/, '\n'), /the ssh-key cannot be read/],
  ['a damaged PKCS#8 key', '-----BEGIN PRIVATE KEY-----\nMC4CAQAw\n-----END PRIVATE KEY-----', /the ssh-key cannot be read/],
  [
    'a kind that SSH does not have',
    generateKeyPairSync('ed448').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    /is of the kind ed448/,
  ],
  [
    'a curve that SSH does not have',
    generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    /curve/,
  ],
] as const) {
  test(`no key: ${what}`, () => {
    assert.throws(() => parsePrivateKeys(text, ''), { name: 'Problem', message: words });
    assert.throws(
      () => parsePrivateKeys(text, ''),
      (error: Error) => !/AAAA|hunter2|MC4C/.test(error.message),
    );
  });
}
