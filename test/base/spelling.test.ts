import assert from 'node:assert/strict';
import { test } from 'node:test';
import { didYouMean, misspelled, nearest } from '../../src/base/spelling.ts';

const KEYS = ['name', 'cluster', 'run', 'setup', 'chain', 'save', 'n_steps', 'max_concurrent_jobs', 'wandb', 'env', 'code'];

test('the nearest word is named, if one is near', () => {
  assert.equal(nearest('chian', KEYS), 'chain');
  assert.equal(nearest('clutser', KEYS), 'cluster');
  assert.equal(nearest('zzzzz', KEYS), undefined);
  assert.equal(nearest('max_concurent_job', KEYS), 'max_concurrent_jobs');
  assert.equal(nearest('x', []), undefined);
  assert.equal(didYouMean('nmae', KEYS), "; did you mean 'name'?");
  assert.equal(didYouMean('zzzzz', KEYS), '');
});

test('of two words that are as near, the first is named', () => {
  assert.equal(nearest('xa', ['xb', 'xc']), 'xb');
});

for (const [word, meant] of [
  ['chian', 'chain'],
  ['chaim', 'chain'],
  ['n_step', 'n_steps'],
  ['nsteps', 'n_steps'],
  ['nSteps', 'n_steps'],
  ['n-steps', 'n_steps'],
  ['Name', 'name'],
  ['RUN', 'run'],
  ['rnu', 'run'],
  ['runs', 'run'],
  ['saev', 'save'],
  ['clusters', 'cluster'],
  ['clustar', 'cluster'],
  ['setpu', 'setup'],
  ['max_concurent_job', 'max_concurrent_jobs'],
  ['maxConcurrentJobs', 'max_concurrent_jobs'],
  ['wandB', 'wandb'],
  ['wand', 'wandb'],
  ['wanbd', 'wandb'],
] as const) {
  test(`${word} is a misspelled ${meant}`, () => {
    assert.equal(misspelled(word, KEYS), meant);
  });
}

for (const word of [
  'chain',
  'train',
  'model',
  'mode',
  'node',
  'same',
  'core',
  'end',
  'data',
  'seed',
  'steps',
  'epochs',
  'runner',
  'chaos',
  'max_jobs',
  '',
  'x',
]) {
  test(`${word} is a word of its own`, () => {
    assert.equal(misspelled(word, KEYS), undefined);
  });
}
