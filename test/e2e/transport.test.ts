// What holds for every transport: one suite, against the real sshd of the cluster and against a local shell.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, describe, test } from 'node:test';
import { connect } from '../../src/cluster/connection.ts';
import type { Connection, Credentials, Exit } from '../../src/cluster/transport.ts';
import type { Cluster } from '../../src/experiment/repo-config.ts';
import { endOf, keyOnly, testCluster } from '../support/cluster.ts';
import { regression } from '../support/experiment.ts';
import { startProxy } from '../support/faults.ts';
import { useLabs } from '../support/lab.ts';
import { keygen, startSshd } from '../support/sshd.ts';

const environment = testCluster();
const known = readFileSync(environment.CLUSTER_KNOWN_HOSTS, 'utf8');
const newLab = useLabs(environment);
const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-transport-'));
after(() => rmSync(directory, { recursive: true }));

type Kind = Cluster['transport'];
const overSsh: readonly Kind[] = ['ssh2', 'openssh'];

function clusterBy(transport: Kind, fields: Partial<Cluster> = {}): Cluster {
  const login = { host: '127.0.0.1', port: Number(environment.CLUSTER_PORT), user: environment.CLUSTER_USER };
  const here = { host: 'localhost', port: 22, user: userInfo().username };
  return {
    name: 'entropy',
    transport,
    login: transport === 'local' ? here : login,
    jumps: [],
    knownHosts: known,
    workdir: '/w',
    prelude: '',
    ...fields,
  };
}

interface Outcome {
  readonly exit: Exit;
  readonly stdout: string;
  readonly stderr: string;
}

const NO_INPUT = () => Readable.from([]);

async function run(connection: Connection, command: string, input: Readable = NO_INPUT(), deadlineSeconds = 120): Promise<Outcome> {
  const heard = { stdout: '', stderr: '' };
  const take = (stream: 'stdout' | 'stderr') => (chunk: Buffer) => {
    heard[stream] = (heard[stream] + chunk.toString()).slice(-10_000);
  };
  const exit = await connection.execute(command, { input, onStdout: take('stdout'), onStderr: take('stderr'), deadlineSeconds });
  return { exit, ...heard };
}

async function withConnection(cluster: Cluster, act: (connection: Connection) => Promise<void>, credentials = keyOnly(environment)) {
  const connection = await connect(cluster, credentials);
  try {
    await act(connection);
  } finally {
    connection.close();
  }
}

/** The words of a login that fails. */
async function refusal(cluster: Cluster, credentials: Partial<Credentials> = {}): Promise<string> {
  try {
    (await connect(cluster, { ...keyOnly(environment), ...credentials })).close();
  } catch (error) {
    assert.ok(error instanceof Error);
    assert.notEqual(error.name, 'Error', `${error.message} is a Problem`);
    return error.message;
  }
  return assert.fail('it logged in');
}

function temporaryDirectories(): string[] {
  return readdirSync(tmpdir()).filter((name) => name.startsWith('slurm-chain-ssh-'));
}

for (const transport of ['ssh2', 'openssh', 'local'] as const) {
  describe(`transport ${transport}`, () => {
    const cluster = clusterBy(transport);

    test('commands, their streams and exit codes, one after another', async () => {
      await withConnection(cluster, async (connection) => {
        const first = await run(connection, 'echo "$LOGNAME"; echo err >&2; exit 3');
        assert.deepEqual(first.exit, { code: 3 });
        assert.match(first.stdout, new RegExp(`${cluster.login.user}\n$`));
        assert.match(first.stderr, /err\n$/);
        assert.deepEqual((await run(connection, 'true')).exit, { code: 0 });
        const { stdout } = await run(connection, `printf '%s|' 'a b' "$((1+1))" '"'`);
        assert.match(stdout, /a b\|2\|"\|$/);
      });
    });

    test('nothing of the environment of the runner gets there', async () => {
      process.env['INPUT_SSH-KEY'] = 'CANARY';
      process.env['CANARY_VARIABLE'] = 'CANARY';
      await withConnection(cluster, async (connection) => {
        const { stdout } = await run(connection, 'env');
        assert.doesNotMatch(stdout, /CANARY/);
        assert.match(stdout, /^HOME=/m);
      });
      delete process.env['INPUT_SSH-KEY'];
      delete process.env['CANARY_VARIABLE'];
    });

    test('100 MB of noise on both streams', async () => {
      await withConnection(cluster, async (connection) => {
        let [out, err] = [0, 0];
        const exit = await connection.execute('(head -c 100000000 /dev/zero >&2) & head -c 100000000 /dev/zero; wait; exit 7', {
          input: NO_INPUT(),
          deadlineSeconds: 300,
          onStdout: (chunk) => {
            out += chunk.length;
          },
          onStderr: (chunk) => {
            err += chunk.length;
          },
        });
        assert.deepEqual(exit, { code: 7 });
        assert.ok(out >= 100_000_000 && err >= 100_000_000, `${out} ${err}`);
      });
    });

    test('an input of 30 MB arrives whole, and its end is seen', async () => {
      const bytes = randomBytes(30_000_000);
      await withConnection(cluster, async (connection) => {
        const { exit, stdout } = await run(
          connection,
          'sha256sum',
          Readable.from([bytes.subarray(0, 10_000_000), bytes.subarray(10_000_000)]),
        );
        assert.deepEqual(exit, { code: 0 });
        assert.ok(stdout.includes(createHash('sha256').update(bytes).digest('hex')));
        assert.deepEqual((await run(connection, 'exit 4', Readable.from([bytes]))).exit, { code: 4 }, 'nobody has to read it');
      });
    });

    test('an input that fails: the outcome is unknown', async () => {
      await withConnection(cluster, async (connection) => {
        const input = new Readable({ read() {} });
        input.push('half');
        const outcome = run(connection, 'cat > /dev/null', input);
        input.destroy(new Error('the archive broke'));
        assert.deepEqual((await outcome).exit, { lost: 'the archive broke' });
      });
    });

    test('a command that a signal ends has no code', async () => {
      await withConnection(cluster, async (connection) => {
        const { exit } = await run(connection, 'kill -KILL $$');
        assert.ok('lost' in exit, JSON.stringify(exit));
      });
    });

    test('a deadline: the outcome is unknown, in time', async () => {
      await withConnection(cluster, async (connection) => {
        const start = Date.now();
        const { exit } = await run(connection, 'sleep 300', new Readable({ read() {} }), 1);
        assert.deepEqual(exit, { lost: 'no end within 1 s' });
        assert.ok(Date.now() - start < 10_000);
      });
    });

    test('a connection that is closed: the outcome is unknown, and nothing runs any more', async () => {
      const connection = await connect(cluster, keyOnly(environment));
      let started: () => void = () => {};
      const hasStarted = new Promise<void>((resolve) => {
        started = resolve;
      });
      const exit = connection.execute('echo started; sleep 300', {
        input: new Readable({ read() {} }),
        deadlineSeconds: 60,
        onStdout: (chunk) => {
          if (chunk.includes('started')) started();
        },
        onStderr: () => {},
      });
      await hasStarted;
      connection.close();
      assert.ok('lost' in (await exit));
      assert.ok('lost' in (await run(connection, 'true')).exit);
    });
  });
}

for (const transport of overSsh) {
  test(`${transport}: a connection that is cut`, async () => {
    const proxy = await startProxy(environment);
    try {
      const { port, known_hosts } = proxy.clusterFields;
      const cluster = clusterBy(transport, { login: { ...clusterBy(transport).login, port }, knownHosts: known_hosts });
      const connection = await connect(cluster, keyOnly(environment));
      const exit = run(connection, 'sleep 300', new Readable({ read() {} }), 60);
      proxy.set({ kind: 'cut', direction: 'heard', bytes: 0 });
      proxy.close();
      assert.ok('lost' in (await exit).exit);
      assert.ok('lost' in (await run(connection, 'true')).exit, 'it does not log in again by itself');
      connection.close();
    } finally {
      proxy.close();
    }
  });

  test(`${transport}: two jump hosts, each with its own user, port and key`, async () => {
    const [outer, inner] = [keygen(directory, `outer-${transport}`), keygen(directory, `inner-${transport}`)];
    const first = await startSshd(readFileSync(`${outer}.pub`, 'utf8'), 'AllowUsers root');
    const second = await startSshd(readFileSync(`${inner}.pub`, 'utf8'), 'AllowUsers root');
    const jumps = [first, second].map(({ port }) => ({ host: '127.0.0.1', port, user: 'root' }));
    const cluster = clusterBy(transport, { jumps, knownHosts: [first.known, second.known, known].join('\n') });
    const privateKey = [inner, outer, environment.CLUSTER_KEY].map((file) => readFileSync(file, 'utf8')).join('');
    await withConnection(
      cluster,
      async (connection) => {
        const { stdout, exit } = await run(connection, 'echo "$LOGNAME $SSH_CONNECTION"');
        assert.deepEqual(exit, { code: 0 });
        assert.match(stdout, new RegExp(`${environment.CLUSTER_USER} .* ${environment.CLUSTER_PORT}\n`));
      },
      { ...keyOnly(environment), privateKey },
    );
    for (const { port } of [first, second]) {
      const others = cluster.knownHosts.split('\n').filter((line) => !line.startsWith(`[127.0.0.1]:${port} `));
      const said = await refusal({ ...cluster, knownHosts: others.join('\n') }, { privateKey });
      assert.match(said, new RegExp(`^the host key of \\[?127\\.0\\.0\\.1\\]?:${port} is not in clusters\\.entropy\\.known_hosts`));
    }
    for (const { directory: one } of [first, second]) assert.match(readFileSync(join(one, 'log'), 'utf8'), /Accepted publickey for root/);
  });

  test(`${transport}: names hashed by OpenSSH, and the input known-hosts instead of the file`, async () => {
    const file = join(directory, `hashed-${transport}`);
    execFileSync('cp', [environment.CLUSTER_KNOWN_HOSTS, file]);
    execFileSync('ssh-keygen', ['-q', '-H', '-f', file], { stdio: 'ignore' });
    const hashed = readFileSync(file, 'utf8');
    assert.match(hashed, /^\|1\|/);
    const elsewhere = known.replace('127.0.0.1', 'elsewhere');
    const reached = async (connection: Connection) => assert.deepEqual((await run(connection, 'true')).exit, { code: 0 });
    await withConnection(clusterBy(transport, { knownHosts: hashed }), reached);
    const credentials = { ...keyOnly(environment), knownHosts: known };
    await withConnection(clusterBy(transport, { knownHosts: elsewhere }), reached, credentials);
    await withConnection(clusterBy(transport, { knownHosts: '' }), reached, credentials);
    assert.match(await refusal(clusterBy(transport), { knownHosts: elsewhere }), /is not in the input known-hosts/);
    assert.match(await refusal(clusterBy(transport, { knownHosts: '' })), /there is no clusters\.entropy\.known_hosts.*ssh-keyscan -p \d+/);
  });
}

test('openssh leaves no key on the disk while it is logged in, and nothing at all behind', async () => {
  const before = temporaryDirectories();
  await withConnection(clusterBy('openssh'), async () => {
    const [made, ...others] = temporaryDirectories().filter((name) => !before.includes(name));
    assert.ok(made !== undefined && others.length === 0);
    assert.deepEqual(readdirSync(join(tmpdir(), made)).sort(), ['config', 'known_hosts', 'socket']);
  });
  await refusal(clusterBy('openssh', { knownHosts: known.replace('127.0.0.1', 'elsewhere') }));
  assert.deepEqual(temporaryDirectories(), before);
});

test('local: the runner has to be the account of the cluster', async () => {
  const login = { host: 'localhost', port: 22, user: 'somebody' };
  assert.match(
    await refusal(clusterBy('local', { login })),
    /runs as the account of the runner, \S+, but clusters\.entropy\.user is somebody/,
  );
});

test('openssh: a whole launch by an alias of the input ssh-config, with the host key from the input known-hosts', async () => {
  const lab = await newLab('openssh', { clusterFields: { transport: 'openssh', host: 'alias', port: 22, known_hosts: [] } });
  lab.commit({ 'configs/run.yaml': regression(lab, { name: 'openssh', nSteps: 30, nJobs: 1 }) });
  const sshConfig = `Host alias\n  HostName 127.0.0.1\n  Port ${environment.CLUSTER_PORT}\n`;
  const result = await lab.dispatch({ config: 'run', 'ssh-config': sshConfig, 'known-hosts': known });
  assert.equal(result.code, 0, result.log);
  assert.equal(result.outputs['state'], 'submitted');
  await endOf(environment, [result.outputs['job-ids'] ?? '']);
});

test('local: a whole launch by a runner on the login node, without a key', async () => {
  const clusterFields = {
    ...{ transport: 'local', host: 'localhost', port: 22, user: userInfo().username, known_hosts: [] },
    prelude: `export SLURM_CONF=${environment.SLURM_CONF}`,
  };
  const lab = await newLab('local', { clusterFields });
  lab.commit({ 'configs/run.yaml': regression(lab, { name: 'local', nSteps: 30, nJobs: 2 }) });
  const result = await lab.dispatch({ config: 'run', 'ssh-key': '' });
  assert.equal(result.code, 0, result.log);
  assert.equal(result.outputs['state'], 'submitted');
  await endOf(environment, (result.outputs['job-ids'] ?? '').split(','));
  const status = await lab.dispatch({ command: 'status', target: result.outputs['experiment-id'] ?? '', 'ssh-key': '' });
  assert.equal(status.outputs['state'], 'complete', status.log);
});
