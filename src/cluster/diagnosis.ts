// Why a login failed, in words. Both SSH transports find out in their own way and say the same. `where` is user@host:port.
import { Problem } from '../base/problem.ts';
import type { Verdict } from './known-hosts.ts';
import { READY_SECONDS, Unreachable } from './transport.ts';

export function hostNotFound(where: string): Problem {
  return new Unreachable(
    `cannot reach ${where}: there is no host of this name. Check host and proxy_jump. A name that exists only inside the cluster's network needs proxy_jump or a self-hosted runner`,
  );
}

export function connectionRefused(where: string): Problem {
  return new Unreachable(`cannot reach ${where}: the connection was refused. No SSH server listens at this port. Check host and port`);
}

/** Not tried again: the network has sent every packet several times by then. */
export function noAnswer(where: string): Problem {
  return new Problem(
    `cannot reach ${where}: no answer within ${READY_SECONDS} s. A firewall may drop connections from the runner, or the host is only reachable through a VPN or proxy_jump. Ask the cluster's staff, or use a self-hosted runner`,
  );
}

export function notSsh(where: string, detail: string): Problem {
  return new Problem(`${where} does not speak SSH version 2 (${detail}). Check host and port`);
}

export function cannotReach(where: string, detail: string): Problem {
  return new Unreachable(
    `cannot reach ${where}: ${detail}. Check the host name, whether the login node accepts connections from the runner (firewall, VPN, fail2ban), and whether it needs proxy_jump`,
  );
}

export function closedEarly(where: string): Problem {
  return new Unreachable(
    `${where} closed the connection before the login was complete. It may limit connections (MaxStartups, fail2ban), or block the runner's address. Wait some minutes, or ask the cluster's staff`,
  );
}

/** @param detail which algorithms, as far as is known */
export function noCommonAlgorithm(where: string, detail: string): Problem {
  return new Problem(
    `${where} and this client have no algorithm in common (${detail}). The server is too old, or its settings are too strict. The input ssh-config can allow more: HostKeyAlgorithms, KexAlgorithms, Ciphers, MACs`,
  );
}

/** @param keys fingerprints of what was offered */
export function keyRejected(where: string, keys: readonly string[], methods: string): Problem {
  const [user = ''] = where.split('@');
  const what = keys.length === 0 ? 'the login' : `the key ${keys.join(', ')}`;
  return new Problem(
    `${where} rejected ${what}. Add its public key to ~/.ssh/authorized_keys of ${user} on that host, or to the web form of the site. If the site signs keys, give the certificate in the input ssh-certificate. The server accepts: ${methods || 'nothing'}`,
  );
}

export function secondFactor(where: string, methods: string): Problem {
  return new Problem(
    `${where} accepted the key and asks for a second factor (${methods}). A workflow cannot give one. Ask the cluster's staff for an account that may log in with a key alone, or run a self-hosted runner on the login node with transport: local`,
  );
}

/** @param where host:port. @param source where known_hosts stands */
export function hostKeyRefused(verdict: Exclude<Verdict, { readonly kind: 'known' }>, where: string, source: string): Problem {
  const offered = `It offered ${verdict.type} ${verdict.fingerprint}`;
  const add = verdict.line === '' ? '' : `. If it matches, add this line to ${source}: ${verdict.line}`;
  switch (verdict.kind) {
    case 'unknown':
      return new Problem(
        `the host key of ${where} is not in ${source}. ${offered}. Compare this fingerprint with the one in the cluster's documentation, or ask its staff${add}`,
      );
    case 'changed':
      return new Problem(
        `the host key of ${where} is NOT the one in ${source}. Somebody may be intercepting the connection, or the host has a new key. ${offered}. Ask the cluster's staff whether that is its new key before you replace the old one`,
      );
    case 'revoked':
      return new Problem(
        `the host key of ${where} is marked @revoked in ${source}. ${offered}. Ask the cluster's staff for the new host key`,
      );
    case 'authority-only':
      return new Problem(
        `${source} has only a @cert-authority for ${where}, and transport ssh2 cannot check host certificates. Use transport: openssh, or add the host key itself. ${offered}. Compare this fingerprint with the one in the cluster's documentation${add}`,
      );
    default:
      throw verdict.kind satisfies never;
  }
}
