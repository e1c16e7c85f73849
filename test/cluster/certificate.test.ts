import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { checkCertificates } from '../../src/cluster/certificate.ts';
import { parsePrivateKeys } from '../../src/cluster/keys.ts';

const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-certificates-'));
after(() => rmSync(directory, { recursive: true }));

function keygen(...args: string[]): void {
  execFileSync('ssh-keygen', ['-q', ...args], { cwd: directory, stdio: 'pipe', env: { ...process.env, TZ: 'UTC' } });
}
keygen('-t', 'ed25519', '-N', '', '-f', 'ca');

function signed(type: string, ...args: string[]): { readonly text: string; readonly fingerprint: string } {
  rmSync(join(directory, 'key'), { force: true });
  keygen('-t', type, '-N', '', '-f', 'key');
  keygen('-s', 'ca', '-I', 'alice', '-n', 'alice', ...args, 'key.pub');
  const [key] = parsePrivateKeys(readFileSync(join(directory, 'key'), 'utf8'), '');
  return { text: readFileSync(join(directory, 'key-cert.pub'), 'utf8'), fingerprint: key?.fingerprint ?? '' };
}

const NOW = Date.parse('2030-01-02T00:00:00Z');
const DAY = ['-V', '20300101000000:20300103000000'];

for (const type of ['ed25519', 'rsa', 'ecdsa']) {
  test(`a certificate for a key of the kind ${type}`, () => {
    const { text, fingerprint } = signed(type, ...DAY);
    assert.deepEqual(checkCertificates(text, [fingerprint], NOW), [text.trim()]);
    assert.deepEqual(checkCertificates(`\n# mine\r\n${text}\n`, [], NOW), [text.trim()], 'a token or an agent has the key');
    assert.throws(() => checkCertificates(text, ['SHA256:other'], NOW), {
      message: new RegExp(`belongs to the key ${fingerprint.replaceAll(/[+/]/g, '\\$&')}, and ssh-key holds SHA256:other`),
    });
  });
}

test('its time', () => {
  const { text } = signed('ed25519', ...DAY);
  assert.throws(() => checkCertificates(text, [], Date.parse('2030-01-03T00:00:00Z')), {
    message: /^the input ssh-certificate expired at 2030-01-03T00:00:00\.000Z/,
  });
  assert.throws(() => checkCertificates(text, [], Date.parse('2029-12-31T23:59:59Z')), {
    message: /valid from 2030-01-01T00:00:00\.000Z on/,
  });
  const forEver = signed('ed25519').text;
  assert.equal(checkCertificates(forEver, [], NOW).length, 1);
});

test('none, and what is no user certificate', () => {
  assert.deepEqual(checkCertificates('', [], NOW), []);
  assert.throws(() => checkCertificates(signed('ed25519', '-h').text, [], NOW), { message: /is the certificate of a host/ });
  const { text } = signed('ed25519', ...DAY);
  for (const broken of ['hunter2', readFileSync(join(directory, 'key.pub'), 'utf8'), text.slice(0, 200), text.replace('AAAA', 'AAAB')]) {
    assert.throws(() => checkCertificates(broken, [], NOW), { name: 'Problem', message: /is not a certificate/ });
  }
});
