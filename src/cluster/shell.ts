import { randomBytes } from 'node:crypto';
import { PassThrough, type Readable } from 'node:stream';
import { messageOf, Problem } from '../base/problem.ts';
import { quote } from '../base/shell-quote.ts';
import { whyNothingRan } from './account.ts';
import { type Answer, Answers, type AnswerTable, decodeAnswer, type RawAnswer } from './answers.ts';
import type { Login } from './login.ts';
import { RUNTIME } from './runtime.ts';

/** A shell program: pieces of src/runtime, and what they answer. */
export interface Program<Table extends AnswerTable> {
  /** Pieces of src/runtime in the order in which they are read, after frame.sh. */
  readonly parts: readonly (keyof typeof RUNTIME)[];
  readonly answers: Table;
}

/** The answers of frame.sh, which every program has. */
export const FRAME_ANSWERS = { problem: ['what', 'details…'] } as const satisfies AnswerTable;

export interface Run {
  /** What it does, for messages: "staging the code". */
  readonly purpose: string;
  /** Calls of the program's functions, made by `call`. */
  readonly calls: readonly string[];
  /** The program reads it from descriptor 3. Without data, the descriptor stays open and empty. */
  readonly data?: Readable;
  /** Seconds after which the outcome counts as unknown. */
  readonly deadlineSeconds: number;
  /** When it fires, descriptor 3 ends. That tells a program that watches it that nobody waits for it any more. */
  readonly signal?: AbortSignal | undefined;
}

/** What came back from a program that ran to its end. */
export interface Reply<Table extends AnswerTable> {
  readonly answers: Answers<Table>;
  /** The exit status of the program. */
  readonly status: number;
  /** The end of its stderr. */
  readonly stderr: string;
}

/** The outcome is not known: the program may have done all, some or none of its work. */
export class Unknown extends Problem {}

const STDERR_KEPT = 8_000;
const LONGEST_LINE = 32_000_000;

/**
 * Runs a program on the login node with bash, whatever the account's login shell is, in the environment of a login shell. The
 * program goes over stdin, so that none of its values is in an argument list.
 *
 * The command is made of two single-quoted words without !, ' or \, because every login shell reads those alike. The outer
 * bash moves stdin to descriptor 3 before the start-up files of the inner bash can read from it.
 * @param onAnswer called with each answer as soon as it is there
 * @throws Unknown when the reply is not complete, or not one that the program can give; Problem when the account runs no programs
 */
export async function runProgram<Table extends AnswerTable>(
  login: Login,
  program: Program<Table>,
  run: Run,
  onAnswer: (answer: Answer<Table>) => void = () => {},
): Promise<Reply<Table>> {
  const marker = `@${randomBytes(12).toString('hex')}`;
  const text = Buffer.from(
    [
      `MARK=${quote(marker)}`,
      login.cluster.prelude,
      `CHAIN_SHARE=${login.cluster.share ?? ''}`,
      RUNTIME.trust,
      RUNTIME.frame,
      ...program.parts.map((part) => RUNTIME[part]),
      ...run.calls.map((one) => `${one} || exit`),
      'exit 0\n',
    ].join('\n'),
  );
  const command = `exec bash -c 'exec 3<&0 </dev/null; exec bash -l -c "$0"' 'eval "$(head -c ${text.length} <&3)"'`;

  const input = new PassThrough();
  input.write(text);
  run.data?.on('error', (error) => input.destroy(error));
  run.data?.pipe(input);
  const stop = () => input.end();
  run.signal?.addEventListener('abort', stop);
  if (run.signal?.aborted) stop();

  const answers: Answer<Table>[] = [];
  let status: number | undefined;
  let nonsense: string | undefined;
  const lines = new LineReader((line) => {
    const raw = parseAnswer(marker, line);
    if (raw === undefined) return;
    if (raw.key === 'end') {
      status = Number(raw.values[0]);
      return;
    }
    try {
      const answer = decodeAnswer(program.answers, raw);
      answers.push(answer);
      onAnswer(answer);
    } catch (error) {
      nonsense ??= messageOf(error);
    }
  });
  let stderr = '';
  const exit = await login.connection.execute(command, {
    input,
    deadlineSeconds: run.deadlineSeconds,
    onStdout: (chunk) => lines.push(chunk),
    onStderr: (chunk) => {
      stderr = (stderr + chunk.toString()).slice(-STDERR_KEPT);
    },
  });
  run.signal?.removeEventListener('abort', stop);
  input.destroy();
  run.data?.destroy();
  const { name } = login.connection;
  if (nonsense !== undefined) {
    throw new Unknown(`${name}: unexpected output while ${run.purpose}: ${nonsense}. This is a fault of slurm-chain; please report it`);
  }
  if (status === undefined) {
    if ('code' in exit && answers.length === 0) {
      const reason = await whyNothingRan(login);
      if (reason !== undefined) throw reason;
    }
    const how = 'lost' in exit ? exit.lost : `it exited with ${exit.code} before it was done`;
    throw new Unknown(`${name}: the connection ended while ${run.purpose}: ${how}${endOfStderr(stderr)}`);
  }
  return { answers: new Answers(answers), status, stderr };
}

/**
 * runProgram for programs that have to succeed.
 * @throws Problem with the program's own message when it fails
 */
export async function runChecked<Table extends AnswerTable & typeof FRAME_ANSWERS>(
  login: Login,
  program: Program<Table>,
  run: Run,
  onAnswer?: (answer: Answer<Table>) => void,
): Promise<Answers<Table>> {
  const { answers, status, stderr } = await runProgram(login, program, run, onAnswer);
  const [problem] = (answers as unknown as Answers<typeof FRAME_ANSWERS>).all('problem');
  const { name } = login.connection;
  if (problem !== undefined) {
    const details = problem.details.map((detail) => `\n${detail}`).join('');
    throw new Problem(`${name}: ${problem.what.trim().replace(/\s*\n\s*/g, '; ')}${details}`);
  }
  if (status !== 0) throw new Problem(`${name}: ${run.purpose} failed with status ${status}${endOfStderr(stderr)}`);
  return answers;
}

function endOfStderr(stderr: string): string {
  const text = stderr.trim().slice(-1000);
  return text === '' ? '' : `. Its stderr ends with: ${text}`;
}

/** One call of a function of the program, every argument quoted. */
export function call(name: string, ...args: readonly string[]): string {
  return [name, ...args.map(quote)].join(' ');
}

/** The answer on a line; undefined for all other output: a banner, a start-up file, a command that prints something. */
export function parseAnswer(marker: string, line: string): RawAnswer | undefined {
  if (!line.startsWith(`${marker} `)) return undefined;
  const [key = '', ...values] = line
    .slice(marker.length + 1)
    .split('\t')
    .map(unescaped);
  return { key, values };
}

/** Reverses the escapes of `answer` in frame.sh. */
function unescaped(text: string): string {
  return text.replace(/%(0A|09|0D|25)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** The lines of a byte stream. A line that is longer than any answer is dropped, so that noise without line ends costs no memory. */
export class LineReader {
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
