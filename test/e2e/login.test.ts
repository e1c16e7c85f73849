// Why a login fails, in words, for both SSH transports, against real SSH servers and against what is none.
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { connect } from '../../src/cluster/connection.ts';
import { runProgram } from '../../src/cluster/shell.ts';
import type { Credentials } from '../../src/cluster/transport.ts';
import type { Cluster } from '../../src/experiment/repo-config.ts';
import { keygen, type Sshd, startSshd } from '../support/sshd.ts';
import { until } from '../support/until.ts';

const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-login-'));
after(() => rmSync(directory, { recursive: true }));

// The accounts are root's, on servers of this file alone.
const key = keygen(directory, 'key');
const publicKey = readFileSync(`${key}.pub`, 'utf8');
const [fingerprint = '?'] = execFileSync('ssh-keygen', ['-lf', key], { encoding: 'utf8' }).match(/SHA256:\S+/) ?? [];
const CREDENTIALS: Credentials = {
  privateKey: readFileSync(key, 'utf8'),
  passphrase: '',
  certificate: '',
  knownHosts: '',
  sshConfig: '',
  agent: '',
};

type Kind = 'ssh2' | 'openssh';

function clusterAt(transport: Kind, port: number, known: string, fields: Partial<Cluster> = {}): Cluster {
  return {
    name: 'e',
    transport,
    login: { host: '127.0.0.1', port, user: 'root' },
    jumps: [],
    knownHosts: known,
    workdir: '/w',
    prelude: '',
    ...fields,
  };
}

/** The words of a login, or of the first program after it, that fails. */
async function failure(cluster: Cluster, credentials: Partial<Credentials> = {}): Promise<string> {
  try {
    const connection = await connect(cluster, { ...CREDENTIALS, ...credentials });
    try {
      const run = { purpose: 'looking around', calls: ['answer problem "it ran"'], deadlineSeconds: 20 };
      await runProgram({ cluster, connection }, { parts: [], answers: { problem: ['what', 'details…'] } }, run);
    } finally {
      connection.close();
    }
  } catch (error) {
    assert.ok(error instanceof Error && error.name === 'Problem', String(error));
    assert.ok(error.message.length < 1500 && !error.message.includes('debug1'), error.message);
    return error.message;
  }
  return 'it worked';
}

/** A server that does with every connection what it is told. */
async function startServer(talk: (write: (text: string) => void, end: () => void) => void): Promise<number> {
  const server: Server = createServer((socket) => {
    socket.on('error', () => {});
    socket.resume();
    talk(
      (text) => socket.write(text),
      () => socket.end(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  after(() => server.close());
  return (server.address() as { port: number }).port;
}

const SOME_KEY = publicKey.split(' ').slice(0, 2).join(' ');
const anyKnown = (port: number) => `[127.0.0.1]:${port} ${SOME_KEY}`;

for (const transport of ['ssh2', 'openssh'] as const) {
  describe(`transport ${transport}`, { concurrency: 4 }, () => {
    const at = (sshd: Sshd, fields: Partial<Cluster> = {}) => clusterAt(transport, sshd.port, sshd.known, fields);

    test('a login that works', async () => {
      assert.equal(await failure(at(await startSshd(publicKey))), 'it worked');
    });

    test('a host that does not exist', async () => {
      const login = { host: 'no-such-host.invalid', port: 22, user: 'root' };
      assert.match(
        await failure(clusterAt(transport, 22, `no-such-host.invalid ${SOME_KEY}`, { login })),
        /^cannot reach root@no-such-host\.invalid(:22)?: there is no host of this name/,
      );
    });

    test('a port where nobody listens', async () => {
      assert.match(await failure(clusterAt(transport, 1, anyKnown(1))), /^cannot reach root@127\.0\.0\.1:1: the connection was refused/);
    });

    test('something else than SSH, and a server that hangs up', async () => {
      const web = await startServer((write, end) => {
        write('HTTP/1.1 400 Bad Request\r\n\r\n');
        end();
      });
      const old = await startServer((write) => write('SSH-1.5-old\r\n'));
      const shy = await startServer((_, end) => end());
      assert.match(await failure(clusterAt(transport, old, anyKnown(old))), /does not speak SSH version 2/);
      assert.match(await failure(clusterAt(transport, shy, anyKnown(shy))), /closed the connection before the login was complete/);
      assert.match(await failure(clusterAt(transport, web, anyKnown(web))), /does not speak SSH version 2|closed the connection/);
    });

    test('a server that says nothing, as behind a firewall', async () => {
      const silent = await startServer(() => {});
      assert.match(await failure(clusterAt(transport, silent, anyKnown(silent))), /no answer within 30 s\. A firewall/);
    });

    test('no algorithm in common, and the input ssh-config that allows it', async () => {
      const sshd = await startSshd(publicKey, 'KexAlgorithms diffie-hellman-group14-sha1');
      assert.match(await failure(at(sshd)), /have no algorithm in common .*ssh-config can allow more/);
      assert.equal(await failure(at(sshd), { sshConfig: 'Host 127.0.0.1\n  KexAlgorithms +diffie-hellman-group14-sha1\n' }), 'it worked');
    });

    test('a key that the account does not know', async () => {
      const other = keygen(directory, `other-${transport}`);
      const said = await failure(at(await startSshd(readFileSync(`${other}.pub`, 'utf8'))));
      assert.ok(said.includes(`rejected the key ${fingerprint}`), said);
      assert.match(said, /^root@127\.0\.0\.1(:\d+)? rejected.*authorized_keys of root.*The server accepts: publickey/);
    });

    test('host keys: unknown, changed, revoked', async () => {
      const sshd = await startSshd(publicKey);
      const offered = execFileSync('ssh-keygen', ['-lf', join(sshd.directory, 'host')], { encoding: 'utf8' }).split(' ')[1] ?? '?';
      const unknown = await failure(at(sshd, { knownHosts: `elsewhere ${SOME_KEY}` }));
      assert.match(unknown, /^the host key of \[?127\.0\.0\.1\]?:\d+ is not in clusters\.e\.known_hosts/);
      assert.ok(unknown.includes(offered), unknown);
      const changed = await failure(at(sshd, { knownHosts: anyKnown(sshd.port) }));
      assert.match(changed, /^the host key of \[?127\.0\.0\.1\]?:\d+ is NOT the one in clusters\.e\.known_hosts/);
      assert.ok(changed.includes(offered), changed);
      const revoked = await failure(at(sshd, { knownHosts: `${sshd.known}\n@revoked * ${sshd.known.split(' ').slice(1).join(' ')}` }));
      assert.match(revoked, /^the host key of \[?127\.0\.0\.1\]?:\d+ is marked @revoked/);
    });

    test('a second factor', async () => {
      const sshd = await startSshd(publicKey, 'AuthenticationMethods publickey,password', 'PasswordAuthentication yes');
      assert.match(await failure(at(sshd)), /accepted the key and asks for a second factor \(password\)/);
    });

    test('a jump host that cannot reach the next one, or may not', async () => {
      const gate = await startSshd(publicKey);
      const closed = await startSshd(publicKey, 'AllowTcpForwarding no');
      for (const sshd of [gate, closed]) {
        const jumps = [{ host: '127.0.0.1', port: sshd.port, user: 'root' }];
        assert.match(
          await failure(clusterAt(transport, 1, [sshd.known, anyKnown(1)].join('\n'), { jumps })),
          /the jump host cannot reach .*(refused|prohibited|failed)/i,
        );
      }
    });

    test('the agent instead of a key', async () => {
      const socket = join(directory, `agent-${transport}`);
      const agent = await startAgent(socket);
      try {
        execFileSync('ssh-add', ['-q', key], { env: { ...process.env, SSH_AUTH_SOCK: socket }, stdio: 'pipe' });
        const sshd = await startSshd(publicKey);
        assert.equal(await failure(at(sshd), { privateKey: '', agent: socket }), 'it worked');
      } finally {
        agent.kill();
      }
    });

    test('without any key', async () => {
      assert.match(await failure(clusterAt(transport, 1, anyKnown(1)), { privateKey: '' }), /^the input ssh-key is empty/);
    });

    test('nologin, no shell, a forced command, start-up files that replace the shell', async () => {
      const shell = await startSshd(`command="/usr/sbin/nologin" ${publicKey}`);
      assert.match(await failure(at(shell)), /does not let root run commands.*This account is currently not available/);
      const none = await startSshd(`command="/bin/false" ${publicKey}`);
      assert.match(await failure(at(none)), /does not let root run commands.*nologin/);
      const forced = await startSshd(`command="echo only backups" ${publicKey}`);
      assert.match(await failure(at(forced)), /does not let root run commands.*forced command.*only backups/);
      const home = mkdtempSync(join(directory, 'home-'));
      writeFileSync(join(home, '.bash_profile'), 'echo hello\nexec true\n');
      const replaced = await startSshd(publicKey, `SetEnv HOME=${home}`);
      assert.match(await failure(at(replaced)), /start-up file of root ends or replaces the shell.*exec zsh/);
    });
  });
}

async function startAgent(socket: string): Promise<ChildProcess> {
  const agent = spawn('ssh-agent', ['-D', '-a', socket], { stdio: 'ignore' });
  await until('the agent', () => existsSync(socket));
  return agent;
}

test('certificates: a site that takes them alone', async () => {
  const authority = keygen(directory, 'authority');
  execFileSync('ssh-keygen', ['-q', '-s', authority, '-I', 'alice', '-n', 'root', '-V', '-1h:+1h', `${key}.pub`], { stdio: 'pipe' });
  const certificate = readFileSync(`${key}-cert.pub`, 'utf8');
  const sshd = await startSshd('', `TrustedUserCAKeys ${authority}.pub`);
  const at = (transport: Kind) => clusterAt(transport, sshd.port, sshd.known);
  assert.equal(await failure(at('openssh'), { certificate }), 'it worked');
  assert.match(await failure(at('openssh')), /rejected the key.*give the certificate in the input ssh-certificate/);
  assert.match(await failure(at('ssh2'), { certificate }), /the input ssh-certificate needs OpenSSH.*transport: openssh in clusters\.e/);
  execFileSync('ssh-keygen', ['-q', '-s', authority, '-I', 'alice', '-n', 'root', '-V', '-2h:-1h', `${key}.pub`], { stdio: 'pipe' });
  const expired = readFileSync(`${key}-cert.pub`, 'utf8');
  assert.match(await failure(at('openssh'), { certificate: expired }), /the input ssh-certificate expired at 20\d\d-/);
});

test('certificates of hosts: openssh honours the authority, ssh2 names it', async () => {
  const authority = keygen(directory, 'host-authority');
  const host = keygen(directory, 'host');
  execFileSync('ssh-keygen', ['-q', '-s', authority, '-h', '-I', 'host', '-n', '127.0.0.1', `${host}.pub`], { stdio: 'pipe' });
  const sshd = await startSshd(publicKey, `HostKey ${host}`, `HostCertificate ${host}-cert.pub`);
  const known = `@cert-authority [127.0.0.1]:${sshd.port} ${readFileSync(`${authority}.pub`, 'utf8').trim()}`;
  assert.equal(await failure(clusterAt('openssh', sshd.port, known)), 'it worked');
  assert.match(await failure(clusterAt('ssh2', sshd.port, known)), /has only a @cert-authority for .*transport: openssh/);
});
