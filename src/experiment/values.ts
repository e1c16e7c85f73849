// The kinds of values in our yaml files. settings.ts and repo-config.ts describe their keys with them.
import * as v from 'valibot';
import { hasDirection } from '../base/text.ts';

/** Says what a value must be. Errors ("it must be …") and the reference pages (column "value") show it. */
export function must<Input>(expected: string): v.MetadataAction<Input, { readonly expected: string }> {
  return v.metadata({ expected });
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: it looks for control characters
const CONTROL = /[\u0000-\u001f\u007f]/;

/** One line of text, without white space around it. A number is text as it is spelled. */
export const word = v.pipe(
  v.string(),
  must('one line of text'),
  v.trim(),
  v.nonEmpty(),
  v.check((text) => !CONTROL.test(text)),
  v.check((text) => !hasDirection(text), 'one line of text without characters that change the direction of writing'),
);

/** One or more lines for bash. */
export const command = v.pipe(
  v.string(),
  must('a shell command'),
  v.check((text) => text.trim() !== ''),
  v.check((text) => !text.includes('\0'), 'a shell command without a NUL character'),
  v.check((text) => !text.includes('\r'), 'a shell command with Unix line ends (\\n, not \\r\\n)'),
);

/** Several values; the reader takes a single one as a list of one. */
export function list<Item extends v.GenericSchema>(item: Item, expected: string) {
  return v.pipe(v.array(item), must(expected));
}

export function whole(least: number, most: number) {
  return v.pipe(
    v.number(),
    must(most === Number.MAX_SAFE_INTEGER ? `a whole number, at least ${least}` : `a whole number from ${least} to ${most}`),
    v.integer(),
    v.minValue(least),
    v.maxValue(most),
  );
}

export function oneOf<const Choices extends readonly [string, ...string[]]>(...choices: Choices) {
  return v.pipe(v.picklist(choices), must(`one of ${choices.join(', ')}`));
}

export const trueOrFalse = v.pipe(v.boolean(), must('true or false'));

const ON_CLUSTER = /^(\/|~\/|\$[A-Za-z_][A-Za-z0-9_]*(\/|$))/;

/** Is the path absolute, or does it start with ~/ or $NAME? expand_path in src/runtime/frame.sh expands such a start. */
export function startsOnCluster(path: string): boolean {
  return ON_CLUSTER.test(path);
}

/** A directory on the cluster, as it is written, without slashes at its end. */
export const clusterPath = v.pipe(
  word,
  must('an absolute path on the cluster, or one that starts with ~/ or $NAME/ (which the cluster expands)'),
  v.regex(ON_CLUSTER),
  v.check((path) => !path.split('/').includes('..'), 'a path without ..'),
  v.check((path) => !path.includes('\\'), 'a path without a backslash'),
  v.transform((path) => path.replace(/(.)\/+$/, '$1')),
);

/** A section whose keys we know. Its keys come out in camelCase. */
export function section<Entries extends v.ObjectEntries>(entries: Entries) {
  return v.pipe(
    v.strictObject(entries),
    v.transform((values) => camelKeys(values)),
  );
}

/** A section whose keys the user chooses, in document order. A key whose value is null counts as not given. */
export function mapping<Key extends v.GenericSchema<string, string>, Value extends v.GenericSchema>(key: Key, value: Value) {
  return v.pipe(
    v.map(key, v.nullable(value)),
    v.transform((all) => {
      const given = new Map<string, v.InferOutput<Value>>();
      for (const [name, one] of all) if (one !== null) given.set(name, one);
      return given;
    }),
  );
}

type Camel<Name> = Name extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : Name;
type CamelKeys<Values> = { [Name in keyof Values as Camel<Name>]: Values[Name] };

/** n_jobs → nJobs. */
export function camelKeys<Values extends object>(values: Values): CamelKeys<Values> {
  const entries = Object.entries(values).map(([key, value]) => [key.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()), value]);
  return Object.fromEntries(entries) as CamelKeys<Values>;
}
