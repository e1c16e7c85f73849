import { spawn } from 'node:child_process';
import { userInfo } from 'node:os';
import { messageOf, Problem } from '../../base/problem.ts';
import type { Cluster } from '../../experiment/repo-config.ts';
import type { Connection, Execution, Exit } from '../transport.ts';

/**
 * No SSH at all: the runner stands on the login node. Commands run in the account's login shell, in an environment as sshd gives
 * it, so that nothing of the runner's own (inputs, tokens) reaches the jobs.
 * @returns a function that opens the "connection"
 * @throws Problem if the runner is not the account that the cluster's entry names
 */
export function localLogin({ name, login }: Cluster): () => Promise<Connection> {
  const { username, homedir, shell } = userInfo();
  const account: Account = { username, home: homedir, shell: shell || '/bin/sh' };
  if (account.username !== login.user) {
    throw new Problem(
      `transport: local runs as the account of the runner, ${account.username}, but clusters.${name}.user is ${login.user}. Run the self-hosted runner as ${login.user}, or correct the entry`,
    );
  }
  return async () => {
    const stop = new AbortController();
    return {
      name: `${login.user}@${login.host}`,
      execute: (command, options) => execute(account, command, options, stop.signal),
      close: () => stop.abort(),
    };
  };
}

interface Account {
  readonly username: string;
  readonly home: string;
  readonly shell: string;
}

function execute({ username, home, shell }: Account, command: string, options: Execution, stop: AbortSignal): Promise<Exit> {
  return new Promise((resolve) => {
    const child = spawn(shell, ['-c', command], {
      cwd: home,
      env: {
        HOME: home,
        USER: username,
        LOGNAME: username,
        SHELL: shell,
        PATH: '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin',
      },
      detached: true, // a process group of its own, so that all of it can be ended
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let ended = false;
    const finish = (exit: Exit) => {
      if (ended) return;
      ended = true;
      clearTimeout(late);
      stop.removeEventListener('abort', onStop);
      resolve(exit);
    };
    const abandon = (reason: string) => {
      finish({ lost: reason });
      // First the processes, then their stdin: half an input must not look like a whole one.
      if (child.pid !== undefined && child.exitCode === null) killGroup(child.pid);
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
    };
    const onStop = () => abandon('the connection was closed');
    const late = setTimeout(() => abandon(`no end within ${options.deadlineSeconds} s`), options.deadlineSeconds * 1000);
    stop.addEventListener('abort', onStop);
    child.on('error', (error) => finish({ lost: `the login shell ${shell} could not be started: ${error.message}` }));
    child.stdout.on('data', options.onStdout);
    child.stderr.on('data', options.onStderr);
    child.stdin.on('error', () => {}); // the command need not read all of its input
    child.on('close', (code, signal) => finish(code === null ? { lost: `the command was ended by ${signal}` } : { code }));
    options.input.on('error', (reason) => abandon(messageOf(reason)));
    options.input.pipe(child.stdin);
    if (stop.aborted) onStop();
  });
}

function killGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGKILL');
  } catch {
    // It has just ended by itself.
  }
}
