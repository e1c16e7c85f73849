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
const MOST_CELLS = 100_000;

/**
 * The cartesian product of every `^key` list in the document.
 *
 * Within one mapping, the normal keys come first (they may hold grids deeper down), then the `^` keys, each in document
 * order. The last one changes fastest. If a key occurs with and without `^`, the one with `^` counts. Lists without `^` are
 * values.
 * @throws Problem if a `^key` does not hold a list or holds an empty one, or if there are more cells than any Slurm takes
 */
export function gridOf(source: YamlSource): Grid {
  const whole = axisOfMap(source, rootOf(source), '');
  if (whole.size > MOST_CELLS) {
    throw new Problem(
      `${source.file}: the grid has ${whole.size.toLocaleString('en')} cells; at most ${MOST_CELLS.toLocaleString('en')} are allowed, and most clusters take fewer. Shorten a ^ list or remove one`,
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
  /** Gives one variant and adds what it chose to `choices`. */
  pick(index: number, choices: Map<string, string>): Node;
}

function axisOfMap(source: YamlSource, map: YAMLMap, path: string): Axis {
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
    const axis = isGrid ? axisOfGrid(source, pair, below) : axisOfValue(source, pair.value as Node | null, below);
    slots.push({ pair, key: name, axis, isGrid });
  }
  const order = [...slots.filter((slot) => !slot.isGrid), ...slots.filter((slot) => slot.isGrid)];
  const size = order.reduce((product, slot) => product * slot.axis.size, 1);
  return {
    size,
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

function axisOfValue(source: YamlSource, node: Node | null, path: string): Axis {
  const value = resolved(source, node);
  if (isMap(value) && holdsGrid(source, value)) return axisOfMap(source, value, path);
  return constant(node ?? new Scalar(null));
}

function axisOfGrid(source: YamlSource, pair: Pair, path: string): Axis {
  const list = resolved(source, pair.value);
  const place = placeOf(source, pair.key as Node);
  if (!isSeq(list)) throw new Problem(`^${path} must hold a list, one value for each cell of the grid, such as [1, 2]`, place);
  if (list.items.length === 0)
    throw new Problem(`^${path} is an empty list, so the grid would have no cells; add a value or remove the key`, place);
  const options = list.items.map((item) => {
    const value = resolved(source, item);
    return isMap(value) && holdsGrid(source, value) ? axisOfMap(source, value, path) : constant(item as Node);
  });
  const size = options.reduce((sum, option) => sum + option.size, 0);
  return {
    size,
    pick(index, choices) {
      let rest = index;
      for (const option of options) {
        if (rest < option.size) {
          const inner = new Map<string, string>();
          const node = option.pick(rest, inner);
          choices.set(path, spelled(source, node));
          for (const [key, value] of inner) choices.set(key, value);
          return node;
        }
        rest -= option.size;
      }
      throw new RangeError(`no variant ${index} of ^${path}`);
    },
  };
}

function constant(node: Node): Axis {
  return { size: 1, pick: () => node };
}

/** @throws Problem for a mapping that contains itself, because its walk would not end */
function holdsGrid(source: YamlSource, map: YAMLMap, within: readonly YAMLMap[] = []): boolean {
  if (within.includes(map)) throw new Problem('this mapping contains itself through an alias; write the value out', placeOf(source, map));
  return map.items.some((item) => {
    const pair = item as Pair;
    if (isGridKey(keyText(pair))) return true;
    const value = resolved(source, pair.value);
    return isMap(value) && holdsGrid(source, value, [...within, map]);
  });
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
  const value: unknown = node.toJS(source.document);
  return typeof value === 'string' ? value : JSON.stringify(value);
}
