import assert from 'node:assert/strict';
import { test } from 'node:test';
import { extensionOf } from '../../src/commands/extend.ts';

const override = (path: string, value: string) => ({ path, value, mayAdd: false });

test('an extension adds one job unless it says how many, and takes nothing but chain settings', () => {
  assert.deepEqual(extensionOf([]), [{ path: 'chain.n_jobs', value: '1', mayAdd: true }]);
  assert.deepEqual(extensionOf([override('chain.n_jobs', '3'), override('lr', '1')]), [override('chain.n_jobs', '3')]);
  assert.deepEqual(
    extensionOf([override('chain.warn_before', '60')]).map(({ path }) => path),
    ['chain.warn_before', 'chain.n_jobs'],
  );
});
