import assert from 'node:assert/strict';
import { Problem } from '../../src/base/problem.ts';

/** Asserts that `act` throws a Problem whose message begins with `expected`. */
export function refused(act: () => unknown, expected: string): void {
  assert.throws(act, (error) => {
    assert.ok(error instanceof Problem, String(error));
    assert.equal(error.message.slice(0, expected.length), expected, error.message);
    return true;
  });
}
