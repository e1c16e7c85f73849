// Time limits and GPU counts as people write them. test/chain/plan.test.ts has the simple forms.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gpuHours, gpusPerTask, secondsOfTime } from '../../src/chain/cost.ts';

for (const [text, seconds] of [
  ['1-2:03:04', 93_784],
  ['12-0', 1_036_800],
  ['  90 ', 5400],
  ['0', 0],
  ['00:00:30', 30],
  ['1:2:3:4', undefined],
  ['about 30', undefined],
  ['30 minutes', undefined],
  ['-30', undefined],
  ['', undefined],
] as const) {
  test(`the time limit '${text}' is ${seconds ?? 'none'}`, () => assert.equal(secondsOfTime(text), seconds));
}

for (const [options, gpus] of [
  [{ gres: 'gpu:16' }, 16],
  [{ gres: 'gpu:a100:12' }, 12],
  [{ gres: 'license:1, gpu:2' }, 2],
  [{ gres: 'gpu:2(S:0-1)' }, 2],
  [{ gres: 'gpu:2,gpu:v100:3' }, 5],
  [{ gres: 'gres:gpu:2' }, 2],
  [{ gres: 'gres/gpu:2' }, 2],
  [{ gres: 'mygpu:8,gpux:8,no_gpu' }, 0],
  [{ gres: true }, 0],
  [{ gpus: 'a100:2, v100:10' }, 12],
  [{ gpus: 'many' }, 0],
  [{ gpus: 'a100:2,v100' }, 0],
  [{ gpus: '2x' }, 0],
  [{ gres: 'gpu:1', nodes: '2-4' }, 4],
  [{ gres: 'gpu:1', nodes: 'some' }, 1],
  [{ gres: 'gpu:2', gpus: '1', 'gpus-per-node': '4', nodes: '2' }, 8],
] as const) {
  test(`${JSON.stringify(options)} is ${gpus} GPUs`, () => {
    assert.equal(gpusPerTask(new Map<string, string | true>(Object.entries(options))), gpus);
  });
}

test('a chain without a readable time limit has no bound', () => {
  const hours = (time: string | true) =>
    gpuHours(
      new Map<string, string | true>([
        ['gpus', '2'],
        ['time', time],
      ]),
      3,
      4,
    );
  assert.equal(hours('30'), 12);
  assert.deepEqual([hours('UNLIMITED'), hours(true)], [undefined, undefined]);
});
