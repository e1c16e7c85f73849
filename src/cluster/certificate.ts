import { Problem } from '../base/problem.ts';
import { fingerprintOf } from './known-hosts.ts';
import { Reader, stringOf } from './ssh-bytes.ts';

/** How many fields the public key of each kind has behind the nonce (PROTOCOL.certkeys). */
const KEY_FIELDS: Readonly<Record<string, number>> = {
  'ssh-rsa': 2,
  'ssh-ed25519': 1,
  'ecdsa-sha2-nistp256': 2,
  'ecdsa-sha2-nistp384': 2,
  'ecdsa-sha2-nistp521': 2,
  'sk-ssh-ed25519@openssh.com': 2,
  'sk-ecdsa-sha2-nistp256@openssh.com': 3,
};

/**
 * Checks the input ssh-certificate: user certificates of the private keys that are valid now. The server checks the rest.
 * @param text as in NAME-cert.pub, one certificate a line
 * @param keys fingerprints of the private keys; none if an agent or a token holds them
 * @param now in milliseconds
 * @returns the certificates, one a line
 * @throws Problem for a text that holds no certificate, and for one that cannot help to log in
 */
export function checkCertificates(text: string, keys: readonly string[], now: number): string[] {
  const lines = text
    .split(/[\r\n]+/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  for (const line of lines) {
    const certificate = parse(line);
    if (certificate === undefined) {
      throw new Problem(
        'the input ssh-certificate is not a certificate. Give the content of the file NAME-cert.pub, which starts like ssh-ed25519-cert-v01@openssh.com AAAA',
      );
    }
    if (!certificate.isForUsers) throw new Problem('the input ssh-certificate is the certificate of a host. Give one for a user');
    const [from, until] = [certificate.validAfter, certificate.validBefore].map((seconds) => Number(seconds) * 1000);
    if (until !== undefined && now >= until) {
      throw new Problem(`the input ssh-certificate expired at ${when(until)}. Ask your site for a new one and store it before you launch`);
    }
    if (from !== undefined && now < from) {
      throw new Problem(`the input ssh-certificate is valid from ${when(from)} on, which is in the future. Check the clock of the runner`);
    }
    if (keys.length > 0 && !keys.includes(certificate.fingerprint)) {
      throw new Problem(
        `the input ssh-certificate belongs to the key ${certificate.fingerprint}, and ssh-key holds ${keys.join(', ')}. Give the certificate and the key of one pair`,
      );
    }
  }
  return lines;
}

function when(milliseconds: number): string {
  // Certificates that never expire have the highest number there is, which no Date can hold.
  return new Date(Math.min(milliseconds, 8.64e15)).toISOString();
}

interface Certificate {
  /** Of the key that it is for. */
  readonly fingerprint: string;
  readonly isForUsers: boolean;
  /** Seconds since 1970. */
  readonly validAfter: bigint;
  readonly validBefore: bigint;
}

function parse(line: string): Certificate | undefined {
  const [, keyType = '', encoded = ''] = /^(\S+)-cert-v01@openssh\.com\s+([A-Za-z0-9+/=]+)/.exec(line) ?? [];
  const plainType = KEY_FIELDS[keyType] === undefined ? `${keyType}@openssh.com` : keyType;
  const fields = KEY_FIELDS[plainType];
  if (fields === undefined) return undefined;
  try {
    const reader = new Reader(Buffer.from(encoded, 'base64'));
    if (!reader.string().toString('latin1').includes('-cert-v01@openssh.com')) return undefined;
    reader.string(); // nonce
    const key = Array.from({ length: fields }, () => stringOf(reader.string()));
    reader.take(8); // serial number
    const kind = reader.number();
    reader.string(); // key id
    reader.string(); // principals
    return {
      fingerprint: fingerprintOf(Buffer.concat([stringOf(Buffer.from(plainType)), ...key])),
      isForUsers: kind === 1,
      validAfter: reader.take(8).readBigUInt64BE(),
      validBefore: reader.take(8).readBigUInt64BE(),
    };
  } catch {
    return undefined;
  }
}
