import { createHash, createHmac } from 'node:crypto';
import { Problem } from '../base/problem.ts';
import { globListMatches } from './glob.ts';

/** One key of a known_hosts file. */
interface Entry {
  readonly marker: '@cert-authority' | '@revoked' | undefined;
  /** Patterns with commas between them, or one name that OpenSSH has hashed. */
  readonly names: string;
  readonly type: string;
  /** The key as it goes over the wire, base64. */
  readonly key: string;
}

/** The parsed text of OpenSSH's known_hosts. */
export interface KnownHosts {
  readonly text: string;
  readonly entries: readonly Entry[];
  /** Where the text stands, for messages: `clusters.NAME.known_hosts` or `the input known-hosts`. */
  readonly source: string;
}

/**
 * Reads the text of a known_hosts file: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT. OpenSSH skips lines that it cannot read. Here
 * they are errors, because a line that does not count is a mistake that nobody notices.
 * @param source where the text stands, for messages
 * @throws Problem that names the first line that is not one of known_hosts
 */
export function parseKnownHosts(text: string, source: string): KnownHosts {
  const entries = text.split(/\r\n?|\n/).flatMap((line, index) => {
    const trimmed = line.trim();
    if (trimmed === '' || trimmed.startsWith('#')) return [];
    const entry = entryOf(trimmed);
    if (typeof entry === 'string') throw new Problem(`line ${index + 1} of ${source} ${entry}`);
    return [entry];
  });
  return { text, entries, source };
}

/** One line, or what is wrong with it. */
function entryOf(line: string): Entry | string {
  const fields = line.split(/\s+/);
  const marker = fields[0]?.startsWith('@') ? fields.shift() : undefined;
  if (marker !== undefined && marker !== '@cert-authority' && marker !== '@revoked') {
    return `starts with ${marker}. Only @cert-authority and @revoked may stand there`;
  }
  const [names = '', type = '', key = ''] = fields;
  if (isKeyType(names)) return 'starts with a key. Put the name of the host in front of it, as ssh-keyscan does';
  if (/^\d+$/.test(type)) return 'holds a key of SSH version 1, which no server uses any more. Remove the line';
  if (!isKeyType(type) || key === '')
    return 'is not a host key. Such a line has a host name, a key type and a key, as ssh-keyscan prints them';
  const raw = Buffer.from(key, 'base64');
  if (raw.toString('base64') !== key || typeOf(raw) !== type) return `holds a damaged key: it is no ${type} key. Copy the line again`;
  if (names.startsWith('|') && hashedName(names) === undefined) return 'has a damaged hashed name. Copy the line again';
  return { marker, names, type, key };
}

function isKeyType(text: string): boolean {
  return /^(?:ssh-|ecdsa-|sk-)[a-z0-9@.-]+$/.test(text);
}

/** The type that a key in the wire format names (RFC 4253, section 6.6). */
function typeOf(key: Buffer): string {
  return key.length < 4 ? '' : key.subarray(4, 4 + key.readUInt32BE(0)).toString('latin1');
}

function hashedName(names: string): { readonly salt: Buffer; readonly hash: Buffer } | undefined {
  const [, salt, hash] = /^\|1\|([A-Za-z0-9+/]+=*)\|([A-Za-z0-9+/]+=*)$/.exec(names) ?? [];
  if (salt === undefined || hash === undefined) return undefined;
  return { salt: Buffer.from(salt, 'base64'), hash: Buffer.from(hash, 'base64') };
}

/** The name under which OpenSSH looks for a host: lower case, `[host]:port` for another port than 22. */
export function nameOf(host: string, port: number): string {
  const name = host.toLowerCase();
  return port === 22 ? name : `[${name}]:${port}`;
}

function matches({ names }: Entry, name: string): boolean {
  const hashed = hashedName(names);
  if (hashed !== undefined) return createHmac('sha1', hashed.salt).update(name).digest().equals(hashed.hash);
  return globListMatches(names.toLowerCase().split(','), name);
}

function entriesFor(known: KnownHosts, name: string): Entry[] {
  return known.entries.filter((entry) => matches(entry, name));
}

/** The key types that are known for a host, so that the handshake asks for one of them. */
export function knownKeyTypes(known: KnownHosts, host: string, port: number): string[] {
  const entries = [...entriesFor(known, nameOf(host, port)), ...entriesFor(known, nameOf(host, 22))];
  return [...new Set(entries.flatMap(({ marker, type }) => (marker === undefined ? [type] : [])))];
}

export type Verdict =
  | { readonly kind: 'known' }
  | {
      /** `authority-only`: the only entries for the host are certificate authorities, and the host offered a plain key. */
      readonly kind: 'unknown' | 'changed' | 'revoked' | 'authority-only';
      readonly type: string;
      readonly fingerprint: string;
      /** What to add to known_hosts if the key is right. */
      readonly line: string;
    };

/**
 * Is this the host's key? Every key on every matching line counts, because one name may stand for several login nodes. If
 * nothing is known of `[host]:port`, the entries for the host alone count, as in OpenSSH (sshconnect.c, check_host_key).
 * @param key in the wire format (RFC 4253, section 6.6)
 */
export function checkHostKey(known: KnownHosts, host: string, port: number, key: Buffer): Verdict {
  const encoded = key.toString('base64');
  const type = typeOf(key);
  const about = { type, fingerprint: fingerprintOf(key), line: `${nameOf(host, port)} ${type} ${encoded}` };
  const [here, anyPort] = [entriesFor(known, nameOf(host, port)), entriesFor(known, nameOf(host, 22))];
  const isPlain = ({ marker }: Entry) => marker === undefined;
  if ([...here, ...anyPort].some((entry) => entry.marker === '@revoked' && entry.key === encoded)) return { kind: 'revoked', ...about };
  for (const entries of [here.filter(isPlain), anyPort.filter(isPlain)]) {
    if (entries.some((entry) => entry.key === encoded)) return { kind: 'known' };
    if (entries.some((entry) => entry.type === type)) return { kind: 'changed', ...about };
  }
  const isAuthority = ({ marker }: Entry) => marker === '@cert-authority';
  const onlyAuthority = !here.some(isPlain) && [...here, ...anyPort].some(isAuthority);
  return { kind: onlyAuthority ? 'authority-only' : 'unknown', ...about };
}

/** The fingerprint of a key, as ssh-keygen -l prints it. */
export function fingerprintOf(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`;
}
