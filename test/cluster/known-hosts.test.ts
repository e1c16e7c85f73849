import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { globMatches } from '../../src/cluster/glob.ts';
import { checkHostKey, fingerprintOf, knownKeyTypes, parseKnownHosts } from '../../src/cluster/known-hosts.ts';

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
const SOURCE = 'clusters.entropy.known_hosts';
const known = (text: string) => parseKnownHosts(text, SOURCE);
const kind = (text: string, host = 'login', port = 22, raw = key.raw) => checkHostKey(known(text), host, port, raw).kind;

test('names, lists of names, ports, patterns and negations', () => {
  assert.equal(kind(`login ${key.line}`), 'known');
  assert.equal(kind(`a,login,10.0.0.1 ${key.line} a comment`), 'known');
  assert.equal(kind(`[login]:2222 ${key.line}`, 'login', 2222), 'known');
  // OpenSSH falls back to the name without the port if it knows nothing of the name with it.
  assert.equal(kind(`login ${key.line}`, 'login', 2222), 'known');
  assert.equal(kind(`login ${key.line}\n[login]:2222 ${other.line}`, 'login', 2222), 'changed');
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
  assert.deepEqual(knownKeyTypes(known(text), 'login', 22), ['ssh-ed25519', 'ssh-rsa']);
});

test('another key of the same type is a changed key, of another type an unknown one', () => {
  assert.equal(kind(`login ${other.line}`), 'changed');
  assert.equal(kind(`login ${rsa.line}`), 'unknown');
  assert.equal(kind(''), 'unknown');
});

test('a revoked key is refused even where it is also known, and a certificate authority is no key', () => {
  assert.equal(kind(`login ${key.line}\n@revoked * ${key.line}`), 'revoked');
  assert.equal(kind(`login ${key.line}\n@revoked [login]:2222 ${key.line}`, 'login', 2222), 'revoked');
  assert.equal(kind(`@cert-authority login ${key.line}`), 'authority-only');
  assert.equal(kind(`@cert-authority login ${key.line}\nlogin ${key.line}`), 'known');
  assert.equal(kind(`@cert-authority * ${key.line}\nlogin ${other.line}`), 'changed');
});

test('the fingerprint is the one ssh-keygen prints, and the line to add makes the key known', () => {
  assert.equal(fingerprintOf(key.raw), execFileSync('ssh-keygen', ['-lf', key.file], { encoding: 'utf8' }).split(' ')[1]);
  const verdict = checkHostKey(known(''), 'login', 2222, key.raw);
  assert.ok(verdict.kind !== 'known');
  assert.equal(kind(verdict.line, 'login', 2222), 'known');
});

test('a name matches exactly where ssh-keygen finds it', () => {
  const names = [
    ...['login', 'LOGIN', 'log?n', 'l*n', '*', 'login,!login', '!login', '*,!log*', '!x,login', 'a,b,Login', 'lo.in', 'login*'],
    ...['[login]:2222', '[log*]:2222', '[login]:*', '[login]:22', '*,![login]:2222', 'login.', '[LOGIN]:2222', '**gin', 'login?', ''],
  ];
  const file = join(directory, 'compared');
  for (const pattern of names.filter(Boolean)) {
    writeFileSync(file, `${pattern} ${key.line}\n`);
    for (const [name, host, port] of [
      ['login', 'login', 22],
      ['[login]:2222', 'login', 2222],
      ['other', 'other', 22],
    ] as const) {
      const { status } = spawnSync('ssh-keygen', ['-F', name, '-f', file]);
      const line = `${pattern} ${key.line}`;
      // ssh falls back to the name without the port, ssh-keygen does not.
      const fallsBack = port !== 22 && kind(line, host) === 'known';
      if (!fallsBack) assert.equal(kind(line, host, port) === 'known', status === 0, `${pattern} for ${name}`);
    }
  }
});

test('globs are matched without backtracking', () => {
  const start = performance.now();
  assert.equal(globMatches(`${'*a'.repeat(5_000)}*b`, 'a'.repeat(10_000)), false);
  assert.equal(globMatches('*a'.repeat(1_000), 'a'.repeat(10_000)), true);
  assert.ok(performance.now() - start < 2_000);
  assert.equal(globMatches('a*b?d', 'a*b*d'), true);
  assert.equal(globMatches('', ''), true);
  assert.equal(globMatches('?', ''), false);
  assert.equal(globMatches('*', ''), true);
  assert.equal(globMatches('a*c', 'abcbd'), false);
});

for (const [what, line, words] of [
  ['a public key file', () => key.line, /starts with a key\. Put the name of the host in front of it/],
  ['a name alone', () => 'login', /is not a host key/],
  ['no key', () => 'login ssh-ed25519', /is not a host key/],
  ['another marker', () => `@trusted login ${key.line}`, /starts with @trusted/],
  ['SSH version 1', () => 'login 1024 35 1234567', /SSH version 1/],
  ['a cut key', () => `login ${key.line.slice(0, -7)}`, /damaged key: it is no ssh-ed25519 key/],
  ['another type than the key has', () => `login ssh-rsa ${key.line.split(' ')[1]}`, /it is no ssh-rsa key/],
  ['a damaged hash', () => `|1|abc ${key.line}`, /damaged hashed name/],
] as const) {
  test(`a bad line is named with its number: ${what}`, () => {
    const text = `# comment\n\nlogin ${key.line}\n${line()}\n`;
    assert.throws(() => known(text), { name: 'Problem', message: words });
    assert.throws(() => known(text), { message: new RegExp(`^line 4 of ${SOURCE} `) });
  });
}
