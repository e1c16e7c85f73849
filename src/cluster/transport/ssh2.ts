import type { AuthenticationType, Client, ClientChannel, ConnectConfig } from 'ssh2';
import SshClient from 'ssh2/lib/client.js';
import constants from 'ssh2/lib/protocol/constants.js';
import { messageOf, Problem } from '../../base/problem.ts';
import type { Cluster } from '../../experiment/repo-config.ts';
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
import { globMatches } from '../glob.ts';
import { type PrivateKey, parsePrivateKeys } from '../keys.ts';
import { checkHostKey, type KnownHosts, knownKeyTypes } from '../known-hosts.ts';
import { type Station, stationsOf } from '../ssh-config.ts';
import {
  type Connection,
  type Credentials,
  type Execution,
  type Exit,
  KEEPALIVE_COUNT,
  KEEPALIVE_SECONDS,
  READY_SECONDS,
  Unreachable,
} from '../transport.ts';

/** What every host on the way takes or checks. */
interface Identity {
  readonly keys: readonly PrivateKey[];
  /** The socket of an agent, which counts if there are no keys. */
  readonly agent: string;
  readonly known: KnownHosts;
}

/**
 * SSH in the action's own process, by the npm package ssh2. Nothing is written to the runner's disk.
 * @returns a function that logs in, through the jump hosts if there are any, and checks every host's key
 * @throws Problem for credentials that ssh2 cannot use; the returned function rejects with one message per cause
 */
export function ssh2Login(cluster: Cluster, credentials: Credentials, known: KnownHosts): () => Promise<Connection> {
  if (credentials.certificate.trim() !== '') {
    throw new Problem(
      `the input ssh-certificate needs OpenSSH, because transport ssh2 does not support certificates. Set transport: openssh in clusters.${cluster.name}`,
    );
  }
  const stations = stationsOf(cluster, credentials.sshConfig);
  const identity: Identity = { keys: keysOf(credentials), agent: credentials.agent, known };
  for (const station of stations) algorithmsOf(station, []); // fails now if ssh2 has none of them
  return () => connect(stations, identity, `${cluster.login.user}@${cluster.login.host}`);
}

function keysOf({ privateKey, passphrase, agent }: Credentials): PrivateKey[] {
  if (privateKey.trim() === '' && agent !== '') return [];
  const keys = parsePrivateKeys(privateKey, passphrase);
  if (keys.some(({ type }) => type.startsWith('sk-'))) {
    throw new Problem('the ssh-key is the handle of a FIDO key, which transport ssh2 cannot use. Use another key, or transport: openssh');
  }
  return keys;
}

async function connect(stations: readonly Station[], identity: Identity, name: string): Promise<Connection> {
  const opened: Client[] = [];
  try {
    let client: Client | undefined;
    for (const station of stations) {
      const through = client && (await forward(client, station));
      client = await login(station, identity, through);
      opened.push(client);
    }
    if (client === undefined) throw new Problem('no host to connect to');
    return connectionOver(client, opened, name);
  } catch (error) {
    for (const client of opened) client.destroy();
    throw error;
  }
}

function forward(client: Client, { host, port }: Station): Promise<ClientChannel> {
  return new Promise((resolve, reject) => {
    const problem = new Unreachable(`the jump host did not reach ${host}:${port} within ${READY_SECONDS} s. Check the host name and port`);
    const late = setTimeout(() => reject(problem), READY_SECONDS * 1000);
    client.forwardOut('127.0.0.1', 0, host, port, (error, channel) => {
      clearTimeout(late);
      if (error) reject(new Problem(`the jump host cannot reach ${host}:${port}: ${error.message}. Check the host name and port`));
      else resolve(channel);
    });
  });
}

function login(station: Station, { keys, agent, known }: Identity, sock: ClientChannel | undefined): Promise<Client> {
  const { user, host, port } = station;
  const where = `${user}@${host}:${port}`;
  const name = station.knownAs || host;
  const namedPort = station.knownAs === '' ? port : 22; // an alias stands in known_hosts without a port
  const client = new SshClient();
  return new Promise((resolve, reject) => {
    let refusedHostKey: Problem | undefined;
    let offered: readonly AuthenticationType[] | undefined;
    let accepted = false;
    const untried: ConnectAttempt[] = keys.map(({ text }) => ({ type: 'publickey', username: user, key: text }));
    if (keys.length === 0) untried.push({ type: 'agent', username: user, agent });
    const config: ConnectConfig = {
      host,
      port,
      username: user,
      ...(sock ? { sock } : {}),
      readyTimeout: READY_SECONDS * 1000,
      keepaliveInterval: KEEPALIVE_SECONDS * 1000,
      keepaliveCountMax: KEEPALIVE_COUNT,
      algorithms: algorithmsOf(station, knownKeyTypes(known, name, namedPort)),
      hostVerifier: (hostKey: Buffer) => {
        const verdict = checkHostKey(known, name, namedPort, hostKey);
        if (verdict.kind === 'known') return true;
        refusedHostKey = hostKeyRefused(verdict, `${host}:${port}`, known.source);
        return false;
      },
      authHandler: (methodsLeft, partialSuccess, next) => {
        if (methodsLeft) offered = methodsLeft;
        if (partialSuccess) accepted = true;
        next(accepted ? (false as never) : (untried.shift() ?? (false as never)));
      },
    };
    client.on('ready', () => resolve(client));
    client.on('error', (error: Error & { level?: string; code?: string }) => {
      const { message, level = '', code = '' } = error;
      if (refusedHostKey) reject(refusedHostKey);
      else if (level === 'client-authentication') {
        const methods = offered?.join(', ') ?? '';
        const fingerprints = keys.map(({ fingerprint }) => fingerprint);
        reject(accepted ? secondFactor(where, methods) : keyRejected(where, fingerprints, methods));
      } else if (/no matching/i.test(message)) reject(noCommonAlgorithm(where, message));
      else if (level === 'agent') reject(new Problem(`the SSH agent at ${agent} does not work: ${message}. Check SSH_AUTH_SOCK`));
      else if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') reject(hostNotFound(where));
      else if (code === 'ECONNREFUSED') reject(connectionRefused(where));
      else if (code === 'ETIMEDOUT' || level === 'client-timeout') reject(noAnswer(where));
      else if (/identification|version|Invalid/i.test(message)) reject(notSsh(where, message));
      else if (code === 'ECONNRESET' || /ended|closed|lost/i.test(message)) reject(closedEarly(where));
      else reject(cannotReach(where, message));
    });
    client.on('close', () => reject(closedEarly(where)));
    client.connect(config);
  });
}

type ConnectAttempt =
  | { readonly type: 'publickey'; readonly username: string; readonly key: string }
  | { readonly type: 'agent'; readonly username: string; readonly agent: string };

const HOST_KEYS = ['ssh-ed25519', 'ecdsa-sha2-nistp256', 'ecdsa-sha2-nistp384', 'ecdsa-sha2-nistp521', 'rsa-sha2-512', 'rsa-sha2-256'];

/**
 * The algorithms to offer to a host.
 * @param knownTypes come first. Otherwise the server might offer a key that is not in known_hosts (ssh_config(5), HostKeyAlgorithms)
 */
function algorithmsOf({ host, algorithms }: Station, knownTypes: readonly string[]): NonNullable<ConnectConfig['algorithms']> {
  const listOf = (keyword: string, usual: readonly string[], supported: readonly string[]): string[] => {
    const spec = algorithms.get(keyword);
    if (spec === undefined) return [...usual];
    const list = algorithmList(spec, usual, supported);
    if (list.length > 0) return list;
    throw new Problem(
      `the input ssh-config leaves no algorithm for ${host} that transport ssh2 has: ${keyword} ${spec}. It has ${supported.join(',')}`,
    );
  };
  const hostKeys = listOf('hostkeyalgorithms', HOST_KEYS, constants.SUPPORTED_SERVER_HOST_KEY);
  const isKnown = (algorithm: string) => knownTypes.includes(algorithm.startsWith('rsa-') ? 'ssh-rsa' : algorithm);
  // ssh2's types list what it supports; the lists come from ssh2 itself.
  return {
    serverHostKey: [...hostKeys.filter(isKnown), ...hostKeys.filter((algorithm) => !isKnown(algorithm))],
    kex: listOf('kexalgorithms', constants.DEFAULT_KEX, constants.SUPPORTED_KEX),
    cipher: listOf('ciphers', constants.DEFAULT_CIPHER, constants.SUPPORTED_CIPHER),
    hmac: listOf('macs', constants.DEFAULT_MAC, constants.SUPPORTED_MAC),
  } as NonNullable<ConnectConfig['algorithms']>;
}

/** Applies a list of ssh_config(5): `a,b`, or with +, - or ^ in front a change of the usual list. Unknown names do not count. */
export function algorithmList(spec: string, usual: readonly string[], supported: readonly string[]): string[] {
  const sign = /^[+^-]/.exec(spec)?.[0] ?? '';
  const patterns = spec.slice(sign.length).split(',');
  const named = patterns.flatMap((pattern) => supported.filter((name) => globMatches(pattern.trim(), name)));
  switch (sign) {
    case '+':
      return [...new Set([...usual, ...named])];
    case '-':
      return usual.filter((name) => !named.includes(name));
    case '^':
      return [...new Set([...named, ...usual])];
    default:
      return [...new Set(named)];
  }
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
    let signal = '';
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
    // It may fail before the channel is there.
    options.input.on('error', (reason) => finish({ lost: messageOf(reason) }));
    if (lostReason()) return onLost();
    client.exec(command, (error, channel) => {
      if (error) return finish({ lost: error.message });
      if (ended) return channel.destroy();
      // Both streams are always read, because a full window would stop the command.
      channel.on('data', options.onStdout);
      channel.stderr.on('data', options.onStderr);
      channel.on('exit', (status: number | null, name?: string) => {
        if (status !== null) code = status;
        else signal = `the command was ended by SIG${String(name).replace(/^SIG/, '')}`;
      });
      channel.on('close', () =>
        finish(code === undefined ? { lost: lostReason() || signal || 'the command ended without an exit code' } : { code }),
      );
      options.input.on('error', () => channel.destroy());
      options.input.pipe(channel);
    });
  });
}
