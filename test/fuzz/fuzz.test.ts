import { test } from 'node:test';
import { fuzz, TARGETS } from './targets.ts';

// Short, and the same in every run. script/fuzz does more.
for (const target of TARGETS) {
  test(`random input: ${target.name}`, () => {
    fuzz(target, 200, 1);
  });
}
