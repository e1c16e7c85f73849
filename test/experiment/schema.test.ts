// What comes from the descriptions of the yaml files: the JSON Schemas and the reference pages.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { Ajv, type ValidateFunction } from 'ajv';
import * as v from 'valibot';
import { parse } from 'yaml';
import { parseSource } from '../../src/experiment/document.ts';
import { experimentFrom } from '../../src/experiment/experiment.ts';
import { expectedOf } from '../../src/experiment/reader.ts';
import { parseRepoConfig, parseSiteConfig, repoConfigSchema } from '../../src/experiment/repo-config.ts';
import { experimentSchema } from '../../src/experiment/settings.ts';
import { NODE24, ROOT } from '../support/action.ts';

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const ajv = new Ajv({ strict: false, allErrors: true });
const experimentJson = ajv.compile(JSON.parse(read('schema/experiment.json')) as object);
const repoConfigJson = ajv.compile(JSON.parse(read('schema/slurm-chain.json')) as object);

test('schema/ and docs/reference/ are those of the descriptions', () => {
  const { stdout, stderr } = spawnSync(NODE24, [join(ROOT, 'script/schema.ts'), '--check'], { encoding: 'utf8' });
  assert.equal(stdout + stderr, '');
});

test('every example names its schema, and keeps to it', () => {
  const files = globSync(['examples/*/configs/*.yaml', 'examples/*/.github/slurm-chain.yml'], { cwd: ROOT });
  assert.ok(files.length >= 3);
  for (const file of files) {
    const [, schema = ''] = /^# yaml-language-server: \$schema=(\S+)$/m.exec(read(file)) ?? [];
    // The starter files are copied into other repositories, so they name the schema by its address.
    const published = 'https://raw.githubusercontent.com/slurm-chain/slurm-chain/v1/';
    const path = schema.startsWith(published) ? join(ROOT, schema.slice(published.length)) : join(ROOT, dirname(file), schema);
    const check = ajv.compile({ ...(JSON.parse(readFileSync(path, 'utf8')) as object) });
    assert.ok(check(parse(read(file), { merge: true })), `${file}: ${ajv.errorsText(check.errors)}`);
  }
});

/** The keys of a description, dotted, with the schema of each. */
function keysOf(schema: v.GenericSchema, path = ''): [string, v.GenericSchema][] {
  if ('wrapped' in schema) return keysOf(schema.wrapped as v.GenericSchema, path);
  if ('value' in schema) return keysOf(schema.value as v.GenericSchema, `${path}.NAME`);
  if (!('entries' in schema)) return [];
  return Object.entries(schema.entries as Record<string, v.GenericSchema>).flatMap(([key, one]) => {
    const below = path === '' ? key : `${path}.${key}`;
    return [[below, one], ...keysOf(one, below)] as [string, v.GenericSchema][];
  });
}

for (const [file, schema, page] of [
  ['an experiment', experimentSchema, 'docs/reference/experiment.md'],
  ['the shared file', repoConfigSchema, 'docs/reference/cluster.md'],
] as const) {
  test(`every key of ${file} says what it means and what it must be, in the errors and on the page`, () => {
    const keys = keysOf(schema);
    assert.ok(keys.length > 5);
    for (const [key, one] of keys) {
      assert.match(v.getDescription(one) ?? '', /^[A-Z`].*\.$/, key);
      const value = 'wrapped' in one ? (one.wrapped as v.GenericSchema) : one;
      if (!['map', 'strict_object'].includes(value.type)) assert.notEqual(expectedOf(value), 'something else', key);
      assert.ok(read(page).includes(`| \`${key}\` |`), `${page} has no row for ${key}`);
    }
  });
}

function isRead(text: string): boolean {
  try {
    experimentFrom(parseSource('x.yaml', text), '0'.repeat(40), parseRepoConfig('defaults: {run: x, save: {path: /x}}\n'), []);
    return true;
  } catch {
    return false;
  }
}

function isReadAsRepoConfig(text: string): boolean {
  try {
    parseRepoConfig(text);
    parseSiteConfig(text, 'main');
    return true;
  } catch {
    return false;
  }
}

function agree(check: ValidateFunction, isTaken: (text: string) => boolean, text: string, expected: boolean): void {
  const data: unknown = parse(text, { merge: true });
  assert.deepEqual({ schema: check(data), reader: isTaken(text) }, { schema: expected, reader: expected }, ajv.errorsText(check.errors));
}

for (const [expected, texts] of [
  [
    true,
    [
      '',
      'model: {lr: 1}\ndefaults: [a]\n',
      'run: null\nslurm:\nchain: {n_jobs: ~}\nsetup: null\n',
      'name: 7\nrun: true\n',
      'setup: module load cuda\ncode: {exclude: a}\n',
      'setup: [a, b]\ncode: {exclude: [a]}\n',
      'slurm: {cpus_per_gpu: 14, mem-per-gpu: 90G, exclusive: true, requeue: false, nodes: 007, qos: null}\n',
      'chain: {n_jobs: 1000, scope: cell, warn_before: 0, cancel_when_done: false}\n',
      'save: {path: $WORK/x, complete: .metadata, pattern: "a{step}", step: count}\n',
      '^n_steps: [1, 2]\n',
      'a: &a {time: 5}\nslurm: {<<: *a, mem: 1G}\n',
      'env: {A: 1, B: x, C: null}\n',
      'wandb: {entity: e, base_url: https://x.edu}\n',
    ],
  ],
  [
    false,
    [
      '[a]\n',
      'run: [a]\n',
      'setup: [{a: b}]\n',
      'slurm: h100\n',
      'slurm: {partiton: a}\n',
      'slurm: {array: 1}\n',
      'slurm: {get_user_env: true}\n',
      'slurm: {time: [1]}\n',
      'chain: {njobs: 1}\n',
      'chain: {n_jobs: 0}\n',
      'chain: {n_jobs: 1001}\n',
      'chain: {n_jobs: 1.5}\n',
      'chain: {n_jobs: "3"}\n',
      'chain: {scope: cells}\n',
      'chain: {cancel_when_done: yes}\n',
      'save: {path: relative}\n',
      'save: {path: /x, pattern: a}\n',
      'n_steps: 0\n',
      '^n_steps: [0]\n',
      'env: [A=1]\n',
      'wandb: {entitty: e}\n',
      'name: ""\n',
    ],
  ],
] as const) {
  for (const text of texts) {
    test(`the reader and schema/experiment.json both ${expected ? 'take' : 'refuse'} ${JSON.stringify(text)}`, () => {
      agree(experimentJson, isRead, text, expected);
    });
  }
}

const CLUSTER = 'host: h, user: u, workdir: /w, known_hosts: k';
for (const [expected, texts] of [
  [
    true,
    [
      '',
      'clusters: null\nexperiments: ~\ndefaults:\n',
      `clusters: {e: {${CLUSTER}}, f: null}\n`,
      `clusters: {e: {${CLUSTER}, port: 22, proxy_jump: a@b, prelude: [a, b]}}\n`,
      `clusters: {e: &e {${CLUSTER}}, f: {<<: *e, port: 1}}\n`,
      `clusters: {e: {host: 10, user: 1000, workdir: ~/w, known_hosts: [a, b]}}\n`,
      'experiments: [a, b]\n',
      'defaults: {slurm: {time: 5}, save: {path: /x}}\n',
    ],
  ],
  [
    false,
    [
      'cluster: {}\n',
      'clusters: {e: {}}\n',
      'clusters: {e: {host: h}}\n',
      `clusters: {e: {${CLUSTER}, port: 0}}\n`,
      `clusters: {e: {${CLUSTER}, port: "22"}}\n`,
      `clusters: {e: {${CLUSTER}, hots: h}}\n`,
      'clusters: [e]\n',
      'experiments: {a: b}\n',
      'defaults: {slurmm: {}}\n',
    ],
  ],
] as const) {
  for (const text of texts) {
    test(`the reader and schema/slurm-chain.json both ${expected ? 'take' : 'refuse'} ${JSON.stringify(text)}`, () => {
      agree(repoConfigJson, isReadAsRepoConfig, text, expected);
    });
  }
}

test('the schema of defaults is that of an experiment', () => {
  const check = (text: string) => repoConfigJson(parse(text));
  assert.ok(!check('defaults: {chain: {njobs: 1}}\n'));
  assert.ok(!check('defaults: {slurm: {array: 1}}\n'));
  assert.ok(!check('defaults: {model: 1}\n'));
});
