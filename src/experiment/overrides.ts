import { createHash } from 'node:crypto';
import { isAlias, isCollection, isMap, isScalar, isSeq, type Node, Pair, Scalar, YAMLMap } from 'yaml';
import { Problem } from '../base/problem.ts';
import { didYouMean } from '../base/spelling.ts';
import { keyText, nodeFromText, refuseExplosion, resolved, rootOf, withRoot, type YamlSource } from './document.ts';

/** `path=value`, with the value in yaml. `+path=value` may add a path that does not exist. */
export interface Override {
  readonly path: string;
  readonly value: string;
  readonly mayAdd: boolean;
}

// Each override looks through the keys of the document.
const MOST_OVERRIDES = 200;
const LONGEST_OVERRIDE = 20_000;
const MOST_KEYS = 100;

const PATH = /^\^?[^\s=.^+]+(\.\^?[^\s=.^]+)*$/;

/**
 * Splits text of one or more lines into overrides. White space separates them, except inside quotes, brackets and braces.
 * @throws Problem for text that is not `path=value`, and for a path that is given twice
 */
export function parseOverrides(text: string): Override[] {
  const overrides = new Map<string, Override>();
  for (const word of words(text)) {
    if (word.length > LONGEST_OVERRIDE) {
      throw new Problem(`override '${word.slice(0, 60)}…' has ${word.length} characters; at most ${LONGEST_OVERRIDE} are allowed`);
    }
    const equals = word.indexOf('=');
    const mayAdd = word.startsWith('+');
    const path = word.slice(mayAdd ? 1 : 0, Math.max(equals, 0));
    if (!PATH.test(path)) {
      throw new Problem(`override '${word}' is not of the form path=value or +path=value, such as trainer.learning_rate=3e-4`);
    }
    if (overrides.has(path)) throw new Problem(`override '${path}' is given twice; remove one of them`);
    overrides.set(path, { path, value: word.slice(equals + 1), mayAdd });
    if (overrides.size > MOST_OVERRIDES) {
      throw new Problem(`there are more than ${MOST_OVERRIDES} overrides; write such changes into the yaml`);
    }
  }
  return [...overrides.values()];
}

function words(text: string): string[] {
  const found: string[] = [];
  let word = '';
  let quote = '';
  let depth = 0;
  for (const character of text) {
    if (quote) {
      if (character === quote) quote = '';
    } else if ((character === '"' || character === "'") && /^[=\s[{,:]?$/.test(word.slice(-1))) {
      quote = character; // a quote inside a word, as in don't, is a letter
    } else if (character === '[' || character === '{') depth += 1;
    else if (character === ']' || character === '}') depth -= 1;
    if (/\s/.test(character) && !quote && depth <= 0) {
      if (word) found.push(word);
      word = '';
    } else word += character;
  }
  if (quote || depth > 0)
    throw new Problem(`the overrides end inside ${quote ? 'a quote' : 'a bracket'}; close it: ${text.trim().slice(0, 200)}`);
  if (word) found.push(word);
  return found;
}

/**
 * A copy of the document with the overrides applied. A path without ^ replaces a grid by one value; a path with ^ replaces a
 * value by a grid.
 * @throws Problem for a path that does not exist, unless it was written with +, and for a result that parseSource would refuse
 */
export function applyOverrides(source: YamlSource, overrides: readonly Override[]): YamlSource {
  const changed = withRoot(source, rootOf(source).clone() as YAMLMap);
  for (const override of overrides) set(changed, rootOf(changed), override);
  // An override may hold an alias.
  refuseExplosion(changed);
  return changed;
}

function set(source: YamlSource, root: YAMLMap, override: Override): void {
  const value = nodeFromText(`override "${override.path}=${override.value}"`, override.value);
  const segments = override.path.split('.');
  if (segments.length > MOST_KEYS) {
    throw new Problem(
      `override '${override.path.slice(0, 60)}…' has ${segments.length} keys in its path; at most ${MOST_KEYS} are allowed`,
    );
  }
  let here: Node | undefined = root;
  segments.forEach((segment, index) => {
    const last = index === segments.length - 1;
    const soFar = segments.slice(0, index + 1).join('.');
    if (isSeq(here) && /^\d+$/.test(segment) && Number(segment) < here.items.length) {
      const item = here.items[Number(segment)] as Node;
      if (last) here.items[Number(segment)] = inPlaceOf(item, value);
      else here = throughNoAlias(source, item, override, soFar);
      return;
    }
    if (!isMap(here)) {
      throw new Problem(
        `override '${override.path}': ${soFar} does not exist in ${source.file}, because the value above it holds no keys. Override that value instead`,
      );
    }
    const bare = segment.replace(/^\^/, '');
    const pair: Pair | undefined = (here.items as Pair[]).findLast((item) => keyText(item).replace(/^\^/, '') === bare);
    if (pair === undefined) {
      if (!override.mayAdd) {
        const known = here.items.map((item) => keyText(item as Pair).replace(/^\^/, ''));
        throw new Problem(
          `override '${override.path}': ${soFar} does not exist in ${source.file}${didYouMean(bare, known) || `. Write +${override.path}=… to add it`}`,
        );
      }
      const added: Node = last ? value : new YAMLMap();
      here.items.push(new Pair(new Scalar(last ? segment : bare), added));
      here = added;
    } else if (last) {
      // If the document has the key with and without ^, only the one that the override wrote remains.
      here.items = (here.items as Pair[]).filter((item) => item === pair || keyText(item).replace(/^\^/, '') !== bare);
      if (keyText(pair) !== segment) pair.key = Object.assign((pair.key as Scalar).clone(), { value: segment, source: segment });
      pair.value = inPlaceOf(pair.value, value);
    } else here = throughNoAlias(source, pair.value, override, soFar);
  });
}

/** Moves the anchor of the old value to the new one, so that aliases elsewhere still have it. */
function inPlaceOf(old: unknown, value: Node): Node {
  if ((isScalar(old) || isCollection(old)) && old.anchor && !isAlias(value)) (value as Scalar | YAMLMap).anchor = old.anchor;
  return value;
}

/** Refuses an alias, because a change of the value behind it would change other places too. */
function throughNoAlias(source: YamlSource, node: unknown, override: Override, soFar: string): Node | undefined {
  if (isAlias(node)) {
    throw new Problem(
      `override '${override.path}': ${soFar} is the alias *${node.source} in ${source.file}; override the value at the anchor &${node.source}, or write the value out`,
    );
  }
  return resolved(source, node);
}

/** Reads an override from a manifest. It was accepted once, so it may add its path. */
export function overrideOf(text: string): Override {
  const equals = text.indexOf('=');
  return { path: text.slice(0, equals), value: text.slice(equals + 1), mayAdd: true };
}

/** Does the override change the EXPERIMENT_ID? Those of `chain.*` do not: they change the chain, not what is trained. */
export function countsInId(override: Override): boolean {
  return !override.path.startsWith('chain.');
}

/**
 * Six hex digits for the overrides that change the id; empty if there are none. Their order does not matter, but the spelling
 * of their values does.
 */
export function hashOfOverrides(overrides: readonly Override[]): string {
  const counted = overrides
    .filter(countsInId)
    .map((override) => [override.path, override.value.trim()] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  if (counted.length === 0) return '';
  return createHash('sha256').update(JSON.stringify(counted)).digest('hex').slice(0, 6);
}
