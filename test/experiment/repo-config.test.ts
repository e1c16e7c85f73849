import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Cluster, parseRepoConfig, parseSiteConfig } from '../../src/experiment/repo-config.ts';
import { refused } from './refused.ts';

const FIELDS = 'host: h, user: u, workdir: /w, known_hosts: k';

const siteOf = (text: string) => parseSiteConfig(text, 'main');

function cluster(fields: string): Cluster | undefined {
  return siteOf(`clusters: {e: {${fields}}}\n`).clusters.get('e');
}

test('a file that is not there gives the defaults', () => {
  assert.deepEqual(parseRepoConfig(''), {
    experiments: ['configs/**/*.yaml', 'configs/**/*.yml'],
    defaults: undefined,
    proposed: '',
  });
  assert.deepEqual(parseSiteConfig(undefined, 'main'), {
    ...{ clusters: new Map(), limits: parseSiteConfig('', 'main').limits, branch: 'main', exists: false, text: '' },
  });
});

test('null counts as not given, at every depth', () => {
  const text = 'clusters: null\nlimits: ~\nexperiments: ~\ndefaults:\n';
  assert.deepEqual(parseRepoConfig(text), parseRepoConfig(''));
  assert.deepEqual(siteOf(text), siteOf(''));
  assert.equal(siteOf('clusters: {e: null}\n').clusters.size, 0);
  assert.deepEqual(cluster(`${FIELDS}, port: null, proxy_jump: null, prelude: null`), cluster(FIELDS));
});

test('a cluster has defaults for all but host, user and workdir', () => {
  assert.deepEqual(cluster(FIELDS), {
    name: 'e',
    login: { host: 'h', port: 22, user: 'u' },
    jumps: [],
    knownHosts: 'k',
    transport: 'ssh2',
    workdir: '/w',
    prelude: '',
  });
});

test('every key of a cluster is read', () => {
  assert.deepEqual(
    cluster(
      'host: h, port: 2222, user: u, workdir: $HOME/w//, known_hosts: [a, b], proxy_jump: g, transport: openssh, prelude: [module load slurm, "x\\ny"]',
    ),
    {
      name: 'e',
      login: { host: 'h', port: 2222, user: 'u' },
      jumps: [{ host: 'g', port: 22, user: undefined }],
      transport: 'openssh',
      knownHosts: 'a\nb',
      workdir: '$HOME/w',
      prelude: 'module load slurm\nx\ny',
    },
  );
});

test('jump hosts are read like ProxyJump', () => {
  assert.deepEqual(cluster(`${FIELDS}, proxy_jump: "bob@gate:2222, [::1],g:65535,g:1"`)?.jumps, [
    { host: 'gate', port: 2222, user: 'bob' },
    { host: '::1', port: 22, user: undefined },
    { host: 'g', port: 65535, user: undefined },
    { host: 'g', port: 1, user: undefined },
  ]);
});

test('known_hosts may have several lines and tabs', () => {
  const text = 'clusters:\n  e:\n    host: h\n    user: u\n    workdir: /w\n    known_hosts: |\n      # login\n      h\tssh-ed25519 AAAA\n';
  assert.equal(siteOf(text).clusters.get('e')?.knownHosts, '# login\nh\tssh-ed25519 AAAA\n');
});

test('aliases and merge keys work as in an experiment', () => {
  const { clusters } = siteOf(`clusters:\n  a: &a {${FIELDS}, port: 2222}\n  b: {<<: *a, host: b}\n  c: *a\n`);
  assert.deepEqual(clusters.get('b')?.login, { host: 'b', port: 2222, user: 'u' });
  assert.deepEqual(clusters.get('c'), { ...clusters.get('a'), name: 'c' });
});

test('clusters keep the order of the file, whatever their names', () => {
  const { clusters } = siteOf(`clusters:\n  zeta: {${FIELDS}}\n  constructor: {${FIELDS}}\n  1: {${FIELDS}}\n`);
  assert.deepEqual([...clusters.keys()], ['zeta', 'constructor', '1']);
});

test('patterns of experiments are one or several', () => {
  assert.deepEqual(parseRepoConfig('experiments: a/*.yaml\n').experiments, ['a/*.yaml']);
  assert.deepEqual(parseRepoConfig('experiments: [a/*.yaml, b.yml]\n').experiments, ['a/*.yaml', 'b.yml']);
});

test('a fault in the value of a default waits for the experiment that uses it', () => {
  assert.equal(parseRepoConfig('defaults: {chain: {n_jobs: 0}}\n').defaults?.map.items.length, 1);
});

test('the commit decides nothing about clusters and limits, and the default branch nothing else', () => {
  const head = parseRepoConfig('clusters: {e: {host: 7}}\nlimits: {jobs: many}\nexperiments: a.yaml\n');
  assert.deepEqual(Object.keys(head).sort(), ['defaults', 'experiments', 'proposed']);
  const site = siteOf(`clusters: {e: {${FIELDS}}}\nexperiments: {not: read}\ndefaults: [1]\n`);
  assert.deepEqual(Object.keys(site).sort(), ['branch', 'clusters', 'exists', 'limits', 'text']);
});

test('two files propose the same if only spelling differs, and not if a value does', () => {
  const text = `clusters: {e: {${FIELDS}}}\nlimits: {jobs: 2}\n`;
  const same = `# shared\nlimits:\n  jobs: 2\nclusters:\n  e: {known_hosts: k, host: "h", user: u, workdir: /w}\ndefaults: {n_steps: 1}\n`;
  assert.equal(parseRepoConfig(same).proposed, siteOf(text).text);
  for (const [from, to] of [
    ['host: h', 'host: evil'],
    ['user: u', 'user: root'],
    ['jobs: 2', 'jobs: 3'],
    ['workdir: /w', 'workdir: /w, prelude: touch x'],
  ] as const) {
    assert.notEqual(parseRepoConfig(text.replace(from, to)).proposed, siteOf(text).text, to);
  }
});

test('limits are read, one value or several', () => {
  assert.deepEqual(
    siteOf('limits: {users: alice, clusters: [a, b], partitions: p, accounts: x, save_paths: /s/, jobs: 1, cells: 2, gpu_hours: 3}\n')
      .limits,
    { users: ['alice'], clusters: ['a', 'b'], partitions: ['p'], accounts: ['x'], savePaths: ['/s'], jobs: 1, cells: 2, gpuHours: 3 },
  );
});

for (const [what, text, message] of [
  ['an unknown limit', 'limits: {job: 1}\n', "1:10: unknown key 'job' under limits; did you mean 'jobs'?"],
  ['a limit of 0', 'limits: {cells: 0}\n', '1:17: limits.cells is "0"; it must be a whole number, at least 1'],
  ['an unknown key', 'cluster: {}\n', "1:1: unknown key 'cluster' at the top level; did you mean 'clusters'?"],
  [
    'a key that is like none',
    'zzzzzzzz: {}\n',
    "1:1: unknown key 'zzzzzzzz' at the top level; it takes clusters, limits, experiments, defaults",
  ],
  [
    'an unknown key of a cluster',
    `clusters: {e: {${FIELDS}, hots: h}}\n`,
    "1:63: unknown key 'hots' under clusters.e; did you mean 'host'?",
  ],
  ['a misspelled key where it is needed', 'clusters: {e: {hots: h}}\n', "1:16: unknown key 'hots' under clusters.e; did you mean 'host'?"],
  ['a key named __proto__', `clusters: {e: {${FIELDS}, __proto__: 1}}\n`, "1:63: unknown key '__proto__' under clusters.e; it takes host"],
  ['a key named toString', `clusters: {e: {${FIELDS}, toString: 1}}\n`, "1:63: unknown key 'toString' under clusters.e; it takes host"],
  ['clusters that are text', 'clusters: entropy\n', '1:11: clusters must hold keys and values'],
  ['a cluster that is a list', 'clusters: {e: [1]}\n', '1:15: clusters.e must hold keys and values'],
  ['a cluster with a line end in its name', `clusters: {"a\\nb": {${FIELDS}}}\n`, '1:12: the name of a cluster must be one line of text'],
  [
    'no host',
    'clusters: {e: {user: u, workdir: /w, known_hosts: k}}\n',
    '1:12: there is no clusters.e.host. Name or address of the login node',
  ],
  ['an empty host', 'clusters: {e: {host: " ", user: u}}\n', '1:22: clusters.e.host is " "; it must be one line of text'],
  ['a host that is a mapping', 'clusters: {e: {host: {a: 1}}}\n', '1:22: clusters.e.host is "a mapping"; it must be one line of text'],
  [
    'a host that is written from right to left',
    'clusters: {e: {host: "a\\u202Eb"}}\n',
    '1:22: clusters.e.host is "a\u202eb"; it must be one line of text without characters that change the direction of writing',
  ],
  [
    'known_hosts with a mark of direction',
    'clusters: {e: {known_hosts: "a\\u200F b"}}\n',
    '1:29: clusters.e.known_hosts is "a\u200f b"; it must be lines',
  ],
  [
    'a control character in a user',
    'clusters: {e: {host: h, user: "a\\eb"}}\n',
    '1:31: clusters.e.user is "a\\u001bb"; it must be one line of text',
  ],
  ['no host', 'clusters: {e: {user: u, workdir: /w}}\n', '1:12: there is no clusters.e.host'],
  [
    'empty known_hosts',
    'clusters: {e: {known_hosts: " "}}\n',
    '1:29: clusters.e.known_hosts is " "; it must be lines in the format of OpenSSH',
  ],
  [
    'a control character in known_hosts',
    'clusters: {e: {known_hosts: [a, "b\\0"]}}\n',
    '1:33: clusters.e.known_hosts[1] is "b\\u0000"; it must be lines',
  ],
  [
    'a carriage return in prelude',
    'clusters: {e: {prelude: "a\\rb"}}\n',
    '1:25: clusters.e.prelude is "a\\rb"; it must be a shell command with Unix',
  ],
  [
    'a relative workdir',
    'clusters: {e: {workdir: w}}\n',
    '1:25: clusters.e.workdir is "w"; it must be an absolute path on the cluster, or one that starts with ~/ or $NAME/',
  ],
  ['a workdir with ..', 'clusters: {e: {workdir: /a/..}}\n', '1:25: clusters.e.workdir is "/a/.."; it must be a path without ..'],
  [
    'a workdir with a backslash',
    "clusters: {e: {workdir: '/a\\b'}}\n",
    '1:25: clusters.e.workdir is "/a\\\\b"; it must be a path without a backslash',
  ],
  ['a port of 0', 'clusters: {e: {port: 0}}\n', '1:22: clusters.e.port is "0"; it must be a whole number from 1 to 65535'],
  ['a port out of range', 'clusters: {e: {port: 70000}}\n', '1:22: clusters.e.port is "70000"; it must be a whole number from 1 to 65535'],
  ['a port that is text', 'clusters: {e: {port: "22"}}\n', '1:22: clusters.e.port is "22"; it must be a whole number'],
  [
    'a jump host without a name',
    'clusters: {e: {proxy_jump: "a,"}}\n',
    '1:28: clusters.e.proxy_jump is "a,"; it must be a list of hosts such as user@host',
  ],
  ['a jump host with two ports', 'clusters: {e: {proxy_jump: "a:1:2"}}\n', '1:28: clusters.e.proxy_jump is "a:1:2"'],
  ['a jump host with port 0', 'clusters: {e: {proxy_jump: "a:0"}}\n', '1:28: clusters.e.proxy_jump is "a:0"'],
  ['a jump host with a port out of range', 'clusters: {e: {proxy_jump: "a:65536"}}\n', '1:28: clusters.e.proxy_jump is "a:65536"'],
  ['a pattern that is a mapping', 'experiments: {a: 1}\n', '1:14: experiments is "a mapping"; it must be text or a list of texts'],
  ['a pattern in a list that is null', 'experiments: [a, null]\n', '1:18: experiments[1] is "null"; it must be one line of text'],
  ['defaults that are a list', 'defaults: [a]\n', '1:11: defaults must hold keys and values'],
  ['an unknown default', 'defaults: {slurmm: {}}\n', "1:12: unknown key 'slurmm' under defaults; did you mean 'slurm'?"],
  ['an unknown default that is null', 'defaults: {slurmm: null}\n', "1:12: unknown key 'slurmm' under defaults"],
  ['a top level that is a list', '- a\n', '1:1: the top of the file must be a mapping of keys and values'],
] as const) {
  test(`refused with its place: ${what}`, () => {
    // The default branch's part and the commit's part.
    refused(() => [parseRepoConfig(text), siteOf(text)], `.github/slurm-chain.yml:${message}`);
  });
}
