// action.yml, the code and the documents say the same.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readInputs } from '../../src/action/inputs.ts';
import { METADATA } from '../support/action.ts';
import { FILES, read } from '../support/sources.ts';

test('the inputs of action.yml are those that are read, and no others', () => {
  const asked = new Set<string>();
  const before = process.env;
  // Where @actions/core looks for inputs. Nothing is set, so every input is asked for.
  process.env = new Proxy<NodeJS.ProcessEnv>(
    {},
    {
      get(_, name) {
        if (typeof name === 'string' && name.startsWith('INPUT_')) asked.add(name.slice('INPUT_'.length).toLowerCase());
        return undefined;
      },
    },
  );
  try {
    readInputs();
  } finally {
    process.env = before;
  }
  assert.deepEqual([...asked].sort(), Object.keys(METADATA.inputs).sort());
});

test('the outputs of action.yml are those that are set, and no others', () => {
  const source = FILES.filter((path) => /^src\/.*\.ts$/.test(path))
    .map(read)
    .join('\n');
  const set = [...source.matchAll(/(?:setOutput|\bset)\(\s*'([^']+)',/g)].map((match) => match[1]);
  assert.deepEqual([...new Set(set)].sort(), Object.keys(METADATA.outputs).sort());
});
