import type { Readable } from 'node:stream';
import { Problem } from '../base/problem.ts';

/** A connection to the login node. Commands run one after another, each on a channel of its own (sshd's MaxSessions counts them). */
export interface Connection {
  /** user@host, for messages. */
  readonly name: string;
  /**
   * Runs a command line in the account's login shell. Never rejects. Both streams are read to their end, whether or not anybody
   * uses what they bring. If `input` fails, the outcome is `lost`: half an input never looks like a whole one.
   */
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

/** The login may succeed a little later: the host was busy, or the network was. Nothing has happened on the cluster. */
export class Unreachable extends Problem {}

/** Seconds that a host has to answer until the login is complete. */
export const READY_SECONDS = 30;
/** A connection counts as lost after four of these seconds without an answer. */
export const KEEPALIVE_SECONDS = 15;
export const KEEPALIVE_COUNT = 4;

/** What a login may use. Every text is empty if there is none. */
export interface Credentials {
  /** One private key or several, which each host tries in order. */
  readonly privateKey: string;
  /** For the private keys. */
  readonly passphrase: string;
  /** Certificates of the private keys, one a line, as in a file NAME-cert.pub. */
  readonly certificate: string;
  /** Replaces the known_hosts of every cluster. */
  readonly knownHosts: string;
  /** The text of a ~/.ssh/config. */
  readonly sshConfig: string;
  /** The socket of an agent, for when there is no private key. */
  readonly agent: string;
}
