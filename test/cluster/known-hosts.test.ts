import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { checkHostKey, fingerprintOf, knownKeyTypes } from '../../src/cluster/known-hosts.ts';

const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-keys-'));
after(() => rmSync(directory, { recursive: true }));

function keygen(name: string, type = 'ed25519') {
  const file = join(directory, name);
  execFileSync('ssh-keygen', ['-q', '-t', type, '-N', '', '-f', file]);
  const [kind = '', encoded = ''] = readFileSync(`${file}.pub`, 'utf8').split(' ');
  return { file, line: `${kind} ${encoded}`, raw: Buffer.from(encoded, 'base64') };
}
const key = keygen('a');
const other = keygen('b');
const rsa = keygen('c', 'rsa');
const kind = (text: string, host = 'login', port = 22, raw = key.raw) => checkHostKey(text, host, port, raw).kind;

test('names, lists of names, ports, patterns and negations', () => {
  assert.equal(kind(`login ${key.line}`), 'known');
  assert.equal(kind(`a,login,10.0.0.1 ${key.line} a comment`), 'known');
  assert.equal(kind(`[login]:2222 ${key.line}`, 'login', 2222), 'known');
  assert.equal(kind(`login ${key.line}`, 'login', 2222), 'unknown');
  assert.equal(kind(`[login]:2222 ${key.line}`), 'unknown');
  assert.equal(kind(`login*.example.edu ${key.line}`, 'login3.example.edu'), 'known');
  assert.equal(kind(`*.example.edu,!bad.example.edu ${key.line}`, 'bad.example.edu'), 'unknown');
  assert.equal(kind(`LOGIN ${key.line}`), 'known');
  assert.equal(kind(`loginxexample ${key.line}`, 'login.example'), 'unknown');
});

test('names that OpenSSH itself has hashed', () => {
  const file = join(directory, 'known_hosts');
  writeFileSync(file, `login ${key.line}\n[login]:2222 ${key.line}\n`);
  execFileSync('ssh-keygen', ['-q', '-H', '-f', file], { stdio: 'ignore' });
  const text = readFileSync(file, 'utf8');
  assert.match(text, /^\|1\|/);
  assert.equal(kind(text), 'known');
  assert.equal(kind(text, 'login', 2222), 'known');
  assert.equal(kind(text, 'other'), 'unknown');
});

test('several keys for one name, several types', () => {
  const text = `# login nodes\nlogin ${other.line}\nlogin ${key.line}\r\nlogin ${rsa.line}\n`;
  for (const raw of [key.raw, other.raw, rsa.raw]) assert.equal(kind(text, 'login', 22, raw), 'known');
  assert.deepEqual(knownKeyTypes(text, 'login', 22), ['ssh-ed25519', 'ssh-rsa']);
});

test('another key of the same type is a changed key, of another type an unknown one', () => {
  assert.equal(kind(`login ${other.line}`), 'changed');
  assert.equal(kind(`login ${rsa.line}`), 'unknown');
  assert.equal(kind(''), 'unknown');
});

test('a revoked key is refused even where it is also known, and a certificate authority is no key', () => {
  assert.equal(kind(`login ${key.line}\n@revoked * ${key.line}`), 'revoked');
  assert.equal(kind(`@cert-authority login ${key.line}`), 'unknown');
});

test('the fingerprint is the one ssh-keygen prints, and the line to add makes the key known', () => {
  assert.equal(fingerprintOf(key.raw), execFileSync('ssh-keygen', ['-lf', key.file], { encoding: 'utf8' }).split(' ')[1]);
  const verdict = checkHostKey('', 'login', 2222, key.raw);
  assert.ok(verdict.kind !== 'known');
  assert.equal(kind(verdict.line, 'login', 2222), 'known');
});
