import SSHConfig, { type Line } from 'ssh-config';
import { messageOf, Problem } from '../base/problem.ts';
import type { Cluster, Hop } from '../experiment/repo-config.ts';
import { globListMatches } from './glob.ts';

/** One host on the way to the login node, the login node included. */
export interface Station {
  /** What is connected to. */
  readonly host: string;
  readonly port: number;
  readonly user: string;
  /** The name under which known_hosts has it, if that is another one. */
  readonly knownAs: string;
  /** Lists of algorithms as ssh_config(5) writes them, by lower-case keyword. */
  readonly algorithms: ReadonlyMap<string, string>;
}

const MOST_STATIONS = 10;
const ALGORITHMS = ['hostkeyalgorithms', 'kexalgorithms', 'ciphers', 'macs'] as const;
/** Settings that decide how a connection is made and that ssh2 does not have. */
const OPENSSH_ONLY = ['proxycommand', 'proxyusefdpass', 'include', 'match'];

/**
 * The hosts to go through, in order, the login node last. What the cluster's entry says comes before the ssh config, as the
 * command line does for ssh; port 22 in the entry counts as saying nothing. A jump host without a user gets that of the cluster.
 * @param text of a ~/.ssh/config; may be empty
 * @throws Problem for a config that cannot be read or needs OpenSSH itself
 */
export function stationsOf(cluster: Cluster, text: string): Station[] {
  const config = parse(text);
  const { login, jumps } = cluster;
  const [station, proxyJump] = stationOf(config, login, login.user);
  if (jumps.length === 0) return [...resolveJump(config, proxyJump, login.user, 0), station];
  // As for ssh -J, the first host may itself lie behind others.
  const named = jumps.map((jump) => stationOf(config, jump, login.user));
  return [...resolveJump(config, named[0]?.[1], login.user, 0), ...named.map(([one]) => one), station];
}

function parse(text: string): readonly Line[] {
  try {
    return SSHConfig.parse(text);
  } catch (error) {
    throw new Problem(`the input ssh-config cannot be read: ${messageOf(error)}. It must be the text of a ~/.ssh/config (ssh_config(5))`);
  }
}

/** The hosts of a ProxyJump, each with those that it is reached through itself. */
function resolveJump(config: readonly Line[], proxyJump: string | undefined, defaultUser: string, depth: number): Station[] {
  if (proxyJump === undefined || proxyJump.toLowerCase() === 'none') return [];
  if (depth > MOST_STATIONS) throw new Problem(`ProxyJump in the input ssh-config goes in a circle: ${proxyJump}`);
  const hops = proxyJump.split(',').map((hop) => {
    const [, user, host = '', port] = /^(?:ssh:\/\/)?(?:([^@]+)@)?(\[[^\]]+\]|[^:]+)(?::(\d+))?$/.exec(hop.trim()) ?? [];
    if (host === '') throw new Problem(`ProxyJump in the input ssh-config has '${hop}', which is not [user@]host[:port]`);
    return stationOf(config, { host: host.replace(/^\[|\]$/g, ''), port: port === undefined ? 22 : Number(port), user }, defaultUser);
  });
  return [...resolveJump(config, hops[0]?.[1], defaultUser, depth + 1), ...hops.map(([one]) => one)];
}

/** @returns the host and its ProxyJump */
function stationOf(
  config: readonly Line[],
  { host, port, user }: Omit<Hop, 'user'> & { readonly user?: string | undefined },
  defaultUser: string,
): [Station, string | undefined] {
  const settings = settingsFor(config, host);
  const number = port === 22 ? Number(settings.get('port') ?? 22) : port;
  if (!Number.isInteger(number) || number < 1 || number > 65535) {
    throw new Problem(`Port in the input ssh-config is '${settings.get('port')}' for ${host}; it must be a number from 1 to 65535`);
  }
  const station = {
    host: (settings.get('hostname') ?? host).replaceAll('%h', host).replaceAll('%%', '%'),
    port: number,
    user: user ?? settings.get('user') ?? defaultUser,
    knownAs: settings.get('hostkeyalias') ?? '',
    algorithms: new Map(ALGORITHMS.flatMap((name) => (settings.has(name) ? [[name, settings.get(name) ?? '']] : []))),
  };
  return [station, settings.get('proxyjump')];
}

/** The settings for a host, by lower-case keyword. The first value counts (ssh_config(5)). */
function settingsFor(config: readonly Line[], host: string): Map<string, string> {
  const settings = new Map<string, string>();
  const take = (line: Line) => {
    if (!('param' in line)) return;
    const keyword = line.param.toLowerCase();
    const value = textOf(line.value);
    if (OPENSSH_ONLY.includes(keyword) && value.toLowerCase() !== 'none') {
      throw new Problem(
        `the input ssh-config uses ${line.param} for ${host}, which transport ssh2 does not support. Use transport: openssh`,
      );
    }
    if (!settings.has(keyword)) settings.set(keyword, value);
  };
  for (const line of config) {
    if (!('param' in line) || !('config' in line)) take(line);
    else if (line.param.toLowerCase() !== 'host') take(line);
    // Unlike names in known_hosts, Host patterns mind upper and lower case.
    else if (globListMatches(textOf(line.value).split(/\s+/), host)) for (const inner of line.config) take(inner);
  }
  return settings;
}

function textOf(value: string | readonly { readonly val: string }[]): string {
  return typeof value === 'string' ? value : value.map(({ val }) => val).join(' ');
}
