import { isMap, isScalar, isSeq, type Node, Pair, Scalar, YAMLMap } from 'yaml';
import { Problem } from '../base/problem.ts';
import { keyText, placeOf, resolved, rootOf, type YamlSource } from './document.ts';

/** The values that the grid gives to one cell, as they are spelled, by dotted path. */
export type Choices = ReadonlyMap<string, string>;

/** One combination of the grid. Its number counts from 0 and is the Slurm array task id. */
export interface Cell {
  readonly number: number;
  readonly choices: Choices;
  readonly root: YAMLMap;
}

/** All cells of a document. Each is made on request, because there may be many. */
export interface Grid {
  readonly size: number;
  cell(number: number): Cell;
}

// Far beyond the MaxArraySize of any site we know (the default is 1001), so a larger grid is a typo.
export const MOST_CELLS = 100_000;
// The configs and the choices of all cells together. They are made in memory and sent to the cluster.
const MOST_BYTES_OF_CELLS = 100_000_000;

/**
 * The cartesian product of every `^key` list in the document.
 *
 * Within one mapping, the normal keys come first (they may hold grids deeper down), then the `^` keys, each in document
 * order. The last one changes fastest. If a key occurs with and without `^`, the one with `^` counts. Lists without `^` are
 * values.
 * @throws Problem if a `^key` does not hold a list or holds an empty one, if there are more cells than any Slurm takes, or if
 * their configs are too large together
 */
export function gridOf(source: YamlSource): Grid {
  const whole = axisOfMap({ source, gridded: new Map() }, rootOf(source), '');
  if (whole.size > MOST_CELLS) {
    throw new Problem(
      `${source.file}: the grid has ${whole.size.toLocaleString('en')} cells; at most ${MOST_CELLS.toLocaleString('en')} are allowed, and most clusters take fewer. Shorten a ^ list or remove one`,
    );
  }
  const bytes = whole.size * ((source.document.range?.[2] ?? 0) - whole.leftOut + whole.longest);
  if (whole.size > 1 && bytes > MOST_BYTES_OF_CELLS) {
    throw new Problem(
      `${source.file}: the configs of ${whole.size.toLocaleString('en')} cells have ${bytes.toLocaleString('en')} bytes together; at most ${MOST_BYTES_OF_CELLS.toLocaleString('en')} are allowed. Move what all cells share into a file of its own, or shorten a ^ list`,
    );
  }
  return {
    size: whole.size,
    cell(number) {
      const choices = new Map<string, string>();
      const node = whole.pick(number, choices);
      return { number, choices, root: node as YAMLMap };
    },
  };
}

/** A part of the document with several variants, numbered from 0. */
interface Axis {
  readonly size: number;
  /** At most as many characters are in the choices of one variant. */
  readonly longest: number;
  /** At least as many characters of the document are in no variant, because they belong to other values of a list. */
  readonly leftOut: number;
  /** Gives one variant and adds what it chose to `choices`. */
  pick(index: number, choices: Map<string, string>): Node;
}

/** The document, and for each mapping that was looked at whether a grid is in it. */
interface Walk {
  readonly source: YamlSource;
  readonly gridded: Map<YAMLMap, boolean>;
}

function axisOfMap(walk: Walk, map: YAMLMap, path: string): Axis {
  const gridded = new Set<string>();
  for (const pair of map.items) {
    const key = keyText(pair as Pair);
    if (isGridKey(key)) gridded.add(key.slice(1));
  }
  const slots: { pair: Pair; key: string; axis: Axis; isGrid: boolean }[] = [];
  for (const item of map.items) {
    const pair = item as Pair;
    const key = keyText(pair);
    const isGrid = isGridKey(key);
    const name = isGrid ? key.slice(1) : key;
    if (!isGrid && gridded.has(key)) continue;
    const below = path === '' ? name : `${path}.${name}`;
    const axis = isGrid ? axisOfGrid(walk, pair, below) : axisOfValue(walk, pair.value as Node | null, below);
    slots.push({ pair, key: name, axis, isGrid });
  }
  const order = [...slots.filter((slot) => !slot.isGrid), ...slots.filter((slot) => slot.isGrid)];
  return {
    size: order.reduce((product, slot) => product * slot.axis.size, 1),
    longest: order.reduce((sum, slot) => sum + slot.axis.longest, 0),
    leftOut: order.reduce((sum, slot) => sum + slot.axis.leftOut, 0),
    pick(index, choices) {
      const chosen = new Map<Pair, Node>();
      let rest = index;
      const digits = order.toReversed().map((slot) => {
        const digit = rest % slot.axis.size;
        rest = Math.floor(rest / slot.axis.size);
        return { slot, digit };
      });
      for (const { slot, digit } of digits.toReversed()) chosen.set(slot.pair, slot.axis.pick(digit, choices));
      // A shallow copy: cells share the nodes that no grid touches. experiment.ts relies on it.
      const variant = Object.assign(new YAMLMap(map.schema), map);
      variant.items = slots.map(({ pair, key, isGrid }) => {
        const value = chosen.get(pair) ?? null;
        return isGrid ? new Pair(plainKey(pair, key), detachedFromList(value)) : new Pair(pair.key, value);
      });
      return variant;
    },
  };
}

function axisOfValue(walk: Walk, node: Node | null, path: string): Axis {
  const value = resolved(walk.source, node);
  if (!isMap(value) || !holdsGrid(walk, value)) return constant(node ?? new Scalar(null));
  const axis = axisOfMap(walk, value, path);
  // Behind an alias, the list is left out where the anchor is.
  return value === node ? axis : { ...axis, leftOut: 0 };
}

function axisOfGrid(walk: Walk, pair: Pair, path: string): Axis {
  const { source } = walk;
  const list = resolved(source, pair.value);
  const place = placeOf(source, pair.key as Node);
  if (!isSeq(list)) throw new Problem(`^${path} must hold a list, one value for each cell of the grid, such as [1, 2]`, place);
  if (list.items.length === 0)
    throw new Problem(`^${path} is an empty list, so the grid would have no cells; add a value or remove the key`, place);
  let size = 0;
  const options = list.items.map((item) => {
    const value = resolved(source, item);
    const written = spelled(source, item as Node);
    const inner = isMap(value) && holdsGrid(walk, value) ? axisOfMap(walk, value, path) : undefined;
    const axis = inner ?? constant(item as Node);
    const first = size;
    size += axis.size;
    return { first, axis, text: inner === undefined ? written : undefined, longest: path.length + written.length + axis.longest };
  });
  return {
    size,
    longest: options.reduce((most, option) => Math.max(most, option.longest), 0),
    leftOut: list === pair.value ? lengthOf(list) - list.items.reduce<number>((most, item) => Math.max(most, lengthOf(item)), 0) : 0,
    pick(index, choices) {
      const option = options[lastAtMost(options, index)];
      if (option === undefined) throw new RangeError(`no variant ${index} of ^${path}`);
      const inner = new Map<string, string>();
      const node = option.axis.pick(index - option.first, inner);
      choices.set(path, option.text ?? spelled(source, node));
      for (const [key, value] of inner) choices.set(key, value);
      return node;
    },
  };
}

/** The place of the last option that begins at `index` or before. */
function lastAtMost(options: readonly { readonly first: number }[], index: number): number {
  let [low, high] = [0, options.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((options[middle]?.first ?? 0) <= index) low = middle;
    else high = middle;
  }
  return low;
}

/** How many characters of the file a node takes; 0 for one that is not in the file. */
function lengthOf(node: unknown): number {
  const { range } = node as Node;
  return range ? range[1] - range[0] : 0;
}

function constant(node: Node): Axis {
  return { size: 1, longest: 0, leftOut: 0, pick: () => node };
}

function holdsGrid(walk: Walk, map: YAMLMap): boolean {
  const known = walk.gridded.get(map);
  if (known !== undefined) return known;
  const found = map.items.some((item) => {
    const pair = item as Pair;
    if (isGridKey(keyText(pair))) return true;
    const value = resolved(walk.source, pair.value);
    return isMap(value) && holdsGrid(walk, value);
  });
  walk.gridded.set(map, found);
  return found;
}

function isGridKey(key: string): boolean {
  return key.length > 1 && key.startsWith('^');
}

/** The key without its ^, with the comments and blank lines before it. */
function plainKey(pair: Pair, name: string): Scalar {
  const key = new Scalar(name);
  if (isScalar(pair.key)) {
    if (pair.key.commentBefore) key.commentBefore = pair.key.commentBefore;
    if (pair.key.spaceBefore) key.spaceBefore = true;
    if (pair.key.range) key.range = pair.key.range;
  }
  return key;
}

/** A list item as the value of a mapping, without the blank lines and comments that separated it from other items. */
function detachedFromList(node: Node | null): Node | null {
  if (!node?.spaceBefore && !node?.commentBefore) return node;
  const copy = node.clone() as Node;
  copy.spaceBefore = false;
  copy.commentBefore = null;
  return copy;
}

/** A choice as one line of text, not shortened. */
function spelled(source: YamlSource, node: Node): string {
  if (isScalar(node) && node.source !== undefined && !node.source.includes('\n')) return node.source;
  const value = plainValue(source, node);
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** What `toJS` of yaml gives. That one walks the whole document for each alias. */
function plainValue(source: YamlSource, node: unknown): unknown {
  const value = resolved(source, node);
  if (isSeq(value)) return value.items.map((item) => plainValue(source, item));
  if (!isMap(value)) return isScalar(value) ? value.value : null;
  const pairs = value.items as Pair[];
  if (!pairs.every(({ key }) => isScalar(key))) return value.toJS(source.document, { maxAliasCount: -1 });
  return Object.fromEntries(pairs.map((pair) => [String((pair.key as Scalar).value ?? ''), plainValue(source, pair.value)]));
}
