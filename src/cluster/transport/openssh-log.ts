import { Problem } from '../../base/problem.ts';
import {
  cannotReach,
  closedEarly,
  connectionRefused,
  hostKeyRefused,
  hostNotFound,
  keyRejected,
  noAnswer,
  noCommonAlgorithm,
  notSsh,
  secondFactor,
} from '../diagnosis.ts';
import { type KnownHosts, nameOf } from '../known-hosts.ts';

/**
 * Why ssh did not log in, from what it printed with LogLevel DEBUG1 and LC_ALL=C. The texts are those of sshconnect.c,
 * sshconnect2.c, packet.c and misc.c, which have not changed for years.
 * @param where user@host:port of the login node. With jump hosts, the host that ssh names counts
 */
export function diagnose(log: string, where: string, fingerprints: readonly string[], known: KnownHosts): Problem {
  const user = where.split('@')[0] ?? '';
  const find = (pattern: RegExp) => pattern.exec(log);
  const at = (host = '', port = '') => (host === '' ? where : `${user}@${host}${port === '' ? '' : `:${port}`}`);

  const unresolved = find(/Could not resolve hostname (\S+):/);
  if (unresolved) return hostNotFound(at(unresolved[1]));
  const failed = find(/connect to host (\S+) port (\d+): (.*)/);
  if (failed?.[3]?.includes('refused')) return connectionRefused(at(failed[1], failed[2]));
  if (failed?.[3]?.includes('timed out')) return noAnswer(at(failed[1], failed[2]));
  if (failed) return cannotReach(at(failed[1], failed[2]), failed[3]?.trim() ?? '');

  const [, forwarded] = find(/open failed: \S+ \S+: (.*)/) ?? [];
  if (forwarded !== undefined) {
    const reason = forwarded.trim();
    return new Problem(`the jump host cannot reach the next host: ${reason}. Check the host name and port`);
  }

  const hostKey = [...log.matchAll(/Server host key: (\S+) (SHA256:\S+)/g)].at(-1);
  const about = { type: hostKey?.[1] ?? 'a key', fingerprint: hostKey?.[2] ?? '', line: '' };
  const [, changed] = find(/Host key for (\S+) has changed/) ?? [];
  if (changed !== undefined) return hostKeyRefused({ kind: 'changed', ...about }, changed, known.source);
  if (find(/REVOKED HOST KEY DETECTED|marked as revoked/))
    return hostKeyRefused({ kind: 'revoked', ...about }, hostOf(where), known.source);
  const [, unknown] = find(/No \S+ host key is known for (\S+) and/) ?? [];
  if (unknown !== undefined || find(/Host key verification failed/)) {
    return hostKeyRefused({ kind: 'unknown', ...about }, unknown ?? hostOf(where), known.source);
  }

  const negotiation = find(/Unable to negotiate with (\S+) port (\d+): (no matching .*)/);
  if (negotiation) return noCommonAlgorithm(at(negotiation[1], negotiation[2]), negotiation[3]?.trim() ?? '');

  const denied = find(/(?:(\S+)@(\S+): )?Permission denied \(([^)]*)\)/);
  if (denied) {
    const by = denied[1] === undefined ? where : `${denied[1]}@${denied[2]}`;
    const methods = denied[3]?.replaceAll(',', ', ') ?? '';
    return /with partial success/.test(log) ? secondFactor(by, methods) : keyRejected(by, fingerprints, methods);
  }
  if (find(/Too many authentication failures/)) return keyRejected(where, fingerprints, 'no more tries: give fewer keys in ssh-key');

  const configuration = find(/^(\S*config: line \d+: .*|.*Bad configuration option: .*|.*terminating, \d+ bad configuration options.*)$/m);
  if (configuration) {
    return new Problem(
      `ssh on the runner does not take the input ssh-config: ${configuration[1]?.trim()}. Its line numbers count from the start of ssh's own file`,
    );
  }
  const banner = find(
    /(banner line contains invalid characters|Bad remote protocol version identification.*|Protocol major versions differ.*)/,
  );
  if (banner) return notSsh(where, banner[1]?.trim() ?? '');
  if (find(/timed out/)) return noAnswer(where);
  if (find(/Connection (?:closed|reset) by|kex_exchange_identification|Connection to \S+ closed/)) return closedEarly(where);
  return cannotReach(where, lastWords(log) || 'ssh ended without a word');
}

/** The last line that ssh printed for a person; empty if there is none. */
export function lastWords(log: string): string {
  const lines = log.split(/\r?\n/).filter((line) => line.trim() !== '' && !line.startsWith('debug1:'));
  return lines.at(-1)?.trim() ?? '';
}

/** host:port, from user@host:port. */
function hostOf(where: string): string {
  const [, host = '', port = '22'] = /@(.*):(\d+)$/.exec(where) ?? [];
  return nameOf(host, Number(port));
}
