// Further SSH servers on loopback, for what the cluster's own one does not do.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';

export interface Sshd {
  readonly port: number;
  readonly directory: string;
  /** The line of known_hosts for it. */
  readonly known: string;
}

/** Makes a key in a directory. @returns the path of the private key */
export function keygen(directory: string, name: string, ...args: string[]): string {
  const file = join(directory, name);
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', ...(args.includes('-N') ? [] : ['-N', '']), '-f', file, ...args], { stdio: 'pipe' });
  return file;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/**
 * An sshd as root that takes one key for every account. It stops when the file's tests are over.
 * @param authorized lines of authorized_keys
 * @param lines more of sshd_config; the first value of a setting counts
 */
export async function startSshd(authorized: string, ...lines: string[]): Promise<Sshd> {
  const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-sshd-'));
  const port = await freePort();
  const hostKey = keygen(directory, 'host');
  writeFileSync(join(directory, 'authorized'), authorized);
  execFileSync('chmod', ['755', directory]);
  const config = [
    ...lines,
    `ListenAddress 127.0.0.1:${port}`,
    `HostKey ${hostKey}`,
    `AuthorizedKeysFile ${directory}/authorized`,
    ...['StrictModes no', 'UsePAM no', 'PasswordAuthentication no', 'KbdInteractiveAuthentication no', 'PermitRootLogin yes'],
    `PidFile none`,
  ];
  writeFileSync(join(directory, 'config'), `${config.join('\n')}\n`);
  const child = spawn('/usr/sbin/sshd', ['-D', '-E', join(directory, 'log'), '-f', join(directory, 'config')], { stdio: 'ignore' });
  after(() => {
    child.kill();
    rmSync(directory, { recursive: true });
  });
  await untilItListens(port, child, join(directory, 'log'));
  const [type, key] = readFileSync(`${hostKey}.pub`, 'utf8').split(' ');
  return { port, directory, known: `[127.0.0.1]:${port} ${type} ${key}` };
}

async function untilItListens(port: number, child: ChildProcess, log: string): Promise<void> {
  const end = Date.now() + 20_000;
  for (;;) {
    const listens = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.destroy();
        resolve(true);
      });
      socket.on('error', () => resolve(false));
    });
    if (listens) return;
    if (child.exitCode !== null || Date.now() > end) throw new Error(`sshd does not start: ${readFileSync(log, 'utf8')}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
