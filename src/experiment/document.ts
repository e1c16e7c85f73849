import type { CollectionTag, Node, ParsedNode, ScalarTag } from 'yaml';
import { type Document, isAlias, isMap, isScalar, LineCounter, type Pair, parseDocument, Scalar, YAMLMap } from 'yaml';
import { type Place, Problem } from '../base/problem.ts';

/** One yaml text with what is needed to point into it. */
export interface YamlSource {
  /** What errors call it: a path in the repo, or `override "a.b=c"`. */
  readonly file: string;
  readonly document: Document.Parsed;
  readonly lines: LineCounter;
}

/** A number, boolean or null is written back the way it was spelled: 1e-10, 007, 0x1F and integers past 2^53 survive. */
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
 * @throws Problem with line and column for anything that is not well-formed, duplicate keys and a second document included.
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
    throw new Problem(`not valid yaml: ${error.message}`, { file, line, column: col });
  }
  return { file, document, lines };
}

/** The place a node was read from; undefined for nodes that no text stands behind. */
export function placeOf(source: YamlSource, node: Node | null | undefined): Place | undefined {
  if (!node?.range) return undefined;
  const { line, col } = source.lines.linePos(node.range[0]);
  return { file: source.file, line, column: col };
}

export function keyText(pair: Pair): string {
  return isScalar(pair.key) ? String(pair.key.value) : String(pair.key);
}

/** The node behind an alias, or the node itself. */
export function resolved(source: YamlSource, node: unknown): Node | undefined {
  if (isAlias(node)) return node.resolve(source.document);
  return (node ?? undefined) as Node | undefined;
}

/** The top of the document as a mapping; an empty document is an empty mapping. */
export function rootOf(source: YamlSource): YAMLMap {
  const contents: ParsedNode | null = source.document.contents;
  if (contents === null || (isScalar(contents) && contents.value === null)) return new YAMLMap();
  if (!isMap(contents)) throw new Problem('the top of the file must be a mapping (key: value)', placeOf(source, contents));
  return contents;
}

/** A source with another mapping on top: how overrides and cells are written out. */
export function withRoot(source: YamlSource, root: YAMLMap): YamlSource {
  const document = source.document.clone() as Document.Parsed;
  document.contents = root as unknown as ParsedNode;
  return { ...source, document };
}

/**
 * The text of a document: comments, quoting and the spelling of numbers as they were written; long lines are not folded.
 * @throws Problem when an alias has lost its anchor, which happens when a grid choice that was not taken held it.
 */
export function textOf(source: YamlSource): string {
  try {
    return source.document.toString({ lineWidth: 0, flowCollectionPadding: false });
  } catch (error) {
    throw new Problem(
      `${source.file}: a cell's config cannot be written: ${String(error)}. An anchor (&name) inside a ^ grid is gone in the cells that do not choose it; write the value out where it is used`,
    );
  }
}

/** A new node for a yaml text, for overrides. */
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
