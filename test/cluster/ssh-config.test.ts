import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { stationsOf } from '../../src/cluster/ssh-config.ts';
import { algorithmList } from '../../src/cluster/transport/ssh2.ts';
import type { Cluster, Hop } from '../../src/experiment/repo-config.ts';

const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-config-'));
after(() => rmSync(directory, { recursive: true }));

function cluster(host: string, { port = 22, jumps = [] as readonly Hop[] } = {}): Cluster {
  return {
    name: 'e',
    transport: 'ssh2',
    login: { host, port, user: 'carol' },
    jumps: [...jumps],
    knownHosts: '',
    workdir: '/w',
    prelude: '',
  };
}
/** The way to a host as user@host:port. */
function way(text: string, host: string, options: { readonly port?: number; readonly jumps?: readonly Hop[] } = {}): string {
  return stationsOf(cluster(host, options), text)
    .map((station) => `${station.user}@${station.host}:${station.port}`)
    .join(' ');
}

const CONFIG = `
# at the top, for all
Compression no
Host gate inner
  User bob
host gate
  hostname = gate.example.edu
  Port 2222
Host inner
  ProxyJump gate
Host login* !login9
  ProxyJump dave@inner:2200
  HostName %h.example.edu
  Port 22022
Host "quoted name"
  User quoted
Host *
  User everybody
  Port 24
`;

test('Host patterns, the first value counts, keywords in any case', () => {
  assert.equal(way(CONFIG, 'login1'), 'bob@gate.example.edu:2222 dave@inner:2200 carol@login1.example.edu:22022');
  assert.equal(way(CONFIG, 'login9'), 'carol@login9:24');
  assert.equal(way(CONFIG, 'other'), 'carol@other:24');
  assert.equal(way('', 'h'), 'carol@h:22');
  assert.equal(way(CONFIG.replaceAll('\n', '\r\n'), 'login1'), way(CONFIG, 'login1'));
});

test("the cluster's entry comes before the config", () => {
  assert.equal(way(CONFIG, 'login1', { port: 5 }), 'bob@gate.example.edu:2222 dave@inner:2200 carol@login1.example.edu:5');
  const jumps = [
    { host: 'gate', port: 22, user: undefined },
    { host: 'x', port: 7, user: 'erin' },
  ];
  assert.equal(way(CONFIG, 'login1', { jumps }), 'bob@gate.example.edu:2222 erin@x:7 carol@login1.example.edu:22022');
  assert.equal(way('', 'h', { jumps }), 'carol@gate:22 erin@x:7 carol@h:22');
  assert.equal(way('Host *\n  ProxyJump none\n', 'h'), 'carol@h:22');
});

test('what ssh -G says is what counts here', () => {
  const file = join(directory, 'config');
  for (const host of ['gate', 'inner', 'login1', 'login9', 'LOGIN1', 'quoted', 'x.login']) {
    writeFileSync(file, CONFIG);
    const said = execFileSync('ssh', ['-F', file, '-G', '-l', 'carol', host], { encoding: 'utf8' });
    const value = (keyword: string) => new RegExp(`^${keyword} (.*)$`, 'm').exec(said)?.[1] ?? '';
    const last = stationsOf(cluster(host), CONFIG).at(-1);
    assert.deepEqual([last?.user, last?.host.toLowerCase(), String(last?.port)], [value('user'), value('hostname'), value('port')], host);
  }
});

test('algorithms and HostKeyAlias belong to their host', () => {
  const text = 'Host old\n  KexAlgorithms +diffie-hellman-group1-sha1\n  HostKeyAlias cluster\nHost *\n  Ciphers aes256-ctr\n';
  const [old] = stationsOf(cluster('old'), text);
  assert.equal(old?.knownAs, 'cluster');
  assert.deepEqual(Object.fromEntries(old?.algorithms ?? []), { kexalgorithms: '+diffie-hellman-group1-sha1', ciphers: 'aes256-ctr' });
  assert.deepEqual(Object.fromEntries(stationsOf(cluster('new'), text)[0]?.algorithms ?? []), { ciphers: 'aes256-ctr' });
});

test('lists of algorithms as ssh_config(5) writes them', () => {
  const [usual, supported] = [
    ['a1', 'a2', 'b1'],
    ['a1', 'a2', 'b1', 'c1'],
  ];
  assert.deepEqual(algorithmList('c1,unknown,a1', usual, supported), ['c1', 'a1']);
  assert.deepEqual(algorithmList('+c1,a1', usual, supported), ['a1', 'a2', 'b1', 'c1']);
  assert.deepEqual(algorithmList('-a*', usual, supported), ['b1']);
  assert.deepEqual(algorithmList('^b1,c1', usual, supported), ['b1', 'c1', 'a1', 'a2']);
  assert.deepEqual(algorithmList('unknown', usual, supported), []);
});

for (const [what, text, words] of [
  ['a circle', 'Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n', /goes in a circle/],
  ['a jump to itself', 'Host *\n  ProxyJump gate\n', /goes in a circle/],
  ['a bad port', 'Port many\n', /Port in the input ssh-config is 'many' for a/],
  ['a bad ProxyJump', 'ProxyJump x:y:z\n', /ProxyJump in the input ssh-config has 'x:y:z'/],
  ['Match', 'Match host a exec "touch /tmp/canary"\n  User x\n', /uses Match for a, which transport ssh2 does not support/],
  ['Include', 'Include ~/.ssh/other\n', /uses Include/],
  ['ProxyCommand', 'Host a\n  ProxyCommand nc %h %p\n', /uses ProxyCommand for a/],
] as const) {
  test(`refused: ${what}`, () => {
    assert.throws(() => stationsOf(cluster('a'), text), { name: 'Problem', message: words });
  });
}

test('what does not apply to a host is no reason to refuse it', () => {
  assert.equal(way('Host other\n  ProxyCommand nc %h %p\n', 'a'), 'carol@a:22');
  assert.equal(way('Host a\n  ProxyCommand none\n', 'a'), 'carol@a:22');
});
