import type { Readable } from 'node:stream';
import ssh2, { type AuthenticationType, type Client, type ClientChannel, type ConnectConfig } from 'ssh2';
import { messageOf, Problem } from '../base/problem.ts';
import type { Cluster, Hop } from '../experiment/repo-config.ts';
import { type PrivateKey, parsePrivateKeys } from './keys.ts';
import { checkHostKey, type KnownHosts, knownKeyTypes, parseKnownHosts, type Verdict } from './known-hosts.ts';

/** A connection to the login node. Commands run one after another, each on a channel of its own (sshd's MaxSessions counts them). */
export interface Connection {
  /** user@host, for messages. */
  readonly name: string;
  execute(command: string, options: Execution): Promise<Exit>;
  close(): void;
}

export interface Execution {
  readonly input: Readable;
  readonly onStdout: (chunk: Buffer) => void;
  readonly onStderr: (chunk: Buffer) => void;
  readonly deadlineSeconds: number;
}

/** How a command ended. `lost`: the outcome is not known, because the connection broke, time ran out, or a signal ended it. */
export type Exit = { readonly code: number } | { readonly lost: string };

export interface Credentials {
  /** One key or several, which each host tries in order. */
  readonly privateKey: string;
  readonly passphrase: string;
  /** Replaces the known_hosts of every cluster, unless it is empty. */
  readonly knownHosts: string;
}

const READY_SECONDS = 30;
const KEEPALIVE_SECONDS = 15;
const CONNECT_TRIES = 3;

/**
 * Logs in, through the jump hosts if there are any, checking every host's key.
 * @throws Problem with one message per cause: host, key, host key, second factor, firewall
 */
export async function connect(cluster: Cluster, credentials: Credentials): Promise<Connection> {
  const keys = keysOf(credentials);
  const known = knownHostsOf(cluster, credentials);
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await connectOnce(cluster, keys, known);
    } catch (error) {
      // Only a login that failed is tried again: nothing can have happened on the cluster.
      if (!(error instanceof Unreachable) || attempt >= CONNECT_TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, attempt * 1000));
    }
  }
}

class Unreachable extends Problem {}

function keysOf({ privateKey, passphrase }: Credentials): PrivateKey[] {
  const keys = parsePrivateKeys(privateKey, passphrase);
  if (keys.some(({ type }) => type.startsWith('sk-'))) {
    throw new Problem('the ssh-key is the handle of a FIDO key, which transport ssh2 cannot use. Use another key, or transport: openssh');
  }
  return keys;
}

function knownHostsOf(cluster: Cluster, { knownHosts }: Credentials): KnownHosts {
  return knownHosts.trim() === ''
    ? parseKnownHosts(cluster.knownHosts, `clusters.${cluster.name}.known_hosts`)
    : parseKnownHosts(knownHosts, 'the input known-hosts');
}

/** @param where host:port */
function refusalOf(verdict: Exclude<Verdict, { readonly kind: 'known' }>, where: string, source: string): Problem {
  const offered = `It offered ${verdict.type} ${verdict.fingerprint}`;
  switch (verdict.kind) {
    case 'unknown':
      return new Problem(
        `the host key of ${where} is not in ${source}. ${offered}. Compare this fingerprint with the one in the cluster's documentation, or ask its staff. If it matches, add this line to ${source}: ${verdict.line}`,
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
        `${source} has only a @cert-authority for ${where}, and transport ssh2 cannot check host certificates. Add the host key itself. ${offered}. Compare this fingerprint with the one in the cluster's documentation. If it matches, add this line to ${source}: ${verdict.line}`,
      );
    default:
      throw verdict.kind satisfies never;
  }
}

async function connectOnce(cluster: Cluster, keys: readonly PrivateKey[], known: KnownHosts): Promise<Connection> {
  const opened: Client[] = [];
  try {
    let through: ClientChannel | undefined;
    const hops = [...cluster.jumps, cluster.login];
    let client: Client | undefined;
    for (const hop of hops) {
      if (client !== undefined) through = await forward(client, hop);
      client = await login(hop, keys, known, through);
      opened.push(client);
    }
    if (client === undefined) throw new Problem('no host to connect to');
    return connectionOver(client, opened, `${cluster.login.user}@${cluster.login.host}`);
  } catch (error) {
    for (const client of opened) client.destroy();
    throw error;
  }
}

function forward(client: Client, hop: Hop): Promise<ClientChannel> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(
      () =>
        reject(
          new Unreachable(`the jump host did not reach ${hop.host}:${hop.port} within ${READY_SECONDS} s. Check the host name and port`),
        ),
      READY_SECONDS * 1000,
    );
    client.forwardOut('127.0.0.1', 0, hop.host, hop.port, (error, channel) => {
      clearTimeout(late);
      if (error) reject(new Problem(`the jump host cannot reach ${hop.host}:${hop.port}: ${error.message}. Check the host name and port`));
      else resolve(channel);
    });
  });
}

function login(hop: Hop, keys: readonly PrivateKey[], known: KnownHosts, sock: ClientChannel | undefined): Promise<Client> {
  const where = `${hop.user}@${hop.host}:${hop.port}`;
  const client = new ssh2.Client();
  return new Promise((resolve, reject) => {
    let refusedHostKey: Problem | undefined;
    let offered: readonly AuthenticationType[] | undefined;
    let accepted = false;
    const untried = [...keys];
    const config: ConnectConfig = {
      host: hop.host,
      port: hop.port,
      username: hop.user,
      ...(sock ? { sock } : {}),
      readyTimeout: READY_SECONDS * 1000,
      keepaliveInterval: KEEPALIVE_SECONDS * 1000,
      keepaliveCountMax: 4,
      algorithms: { serverHostKey: hostKeyAlgorithms(knownKeyTypes(known, hop.host, hop.port)) },
      hostVerifier: (hostKey: Buffer) => {
        const verdict = checkHostKey(known, hop.host, hop.port, hostKey);
        if (verdict.kind === 'known') return true;
        refusedHostKey = refusalOf(verdict, `${hop.host}:${hop.port}`, known.source);
        return false;
      },
      authHandler: (methodsLeft, partialSuccess, next) => {
        if (methodsLeft) offered = methodsLeft;
        if (partialSuccess) accepted = true;
        const key = untried.shift();
        if (key === undefined || accepted) return next(false as never);
        next({ type: 'publickey', username: hop.user, key: key.text });
      },
    };
    client.on('ready', () => resolve(client));
    client.on('error', (error: Error & { level?: string; code?: string }) => {
      if (refusedHostKey) return reject(refusedHostKey);
      if (error.level === 'client-authentication') {
        const methods = offered?.join(', ') || 'none';
        return reject(
          new Problem(
            accepted
              ? `${where} accepted the key and asks for a second factor (${methods}). A workflow cannot give one. Ask the cluster's staff for an account that may log in with a key alone`
              : `${where} rejected the key ${keys.map(({ fingerprint }) => fingerprint).join(', ')}. Add its public key to ~/.ssh/authorized_keys of ${hop.user} on that host. The server accepts: ${methods}`,
          ),
        );
      }
      if (/no matching/i.test(error.message)) {
        return reject(
          new Problem(
            `${where} and this client have no algorithm in common (${error.message}). The server is too old, or its settings are too strict`,
          ),
        );
      }
      reject(
        new Unreachable(
          `cannot reach ${where}: ${error.message}. Check the host name, whether the login node accepts connections from the runner (firewall, VPN, fail2ban), and whether it needs proxy_jump`,
        ),
      );
    });
    client.on('close', () => reject(new Unreachable(`${where} closed the connection before the login was complete`)));
    client.connect(config);
  });
}

/** The types in known_hosts come first. Otherwise the server might offer a key that is not in it (ssh_config(5), HostKeyAlgorithms). */
function hostKeyAlgorithms(known: readonly string[]): NonNullable<ConnectConfig['algorithms']>['serverHostKey'] & string[] {
  const all = ['ssh-ed25519', 'ecdsa-sha2-nistp256', 'ecdsa-sha2-nistp384', 'ecdsa-sha2-nistp521', 'rsa-sha2-512', 'rsa-sha2-256'];
  const isKnown = (algorithm: string) => known.includes(algorithm.startsWith('rsa-') ? 'ssh-rsa' : algorithm);
  return [...all.filter(isKnown), ...all.filter((algorithm) => !isKnown(algorithm))] as never;
}

function connectionOver(client: Client, opened: readonly Client[], name: string): Connection {
  let lost = '';
  client.on('error', (error) => {
    lost ||= error.message;
  });
  client.on('close', () => {
    lost ||= 'the connection was closed';
  });
  return {
    name,
    execute: (command, options) => execute(client, command, options, () => lost),
    close() {
      for (const one of opened.toReversed()) one.end();
    },
  };
}

function execute(client: Client, command: string, options: Execution, lostReason: () => string): Promise<Exit> {
  return new Promise((resolve) => {
    let code: number | undefined;
    let ended = false;
    const finish = (exit: Exit) => {
      if (ended) return;
      ended = true;
      clearTimeout(late);
      client.removeListener('close', onLost);
      resolve(exit);
    };
    const onLost = () => finish({ lost: lostReason() || 'the connection was closed' });
    const late = setTimeout(() => {
      finish({ lost: `no end within ${options.deadlineSeconds} s` });
      client.destroy();
    }, options.deadlineSeconds * 1000);
    client.once('close', onLost);
    if (lostReason()) return onLost();
    client.exec(command, (error, channel) => {
      if (error) return finish({ lost: error.message });
      // Both streams are always read, because a full window would stop the command.
      channel.on('data', options.onStdout);
      channel.stderr.on('data', options.onStderr);
      channel.on('exit', (status: number | null) => {
        if (status !== null) code = status;
      });
      channel.on('close', () => finish(code === undefined ? { lost: lostReason() || 'the command ended without an exit code' } : { code }));
      options.input.on('error', (reason) => {
        // Half an input must not look like a whole one, so the command never sees its end.
        finish({ lost: messageOf(reason) });
        channel.destroy();
      });
      options.input.pipe(channel);
    });
  });
}
