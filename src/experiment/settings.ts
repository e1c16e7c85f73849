import * as v from 'valibot';
import { type Place, Problem } from '../base/problem.ts';
import { didYouMean } from '../base/spelling.ts';
import { type Layers, type Read, readLayers } from './reader.ts';
import { RESERVED_OPTIONS, SLURM_OPTIONS } from './slurm-options.ts';
import { camelKeys, clusterPath, command, list, mapping, must, oneOf, section, trueOrFalse, whole, word } from './values.ts';

// More jobs than anyone waits for; a typo such as 1e9 is not a chain.
const MOST_JOBS = 1000;
// sbatch's --signal takes 16 bits (sbatch(1)). No time limit is shorter than the longest warning by accident.
const LONGEST_WARNING = 65535;

/** The name of an sbatch option, written with - or _. */
const optionName = v.pipe(
  v.string(),
  v.check(
    (key) => !RESERVED_OPTIONS.has(hyphenated(key)),
    ({ input }) => `slurm.${input} cannot be set: ${RESERVED_OPTIONS.get(hyphenated(input))}`,
  ),
  v.check(
    (key) => RESERVED_OPTIONS.has(hyphenated(key)) || SLURM_OPTIONS.has(hyphenated(key)),
    ({ input }) =>
      `unknown key '${input}' under slurm${didYouMean(hyphenated(input), SLURM_OPTIONS) || '; it takes the long options of sbatch'}`,
  ),
);

const slurm = v.pipe(
  mapping(optionName, v.pipe(v.union([v.boolean(), word]), must('one line of text, or true for an option without a value'))),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    const seen = new Set<string>();
    for (const [key, value] of dataset.value) {
      if (seen.has(hyphenated(key))) {
        const message = `slurm.${key} is given twice, once with - and once with _; keep one of them`;
        addIssue({ message, path: [{ type: 'map', origin: 'key', input: dataset.value, key, value }] });
      }
      seen.add(hyphenated(key));
    }
  }),
  v.transform((options) => {
    const given = new Map<string, string | true>();
    for (const [key, value] of options) if (value !== false) given.set(hyphenated(key), value);
    return given;
  }),
);

function hyphenated(key: string): string {
  return key.replaceAll('_', '-');
}

/** The name of a variable that a user may set in a job. */
const variableName = v.pipe(
  v.string(),
  v.check(
    (name) => variableFault(name) === undefined,
    ({ input }) => `env: ${variableFault(input)}`,
  ),
);

const variableValue = v.pipe(
  v.string(),
  must('text or a number'),
  v.check((text) => !text.includes('\0'), 'text or a number, without a NUL character'),
);

/** `checkpoint-{step}` gives `checkpoint-`. */
const pattern = v.pipe(
  word,
  must('a name that ends in {step}, such as checkpoint-{step}'),
  v.regex(/^[A-Za-z][A-Za-z0-9._-]*\{step\}$/),
  // job.sh renames a checkpoint that is not whole to incomplete.…; that name must not look like a checkpoint.
  v.check((name) => !name.startsWith('incomplete.')),
  v.transform((name) => name.slice(0, -'{step}'.length)),
);

const fileName = v.pipe(
  word,
  must('the name of a file inside a checkpoint directory, such as .metadata'),
  v.check((name) => name.split('/').every((part) => part !== '' && part !== '..')),
);

const webAddress = v.pipe(
  word,
  must('a web address, such as https://wandb.example.edu'),
  v.check((address) => URL.canParse(address) && /^https?:/.test(address)),
  v.transform((address) => address.replace(/\/+$/, '')),
);

const pathspec = v.pipe(
  command,
  must('a pattern of paths from the top of the repository, such as data/**'),
  v.check((glob) => !glob.startsWith('/') && !glob.split('/').includes('..')),
);

/**
 * What Slurm Chain reads from an experiment. Everything else at the top level of the yaml belongs to the experiment.
 *
 * This is the one description of these keys. The checks, the type Settings, schema/experiment.json and the tables of
 * docs/reference/experiment.md come from it: a new key is one entry here, then `node script/schema.ts`.
 */
export const experimentSchema = v.object({
  name: v.pipe(
    v.optional(word),
    v.description(
      'Name of the experiment. It begins the EXPERIMENT_ID and can be used in comments and labels. Default: the name of the file.',
    ),
  ),
  cluster: v.pipe(
    v.optional(word),
    v.description('The cluster to run on, a name under `clusters` in `.github/slurm-chain.yml`. Not needed if that file has one cluster.'),
  ),
  run: v.pipe(
    command,
    v.description(
      'The command that trains, such as `srun python train.py --config "$EXPERIMENT_CONFIG"`. bash runs it once per task, in the copy of the code.',
    ),
  ),
  setup: v.pipe(
    v.optional(list(command, 'text or a list of texts'), []),
    v.description('Shell lines before `run`, in the same shell (`bash -eo pipefail`), such as `module load cuda`.'),
  ),
  slurm: v.pipe(
    slurm,
    v.description('Long options of sbatch, written with `-` or `_`. `true` is an option without a value; `false` switches off a default.'),
  ),
  chain: v.pipe(
    section({
      n_jobs: v.pipe(v.optional(whole(1, MOST_JOBS), 1), v.description('Length of the chain, in jobs.')),
      scope: v.pipe(
        v.optional(oneOf('array', 'cell'), 'array'),
        v.description(
          '`array`: a job waits for all cells of the job before it. `cell`: each cell waits for itself alone, so a slow cell delays no other one. That takes 1 + cells × (n_jobs − 1) Slurm jobs and excludes `max_concurrent_jobs`.',
        ),
      ),
      warn_before: v.pipe(
        v.optional(whole(0, LONGEST_WARNING), 0),
        v.description(
          'Seconds before the time limit at which your code gets a signal; 0 for none. Slurm may send it up to a minute early. Take at least twice the time of one save. Code that does not handle the signal dies of it.',
        ),
      ),
      warn_signal: v.pipe(
        v.optional(oneOf('USR1', 'USR2', 'TERM'), 'USR1'),
        v.description('The signal of `warn_before`. Older versions of torchrun know only `TERM`.'),
      ),
      stop_after_failures: v.pipe(
        v.optional(whole(1, MOST_JOBS), 2),
        v.description('If so many tasks of a cell in a row fail without a new checkpoint, its later tasks do not start.'),
      ),
      cancel_when_done: v.pipe(
        v.optional(trueOrFalse, true),
        v.description('Cancel the jobs that are still queued once every cell has finished training.'),
      ),
    }),
    v.description('How long the chain is and how its jobs follow each other. Overrides of these keys do not change the EXPERIMENT_ID.'),
  ),
  save: v.pipe(
    v.strictObject({
      path: v.pipe(
        clusterPath,
        v.description('The directory on the cluster for checkpoints. Those of cell K go to `{path}/{EXPERIMENT_ID}/{K}`.'),
      ),
      complete: v.pipe(
        v.optional(fileName),
        v.description('A file that only a complete checkpoint contains, such as `.metadata`. Without it, any file will do.'),
      ),
      pattern: v.pipe(
        v.optional(pattern, 'step_{step}'),
        v.description('The name of a checkpoint directory, such as `checkpoint-{step}`.'),
      ),
      step: v.pipe(
        v.optional(oneOf('index', 'count'), 'index'),
        v.description(
          'What the number in the name says. `index`: after `step_500`, training continues with step 501. `count`: `step_500` means that 500 steps are done, so training continues with step 500.',
        ),
      ),
    }),
    v.transform(({ pattern: prefix, ...save }) => ({ ...save, prefix })),
    v.description('Where checkpoints are, and what a complete one looks like.'),
  ),
  n_steps: v.pipe(
    v.optional(whole(1, Number.MAX_SAFE_INTEGER)),
    v.description(
      'Training is complete when the next step is this one. May differ between cells (`^n_steps`). Without it, only a file `COMPLETE` in `CHECKPOINT_DIR` says so.',
    ),
  ),
  max_concurrent_jobs: v.pipe(
    v.optional(whole(1, 1_000_000)),
    v.description('How many cells run at a time; the throttle of the job array (`--array=0-7%4`). Default: no limit.'),
  ),
  wandb: v.pipe(
    section({
      entity: v.pipe(v.optional(word), v.description('Team or user on W&B; becomes `WANDB_ENTITY`.')),
      project: v.pipe(v.optional(word), v.description('Project on W&B; becomes `WANDB_PROJECT`.')),
      base_url: v.pipe(
        v.optional(webAddress),
        v.description('Address of a self-hosted W&B server; becomes `WANDB_BASE_URL`. Default: `https://wandb.ai`.'),
      ),
    }),
    v.description('Where the runs are on W&B. The link in the comment needs `entity` and `project`.'),
  ),
  env: v.pipe(
    mapping(variableName, variableValue),
    v.description('Environment variables of the job, in plain text. Put secrets into the input `env` of the action instead.'),
  ),
  code: v.pipe(
    section({
      exclude: v.pipe(
        v.optional(list(pathspec, 'text or a list of texts'), []),
        v.description('Files of the commit that are not copied to the cluster, as git pathspecs such as `data/**`.'),
      ),
    }),
    v.description('Which code goes to the cluster.'),
  ),
});

const settingsSchema = v.pipe(
  experimentSchema,
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed || dataset.value.chain.scope !== 'cell' || dataset.value.max_concurrent_jobs === undefined) return;
    addIssue({
      message:
        'max_concurrent_jobs throttles one job array, but with chain.scope: cell every cell has Slurm jobs of its own from the second job on; remove one of the two',
      path: [
        { type: 'object', origin: 'value', input: dataset.value, key: 'max_concurrent_jobs', value: dataset.value.max_concurrent_jobs },
      ],
    });
  }),
  v.transform(({ code, ...settings }) => ({ ...camelKeys(settings), exclude: code.exclude })),
);

/** What Slurm Chain reads from an experiment; see experimentSchema for the meaning of each field. */
export type Settings = Read<typeof settingsSchema>;
export type Wandb = Settings['wandb'];

/** A top-level key of Slurm Chain, as it is written. */
export type SettingKey = keyof typeof experimentSchema.entries;

/** The top-level keys that readSettings looks at. */
export const SETTING_KEYS = Object.keys(experimentSchema.entries) as SettingKey[];

/**
 * Reads and checks the settings of one cell.
 * @param layers the experiment, then the defaults of the repository
 * @throws Problem with line and column for unknown keys in a section, wrong types and values out of range
 */
export function readSettings(layers: Layers): Settings {
  return readLayers(settingsSchema, layers);
}

/** Reads one key, whatever is wrong with others. @throws Problem with line and column for what is wrong with it */
export function readSetting<Key extends SettingKey>(key: Key, layers: Layers): Read<(typeof experimentSchema.entries)[Key]> {
  const values = readLayers(v.pick(experimentSchema, [key]), layers) as Partial<Record<SettingKey, unknown>>;
  return values[key] as Read<(typeof experimentSchema.entries)[Key]>;
}

// job.sh and the training code agree on these variables; a value from elsewhere would break that.
const OURS = /^(EXPERIMENT_|CHAIN_|SLURM_|SBATCH_|WANDB_(RUN_ID|RESUME|RUN_GROUP|NAME)$|CHECKPOINT_DIR$|RESUME_(FROM|STEP)$|NEXT_STEP$)/;

function variableFault(name: string): string | undefined {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    return `'${name}' is not a name an environment variable can have; use letters, digits and _, and no digit at the start`;
  }
  return OURS.test(name) ? `${name} is set by the chain or by Slurm and cannot be given; remove it` : undefined;
}

/** @param where begins the message, such as `input env`. @throws Problem unless a user may set a variable of this name in a job */
export function checkVariableName(name: string, where: string, place?: Place): void {
  const fault = variableFault(name);
  if (fault !== undefined) throw new Problem(`${where}: ${fault}`, place);
}
