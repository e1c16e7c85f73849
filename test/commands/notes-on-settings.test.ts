import assert from 'node:assert/strict';
import { test } from 'node:test';
import { notesOnSettings } from '../../src/commands/basis.ts';
import { parseSource } from '../../src/experiment/document.ts';
import { experimentFrom } from '../../src/experiment/experiment.ts';
import { parseRepoConfig } from '../../src/experiment/repo-config.ts';

test('the warnings on an experiment are notes of the report', () => {
  const source = parseSource('x.yaml', 'run: x\nsave: {path: /x}\nn_steps: 5\nchian: {n_jobs: 3}\n');
  const experiment = experimentFrom(source, '0'.repeat(40), parseRepoConfig(''), []);
  const [note, ...others] = notesOnSettings(experiment, new Map());
  assert.match(note ?? '', /^x\.yaml:4:1: 'chian' .* did you mean 'chain'\?$/);
  assert.deepEqual(others, []);
});
