import { createHash, createHmac } from 'node:crypto';

/** One key of OpenSSH's known_hosts. */
interface Entry {
  readonly patterns: readonly string[];
  readonly type: string;
  /** The key as it goes over the wire, base64. */
  readonly key: string;
  readonly revoked: boolean;
}

/** Skips lines without a key: comments, and certificate authorities, which ssh2 does not support. See sshd(8), SSH_KNOWN_HOSTS FILE FORMAT. */
function parse(text: string): Entry[] {
  const entries: Entry[] = [];
  for (const line of text.split(/\r?\n/)) {
    const fields = line.trim().split(/\s+/);
    const marker = fields[0]?.startsWith('@') ? fields.shift() : undefined;
    const [patterns, type, key] = fields;
    if (!patterns || patterns.startsWith('#') || !type || !key || marker === '@cert-authority') continue;
    entries.push({ patterns: patterns.split(','), type, key, revoked: marker === '@revoked' });
  }
  return entries;
}

function nameOf(host: string, port: number): string {
  return port === 22 ? host : `[${host}]:${port}`;
}

function matches(entry: Entry, name: string): boolean {
  let matched = false;
  for (const pattern of entry.patterns) {
    if (pattern.startsWith('|1|')) {
      const [, , salt = '', hash = ''] = pattern.split('|');
      if (createHmac('sha1', Buffer.from(salt, 'base64')).update(name).digest('base64') === hash) matched = true;
    } else if (pattern.startsWith('!')) {
      if (glob(pattern.slice(1), name)) return false;
    } else if (glob(pattern, name)) matched = true;
  }
  return matched;
}

function glob(pattern: string, name: string): boolean {
  const expression = pattern
    .toLowerCase()
    .replace(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.');
  return new RegExp(`^${expression}$`).test(name.toLowerCase());
}

/** The key types that are known for a host, so that the handshake asks for one of them. */
export function knownKeyTypes(text: string, host: string, port: number): string[] {
  const name = nameOf(host, port);
  return [
    ...new Set(
      parse(text)
        .filter((entry) => !entry.revoked && matches(entry, name))
        .map((entry) => entry.type),
    ),
  ];
}

export type Verdict =
  | { readonly kind: 'known' }
  | { readonly kind: 'unknown' | 'changed' | 'revoked'; readonly type: string; readonly fingerprint: string; readonly line: string };

/**
 * Is this the host's key? Every key on every matching line counts, because one name may stand for several login nodes.
 * @param key in the wire format (RFC 4253, section 6.6)
 */
export function checkHostKey(text: string, host: string, port: number, key: Buffer): Verdict {
  const name = nameOf(host, port);
  const encoded = key.toString('base64');
  const type = key.subarray(4, 4 + key.readUInt32BE(0)).toString('latin1');
  const about = { type, fingerprint: fingerprintOf(key), line: `${name} ${type} ${encoded}` };
  const entries = parse(text).filter((entry) => matches(entry, name));
  if (entries.some((entry) => entry.revoked && entry.key === encoded)) return { kind: 'revoked', ...about };
  if (entries.some((entry) => entry.type === type && entry.key === encoded)) return { kind: 'known' };
  return { kind: entries.some((entry) => entry.type === type) ? 'changed' : 'unknown', ...about };
}

/** The fingerprint of a key, as ssh-keygen -l prints it. */
export function fingerprintOf(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`;
}
