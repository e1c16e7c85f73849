// Numbers of checkpoints as ranges. test/audit/attribution.test.ts has the text form.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { above, contains, foldRanges } from '../../src/audit/ranges.ts';

const numbers = ({ first, last, stride }: { first: number; last: number; stride: number }) =>
  Array.from({ length: (last - first) / stride + 1 }, (_, index) => first + index * stride);

test('the part of a range above a number has the same numbers as before, above it', () => {
  const range = { first: 20, last: 80, stride: 20 };
  for (const limit of [-1, 0, 19, 20, 21, 39, 40, 60, 79, 80, 81]) {
    const rest = above(range, limit);
    assert.deepEqual(
      rest === undefined ? [] : numbers(rest),
      [20, 40, 60, 80].filter((number) => number > limit),
      String(limit),
    );
  }
});

test('a range contains its numbers, and not those between them', () => {
  const ranges = [
    { first: 20, last: 60, stride: 20 },
    { first: 99, last: 99, stride: 1 },
  ];
  assert.deepEqual(
    [0, 19, 20, 30, 40, 60, 80, 98, 99, 100].filter((number) => contains(ranges, number)),
    [20, 40, 60, 99],
  );
});

test('folded and unfolded, numbers are the same', () => {
  for (const all of [[], [5], [5, 7], [1, 2, 3, 10, 20, 30, 31], [0, 20, 40, 50, 60, 61], [3, 1, 2, 2]]) {
    const sorted = [...new Set(all)].sort((a, b) => a - b);
    assert.deepEqual(foldRanges(all).flatMap(numbers), sorted, String(all));
  }
  assert.deepEqual(foldRanges([20, 40, 60, 61, 62]), [
    { first: 20, last: 60, stride: 20 },
    { first: 61, last: 62, stride: 1 },
  ]);
});
