import * as v from 'valibot';
import { isMap, isScalar, isSeq, type Node, Scalar, type YAMLMap } from 'yaml';
import { type Place, Problem } from '../base/problem.ts';
import { didYouMean } from '../base/spelling.ts';
import { keyText, pairsOf, placeOf, resolved, type YamlSource } from './document.ts';

/** A mapping to read from, such as the top of an experiment or the defaults of the repository. */
export interface Layer {
  readonly source: YamlSource;
  readonly map: YAMLMap;
}

/** Where to look for values, the most important layer first. */
export type Layers = readonly [Layer, ...Layer[]];

/** What a schema gives: valibot's output type, read-only at every depth. */
export type Read<Schema extends v.GenericSchema> = Frozen<v.InferOutput<Schema>>;

type Frozen<T> =
  T extends Map<infer K, infer V>
    ? ReadonlyMap<K, Frozen<V>>
    : T extends readonly (infer I)[]
      ? readonly Frozen<I>[]
      : T extends object
        ? { readonly [K in keyof T]: Frozen<T[K]> }
        : T;

/** A value, and where it stands. An override has no place. */
export interface Found {
  readonly source: YamlSource;
  readonly node: Node;
  readonly place: Place | undefined;
  readonly keyPlace: Place | undefined;
}

/** What errors need to know about one path of the data: the schema that applies there, and the value in the file. */
interface Spot {
  readonly schema: v.GenericSchema;
  /** The path as people write it, such as `chain.n_jobs`. */
  readonly path: string;
  readonly found: Found | undefined;
}

/** By the path that valibot reports for the same value, see spotKey. */
type Spots = Map<string, Spot>;

/**
 * Reads yaml mappings by a schema. The first layer that has a value wins; sections merge key by key. `null` counts as not
 * given. Aliases and merge keys are followed.
 *
 * The schema decides how a scalar is read. Where it asks for text, the value is what the file spells (`007`, `1e-10`,
 * `02:00:00`). Where it asks for a list, one value counts as a list of one.
 *
 * @param schema a valibot object. Its messages complete "it must be"; without one, `expected` of the metadata does (see must in
 *   values.ts). Messages of a map's key and of v.rawCheck are whole sentences.
 * @throws Problem with file, line and column for the first thing that does not fit
 */
export function readLayers<Schema extends v.GenericSchema>(schema: Schema, layers: Layers): Read<Schema> {
  const spots: Spots = new Map();
  const roots = layers.map(({ source, map }) => ({ node: map, source, place: undefined, keyPlace: undefined }));
  const data = dataOf(schema, roots, { keys: [], path: '' }, spots);
  const result = v.safeParse(schema, data, { message: '' });
  // The cast adds `readonly` only.
  if (result.success) return result.output as Read<Schema>;
  const [issue = result.issues[0]] = missingLast(result.issues);
  throw problemOf(innermost(issue, spots), spots, layers[0].source.file);
}

/** The value of a top-level key in the first layer that gives it; undefined if no layer does. */
export function findKey(layers: Layers, key: string): Found | undefined {
  for (const { source, map } of layers) {
    const found = entriesOf({ node: map, source }).get(key);
    if (found !== undefined && !isNull(found.node)) return found;
  }
  return undefined;
}

// ---- from yaml to the plain data that valibot checks

/** Where in the data: the keys as valibot counts them, and as people write them. */
interface At {
  readonly keys: readonly unknown[];
  readonly path: string;
}

/** Stands for a value of a kind that the schema does not take, such as a list where text is due. */
const WRONG_KIND = Symbol('a value of another kind');

/** The kinds of schemas that describe our files. To use another kind of valibot's, add it here and below. */
type Known =
  | v.ObjectSchema<v.ObjectEntries, undefined>
  | v.StrictObjectSchema<v.ObjectEntries, undefined>
  | v.MapSchema<v.GenericSchema, v.GenericSchema, undefined>
  | v.ArraySchema<v.GenericSchema, undefined>
  | v.UnionSchema<v.GenericSchema[], undefined>
  | v.OptionalSchema<v.GenericSchema, undefined>
  | v.NullableSchema<v.GenericSchema, undefined>
  | v.StringSchema<undefined>
  | v.NumberSchema<undefined>
  | v.BooleanSchema<undefined>
  | v.PicklistSchema<string[], undefined>
  | v.UnknownSchema;

/** @param layers one value from each layer that gives one, the first layer first */
function dataOf(schema: v.GenericSchema, layers: readonly Found[], at: At, spots: Spots): unknown {
  const [first] = layers;
  // Of several schemas for one value, such as an optional one and what it wraps, the innermost is set last and stays.
  spots.set(spotKey(at.keys), { schema, path: at.path, found: first });
  // A pipe has the fields of its first schema, so this sees through pipes.
  const known = schema as Known;
  switch (known.type) {
    case 'object':
    case 'strict_object':
    case 'map': {
      const other = layers.find(({ node }) => !isMap(node));
      if (other !== undefined) {
        spots.set(spotKey(at.keys), { schema, path: at.path, found: other });
        return WRONG_KIND;
      }
      return known.type === 'map' ? mapOf(known, layers, at, spots) : objectOf(known, layers, at, spots);
    }
    case 'optional':
    case 'nullable':
      if (first === undefined) return undefined;
      return isNull(first.node) ? null : dataOf(known.wrapped, layers, at, spots);
    case 'union': {
      if (first === undefined) return undefined;
      const option = known.options.find((one) => takes(one as Known, first.node));
      return option === undefined ? scalarOf(first.node) : dataOf(option, layers, at, spots);
    }
    case 'array':
      return first === undefined ? undefined : arrayOf(known, first, at, spots);
    case 'string':
      return first === undefined ? undefined : textOf(first.node);
    case 'number':
    case 'boolean':
    case 'picklist':
      return first === undefined ? undefined : scalarOf(first.node);
    case 'unknown':
      return first?.node;
    default:
      throw new TypeError(`the reader does not know this kind of schema: ${JSON.stringify(known satisfies never)}`);
  }
}

function objectOf(
  { type, entries }: v.ObjectSchema<v.ObjectEntries, undefined> | v.StrictObjectSchema<v.ObjectEntries, undefined>,
  layers: readonly Found[],
  at: At,
  spots: Spots,
): Record<string, unknown> {
  const given = entriesOfAll(layers);
  const data: [string, unknown][] = [];
  for (const [key, schema] of Object.entries(entries)) {
    const values = (given.get(key) ?? []).filter(({ node }) => !isNull(node));
    const value = dataOf(schema, values, below(at, key), spots);
    if (value !== undefined) data.push([key, value]);
  }
  if (type === 'strict_object') {
    for (const [key, values] of given) {
      if (!Object.hasOwn(entries, key)) data.push([key, dataOf(v.unknown(), values, below(at, key), spots)]);
    }
  }
  return Object.fromEntries(data);
}

function mapOf({ value }: v.MapSchema<v.GenericSchema, v.GenericSchema, undefined>, layers: readonly Found[], at: At, spots: Spots) {
  const data = new Map<string, unknown>();
  for (const [key, values] of entriesOfAll(layers)) {
    const given = values.filter(({ node }) => !isNull(node));
    data.set(key, dataOf(value, given.length > 0 ? given : values, below(at, key), spots));
  }
  return data;
}

function arrayOf({ item }: v.ArraySchema<v.GenericSchema, undefined>, found: Found, at: At, spots: Spots): unknown {
  if (isScalar(found.node)) return [dataOf(item, [found], { keys: [...at.keys, 0], path: at.path }, spots)];
  if (!isSeq(found.node)) return WRONG_KIND;
  return found.node.items.map((one, index) => {
    const node = resolved(found.source, one) ?? new Scalar(null);
    const value = { ...found, node, place: placeOf(found.source, node) };
    return dataOf(item, [value], { keys: [...at.keys, index], path: `${at.path}[${index}]` }, spots);
  });
}

/** Is this the option of a union for such a node? If none is, valibot gets the scalar as it is, which is right for a picklist. */
function takes(option: Known, node: Node): boolean {
  if (isMap(node)) return option.type === 'strict_object' || option.type === 'map';
  if (isSeq(node)) return option.type === 'array';
  return option.type === 'string' || option.type === typeof scalarOf(node);
}

function scalarOf(node: Node): unknown {
  return isScalar(node) ? node.value : WRONG_KIND;
}

/** A scalar as it is spelled, without quotes. */
function textOf(node: Node): unknown {
  if (!isScalar(node) || node.value === null || typeof node.value === 'string') return scalarOf(node);
  return node.source ?? String(node.value);
}

/** Every key of a mapping with its value. */
function entriesOf({ node, source }: Pick<Found, 'node' | 'source'>): Map<string, Found> {
  const entries = new Map<string, Found>();
  if (!isMap(node)) return entries;
  for (const pair of pairsOf(source, node)) {
    const key = keyText(pair);
    if (entries.has(key)) continue;
    const value = resolved(source, pair.value) ?? new Scalar(null);
    const keyPlace = placeOf(source, pair.key as Node);
    entries.set(key, { source, node: value, place: placeOf(source, value), keyPlace });
  }
  return entries;
}

/** Every key of several mappings, with its value from each mapping that has it. */
function entriesOfAll(layers: readonly Found[]): Map<string, Found[]> {
  const all = new Map<string, Found[]>();
  for (const layer of layers) {
    for (const [key, found] of entriesOf(layer)) all.set(key, [...(all.get(key) ?? []), found]);
  }
  return all;
}

function isNull(node: Node): boolean {
  return isScalar(node) && node.value === null;
}

function below(at: At, key: string): At {
  return { keys: [...at.keys, key], path: at.path === '' ? key : `${at.path}.${key}` };
}

function spotKey(keys: readonly unknown[]): string {
  return JSON.stringify(keys);
}

// ---- from valibot's issues to problems

type Issue = v.BaseIssue<unknown>;

/** valibot reports a key that is missing, and one that is not known, as a fault of the object's key. */
function isObjectKey(issue: Issue): boolean {
  return (issue.type === 'object' || issue.type === 'strict_object') && issue.path?.at(-1)?.origin === 'key';
}

function isMissing(issue: Issue): boolean {
  return isObjectKey(issue) && issue.expected !== 'never';
}

/** A key that is missing may be there under a wrong name, so a wrong name is the better thing to report. */
function missingLast(issues: readonly Issue[]): Issue[] {
  return issues.toSorted((a, b) => Number(isMissing(a)) - Number(isMissing(b)));
}

/** If no option of a union fits, valibot lists what is wrong with each. This is the fault inside the option that was read. */
function innermost(issue: Issue, spots: Spots): Issue {
  for (const sub of missingLast(issue.issues ?? [])) {
    if (sub.path === undefined) continue;
    const [first, ...others] = [...(issue.path ?? []), ...sub.path];
    if (first !== undefined && spots.has(spotKey([first, ...others].map(({ key }) => key)))) {
      return innermost({ ...sub, path: [first, ...others] }, spots);
    }
  }
  return issue;
}

function problemOf(issue: Issue, spots: Spots, file: string): Problem {
  const keys = (issue.path ?? []).map(({ key }) => key);
  const spot = spots.get(spotKey(keys));
  const parent = spots.get(spotKey(keys.slice(0, -1)));
  if (isMissing(issue) && parent !== undefined) return missing(String(keys.at(-1)), parent, file);
  if (spot?.found === undefined) throw new TypeError(`valibot reports an issue at an unknown path: ${issue.message}`);
  const { path, found, schema } = spot;
  if (isObjectKey(issue) && parent !== undefined) {
    const { entries } = parent.schema as v.StrictObjectSchema<v.ObjectEntries, undefined>;
    return problemAt(found, found.keyPlace, unknownKey(String(keys.at(-1)), parent.path, Object.keys(entries)));
  }
  const isSentence = issue.path?.at(-1)?.origin === 'key' || issue.type === 'raw_check';
  if (isSentence) return problemAt(found, found.keyPlace, issue.message);
  if (issue.type === 'strict_object' || issue.type === 'map') return problemAt(found, found.place, `${path} must hold keys and values`);
  const shown = isScalar(found.node) ? (found.node.source ?? String(found.node.value)) : isMap(found.node) ? 'a mapping' : 'a list';
  return problemAt(found, found.place, `${path} is ${JSON.stringify(shown)}; it must be ${issue.message || expectedOf(schema)}`);
}

function problemAt(found: Found, place: Place | undefined, message: string): Problem {
  return place ? new Problem(message, place) : new Problem(`${found.source.file} with the overrides: ${message}`);
}

/** `unknown key 'partiton' under slurm; did you mean 'partition'?` @param section empty for the top level of the file */
export function unknownKey(key: string, section: string, known: Iterable<string>): string {
  const where = section === '' ? 'at the top level' : `under ${section}`;
  return `unknown key '${key}' ${where}${didYouMean(key, known) || `; it takes ${[...known].join(', ')}`}`;
}

function missing(key: string, parent: Spot, file: string): Problem {
  const { entries } = parent.schema as v.StrictObjectSchema<v.ObjectEntries, undefined>;
  const advice = v.getDescription(entries[key] ?? v.unknown()) ?? '';
  const name = parent.path === '' ? `${key}: key` : `${parent.path}.${key}`;
  const place = parent.found?.keyPlace;
  return new Problem(`${place ? '' : `${file}: `}there is no ${name}. ${advice}`, place);
}

/** What a value must be, from the schema's metadata; it completes "it must be". */
export function expectedOf(schema: v.GenericSchema): string {
  const { expected } = v.getMetadata(schema) as { expected?: unknown };
  return typeof expected === 'string' ? expected : 'something else';
}
