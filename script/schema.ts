// Writes what comes from the descriptions in src/experiment/settings.ts and repo-config.ts: schema/*.json for editors, and the
// tables of docs/reference/. With --check it writes nothing and names the files that are stale.
import { readFileSync, writeFileSync } from 'node:fs';
import { type ConversionConfig, type JsonSchema, toJsonSchema } from '@valibot/to-json-schema';
import * as v from 'valibot';
import { expectedOf } from '../src/experiment/reader.ts';
import { repoConfigSchema } from '../src/experiment/repo-config.ts';
import { experimentSchema } from '../src/experiment/settings.ts';
import { RESERVED_OPTIONS, SLURM_OPTIONS } from '../src/experiment/slurm-options.ts';

// ---- schema/*.json

type Json = Readonly<Record<string, unknown>>;

const CONVERSION: ConversionConfig = {
  // JSON Schema has no counterpart of v.check and v.transform.
  errorMode: 'ignore',
  overrideSchema({ valibotSchema, jsonSchema }) {
    if (valibotSchema.type !== 'map' || !('value' in valibotSchema)) return undefined;
    return { ...jsonSchema, type: 'object', additionalProperties: toJsonSchema(valibotSchema.value as v.GenericSchema, CONVERSION) };
  },
  overrideAction({ valibotAction, jsonSchema }) {
    if (valibotAction.type !== 'metadata' || !('metadata' in valibotAction)) return undefined;
    const metadata = valibotAction.metadata as Metadata;
    const { expected: _, ...rest } = jsonSchema as JsonSchema & Metadata;
    // yaml-language-server shows errorMessage in place of its own words.
    return metadata.expected === undefined ? rest : Object.assign(rest, { errorMessage: `It must be ${metadata.expected}.` });
  },
};

interface Metadata {
  readonly expected?: string;
}

/**
 * A JSON Schema that takes what src/experiment/reader.ts takes: null is not given, numbers and booleans are text where text is
 * due, and one value is a list of one.
 * @param isComplete false if another file may give what is missing here
 */
function asRead(json: Json, isComplete: boolean): Json {
  const { $schema: _, type, items, properties, additionalProperties, anyOf, required, ...rest } = json;
  const read = (one: unknown) => asRead(one as Json, isComplete);
  if (type === 'array') return { ...rest, anyOf: [{ type: 'array', items: read(items) }, read(items)] };
  if (Array.isArray(anyOf)) {
    const options = anyOf.filter((option: Json) => option['type'] !== 'null').map(read);
    return options.length === 1 ? { ...options[0], ...rest } : { ...rest, anyOf: options };
  }
  const result: Record<string, unknown> = { ...rest };
  if (Array.isArray(rest['enum'])) result['enum'] = [...rest['enum'], null];
  else if (type !== undefined) result['type'] = type === 'string' ? ['string', 'number', 'boolean', 'null'] : [type, 'null'];
  const fields = (properties ?? {}) as Readonly<Record<string, Json>>;
  if (properties !== undefined) result['properties'] = Object.fromEntries(Object.entries(fields).map(([key, one]) => [key, read(one)]));
  if (additionalProperties !== undefined) {
    result['additionalProperties'] = typeof additionalProperties === 'object' ? read(additionalProperties) : additionalProperties;
  }
  // The reader fills in a section that is missing.
  const needed = ((required ?? []) as string[]).filter((key) => fields[key]?.['type'] !== 'object');
  if (isComplete && needed.length > 0) result['required'] = needed;
  return result;
}

/** The keys of an experiment, with every option of sbatch by its name, and the definition that the options refer to. */
function settings(): { properties: Readonly<Record<string, unknown>>; definitions: Json } {
  const properties = asRead({ ...toJsonSchema(experimentSchema, CONVERSION) }, false)['properties'] as Readonly<Record<string, Json>>;
  const { additionalProperties: option, ...slurm } = properties['slurm'] ?? {};
  const $ref = { $ref: '#/definitions/option' };
  const names = [...SLURM_OPTIONS];
  const reserved = [...RESERVED_OPTIONS].map(([name, why]) => {
    const errorMessage = `slurm.${name} cannot be set: ${why}`;
    // yaml-language-server shows errorMessage for a wrong type, but not for `not`.
    return [name, { type: 'null', errorMessage, doNotSuggest: true }];
  });
  const otherSpellings = names.filter((name) => name.includes('-')).map((name) => name.replaceAll('-', '[-_]'));
  return {
    properties: {
      ...properties,
      slurm: {
        ...slurm,
        properties: Object.fromEntries([...names.map((name) => [name, $ref]), ...reserved]),
        patternProperties: { [`^(${otherSpellings.join('|')})$`]: $ref },
        additionalProperties: false,
      },
    },
    definitions: { option },
  };
}

const DRAFT = { $schema: 'http://json-schema.org/draft-07/schema#' };

function experimentJson(): Json {
  const { properties, definitions } = settings();
  return {
    ...DRAFT,
    title: 'An experiment of Slurm Chain',
    description: "Other top-level keys are the experiment's own. A key that starts with ^ holds a list: the values of the grid.",
    type: ['object', 'null'],
    properties: { ...properties, '^n_steps': { type: 'array', items: properties['n_steps'] } },
    definitions,
  };
}

function repoConfigJson(): Json {
  const { properties, ...json } = asRead({ ...toJsonSchema(repoConfigSchema, CONVERSION) }, true);
  const keys = properties as Readonly<Record<string, Json>>;
  const { properties: defaults, definitions } = settings();
  return {
    ...DRAFT,
    title: 'What all experiments of a repository share (.github/slurm-chain.yml)',
    ...json,
    properties: { ...keys, defaults: { ...keys['defaults'], properties: defaults, additionalProperties: false } },
    definitions,
  };
}

// ---- docs/reference/*.md

/** The schema inside optional and nullable. */
function inner(schema: v.GenericSchema): v.GenericSchema {
  return 'wrapped' in schema ? inner(schema.wrapped as v.GenericSchema) : schema;
}

interface Section {
  /** Dotted, such as `chain`; empty for the top level. */
  readonly path: string;
  readonly meaning: string;
  readonly keys: Readonly<Record<string, v.GenericSchema>>;
}

/** The mappings with known keys, outermost first. */
function sectionsOf(schema: v.GenericSchema, path = '', meaning = ''): Section[] {
  const found = inner(schema);
  if (found.type === 'map' && 'value' in found) return sectionsOf(found.value as v.GenericSchema, `${path}.NAME`, meaning);
  if (!('entries' in found)) return [];
  const keys = found.entries as Record<string, v.GenericSchema>;
  const below = Object.entries(keys).flatMap(([key, one]) =>
    sectionsOf(one, path === '' ? key : `${path}.${key}`, v.getDescription(one) ?? ''),
  );
  return [{ path, meaning, keys }, ...below];
}

function valueText(schema: v.GenericSchema): string {
  const found = inner(schema);
  if (found.type === 'picklist' && 'options' in found) return (found.options as string[]).map((option) => `\`${option}\``).join(', ');
  if (['object', 'strict_object', 'map'].includes(found.type)) return 'keys and values';
  return expectedOf(found).replace(/^(an?|the) /, '');
}

function defaultText(schema: v.GenericSchema): string {
  if (schema.type !== 'optional') return ['object', 'strict_object', 'map'].includes(inner(schema).type) ? '' : '(required)';
  const value: unknown = 'default' in schema ? schema.default : undefined;
  return [value ?? []]
    .flat()
    .map((one) => `\`${String(one)}\``)
    .join(', ');
}

function table({ path, keys }: Section): string {
  const rows = Object.entries(keys).map(([key, schema]) => {
    const name = path === '' ? key : `${path}.${key}`;
    return `| \`${name}\` | ${valueText(schema)} | ${defaultText(schema)} | ${v.getDescription(schema) ?? ''} |`;
  });
  return ['| key | value | default | meaning |', '| --- | --- | --- | --- |', ...rows].join('\n');
}

function tables(schema: v.GenericSchema): { top: string; sections: string } {
  const [top, ...sections] = sectionsOf(schema);
  return {
    top: top === undefined ? '' : table(top),
    sections: sections.map((section) => `### \`${section.path}\`\n\n${section.meaning}\n\n${table(section)}`).join('\n\n'),
  };
}

const reserved = [...RESERVED_OPTIONS].map(([name, why]) => `| \`${name}\` | ${why} |`);
const reservedTable = ['| option | why, and what to use |', '| --- | --- |', ...reserved].join('\n');

/** Replaces what stands between `<!-- NAME -->` and `<!-- end -->`. */
function filled(page: string, blocks: Readonly<Record<string, string>>): string {
  return Object.entries(blocks).reduce((text, [name, block]) => {
    const between = new RegExp(`(<!-- ${name} -->\n)[\\s\\S]*?(\n<!-- end -->)`);
    if (!between.test(text)) throw new Error(`the page has no block <!-- ${name} --> … <!-- end -->`);
    return text.replace(between, (_, start: string, end: string) => start + block + end);
  }, page);
}

// ---- write or check

const root = new URL('../', import.meta.url);
const read = (path: string): string => {
  try {
    return readFileSync(new URL(path, root), 'utf8');
  } catch {
    return '';
  }
};
const json = (value: Json) => `${JSON.stringify(value, null, 2)}\n`;
const files: Record<string, string> = {
  'schema/experiment.json': json(experimentJson()),
  'schema/slurm-chain.json': json(repoConfigJson()),
  'docs/reference/experiment.md': filled(read('docs/reference/experiment.md'), { ...tables(experimentSchema), reserved: reservedTable }),
  'docs/reference/cluster.md': filled(read('docs/reference/cluster.md'), { ...tables(repoConfigSchema) }),
};
for (const [path, text] of Object.entries(files)) {
  if (text === read(path)) continue;
  if (process.argv.includes('--check')) console.log(`${path} is stale: node script/schema.ts writes it`);
  else writeFileSync(new URL(path, root), text);
}
