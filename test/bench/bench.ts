// What a launch costs: against a bare loop of the same sbatch calls on the login node, in round trips, in start-up and in bytes.
import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { connect as connectTcp, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { METADATA, NODE24, ROOT } from '../support/action.ts';
import { asUser, readCluster, slurm } from '../support/cluster.ts';
import { regression } from '../support/experiment.ts';
import { type Lab, makeLab } from '../support/lab.ts';

const [directory] = process.argv.slice(2);
if (directory === undefined) throw new Error('usage: bench.ts CLUSTER_DIR');
const cluster = readCluster(directory);

async function seconds(work: () => unknown): Promise<number> {
  const start = performance.now();
  await work();
  return (performance.now() - start) / 1000;
}
function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
function cancelAll(): void {
  spawnSync('scancel', ['-u', cluster.CLUSTER_USER], { env: { ...process.env, SLURM_CONF: cluster.SLURM_CONF } });
}

/** Delays every chunk by half a round trip each way. */
async function slowProxy(port: number, roundTripSeconds: number): Promise<{ port: number; close(): void }> {
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connectTcp(port, '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.setNoDelay(true);
      from.on('data', (chunk) => setTimeout(() => to.write(chunk), (roundTripSeconds / 2) * 1000));
      from.on('end', () => setTimeout(() => to.end(), (roundTripSeconds / 2) * 1000));
      from.on('error', () => to.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address() as { port: number };
  return {
    port: address.port,
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

async function launchSeconds(lab: Lab, overrides: string, steps: number): Promise<number> {
  return seconds(async () => {
    const result = await lab.dispatch({ config: 'bench', overrides, n_jobs: String(steps) });
    if (result.outputs['state'] !== 'submitted') throw new Error(result.log);
  });
}

console.log('launch, code there already, against a bare loop of the same sbatch calls on the login node');
const lab = await makeLab(cluster, 'bench');
lab.commit({ 'configs/bench.yaml': regression(lab, { name: 'bench', secondsPerStep: 1 }) });
await launchSeconds(lab, '', 1);
cancelAll();
let turn = 0;
for (const steps of [1, 10, 50]) {
  const ours: number[] = [];
  const bare: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    turn += 1;
    ours.push(await launchSeconds(lab, `train.lr=0.${turn}`, steps));
    cancelAll();
    bare.push(
      await seconds(() =>
        asUser(
          cluster,
          `after=; for i in $(seq ${steps}); do after=$(sbatch --parsable --hold --gres=gpu:1 --time=5 --array=0-0 \${after:+--dependency=afterany:$after} --output=/dev/null --wrap=true); done`,
        ),
      ),
    );
    cancelAll();
  }
  console.log(
    `  N = ${String(steps).padStart(2)}: ${median(ours).toFixed(2)} s, bare loop ${median(bare).toFixed(2)} s, ratio ${(median(ours) / median(bare)).toFixed(1)}`,
  );
}

console.log('SSH round trips of a launch with the code there already, from the time a proxy adds to it');
const trips: number[] = [];
for (let round = 0; round < 3; round += 1) {
  const times: number[] = [];
  for (const delay of [0.1, 0.3]) {
    const proxy = await slowProxy(Number(cluster.CLUSTER_PORT), delay);
    const far = await makeLab(cluster, `far${turn}`, {
      clusterFields: {
        port: proxy.port,
        known_hosts: readFileSync(cluster.CLUSTER_KNOWN_HOSTS, 'utf8')
          .trim()
          .replace(/\]:\d+/, `]:${proxy.port}`),
      },
    });
    turn += 1;
    far.commit({ 'configs/bench.yaml': regression(far, { name: `bench${turn}`, secondsPerStep: 1 }) });
    await launchSeconds(far, '', 1);
    cancelAll();
    times.push(await launchSeconds(far, 'train.lr=0.9', 3));
    cancelAll();
    proxy.close();
    await far.close();
  }
  trips.push(((times[1] ?? 0) - (times[0] ?? 0)) / 0.2);
}
console.log(`  ${median(trips).toFixed(1)} (aim: 20 or fewer)`);

console.log('start-up of the bundle against bare node');
const starts = (args: string[]) =>
  median(
    Array.from({ length: 15 }, () => {
      const start = performance.now();
      spawnSync(NODE24, args, { env: {} });
      return performance.now() - start;
    }),
  );
const bundle = join(ROOT, METADATA.runs.main);
const [node, action] = [starts(['-e', '0']), starts([bundle])];
console.log(`  ${action.toFixed(0)} ms, bare node ${node.toFixed(0)} ms, ratio ${(action / node).toFixed(1)}`);
console.log(`bundle: ${(statSync(bundle).size / 1e6).toFixed(2)} MB`);
console.log(`cluster: ${slurm(cluster, 'sbatch', '--version')}`);
await lab.close();
