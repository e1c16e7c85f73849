import type { CollectionTag, Node, ParsedNode, ScalarTag } from 'yaml';
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Pair, parseDocument, Scalar, YAMLMap } from 'yaml';
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

/**
 * Parses one yaml document (YAML 1.2, core schema).
 * @throws Problem with line and column if the text is not valid yaml, has a key twice, or holds a second document
 */
export function parseSource(file: string, text: string): YamlSource {
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    customTags: (tags) => asSpelled(tags as (CollectionTag | ScalarTag)[]),
  });
  const error = document.errors[0];
  if (error) {
    const { line, col } = lines.linePos(error.pos[0]);
    const what =
      error.code === 'MULTIPLE_DOCS' ? 'the file holds a second document after ---. Keep one document in the file' : error.message;
    throw new Problem(`not valid yaml: ${what}`, { file, line, column: col });
  }
  return { file, document, lines };
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
  const target = node.resolve(source.document);
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
 * @throws Problem for a mapping that merges itself
 */
export function pairsOf(source: YamlSource, map: YAMLMap, within: readonly YAMLMap[] = []): Pair[] {
  if (within.includes(map)) throw new Problem('this mapping merges itself with <<', placeOf(source, map));
  const pairs = map.items as Pair[];
  const merged = pairs
    .filter((pair) => keyText(pair) === '<<')
    .flatMap((pair) => {
      const value = resolved(source, pair.value);
      return isSeq(value) ? value.items.map((item) => resolved(source, item)) : [value];
    })
    .flatMap((value) => (isMap(value) ? pairsOf(source, value, [...within, map]) : []));
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
