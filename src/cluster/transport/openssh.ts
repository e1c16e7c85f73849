import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { environmentWithout } from '../../base/environment.ts';
import { messageOf, Problem } from '../../base/problem.ts';
import type { Cluster } from '../../experiment/repo-config.ts';
import { checkCertificates } from '../certificate.ts';
import { type PrivateKey, parsePrivateKeys } from '../keys.ts';
import type { KnownHosts } from '../known-hosts.ts';
import {
  type Connection,
  type Credentials,
  type Execution,
  type Exit,
  KEEPALIVE_COUNT,
  KEEPALIVE_SECONDS,
  READY_SECONDS,
} from '../transport.ts';
import { diagnose, lastWords } from './openssh-log.ts';

/** What one login with ssh takes. */
interface Login {
  /** Arguments that lead to the login node. */
  readonly target: readonly string[];
  /** user@host:port, for messages. */
  readonly where: string;
  readonly hops: number;
  readonly keys: readonly PrivateKey[];
  readonly certificates: readonly string[];
  readonly credentials: Credentials;
  readonly known: KnownHosts;
}

/**
 * The runner's own ssh, which has certificates, GSSAPI, hardware keys and everything that ssh_config(5) knows. One ssh logs in
 * and stays (ControlMaster). Each command is another ssh that goes through it.
 * @returns a function that logs in
 * @throws Problem for credentials that cannot be used; the returned function rejects with one message per cause
 */
export function opensshLogin(cluster: Cluster, credentials: Credentials, known: KnownHosts): () => Promise<Connection> {
  const { login, jumps } = cluster;
  const keys = credentials.privateKey.trim() === '' ? [] : parsePrivateKeys(credentials.privateKey, credentials.passphrase);
  const fingerprints = keys.map(({ fingerprint }) => fingerprint);
  const certificates = checkCertificates(credentials.certificate, fingerprints, Date.now());
  const via = jumps.map(
    ({ host, port, user }) => `${user ?? login.user}@${host.includes(':') ? `[${host}]` : host}${port === 22 ? '' : `:${port}`}`,
  );
  const target = [
    ...(via.length > 0 ? ['-J', via.join(',')] : []),
    // Port 22 is also what an entry without a port has; then the ssh config decides.
    ...(login.port === 22 ? [] : ['-p', String(login.port)]),
    ...['-l', login.user, '--', login.host],
  ];
  const where = `${login.user}@${login.host}:${login.port}`;
  return () => connect({ target, where, hops: jumps.length + 1, keys, certificates, credentials, known });
}

/**
 * The ssh_config for every host on the way. For each setting the first value counts, so the user's own text cannot switch off a
 * check. Jump hosts get it too, because ssh hands its file on (ssh_config(5), ProxyJump).
 */
function configOf(directory: string, { keys, certificates, credentials }: Login): string {
  const ours = [
    'StrictHostKeyChecking yes',
    `UserKnownHostsFile ${join(directory, 'known_hosts')}`,
    'GlobalKnownHostsFile none',
    'KnownHostsCommand none',
    'VerifyHostKeyDNS no',
    'UpdateHostKeys no',
    'NoHostAuthenticationForLocalhost no',
    'BatchMode yes',
    'ForwardAgent no',
    'ForwardX11 no',
    'PermitLocalCommand no',
    'ControlPersist no',
    'EscapeChar none',
    'LogLevel DEBUG1',
    `ConnectTimeout ${READY_SECONDS}`,
    `ServerAliveInterval ${KEEPALIVE_SECONDS}`,
    `ServerAliveCountMax ${KEEPALIVE_COUNT}`,
    ...(keys.length > 0 ? ['IdentitiesOnly yes', 'IdentityAgent none'] : []),
    ...keys.map((_, index) => `IdentityFile ${join(directory, `key${index}`)}`),
    ...certificates.map((_, index) => `CertificateFile ${join(directory, `key${index}-cert.pub`)}`),
  ];
  return `${ours.join('\n')}\n\n${credentials.sshConfig}\n`;
}

async function connect(login: Login): Promise<Connection> {
  // In /tmp, because the path of a socket has at most about 100 letters. mkdtemp makes it mode 0700.
  const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-ssh-'));
  const write = (name: string, text: string) => writeFileSync(join(directory, name), text, { mode: 0o600 });
  const cleanUp = () => rmSync(directory, { recursive: true, force: true });
  process.once('exit', cleanUp);
  const master = new Master(directory);
  const close = () => {
    master.stop();
    process.removeListener('exit', cleanUp);
    cleanUp();
  };
  try {
    const knownHosts = login.known.text;
    write('known_hosts', knownHosts.endsWith('\n') ? knownHosts : `${knownHosts}\n`);
    write('config', configOf(directory, login));
    for (const [index, { text }] of login.keys.entries()) write(`key${index}`, text);
    for (const [index, line] of login.certificates.entries()) write(`key${index}-cert.pub`, `${line}\n`);
    await master.start(login);
    return {
      name: login.where.replace(/:\d+$/, ''),
      execute: (command, options) => execute(master, command, options),
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

const LOG_KEPT = 60_000;
const LOOK_MILLISECONDS = 50;

/** The ssh that is logged in. */
class Master {
  readonly socket: string;
  readonly #directory: string;
  #process: ChildProcess | undefined;
  #log = '';
  /** Why it is gone; empty while it is there. */
  lost = '';

  constructor(directory: string) {
    this.#directory = directory;
    this.socket = join(directory, 'socket');
  }

  /** Rejects with a Problem that says why the login failed. */
  async start(login: Login): Promise<void> {
    const args = ['-F', join(this.#directory, 'config'), '-M', '-S', this.socket, '-N', '-T', ...login.target];
    const child = spawn('ssh', args, { env: environment(login.credentials), stdio: ['ignore', 'ignore', 'pipe'] });
    this.#process = child;
    let failure: Error | undefined;
    child.on('error', (error) => {
      failure = error;
      this.lost ||= error.message;
    });
    // ssh waits when nobody reads this.
    child.stderr.on('data', (chunk: Buffer) => {
      this.#log = (this.#log + chunk.toString()).slice(-LOG_KEPT);
    });
    child.on('close', () => {
      this.lost ||= lastWords(this.#log) || 'the connection was closed';
    });
    const end = Date.now() + READY_SECONDS * (login.hops + 1) * 1000;
    while (!existsSync(this.socket) && this.lost === '' && Date.now() < end) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MILLISECONDS));
    }
    // From here on no file holds a key.
    for (const [index] of login.keys.entries()) rmSync(join(this.#directory, `key${index}`));
    if (failure !== undefined) {
      throw new Problem(
        `transport openssh cannot start ssh on the runner: ${failure.message}. Install OpenSSH's client there, or use transport: ssh2`,
      );
    }
    if (!existsSync(this.socket))
      throw diagnose(
        this.#log,
        login.where,
        login.keys.map(({ fingerprint }) => fingerprint),
        login.known,
      );
  }

  stop(): void {
    this.lost ||= 'the connection was closed';
    this.#process?.kill('SIGTERM');
  }
}

/** The runner's environment without the inputs of the action, which ssh has no use for. */
function environment({ agent }: Pick<Credentials, 'agent'>): NodeJS.ProcessEnv {
  const kept = environmentWithout(/^(INPUT_|ACTIONS_|SSH_AUTH_SOCK$)/);
  return { ...kept, ...(agent === '' ? {} : { SSH_AUTH_SOCK: agent }), LC_ALL: 'C' };
}

/** What ssh itself exits with when something goes wrong. A command that ends so cannot be told from it. */
const SSH_FAILED = 255;

function execute(master: Master, command: string, options: Execution): Promise<Exit> {
  return new Promise((resolve) => {
    if (master.lost !== '') return resolve({ lost: master.lost });
    // If the login is gone, ssh would make another one by itself. ProxyCommand takes that way out.
    const through = ['-F', '/dev/null', '-S', master.socket, '-o', 'ControlMaster=no', '-o', 'ProxyCommand=false', '-o', 'LogLevel=ERROR'];
    const child = spawn('ssh', [...through, '-T', '-o', 'BatchMode=yes', '-o', 'EscapeChar=none', '--', 'cluster', command], {
      env: environment({ agent: '' }),
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let ended = false;
    const finish = (exit: Exit) => {
      if (ended) return;
      ended = true;
      clearTimeout(late);
      resolve(exit);
    };
    const abandon = (reason: string) => {
      finish({ lost: reason });
      child.kill('SIGKILL');
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
    };
    const late = setTimeout(() => {
      abandon(`no end within ${options.deadlineSeconds} s`);
      master.stop();
    }, options.deadlineSeconds * 1000);
    let said = '';
    child.on('error', (error) => finish({ lost: error.message }));
    child.stdout.on('data', options.onStdout);
    child.stderr.on('data', (chunk: Buffer) => {
      said = (said + chunk.toString()).slice(-1000);
      options.onStderr(chunk);
    });
    child.stdin.on('error', () => {}); // the command need not read all of its input
    child.on('close', (code, signal) => {
      if (code === null) finish({ lost: `ssh was ended by ${signal}` });
      else if (code === SSH_FAILED) finish({ lost: master.lost || lastWords(said) || 'the connection was closed' });
      else finish({ code });
    });
    options.input.on('error', (reason) => abandon(messageOf(reason)));
    options.input.pipe(child.stdin);
  });
}
