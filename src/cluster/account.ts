import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { Problem } from '../base/problem.ts';
import type { Login } from './login.ts';

const DEADLINE_SECONDS = 30;
const SHOWN = 300;

/**
 * Why a program ended before it began: what the account does instead of running commands. Asked only after a program gave no
 * answer at all. It tries smaller and smaller parts of what shell.ts needs.
 * @returns undefined if the account runs commands as it should
 */
export async function whyNothingRan({ connection, cluster }: Login): Promise<Problem | undefined> {
  const { name } = connection;
  const { user } = cluster.login;
  const word = randomBytes(12).toString('hex');
  let said = '';
  const echoes = async (command: string): Promise<boolean> => {
    let [out, text] = ['', ''];
    const exit = await connection.execute(command, {
      input: Readable.from([]),
      deadlineSeconds: DEADLINE_SECONDS,
      onStdout: (chunk) => {
        out = (out + chunk.toString()).slice(-100_000);
        text = (text + chunk.toString()).slice(0, SHOWN);
      },
      onStderr: (chunk) => {
        text = (text + chunk.toString()).slice(0, SHOWN);
      },
    });
    said = text.trim() === '' ? '' : `. It printed: ${text.trim().replace(/\s*\n\s*/g, '; ')}`;
    // What gets lost now says nothing about the account.
    return out.includes(word) || 'lost' in exit;
  };
  if (!(await echoes(`echo ${word}`))) {
    if (said === '' || /not available|nologin/i.test(said)) {
      return new Problem(
        `${name} does not let ${user} run commands: its login shell is nologin, /bin/false or the like. Ask the cluster's staff for an account with a shell, or for the right login node${said}`,
      );
    }
    return new Problem(
      `${name} does not let ${user} run commands: something else runs instead, such as a forced command (command="…" in ~/.ssh/authorized_keys). Use a key without one${said}`,
    );
  }
  if (!(await echoes(`exec bash -c 'echo $0' ${word}`))) {
    return new Problem(`${name} has no bash on the PATH of ${user}. Programs on the login node need bash 4.2 or later${said}`);
  }
  if (!(await echoes(`exec bash -c 'exec bash -l -c "$0"' 'echo ${word}'`))) {
    return new Problem(
      `${name}: a start-up file of ${user} ends or replaces the shell before anything can run, as 'exec zsh' does in ~/.bash_profile, ~/.profile or /etc/profile.d. Do that for interactive shells only: [[ $- == *i* ]] && exec zsh${said}`,
    );
  }
  return undefined;
}
