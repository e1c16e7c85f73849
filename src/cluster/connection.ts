import { Problem } from '../base/problem.ts';
import type { Cluster } from '../experiment/repo-config.ts';
import { type KnownHosts, parseKnownHosts } from './known-hosts.ts';
import { localLogin } from './transport/local.ts';
import { opensshLogin } from './transport/openssh.ts';
import { ssh2Login } from './transport/ssh2.ts';
import { type Connection, type Credentials, Unreachable } from './transport.ts';

const CONNECT_TRIES = 3;

/** Is there anything to log in with? Without a key, that is an agent, or what an ssh config tells ssh. */
export function canLogIn({ transport }: Cluster, { privateKey, agent, sshConfig }: Credentials): boolean {
  if (transport === 'local' || privateKey.trim() !== '' || agent !== '') return true;
  return transport === 'openssh' && sshConfig.trim() !== '';
}

/**
 * Logs in by the transport of the cluster's entry.
 * @throws Problem with one message per cause: host, key, host key, second factor, firewall
 */
export async function connect(cluster: Cluster, credentials: Credentials): Promise<Connection> {
  if (!canLogIn(cluster, credentials)) throw new Problem('the input ssh-key is empty, so there is no way to log in on the cluster');
  const logIn = loginBy(cluster, credentials);
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await logIn();
    } catch (error) {
      // Only a login that failed is tried again: nothing can have happened on the cluster.
      if (!(error instanceof Unreachable) || attempt >= CONNECT_TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, attempt * 1000));
    }
  }
}

function loginBy(cluster: Cluster, credentials: Credentials): () => Promise<Connection> {
  const { transport } = cluster;
  switch (transport) {
    case 'ssh2':
      return ssh2Login(cluster, credentials, knownHostsOf(cluster, credentials));
    case 'openssh':
      return opensshLogin(cluster, credentials, knownHostsOf(cluster, credentials));
    case 'local':
      return localLogin(cluster);
    default:
      throw transport satisfies never;
  }
}

function knownHostsOf({ name, login, knownHosts }: Cluster, credentials: Credentials): KnownHosts {
  if (credentials.knownHosts.trim() !== '') return parseKnownHosts(credentials.knownHosts, 'the input known-hosts');
  if (knownHosts.trim() !== '') return parseKnownHosts(knownHosts, `clusters.${name}.known_hosts`);
  const port = login.port === 22 ? '' : `-p ${login.port} `;
  throw new Problem(
    `there is no clusters.${name}.known_hosts and no input known-hosts. One of them must hold the host key of the login node. 'ssh-keyscan ${port}${login.host}' prints it; compare its fingerprint with the one that your cluster publishes before you trust it`,
  );
}
