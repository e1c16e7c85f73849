import * as v from 'valibot';
import { isMap, stringify } from 'yaml';
import { hasDirection } from '../base/text.ts';
import { fetchBranch, optionalFileAt, type Repo } from '../repo/git.ts';
import { parseSource, rootOf } from './document.ts';
import { findKey, type Layer, type Read, readLayers, unknownKey } from './reader.ts';
import { SETTING_KEYS } from './settings.ts';
import { camelKeys, clusterPath, command, list, mapping, must, oneOf, section, whole, word } from './values.ts';

/** The file that all experiments of a repository share. */
export const REPO_CONFIG = '.github/slurm-chain.yml';

/** A host to log in on. */
export interface Hop {
  readonly host: string;
  readonly port: number;
  /** undefined for a jump host whose user is that of the cluster, or that of the input ssh-config. */
  readonly user: string | undefined;
}

const clusterName = v.pipe(
  v.string(),
  v.check((name) => v.is(word, name), 'the name of a cluster must be one line of text'),
);

const proxyJump = v.pipe(
  word,
  must('a list of hosts such as user@host or user@host:port, with commas between them'),
  v.check((text) => text.split(',').every((hop) => hopOf(hop) !== undefined)),
);

const knownHosts = v.pipe(
  v.string(),
  must("lines in the format of OpenSSH's known_hosts"),
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it looks for control characters other than tab and line ends
  v.check((text) => text.trim() !== '' && !/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/.test(text) && !hasDirection(text)),
);

const cluster = v.pipe(
  v.strictObject({
    host: v.pipe(word, v.description('Name or address of the login node.')),
    port: v.pipe(v.optional(whole(1, 65535), 22), v.description('Port of the SSH server on the login node.')),
    user: v.pipe(word, v.description('The account that logs in and submits the jobs.')),
    workdir: v.pipe(clusterPath, v.description('The directory on the cluster for code, configs, logs and records.')),
    known_hosts: v.pipe(
      v.optional(list(knownHosts, "lines in the format of OpenSSH's known_hosts, as text or as a list"), []),
      v.description(
        "The host keys of the login node and of every jump host, as lines of OpenSSH's known_hosts. `ssh-keyscan -p PORT HOST` prints them. Compare the fingerprints with those that your cluster publishes before you trust them. Required, unless the workflow gives the input `known-hosts` or the transport is `local`.",
      ),
    ),
    proxy_jump: v.pipe(
      v.optional(proxyJump),
      v.description(
        "Hosts to connect through, in order, as in OpenSSH's ProxyJump: `user@host:port`, with commas between several. The user defaults to that of the cluster, the port to 22.",
      ),
    ),
    share: v.pipe(
      v.optional(oneOf('group')),
      v.description(
        'Who else may read the code, configs, logs and records under `workdir` and beside the checkpoints. Without this key, only the account. `group`: the group of the account too. Nobody else may ever write there, and secrets are always private.',
      ),
    ),
    transport: v.pipe(
      v.optional(oneOf('ssh2', 'openssh', 'local'), 'ssh2'),
      v.description(
        "How commands reach the cluster: `ssh2`, the SSH client in the action; `openssh`, the runner's own `ssh`; `local`, a shell on a self-hosted runner that stands on the login node.",
      ),
    ),
    prelude: v.pipe(
      v.optional(list(command, 'text or a list of texts'), []),
      v.description('Shell text that runs before everything else on the login node, such as `module load slurm`.'),
    ),
  }),
  v.transform(({ host, port, user, proxy_jump, known_hosts, prelude, ...others }) => ({
    /** The login node, the last hop. */
    login: { host, port, user },
    /** The hosts to go through, in order. */
    jumps: (proxy_jump ?? '').split(',').flatMap((hop) => hopOf(hop) ?? ([] as Hop[])),
    knownHosts: known_hosts.join('\n'),
    prelude: prelude.join('\n'),
    ...camelKeys(others),
  })),
);

const names = (what: string) => v.optional(list(word, `${what}, as text or as a list`));
const most = v.optional(whole(1, Number.MAX_SAFE_INTEGER));

const limits = section({
  users: v.pipe(
    names('GitHub logins'),
    v.description('Who may launch, extend and restart, by GitHub login. Default: everybody with write permission.'),
  ),
  clusters: v.pipe(
    names('names of clusters'),
    v.description('Clusters that may be used, of those under `clusters`. Default: all of them.'),
  ),
  partitions: v.pipe(
    names('names of partitions'),
    v.description('Partitions that may be used. An experiment then has to set `slurm.partition`.'),
  ),
  accounts: v.pipe(
    names('names of Slurm accounts'),
    v.description('Slurm accounts that may be used. An experiment then has to set `slurm.account`.'),
  ),
  save_paths: v.pipe(
    v.optional(list(clusterPath, 'directories on the cluster, as text or as a list')),
    v.description('Directories that `save.path` must be one of, or be inside of, as it is written.'),
  ),
  jobs: v.pipe(most, v.description('The most jobs that one launch may add to a chain.')),
  cells: v.pipe(most, v.description('The most cells that an experiment may have.')),
  gpu_hours: v.pipe(
    most,
    v.description(
      'The most GPU-hours that one launch may use if every task runs until its time limit. An experiment with GPUs then has to set `slurm.time`.',
    ),
  ),
});

/**
 * What `.github/slurm-chain.yml` may hold. This is the one description of these keys. The checks, the types Cluster, SiteConfig
 * and RepoConfig, schema/slurm-chain.json and the tables of docs/reference/cluster.md come from it: a new key is one entry here,
 * then `node script/schema.ts`.
 */
export const repoConfigSchema = v.strictObject({
  clusters: v.pipe(
    mapping(clusterName, cluster),
    v.transform((clusters) => new Map([...clusters].map(([name, one]) => [name, { name, ...one }]))),
    v.description('The clusters, by the names that experiments use. Read from the default branch only.'),
  ),
  limits: v.pipe(limits, v.description('What a launch may ask for. Read from the default branch only.')),
  experiments: v.pipe(
    v.optional(list(word, 'text or a list of texts'), ['configs/**/*.yaml', 'configs/**/*.yml']),
    v.description('Patterns of the files that are experiments.'),
  ),
  // Only the names of its keys are checked here. Their values are checked with the experiment that uses them, so that a
  // fault in them cannot stop /status or /cancel.
  defaults: v.pipe(
    v.optional(
      v.map(
        v.picklist(SETTING_KEYS, ({ input }) => unknownKey(String(input), 'defaults', SETTING_KEYS)),
        v.unknown(),
      ),
    ),
    v.description('Settings that every experiment may leave out: any key of an experiment.'),
  ),
});

// Who says what. Each of the two readers knows every key, so that it can tell a misspelled one, and reads its own keys alone.
const { clusters: siteClusters, limits: siteLimits, experiments, defaults } = repoConfigSchema.entries;
const elsewhere = v.optional(v.unknown());
const siteSchema = v.strictObject({ clusters: siteClusters, limits: siteLimits, experiments: elsewhere, defaults: elsewhere });
const commitSchema = v.strictObject({ clusters: elsewhere, limits: elsewhere, experiments, defaults });

type SiteValues = Read<typeof siteSchema>;

export type Cluster = SiteValues['clusters'] extends ReadonlyMap<string, infer One> ? One : never;
export type Limits = SiteValues['limits'];

/**
 * The part of the file that only the default branch decides: where to log in, and what may be launched there. No other commit
 * gives one: it has this type, and RepoConfig has none of its fields.
 */
export interface SiteConfig extends Pick<SiteValues, 'clusters' | 'limits'> {
  /** Name of the default branch. */
  readonly branch: string;
  /** Does the default branch have the file? */
  readonly exists: boolean;
  /** Its clusters and limits, for comparing them with those that another commit proposes. */
  readonly text: string;
}

/** The part of the file that comes from the commit that is launched. */
export interface RepoConfig {
  readonly experiments: readonly string[];
  /** Settings that every experiment may leave out. */
  readonly defaults: Layer | undefined;
  /** What the commit has as clusters and limits. They have no effect, so this is good for comparing and showing alone. */
  readonly proposed: string;
}

/** Reads the commit's part of `.github/slurm-chain.yml`. @throws Problem with line and column for what the file may not hold */
export async function repoConfigAt(repo: Repo, commit: string): Promise<RepoConfig> {
  return parseRepoConfig((await optionalFileAt(repo, commit, REPO_CONFIG)) ?? '');
}

/** @param text of the file; empty if there is none. @throws Problem with line and column for what the file may not hold */
export function parseRepoConfig(text: string): RepoConfig {
  const source = parseSource(REPO_CONFIG, text);
  const layer = { source, map: rootOf(source) };
  const values = readLayers(commitSchema, [layer]);
  const found = findKey([layer], 'defaults')?.node;
  return {
    experiments: values.experiments,
    defaults: isMap(found) ? { source, map: found } : undefined,
    proposed: siteText(layer),
  };
}

/**
 * Reads the clusters and limits of the default branch, as the remote has it now.
 * @throws Problem if the branch cannot be fetched, and with line and column for what the file may not hold
 */
export async function siteConfigOf(repo: Repo, branch: string): Promise<SiteConfig> {
  return parseSiteConfig(await optionalFileAt(repo, await fetchBranch(repo, branch), REPO_CONFIG), branch);
}

/** @param text of the file on the default branch; undefined if there is none */
export function parseSiteConfig(text: string | undefined, branch: string): SiteConfig {
  const source = parseSource(REPO_CONFIG, text ?? '');
  const layer = { source, map: rootOf(source) };
  const values = readLayers(siteSchema, [layer]);
  return { clusters: values.clusters, limits: values.limits, branch, exists: text !== undefined, text: siteText(layer) };
}

/** Clusters and limits, written in one way, whatever the order of the keys in a file and its comments. Empty if there are none. */
function siteText(layer: Layer): string {
  const parts = ['clusters', 'limits'].flatMap((key) => {
    const node = findKey([layer], key)?.node;
    return node === undefined ? [] : [[key, node.toJS(layer.source.document) as unknown] as const];
  });
  return parts.length === 0
    ? ''
    : stringify(Object.fromEntries(parts), { lineWidth: 0, sortMapEntries: true, aliasDuplicateObjects: false });
}

/** One hop of OpenSSH's ProxyJump: [user@]host[:port] (ssh_config(5)); undefined for anything else. */
function hopOf(text: string): Hop | undefined {
  const [, user, host, digits = '22'] = /^(?:([^@\s]+)@)?(\[[^\]\s]+\]|[^:@\s]+)(?::(\d+))?$/.exec(text.trim()) ?? [];
  const port = Number(digits);
  if (host === undefined || port < 1 || port > 65535) return undefined;
  return { host: host.replace(/^\[|\]$/g, ''), port, user };
}
