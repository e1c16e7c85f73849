import { isMap, isScalar, isSeq, type Node, type Pair, type YAMLMap } from 'yaml';
import { type Place, Problem } from '../base/problem.ts';
import { didYouMean } from '../base/spelling.ts';
import { keyText, placeOf, resolved, type YamlSource } from './document.ts';
import { RESERVED_OPTIONS, SLURM_OPTIONS } from './slurm-options.ts';

/** What the launcher reads from an experiment; everything else in the yaml is the experiment's own. */
export interface Settings {
  readonly name: string | undefined;
  readonly cluster: string | undefined;
  /** Shell text, run once per task in the experiment's copy of the code. */
  readonly run: string;
  /** Shell lines before `run`, in the same shell. */
  readonly setup: readonly string[];
  /** sbatch long options in the order they were written; true is a flag without a value. */
  readonly slurm: ReadonlyMap<string, string | true>;
  readonly chain: Chain;
  readonly save: Save;
  /** Training is complete when the next step is this one. */
  readonly nSteps: number | undefined;
  /** Array throttle: how many cells run at a time. */
  readonly maxConcurrentJobs: number | undefined;
  readonly wandb: Wandb;
  readonly env: ReadonlyMap<string, string>;
  /** Patterns (git pathspecs) of files that stay off the cluster. */
  readonly exclude: readonly string[];
}

export interface Chain {
  readonly nJobs: number;
  /** array: a step waits for all cells of the one before. cell: each cell waits for itself alone. */
  readonly scope: 'array' | 'cell';
  /** Seconds before the time limit at which the job gets the warning signal; 0 for no warning. */
  readonly warnBefore: number;
  readonly warnSignal: 'USR1' | 'USR2' | 'TERM';
  /** Tasks of a cell that may fail in a row without one new checkpoint before later ones do not start. */
  readonly stopAfterFailures: number;
  /** Cancel the steps that are still queued once every cell is done. */
  readonly cancelWhenDone: boolean;
}

export interface Save {
  readonly path: string;
  /** A file that only a whole checkpoint has in it. */
  readonly complete: string | undefined;
  /** What stands before the number in a checkpoint's name. */
  readonly prefix: string;
  /** index: step_500 is the step with index 500, the next is 501. count: 500 steps are done, the next has index 500. */
  readonly step: 'index' | 'count';
}

export interface Wandb {
  readonly entity: string | undefined;
  readonly project: string | undefined;
  /** Where a self-hosted server is; undefined for the public one. */
  readonly baseUrl: string | undefined;
}

// More steps than anyone has waited for; a typo such as 1e9 is not a chain.
const MOST_STEPS = 1000;
// Longer than any time limit: what is asked for must fit Slurm's --signal, which takes 16 bits (sbatch(1)).
const LONGEST_WARNING = 65535;

/** A value with where it came from: the experiment, or the defaults of the repo. */
interface YamlField {
  readonly node: Node;
  readonly source: YamlSource;
  readonly place: Place | undefined;
  /** Dotted, for messages. */
  readonly path: string;
}

/** Where to look, first match wins. */
type Layers = readonly { readonly source: YamlSource; readonly map: YAMLMap }[];

/**
 * Reads and checks the settings of one cell. Sections merge key by key: what the experiment does not say, the defaults may.
 * @throws Problem with line and column for unknown keys in a section, wrong types and values out of range.
 */
export function readSettings(source: YamlSource, root: YAMLMap, defaults?: { source: YamlSource; map: YAMLMap }): Settings {
  const layers: Layers = defaults ? [{ source, map: root }, defaults] : [{ source, map: root }];
  const run = find(layers, 'run');
  if (run === undefined) {
    throw new Problem(
      `${source.file}: there is no run: key. It holds the command that trains, such as run: srun python train.py --config "$EXPERIMENT_CONFIG"`,
    );
  }
  const save = section(layers, 'save', ['path', 'complete', 'pattern', 'step']);
  const savePath = save.get('path');
  if (savePath === undefined) {
    throw new Problem(`${source.file}: there is no save.path. It is the directory on the cluster under which checkpoints are kept`);
  }
  const chain = section(layers, 'chain', ['n_jobs', 'scope', 'warn_before', 'warn_signal', 'stop_after_failures', 'cancel_when_done']);
  const wandb = section(layers, 'wandb', ['entity', 'project', 'base_url']);
  const code = section(layers, 'code', ['exclude']);
  const scope = optional(chain.get('scope'), oneOf('array', 'cell')) ?? 'array';
  const throttle = find(layers, 'max_concurrent_jobs');
  if (scope === 'cell' && throttle !== undefined) {
    throw new Problem(
      'max_concurrent_jobs throttles one array, and with chain.scope: cell every cell has jobs of its own from step 2 on; leave one of the two out',
      throttle.place,
    );
  }
  return {
    name: optional(find(layers, 'name'), word),
    cluster: optional(find(layers, 'cluster'), word),
    run: command(run),
    setup: optional(find(layers, 'setup'), lines) ?? [],
    slurm: slurmOptions(layers),
    chain: {
      nJobs: optional(chain.get('n_jobs'), integer(1, MOST_STEPS)) ?? 1,
      scope,
      warnBefore: optional(chain.get('warn_before'), integer(0, LONGEST_WARNING)) ?? 0,
      warnSignal: optional(chain.get('warn_signal'), oneOf('USR1', 'USR2', 'TERM')) ?? 'USR1',
      stopAfterFailures: optional(chain.get('stop_after_failures'), integer(1, MOST_STEPS)) ?? 2,
      cancelWhenDone: optional(chain.get('cancel_when_done'), trueOrFalse) ?? true,
    },
    save: {
      path: clusterPath(savePath),
      complete: optional(save.get('complete'), fileName),
      prefix: optional(save.get('pattern'), prefixOf) ?? 'step_',
      step: optional(save.get('step'), oneOf('index', 'count')) ?? 'index',
    },
    nSteps: optional(find(layers, 'n_steps'), integer(1, Number.MAX_SAFE_INTEGER)),
    maxConcurrentJobs: optional(throttle, integer(1, 1_000_000)),
    wandb: {
      entity: optional(wandb.get('entity'), word),
      project: optional(wandb.get('project'), word),
      baseUrl: optional(wandb.get('base_url'), webAddress),
    },
    env: environment(layers),
    exclude: optional(code.get('exclude'), patterns) ?? [],
  };
}

/** The top-level keys that readSettings looks at. */
export const SETTING_KEYS: readonly string[] = [
  'name',
  'cluster',
  'run',
  'setup',
  'slurm',
  'chain',
  'save',
  'n_steps',
  'max_concurrent_jobs',
  'wandb',
  'env',
  'code',
];

function find(layers: Layers, key: string): YamlField | undefined {
  for (const { source, map } of layers) {
    const pair = pairsOf(source, map).find((item) => keyText(item) === key);
    const node = resolved(source, pair?.value);
    if (node !== undefined && !(isScalar(node) && node.value === null)) {
      return { node, source, place: placeOf(source, node), path: key };
    }
  }
  return undefined;
}

/**
 * The pairs of a mapping with those a merge key `<<` brings in behind them (https://yaml.org/type/merge.html): training code
 * that reads the same file sees them too. The first of two with one key counts.
 */
function pairsOf(source: YamlSource, map: YAMLMap): Pair[] {
  const pairs = map.items as Pair[];
  const merged = pairs
    .filter((pair) => keyText(pair) === '<<')
    .flatMap((pair) => {
      const value = resolved(source, pair.value);
      return isSeq(value) ? value.items.map((item) => resolved(source, item)) : [value];
    })
    .flatMap((value) => (isMap(value) ? pairsOf(source, value) : []));
  return [...pairs.filter((pair) => keyText(pair) !== '<<'), ...merged];
}

/** The keys of a section over all layers. A null value counts as not said. */
function entries(layers: Layers, name: string): Map<string, YamlField & { keyPlace: Place | undefined }> {
  const all = new Map<string, YamlField & { keyPlace: Place | undefined }>();
  for (const { source, map } of layers) {
    const found = find([{ source, map }], name);
    if (found === undefined) continue;
    if (!isMap(found.node)) throw new Problem(`${name} must hold keys and values`, found.place);
    for (const pair of pairsOf(source, found.node)) {
      const key = keyText(pair);
      const node = resolved(source, pair.value);
      if (all.has(key) || node === undefined) continue;
      const keyPlace = placeOf(source, pair.key as Node);
      all.set(key, { node, source, place: placeOf(source, node) ?? keyPlace, path: `${name}.${key}`, keyPlace });
    }
  }
  return all;
}

function isNull(found: YamlField): boolean {
  return isScalar(found.node) && found.node.value === null;
}

function section(layers: Layers, name: string, known: readonly string[]): Map<string, YamlField> {
  const all = entries(layers, name);
  for (const [key, found] of all) {
    if (!known.includes(key)) {
      throw new Problem(
        `unknown key '${key}' under ${name}${didYouMean(key, known)}${didYouMean(key, known) ? '' : `; it takes ${known.join(', ')}`}`,
        found.keyPlace,
      );
    }
    if (isNull(found)) all.delete(key);
  }
  return all;
}

function optional<T>(found: YamlField | undefined, read: (found: YamlField) => T): T | undefined {
  return found === undefined ? undefined : read(found);
}

function wrong(found: YamlField, expected: string): Problem {
  const shown = isScalar(found.node) ? (found.node.source ?? String(found.node.value)) : isMap(found.node) ? 'a mapping' : 'a list';
  return new Problem(`${found.path} is ${JSON.stringify(shown)}; it must be ${expected}`, found.place);
}

/** Any scalar, as it was spelled. */
function scalarText(found: YamlField, expected: string): string {
  if (!isScalar(found.node) || found.node.value === null) throw wrong(found, expected);
  const { value, source } = found.node;
  const text = typeof value === 'string' ? value : (source ?? String(value));
  if (text.includes('\0')) throw wrong(found, `${expected}, without a NUL character`);
  return text;
}

function word(found: YamlField): string {
  const text = scalarText(found, 'text').trim();
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it is about
  if (text === '' || /[\u0000-\u001f\u007f]/.test(text)) throw wrong(found, 'one line of text');
  return text;
}

function command(found: YamlField): string {
  const text = scalarText(found, 'a shell command');
  if (text.trim() === '') throw wrong(found, 'a shell command');
  if (text.includes('\r')) throw wrong(found, 'a shell command with Unix line ends');
  return text;
}

function lines(found: YamlField): string[] {
  if (!isSeq(found.node)) return [command(found)];
  return found.node.items.map((item, index) => {
    const node = resolved(found.source, item);
    if (node === undefined) throw wrong(found, 'text or a list of texts');
    return command({ ...found, node, place: placeOf(found.source, node), path: `${found.path}[${index}]` });
  });
}

/** git pathspecs, from the top of the repository. */
function patterns(found: YamlField): string[] {
  const all = lines(found);
  if (all.some((pattern) => pattern.startsWith('/') || pattern.split('/').includes('..'))) {
    throw wrong(found, 'patterns of paths from the top of the repository, such as data/**');
  }
  return all;
}

function integer(least: number, most: number): (found: YamlField) => number {
  return (found) => {
    const value = isScalar(found.node) ? found.node.value : undefined;
    if (typeof value !== 'number' || !Number.isInteger(value) || value < least || value > most) {
      throw wrong(
        found,
        most === Number.MAX_SAFE_INTEGER ? `a whole number, at least ${least}` : `a whole number from ${least} to ${most}`,
      );
    }
    return value;
  };
}

function oneOf<T extends string>(...choices: readonly T[]): (found: YamlField) => T {
  return (found) => {
    const choice = choices.find((one) => isScalar(found.node) && found.node.value === one);
    if (choice === undefined) throw wrong(found, `one of ${choices.join(', ')}`);
    return choice;
  };
}

function trueOrFalse(found: YamlField): boolean {
  const value = isScalar(found.node) ? found.node.value : undefined;
  if (typeof value !== 'boolean') throw wrong(found, 'true or false');
  return value;
}

/** `checkpoint-{step}` → `checkpoint-`. */
function prefixOf(found: YamlField): string {
  const prefix = /^([A-Za-z][A-Za-z0-9._-]*)\{step\}$/.exec(word(found))?.[1];
  // What job.sh moves aside begins so, and must not be taken for a checkpoint.
  if (prefix === undefined || prefix.startsWith('incomplete.')) throw wrong(found, 'a name that ends in {step}, such as checkpoint-{step}');
  return prefix;
}

/** Absolute, or with a start that is expanded on the cluster; expand_path in src/runtime/frame.sh does that. */
export function startsOnCluster(path: string): boolean {
  return /^(\/|~\/|\$[A-Za-z_][A-Za-z0-9_]*(\/|$))/.test(path);
}

function clusterPath(found: YamlField): string {
  const path = word(found);
  if (!startsOnCluster(path)) {
    throw wrong(found, 'an absolute path on the cluster, or start with ~/ or $NAME/ (which is expanded there)');
  }
  if (path.split('/').includes('..')) throw wrong(found, 'a path without ..');
  return path.length > 1 ? path.replace(/\/+$/, '') : path;
}

function fileName(found: YamlField): string {
  const name = word(found);
  if (name.startsWith('/') || name.split('/').some((part) => part === '..' || part === '')) {
    throw wrong(found, 'the name of a file inside a checkpoint directory, such as .metadata');
  }
  return name;
}

function webAddress(found: YamlField): string {
  const address = word(found);
  if (!URL.canParse(address) || !/^https?:/.test(address)) throw wrong(found, 'a web address, such as https://wandb.example.edu');
  return address.replace(/\/+$/, '');
}

function slurmOptions(layers: Layers): Map<string, string | true> {
  const options = new Map<string, string | true>();
  for (const [key, found] of entries(layers, 'slurm')) {
    const name = key.replaceAll('_', '-');
    const reserved = RESERVED_OPTIONS.get(name);
    if (reserved !== undefined) {
      throw new Problem(`slurm.${key} cannot be set: ${reserved}`, found.keyPlace);
    }
    if (!SLURM_OPTIONS.has(name)) {
      throw new Problem(
        `unknown key '${key}' under slurm${didYouMean(name, SLURM_OPTIONS) || '; it takes the long options of sbatch'}`,
        found.keyPlace,
      );
    }
    if (options.has(name)) throw new Problem(`slurm.${key} is given twice, with - and with _`, found.keyPlace);
    if (isNull(found)) continue;
    const value = isScalar(found.node) ? found.node.value : undefined;
    if (value === false) continue;
    options.set(name, value === true ? true : word(found));
  }
  return options;
}

// The contract between job.sh and the training code; a value from outside would make one of the two wrong.
const OURS = /^(EXPERIMENT_|CHAIN_|SLURM_|SBATCH_|WANDB_(RUN_ID|RESUME|RUN_GROUP|NAME)$|CHECKPOINT_DIR$|RESUME_(FROM|STEP)$|NEXT_STEP$)/;

/** @throws Problem unless `name` may be set in a job by a user. */
export function checkVariableName(name: string, where: string, place?: Place): void {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    throw new Problem(`${where}: '${name}' is not a name an environment variable can have`, place);
  }
  if (OURS.test(name)) throw new Problem(`${where}: ${name} is set by the chain or by Slurm and cannot be given`, place);
}

function environment(layers: Layers): Map<string, string> {
  const variables = new Map<string, string>();
  for (const [name, found] of entries(layers, 'env')) {
    checkVariableName(name, 'env', found.keyPlace);
    variables.set(name, isNull(found) ? '' : scalarText(found, 'text or a number'));
  }
  return variables;
}
