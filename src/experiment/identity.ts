import { createHash } from 'node:crypto';

// A W&B run id may have 64 characters (wandb/wandb#4191; wandb/sdk/wandb_settings.py checks it). Ours is the EXPERIMENT_ID and
// `-<cell>`. A cell number has at most seven digits (MaxArraySize <= 4000001).
const LONGEST_ID = 64 - '-4000000'.length;
// `-<12 of the commit>`, `-<6 of the overrides>` and `-a<99>` may follow the name. Room for all of them is always left, so that
// an attempt or an override never changes how the name is shortened.
const LONGEST_NAME = LONGEST_ID - '-0123456789ab'.length - '-012345'.length - '-a99'.length;

/** The part of an EXPERIMENT_ID that comes from the name. A name that has to be changed or shortened gets a hash. */
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
 * The EXPERIMENT_ID: `<name>-<first 12 of the commit>`, then `-<6 hex digits>` if there are overrides, then `-a<k>` from the
 * second attempt on. It consists of letters, digits, `.`, `_` and `-`, and has at most 56 characters. Two different names never
 * get the same id because they were shortened.
 * @param commit all 40 hex digits
 * @param overridesHash from hashOfOverrides; may be empty
 * @param attempt from 1 to 99
 * @throws RangeError for another commit or attempt
 */
export function experimentId(name: string, commit: string, overridesHash = '', attempt = 1): string {
  if (!/^[0-9a-f]{40}$/.test(commit)) throw new RangeError(`'${commit}' is not a whole commit id`);
  if (!Number.isInteger(attempt) || attempt < 1 || attempt > 99) throw new RangeError(`attempt ${attempt} is not from 1 to 99`);
  const parts = [slugOf(name), commit.slice(0, 12)];
  if (overridesHash) parts.push(overridesHash);
  if (attempt > 1) parts.push(`a${attempt}`);
  return parts.join('-');
}

/** Can this be an EXPERIMENT_ID? Such a text is safe in a path, in a job name, in an address and in Markdown. */
export function isExperimentId(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(text);
}

/** The W&B run id of one cell. job.sh builds the same id in the job. */
export function wandbRunId(id: string, cell: number): string {
  return `${id}-${cell}`;
}
