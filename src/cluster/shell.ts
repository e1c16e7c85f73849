import { randomBytes } from 'node:crypto';
import { PassThrough, type Readable } from 'node:stream';
import { Problem } from '../base/problem.ts';
import { quote } from '../base/shell-quote.ts';
import type { Connection } from './connection.ts';
import { RUNTIME } from './runtime.ts';

/** One answer line: its key and its values. */
export interface Answer {
  readonly key: string;
  readonly values: readonly string[];
}

export interface Program {
  /** What it does, for messages: "staging the code". */
  readonly purpose: string;
  /** Pieces of src/runtime that it needs beside frame.sh. */
  readonly parts: readonly (keyof typeof RUNTIME)[];
  /** Calls of their functions; every value quoted. */
  readonly calls: readonly string[];
  /** Run before anything else in the login environment, such as `module load slurm`. */
  readonly prelude: string;
  /** Comes to the program on descriptor 3. Kept open and empty when there is none. */
  readonly data?: Readable;
  readonly deadlineSeconds: number;
  readonly onAnswer?: (answer: Answer) => void;
  /** Ends descriptor 3, which tells a program that watches it that nobody is there any more. */
  readonly signal?: AbortSignal | undefined;
}

/** What came back from a program that ran to its end. */
export interface Reply {
  readonly answers: readonly Answer[];
  /** The exit status of the program. */
  readonly status: number;
  /** The last of what it and the commands in it said on stderr. */
  readonly stderr: string;
}

/** Nobody knows how the program ended: it may have done all, some or none of its work. */
export class Unknown extends Problem {}

const STDERR_KEPT = 8_000;
const LONGEST_LINE = 32_000_000;

/**
 * Runs a program of src/runtime on the login node with bash, whatever the account's login shell is, in the environment of a
 * login shell. The program goes over stdin, so that no value in it is ever in an argument list.
 *
 * The command is made of two single-quoted words without !, ' or \, which every login shell reads alike. The outer bash
 * moves stdin to descriptor 3 before the start-up files of the inner one can read from it.
 * @throws Unknown when the reply is not whole
 */
export async function runProgram(connection: Connection, program: Program): Promise<Reply> {
  const mark = `@${randomBytes(12).toString('hex')}`;
  const text = Buffer.from(
    [
      `MARK=${quote(mark)}`,
      program.prelude,
      RUNTIME.frame,
      ...program.parts.map((part) => RUNTIME[part]),
      ...program.calls.map((call) => `${call} || exit`),
      'exit 0\n',
    ].join('\n'),
  );
  const command = `exec bash -c 'exec 3<&0 </dev/null; exec bash -l -c "$0"' 'eval "$(head -c ${text.length} <&3)"'`;

  const input = new PassThrough();
  input.write(text);
  program.data?.on('error', (error) => input.destroy(error));
  program.data?.pipe(input);
  const stop = () => input.end();
  program.signal?.addEventListener('abort', stop);
  if (program.signal?.aborted) stop();

  const answers: Answer[] = [];
  let status: number | undefined;
  const lines = new LineReader((line) => {
    if (!line.startsWith(`${mark} `)) return; // a banner, a start-up file, a chatty command
    const [key = '', ...values] = line
      .slice(mark.length + 1)
      .split('\t')
      .map(decode);
    if (key === 'end') {
      status = Number(values[0]);
      return;
    }
    const answer = { key, values };
    answers.push(answer);
    program.onAnswer?.(answer);
  });
  let stderr = '';
  const exit = await connection.execute(command, {
    input,
    deadlineSeconds: program.deadlineSeconds,
    onStdout: (chunk) => lines.push(chunk),
    onStderr: (chunk) => {
      stderr = (stderr + chunk.toString()).slice(-STDERR_KEPT);
    },
  });
  program.signal?.removeEventListener('abort', stop);
  input.destroy();
  program.data?.destroy();
  if (status === undefined) {
    const how = 'lost' in exit ? exit.lost : `it exited with ${exit.code} before it was through`;
    throw new Unknown(
      `${connection.name}: no whole answer while ${program.purpose}: ${how}${stderr.trim() ? `. Last on stderr: ${stderr.trim().slice(-1000)}` : ''}`,
    );
  }
  return { answers, status, stderr };
}

/**
 * runProgram for programs that must succeed.
 * @throws Problem with what the program itself said was wrong
 */
export async function runChecked(connection: Connection, program: Program): Promise<readonly Answer[]> {
  const { answers, status, stderr } = await runProgram(connection, program);
  const problem = answers.find((answer) => answer.key === 'problem');
  if (problem !== undefined) {
    const [what = '', detail] = problem.values;
    throw new Problem(`${connection.name}: ${what.trim().replace(/\s*\n\s*/g, '; ')}${detail === undefined ? '' : `\n${detail}`}`);
  }
  if (status !== 0) throw new Problem(`${connection.name}: ${program.purpose} failed with status ${status}: ${stderr.trim().slice(-2000)}`);
  return answers;
}

/** One call of a runtime function, every argument quoted. */
export function call(name: string, ...args: readonly string[]): string {
  return [name, ...args.map(quote)].join(' ');
}

function decode(text: string): string {
  return text.replace(/%(0A|09|0D|25)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** Lines of a byte stream. A line longer than any answer is dropped, so that noise without line ends costs no memory. */
class LineReader {
  readonly #onLine: (line: string) => void;
  #pending: Buffer[] = [];
  #length = 0;

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  push(chunk: Buffer): void {
    let rest = chunk;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      this.#keep(rest.subarray(0, end));
      this.#onLine(Buffer.concat(this.#pending).toString());
      this.#pending = [];
      this.#length = 0;
      rest = rest.subarray(end + 1);
    }
    this.#keep(rest);
  }

  #keep(piece: Buffer): void {
    this.#length += piece.length;
    if (this.#length <= LONGEST_LINE) this.#pending.push(piece);
    else this.#pending = [];
  }
}
