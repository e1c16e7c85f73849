/**
 * What a shell program may answer: for each key the names of its fields, in order. The last field may end in `…` and then
 * stands for any number of values. Each file in src/runtime starts with the same table, and a test compares the two.
 */
export type AnswerTable = Readonly<Record<string, readonly string[]>>;

/** One answer as it came over the wire. */
export interface RawAnswer {
  readonly key: string;
  readonly values: readonly string[];
}

/** The fields of one answer by name. */
export type Fields<Names extends readonly string[]> = {
  readonly [Name in Names[number] as Name extends `${infer Base}…` ? Base : Name]: Name extends `${string}…` ? readonly string[] : string;
};

/** One answer with its fields by name. */
export type Answer<Table extends AnswerTable> = { readonly [Key in keyof Table]: { readonly key: Key } & Fields<Table[Key]> }[keyof Table];

/** All answers of a program, in the order in which they came. */
export class Answers<Table extends AnswerTable> {
  readonly #all: readonly Answer<Table>[];

  constructor(all: readonly Answer<Table>[]) {
    this.#all = all;
  }

  /** Every answer with this key. */
  all<Key extends keyof Table>(key: Key): Extract<Answer<Table>, { key: Key }>[] {
    return this.#all.filter((answer): answer is Extract<Answer<Table>, { key: Key }> => answer.key === key);
  }

  /** The answer with this key, if there is one. @throws Error when there are several */
  optional<Key extends keyof Table>(key: Key): Extract<Answer<Table>, { key: Key }> | undefined {
    const [one, ...others] = this.all(key);
    if (others.length > 0) throw new Error(`${others.length + 1} answers '${String(key)}' where one was expected`);
    return one;
  }

  /** The answer with this key. @throws Error when it is missing, or when there are several */
  one<Key extends keyof Table>(key: Key): Extract<Answer<Table>, { key: Key }> {
    const one = this.optional(key);
    if (one === undefined) throw new Error(`the answer '${String(key)}' is missing`);
    return one;
  }

  has(key: keyof Table): boolean {
    return this.#all.some((answer) => answer.key === key);
  }
}

/** Gives the fields of an answer their names. @throws Error for a key that the table lacks, and for missing or extra fields */
export function decodeAnswer<Table extends AnswerTable>(table: Table, { key, values }: RawAnswer): Answer<Table> {
  const names = Object.hasOwn(table, key) ? table[key] : undefined;
  if (names === undefined) throw new Error(`unknown answer '${key}'`);
  const last = names.at(-1);
  const rest = last?.endsWith('…') ? last.slice(0, -1) : undefined;
  const single = rest === undefined ? names : names.slice(0, -1);
  if (values.length < single.length || (rest === undefined && values.length > single.length)) {
    throw new Error(`the answer '${key}' has ${values.length} fields instead of ${names.join(' ') || 'none'}`);
  }
  const fields = Object.fromEntries(single.map((name, index) => [name, values[index]]));
  const answer = { ...fields, ...(rest === undefined ? {} : { [rest]: values.slice(single.length) }), key };
  return answer as unknown as Answer<Table>;
}
