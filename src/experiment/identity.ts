import { createHash } from 'node:crypto';

// W&B run ids may have 64 characters (wandb/wandb#4191, and the SDK's own check in wandb/sdk/wandb_settings.py). A run's id
// is the experiment's with `-<cell>` behind it, and a cell number has at most seven digits (MaxArraySize <= 4000001).
const LONGEST_ID = 64 - '-4000000'.length;
// What may follow the name: `-<12 of the commit>`, `-<6 of the overrides>`, `-a<99>`. Always left free, so that an attempt
// or an override never changes how the name is cut.
const LONGEST_NAME = LONGEST_ID - '-0123456789ab'.length - '-012345'.length - '-a99'.length;

/** The part of an EXPERIMENT_ID that stands for the experiment's name: unchanged where that is possible, else with a hash. */
export function slugOf(name: string): string {
  const slug = name
    .normalize('NFKD')
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '');
  if (slug === name && slug.length <= LONGEST_NAME) return slug;
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 6);
  const cut = slug.slice(0, LONGEST_NAME - hash.length - 1).replace(/[-._]+$/, '');
  return `${cut || 'x'}-${hash}`;
}

/**
 * `<name>-<first 12 of the commit>`, then `-<6 hex>` when there are overrides, then `-a<k>` from the second attempt.
 * Letters, digits, `.`, `_`, `-`; at most 56 characters; two different names never give one id by being cut or slugged.
 * @param commit all 40 hex digits
 * @param overridesHash from hashOfOverrides, may be empty
 * @param attempt counts from 1, at most 99
 */
export function experimentId(name: string, commit: string, overridesHash = '', attempt = 1): string {
  if (!/^[0-9a-f]{40}$/.test(commit)) throw new RangeError(`'${commit}' is not a whole commit id`);
  if (!Number.isInteger(attempt) || attempt < 1 || attempt > 99) throw new RangeError(`attempt ${attempt} is not from 1 to 99`);
  const parts = [slugOf(name), commit.slice(0, 12)];
  if (overridesHash) parts.push(overridesHash);
  if (attempt > 1) parts.push(`a${attempt}`);
  return parts.join('-');
}

/** The W&B run id of one cell; job.sh builds the same inside the job. */
export function wandbRunId(id: string, cell: number): string {
  return `${id}-${cell}`;
}
