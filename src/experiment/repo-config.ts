import * as v from 'valibot';
import { isMap } from 'yaml';
import { optionalFileAt, type Repo } from '../repo/git.ts';
import { parseSource, rootOf } from './document.ts';
import { findKey, type Layer, type Read, readLayers, unknownKey } from './reader.ts';
import { SETTING_KEYS } from './settings.ts';
import { camelKeys, clusterPath, command, list, mapping, must, whole, word } from './values.ts';

/** The file that all experiments of a repository share. */
export const REPO_CONFIG = '.github/slurm-chain.yml';

/** One hop of an SSH connection. */
export interface Hop {
  readonly host: string;
  readonly port: number;
  readonly user: string;
}

const clusterName = v.pipe(
  v.string(),
  v.check((name) => v.is(word, name), 'the name of a cluster must be one line of text'),
);

const proxyJump = v.pipe(
  word,
  must('a list of hosts such as user@host or user@host:port, with commas between them'),
  v.check((text) => text.split(',').every((hop) => hopOf(hop, '') !== undefined)),
);

const knownHosts = v.pipe(
  v.string(),
  must("lines in the format of OpenSSH's known_hosts"),
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it looks for control characters other than tab and line ends
  v.check((text) => text.trim() !== '' && !/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/.test(text)),
);

const cluster = v.pipe(
  v.strictObject({
    host: v.pipe(word, v.description('Name or address of the login node.')),
    port: v.pipe(v.optional(whole(1, 65535), 22), v.description('Port of the SSH server on the login node.')),
    user: v.pipe(word, v.description('The account that logs in and submits the jobs.')),
    workdir: v.pipe(clusterPath, v.description('The directory on the cluster for code, configs, logs and records.')),
    known_hosts: v.pipe(
      list(knownHosts, "lines in the format of OpenSSH's known_hosts, as text or as a list"),
      v.description(
        "The host keys of the login node and of every jump host, as lines of OpenSSH's known_hosts. `ssh-keyscan -p PORT HOST` prints them. Compare the fingerprints with those that your cluster publishes before you trust them.",
      ),
      v.metadata({
        whenMissing: ({ host, port }: Readonly<Record<string, unknown>>) =>
          `It holds the host key of the login node. 'ssh-keyscan ${port === undefined ? '' : `-p ${port} `}${host}' prints it; compare its fingerprint with the one that your cluster publishes before you trust it`,
      }),
    ),
    proxy_jump: v.pipe(
      v.optional(proxyJump),
      v.description(
        "Hosts to connect through, in order, as in OpenSSH's ProxyJump: `user@host:port`, with commas between several. The user defaults to that of the cluster, the port to 22.",
      ),
    ),
    prelude: v.pipe(
      v.optional(list(command, 'text or a list of texts'), []),
      v.description('Shell text that runs before everything else on the login node, such as `module load slurm`.'),
    ),
  }),
  v.transform(({ host, port, user, proxy_jump, known_hosts, prelude, ...others }) => ({
    /** The login node, the last hop. */
    login: { host, port, user } satisfies Hop,
    /** The hosts to go through, in order. */
    jumps: (proxy_jump ?? '').split(',').flatMap((hop) => hopOf(hop, user) ?? ([] as Hop[])),
    knownHosts: known_hosts.join('\n'),
    prelude: prelude.join('\n'),
    ...camelKeys(others),
  })),
);

/**
 * What `.github/slurm-chain.yml` may hold. This is the one description of these keys. The checks, the types Cluster and
 * RepoConfig, schema/slurm-chain.json and the tables of docs/reference/cluster.md come from it: a new key is one entry here,
 * then `node script/schema.ts`.
 */
export const repoConfigSchema = v.strictObject({
  clusters: v.pipe(
    mapping(clusterName, cluster),
    v.transform((clusters) => new Map([...clusters].map(([name, one]) => [name, { name, ...one }]))),
    v.description('The clusters, by the names that experiments use.'),
  ),
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

type Values = Read<typeof repoConfigSchema>;

export type Cluster = Values['clusters'] extends ReadonlyMap<string, infer One> ? One : never;

export interface RepoConfig extends Omit<Values, 'defaults'> {
  /** Settings that every experiment may leave out. */
  readonly defaults: Layer | undefined;
}

/** Reads `.github/slurm-chain.yml` at the commit. @throws Problem with line and column for what the file may not hold */
export async function repoConfigAt(repo: Repo, commit: string): Promise<RepoConfig> {
  return parseRepoConfig((await optionalFileAt(repo, commit, REPO_CONFIG)) ?? '');
}

/** @param text of the file; empty if there is none. @throws Problem with line and column for what the file may not hold */
export function parseRepoConfig(text: string): RepoConfig {
  const source = parseSource(REPO_CONFIG, text);
  const layer = { source, map: rootOf(source) };
  const values = readLayers(repoConfigSchema, [layer]);
  const defaults = findKey([layer], 'defaults')?.node;
  return { ...values, defaults: isMap(defaults) ? { source, map: defaults } : undefined };
}

/** One hop of OpenSSH's ProxyJump: [user@]host[:port] (ssh_config(5)); undefined for anything else. */
function hopOf(text: string, defaultUser: string): Hop | undefined {
  const [, user = defaultUser, host, digits = '22'] = /^(?:([^@\s]+)@)?(\[[^\]\s]+\]|[^:@\s]+)(?::(\d+))?$/.exec(text.trim()) ?? [];
  const port = Number(digits);
  if (host === undefined || port < 1 || port > 65535) return undefined;
  return { host: host.replace(/^\[|\]$/g, ''), port, user };
}
