import type { Cluster } from '../experiment/repo-config.ts';
import { connect } from './connection.ts';
import type { Connection, Credentials } from './transport.ts';

/** A login on a cluster: what every remote program needs. */
export interface Login {
  readonly cluster: Cluster;
  readonly connection: Connection;
}

/**
 * Logs in, does something, and logs out.
 * @throws Problem when the login fails; see connect
 */
export async function withLogin<T>(cluster: Cluster, credentials: Credentials, act: (login: Login) => Promise<T>): Promise<T> {
  const connection = await connect(cluster, credentials);
  try {
    return await act({ cluster, connection });
  } finally {
    connection.close();
  }
}
