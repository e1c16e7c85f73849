import { isMap, isScalar, isSeq, type Node, type Pair, YAMLMap } from 'yaml';
import { type Place, Problem } from '../base/problem.ts';
import { didYouMean } from '../base/spelling.ts';
import { optionalFileAt, type Repo } from '../repo/git.ts';
import { keyText, parseSource, placeOf, resolved, rootOf, type YamlSource } from './document.ts';
import { SETTING_KEYS, startsOnCluster } from './settings.ts';

/** Where the file is that all experiments of a repository share. */
export const REPO_CONFIG = '.github/slurm-chain.yml';

/** One hop of an SSH connection. */
export interface Hop {
  readonly host: string;
  readonly port: number;
  readonly user: string;
}

export interface Cluster {
  readonly name: string;
  /** The login node, last of the hops. */
  readonly login: Hop;
  /** Hosts to go through, in order (OpenSSH's ProxyJump). */
  readonly jumps: readonly Hop[];
  /** Lines in the format of OpenSSH's known_hosts; must know every hop. */
  readonly knownHosts: string;
  /** As written; expanded on the cluster. */
  readonly workdir: string;
  /** Shell text run before anything else over there, such as `module load slurm`. */
  readonly prelude: string;
}

export interface RepoConfig {
  readonly clusters: ReadonlyMap<string, Cluster>;
  /** Patterns of experiment files. */
  readonly experiments: readonly string[];
  /** Settings every experiment may leave out. */
  readonly defaults: { readonly source: YamlSource; readonly map: YAMLMap } | undefined;
}

const NO_CONFIG: RepoConfig = { clusters: new Map(), experiments: ['configs/**/*.yaml', 'configs/**/*.yml'], defaults: undefined };

/** Reads `.github/slurm-chain.yml` at the commit. @throws Problem with line and column for what it does not know. */
export async function repoConfigAt(repo: Repo, commit: string): Promise<RepoConfig> {
  const text = await optionalFileAt(repo, commit, REPO_CONFIG);
  return text === undefined ? NO_CONFIG : parseRepoConfig(text);
}

export function parseRepoConfig(text: string): RepoConfig {
  const source = parseSource(REPO_CONFIG, text);
  const fields = fieldsOf(source, rootOf(source), 'the file', ['clusters', 'experiments', 'defaults']);
  const clusters = new Map<string, Cluster>();
  const all = fields.get('clusters');
  if (all !== undefined) {
    for (const [name, field] of mapOf(source, all)) clusters.set(name, cluster(source, name, field));
  }
  const defaults = fields.get('defaults');
  const experiments = fields.get('experiments');
  return {
    clusters,
    experiments: experiments === undefined ? NO_CONFIG.experiments : textsOf(source, experiments),
    defaults: defaults === undefined ? undefined : { source, map: defaultsMap(source, defaults) },
  };
}

interface Field {
  readonly path: string;
  readonly node: Node;
  readonly place: Place | undefined;
}

function fieldsOf(source: YamlSource, map: YAMLMap, what: string, known?: readonly string[]): Map<string, Field> {
  const fields = new Map<string, Field>();
  for (const pair of map.items as Pair[]) {
    const key = keyText(pair);
    const place = placeOf(source, pair.key as Node);
    if (known !== undefined && !known.includes(key)) {
      throw new Problem(`unknown key '${key}' in ${what}${didYouMean(key, known) || `; it takes ${known.join(', ')}`}`, place);
    }
    const node = resolved(source, pair.value);
    if (node === undefined || (isScalar(node) && node.value === null)) continue;
    fields.set(key, { path: key, node, place: placeOf(source, node) ?? place });
  }
  return fields;
}

function mapOf(source: YamlSource, field: Field, known?: readonly string[]): Map<string, Field> {
  if (!isMap(field.node)) throw new Problem(`${field.path} must hold keys and values`, field.place);
  return fieldsOf(source, field.node, field.path, known);
}

function textOfField(field: Field): string {
  if (!isScalar(field.node) || typeof field.node.value !== 'string' || field.node.value.trim() === '') {
    throw new Problem(`${field.path} must be text`, field.place);
  }
  return field.node.value;
}

function textsOf(source: YamlSource, field: Field): string[] {
  if (!isSeq(field.node)) return [textOfField(field)];
  return field.node.items.map((item, index) => {
    const node = resolved(source, item);
    if (node === undefined) throw new Problem(`${field.path} must be text or a list of texts`, field.place);
    return textOfField({ path: `${field.path}[${index}]`, node, place: placeOf(source, node) });
  });
}

function defaultsMap(source: YamlSource, field: Field): YAMLMap {
  for (const key of mapOf(source, field).keys()) {
    if (!SETTING_KEYS.includes(key)) {
      throw new Problem(
        `unknown key '${key}' in defaults${didYouMean(key, SETTING_KEYS) || `; it takes ${SETTING_KEYS.join(', ')}`}`,
        field.place,
      );
    }
  }
  return isMap(field.node) ? field.node : new YAMLMap();
}

const CLUSTER_KEYS = ['host', 'port', 'user', 'workdir', 'known_hosts', 'proxy_jump', 'prelude'];

function cluster(source: YamlSource, name: string, field: Field): Cluster {
  const fields = mapOf(source, { ...field, path: `clusters.${name}` }, CLUSTER_KEYS);
  const need = (key: string, why: string): string => {
    const found = fields.get(key);
    if (found === undefined) throw new Problem(`clusters.${name} has no ${key}: ${why}`, field.place);
    return textOfField({ ...found, path: `clusters.${name}.${key}` });
  };
  const host = need('host', 'the name or address of the login node');
  const user = need('user', 'the account jobs are submitted under');
  const portField = fields.get('port');
  const port = portField && isScalar(portField.node) ? portField.node.value : 22;
  if (typeof port !== 'number' || !Number.isInteger(port) || port < 1 || port > 65535) {
    throw new Problem(`clusters.${name}.port must be a whole number from 1 to 65535`, portField?.place);
  }
  const workdirField = fields.get('workdir');
  const workdir = need('workdir', 'the directory on the cluster for code, configs and logs');
  if (!startsOnCluster(workdir) || workdir.split('/').includes('..') || /[\\\p{Cc}]/u.test(workdir)) {
    throw new Problem(
      `clusters.${name}.workdir must be an absolute path, or start with ~/ or $NAME/ (which is expanded on the cluster), and hold no .. and no backslash`,
      workdirField?.place,
    );
  }
  const knownHosts = fields.get('known_hosts');
  if (knownHosts === undefined) {
    throw new Problem(
      `clusters.${name} has no known_hosts: the line of the login node in OpenSSH's known_hosts format. 'ssh-keyscan ${host}' prints it; check its fingerprint with the cluster's documentation before trusting it`,
      field.place,
    );
  }
  const jump = fields.get('proxy_jump');
  const prelude = fields.get('prelude');
  return {
    name,
    login: { host, port, user },
    jumps:
      jump === undefined
        ? []
        : textOfField(jump)
            .split(',')
            .map((hop) => hopOf(hop.trim(), user, jump)),
    knownHosts: textsOf(source, knownHosts).join('\n'),
    workdir: workdir.replace(/(.)\/+$/, '$1'),
    prelude: prelude === undefined ? '' : textsOf(source, prelude).join('\n'),
  };
}

/** One hop of ProxyJump: [user@]host[:port] (ssh_config(5)). */
function hopOf(text: string, defaultUser: string, field: Field): Hop {
  const match = /^(?:([^@\s]+)@)?(\[[^\]\s]+\]|[^:@\s]+)(?::(\d+))?$/.exec(text);
  const host = match?.[2];
  if (host === undefined) throw new Problem(`proxy_jump '${text}' must be user@host or user@host:port`, field.place);
  return { host: host.replace(/^\[|\]$/g, ''), port: Number(match?.[3] ?? 22), user: match?.[1] ?? defaultUser };
}
