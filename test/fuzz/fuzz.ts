// script/fuzz runs this.
import { parseArgs } from 'node:util';
import { fuzz, TARGETS } from './targets.ts';

const { values } = parseArgs({ options: { seed: { type: 'string' }, count: { type: 'string', default: '120000' } } });
const seed = values.seed === undefined ? Date.now() % 2 ** 31 : Number(values.seed);
const count = Number(values.count);
if (!Number.isSafeInteger(seed) || !Number.isSafeInteger(count) || count < 1) throw new Error('usage: script/fuzz [--seed S] [--count N]');
console.log(`seed ${seed}`);
const each = Math.ceil(count / TARGETS.length);
let failures = 0;
for (const target of TARGETS) {
  const started = performance.now();
  try {
    fuzz(target, each, seed);
    console.log(`${target.name.padEnd(16)} ${each} inputs, ${((performance.now() - started) / 1000).toFixed(1)} s`);
  } catch (error) {
    failures += 1;
    console.log(
      `${target.name.padEnd(16)} FAILED\n${error instanceof Error ? `${error.message}\n${String(error.cause ?? '')}` : String(error)}`,
    );
  }
}
console.log(`${each * TARGETS.length} inputs for ${TARGETS.length} targets, ${failures} failed`);
process.exitCode = failures === 0 ? 0 : 1;
