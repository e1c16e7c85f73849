import type { CollectionTag, Node, ParsedNode, ScalarTag } from 'yaml';
import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Pair,
  parseDocument,
  Scalar,
  YAMLMap,
} from 'yaml';
import { type Place, Problem } from '../base/problem.ts';

/** One yaml text, and what it takes to find the line and column of a node. */
export interface YamlSource {
  /** The name that errors use: a path in the repository, or `override "a.b=c"`. */
  readonly file: string;
  readonly document: Document.Parsed;
  readonly lines: LineCounter;
}

/** Makes numbers, booleans and nulls keep their spelling when they are written back: 1e-10, 007, 0x1F, integers beyond 2^53. */
function asSpelled(tags: (CollectionTag | ScalarTag)[]): (CollectionTag | ScalarTag)[] {
  return tags.map((tag) => {
    if (!('resolve' in tag) || tag.tag === 'tag:yaml.org,2002:str' || 'collection' in tag) return tag;
    const { stringify } = tag;
    return {
      ...tag,
      stringify: (item, ...rest) =>
        item instanceof Scalar && item.source !== undefined ? item.source : (stringify?.(item, ...rest) ?? String(item.value)),
    } satisfies ScalarTag;
  });
}

// The parser takes up to 25 microseconds for a byte. Larger files hold data, which belongs elsewhere.
const MOST_BYTES = 256 * 1024;
// Walks are recursive. No config that people write is nearly as deep.
const MOST_LEVELS = 100;
// An alias of an alias of an alias can stand for billions of values ("billion laughs"). Every walk goes through all of them.
const MOST_ALIASED = 100_000;

/**
 * Parses one yaml document (YAML 1.2, core schema).
 * @throws Problem with line and column if the text is not valid yaml, has a key twice, holds a second document, or is larger,
 * deeper or more repetitive than refuseExplosion allows
 */
export function parseSource(file: string, text: string): YamlSource {
  const bytes = Buffer.byteLength(text);
  if (bytes > MOST_BYTES) {
    throw new Problem(
      `${file} has ${bytes.toLocaleString('en')} bytes; yaml of at most ${MOST_BYTES.toLocaleString('en')} bytes is read. Put data into a file of its own`,
    );
  }
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    // The parser compares each key with all others of its mapping. refuseExplosion looks for keys that occur twice.
    uniqueKeys: false,
    customTags: (tags) => asSpelled(tags as (CollectionTag | ScalarTag)[]),
  });
  const error = document.errors[0];
  if (error) {
    const { line, col } = lines.linePos(error.pos[0]);
    const what =
      error.code === 'MULTIPLE_DOCS'
        ? 'the file holds a second document after ---. Keep one document in the file'
        : /call stack/.test(error.message)
          ? TOO_DEEP
          : error.message;
    throw new Problem(`not valid yaml: ${what}`, { file, line, column: col });
  }
  const source = { file, document, lines };
  refuseExplosion(source);
  return source;
}

const TOO_DEEP = `it is nested more than ${MOST_LEVELS} levels deep. Flatten it`;

/**
 * Refuses a document that would keep a walk over its values busy for ever: one that is nested too deeply, contains itself, or
 * repeats too much through aliases. Also refuses a key that occurs twice. Takes time in proportion to the length of the text.
 * @throws Problem with the place
 */
export function refuseExplosion(source: YamlSource): void {
  const targets = targetsOf(source.document);
  const sizes = new Map<unknown, number>();
  const open = new Set<unknown>();
  let aliased = 0;
  /** The number of values that a walk from here sees. */
  const sizeOf = (node: unknown, level: number): number => {
    if (isAlias(node)) {
      const target = targets(node);
      if (open.has(target)) {
        throw new Problem(`the alias *${node.source} stands for a value that contains it; write the value out`, placeOf(source, node));
      }
      const size = target === undefined ? 1 : sizeOf(target, level);
      aliased += size;
      if (aliased > MOST_ALIASED) {
        throw new Problem(
          `the aliases up to *${node.source} repeat more than ${MOST_ALIASED.toLocaleString('en')} values; write out what is needed`,
          placeOf(source, node),
        );
      }
      return size;
    }
    if (!isMap(node) && !isSeq(node)) return 1;
    if (level > MOST_LEVELS) throw new Problem(`not valid yaml: ${TOO_DEEP}`, placeOf(source, node));
    const known = sizes.get(node);
    if (known !== undefined) return known;
    if (isMap(node)) refuseKeyTwice(source, node);
    open.add(node);
    let size = 1;
    for (const item of node.items as unknown[]) {
      size += isPair(item) ? sizeOf(item.key, level + 1) + sizeOf(item.value, level + 1) : sizeOf(item, level + 1);
    }
    open.delete(node);
    sizes.set(node, size);
    return size;
  };
  sizeOf(source.document.contents, 1);
}

function refuseKeyTwice(source: YamlSource, map: YAMLMap): void {
  const seen = new Set<unknown>();
  for (const { key } of map.items) {
    if (!isScalar(key)) continue;
    if (seen.has(key.value)) throw new Problem('not valid yaml: Map keys must be unique', placeOf(source, key));
    seen.add(key.value);
  }
}

/** What the aliases of each document stand for. A document does not change once one of its aliases was followed. */
const TARGETS = new WeakMap<Document, (alias: Alias) => Node | undefined>();

/** Finds the node that an alias of the document stands for: the last one before it with that anchor. */
function targetsOf(document: Document): (alias: Alias) => Node | undefined {
  const known = TARGETS.get(document);
  if (known !== undefined) return known;
  const anchors = new Map<string, Node>();
  const targets = new Map<unknown, Node | undefined>();
  const walk = (node: unknown): void => {
    if (isAlias(node)) targets.set(node, anchors.get(node.source));
    else if (isPair(node)) {
      walk(node.key);
      walk(node.value);
    } else if (isScalar(node) || isMap(node) || isSeq(node)) {
      if (node.anchor !== undefined) anchors.set(node.anchor, node);
      if (!isScalar(node)) for (const item of node.items) walk(item);
    }
  };
  walk(document.contents);
  // A copy of an alias is not in the document. It stands for the same as long as the anchor is there once.
  const find = (alias: Alias) => (targets.has(alias) ? targets.get(alias) : anchors.get(alias.source));
  TARGETS.set(document, find);
  return find;
}

/** Where a node stands in its file; undefined for a node that was not read from the file, such as an override. */
export function placeOf(source: YamlSource, node: Node | null | undefined): Place | undefined {
  if (!node?.range) return undefined;
  const { line, col } = source.lines.linePos(node.range[0]);
  return { file: source.file, line, column: col };
}

/** The key of a pair as text. */
export function keyText(pair: Pair): string {
  return isScalar(pair.key) ? String(pair.key.value) : String(pair.key);
}

/**
 * The node that an alias stands for; any other node as it is.
 * @throws Problem if no anchor has the name of the alias
 */
export function resolved(source: YamlSource, node: unknown): Node | undefined {
  if (!isAlias(node)) return (node ?? undefined) as Node | undefined;
  const target = targetsOf(source.document)(node);
  if (target === undefined) {
    throw new Problem(
      `the alias *${node.source} has no anchor &${node.source} before it; add the anchor or write the value out`,
      placeOf(source, node),
    );
  }
  return target;
}

/**
 * The pairs of a mapping, followed by those that its merge keys `<<` bring in (https://yaml.org/type/merge.html). If a key
 * occurs more than once, the first pair counts. Training code that reads the same file sees the same values.
 */
export function pairsOf(source: YamlSource, map: YAMLMap): Pair[] {
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

/** The top-level mapping of a document; an empty document gives an empty mapping. @throws Problem if the top is not a mapping */
export function rootOf(source: YamlSource): YAMLMap {
  const contents: ParsedNode | null = source.document.contents;
  if (contents === null || (isScalar(contents) && contents.value === null)) return new YAMLMap();
  if (!isMap(contents))
    throw new Problem('the top of the file must be a mapping of keys and values, such as run: python train.py', placeOf(source, contents));
  return contents;
}

/** A copy of the source with another top-level mapping. Overrides and cells are written out this way. */
export function withRoot(source: YamlSource, root: YAMLMap): YamlSource {
  const document = source.document.clone() as Document.Parsed;
  document.contents = root as unknown as ParsedNode;
  return { ...source, document };
}

/**
 * The text of a document. Comments, quotes and the spelling of numbers stay as they were written. Long lines are not folded.
 * @throws Problem if an alias has lost its anchor, because a grid choice that this cell does not take holds the anchor
 */
export function textOf(source: YamlSource): string {
  try {
    return source.document.toString({ lineWidth: 0, flowCollectionPadding: false });
  } catch (error) {
    throw new Problem(
      `${source.file}: the config of a cell cannot be written: ${String(error)}. An anchor (&name) inside a ^ list is missing in the cells that do not choose it. Write the value out where the alias (*name) is used`,
    );
  }
}

/** Parses the value of an override. The nodes have no place, because they are not in the file. @throws Problem if it is not valid yaml */
export function nodeFromText(file: string, text: string): Node {
  const { document } = parseSource(file, text);
  const node: Node = document.contents ?? document.createNode(null);
  forgetPlaces(node);
  return node;
}

function forgetPlaces(node: unknown): void {
  const seen = node as { range?: unknown; items?: unknown[] } | null;
  if (seen === null || typeof seen !== 'object') return;
  delete seen.range;
  for (const item of seen.items ?? []) {
    const pair = item as { key?: unknown; value?: unknown };
    if ('key' in pair) {
      forgetPlaces(pair.key);
      forgetPlaces(pair.value);
    } else forgetPlaces(item);
  }
}
