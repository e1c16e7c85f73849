/** Numbers from first to last with the same distance, `stride`. */
export interface NumberRange {
  readonly first: number;
  readonly last: number;
  readonly stride: number;
}

// Checkpoints are saved at regular steps, so that a few ranges are enough.
const MOST_RANGES = 10_000;

/** `20-480/20,499`, as checkpoint_ranges of src/runtime/checkpoints.sh writes it; undefined for any other text. */
export function parseRanges(text: string | undefined): NumberRange[] | undefined {
  if (text === undefined) return undefined;
  if (text === '') return [];
  const ranges: NumberRange[] = [];
  const pieces = text.split(',');
  if (pieces.length > MOST_RANGES) return undefined;
  for (const piece of pieces) {
    const match = /^(\d{1,18})(?:-(\d{1,18})\/(\d{1,18}))?$/.exec(piece);
    if (match === null) return undefined;
    const first = Number(match[1]);
    const last = Number(match[2] ?? match[1]);
    const stride = Number(match[3] ?? 1);
    if (last < first || stride < 1) return undefined;
    ranges.push({ first, last, stride });
  }
  return ranges;
}

/** The part of a range that is greater than a number. */
export function above(range: NumberRange, limit: number): NumberRange | undefined {
  if (range.last <= limit) return undefined;
  if (range.first > limit) return range;
  return { ...range, first: range.first + (Math.floor((limit - range.first) / range.stride) + 1) * range.stride };
}

export function contains(ranges: readonly NumberRange[], number: number): boolean {
  return ranges.some(({ first, last, stride }) => number >= first && number <= last && (number - first) % stride === 0);
}

/** Numbers as ranges, lowest first. */
export function foldRanges(numbers: readonly number[]): NumberRange[] {
  const ranges: { first: number; last: number; stride: number; count: number }[] = [];
  for (const number of [...new Set(numbers)].sort((a, b) => a - b)) {
    const range = ranges.at(-1);
    if (range?.count === 1 || (range !== undefined && number - range.last === range.stride)) {
      range.stride = number - range.last;
      range.last = number;
      range.count += 1;
    } else ranges.push({ first: number, last: number, stride: 1, count: 1 });
  }
  return ranges.map(({ first, last, stride }) => ({ first, last, stride }));
}
