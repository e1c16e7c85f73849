// Text from outside never becomes a workflow command: there is one way to the log, and it makes text harmless.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FILES, read } from '../support/sources.ts';

const sources = FILES.filter((path) => /^src\/.*\.ts$/.test(path));

test('src/action/log.ts is the only way to the log', () => {
  const others = sources.flatMap((path) =>
    read(path)
      .split('\n')
      .filter(
        (line) =>
          path !== 'src/action/log.ts' &&
          /\bcore\s*\.\s*(info|debug|notice|warning|error|group|startGroup|setFailed)\b|\bconsole\b|\bprocess\s*\.\s*(stdout|stderr)\b/.test(
            line,
          ),
      )
      .map((line) => `${path}: ${line.trim()}`),
  );
  assert.deepEqual(others, []);
});

test('the toolkit that prints has one name, which the test before looks for', () => {
  const imports = sources.flatMap((path) =>
    [...read(path).matchAll(/^import .*'(@actions\/core|node:console|node:process)';$/gm)].map(([line]) => line),
  );
  assert.deepEqual([...new Set(imports)], ["import * as core from '@actions/core';"]);
});
