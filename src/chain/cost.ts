import type { Settings } from '../experiment/settings.ts';

/**
 * Seconds of a Slurm time limit; undefined for UNLIMITED and for text that is not a time.
 * Forms: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds (sbatch(1), --time).
 */
export function secondsOfTime(text: string): number | undefined {
  const match = /^(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?$/.exec(text.trim());
  if (!match) return undefined;
  const [, days, a = '0', b, c] = match;
  const [first, second, third] = [Number(a), Number(b ?? 0), Number(c ?? 0)];
  if (days !== undefined) return Number(days) * 86_400 + first * 3600 + second * 60 + third;
  if (b === undefined) return first * 60;
  if (c === undefined) return first * 60 + second;
  return first * 3600 + second * 60 + third;
}

/** GPUs that one task asks for; 0 when its options name none. */
export function gpusPerTask(slurm: Settings['slurm']): number {
  const number = (name: string, otherwise: number) => {
    const value = slurm.get(name);
    return typeof value === 'string' ? (countOf(value) ?? otherwise) : otherwise;
  };
  const nodes = number('nodes', 1);
  const gres = slurm.get('gres');
  const perNode = typeof gres === 'string' ? gpusInGres(gres) : 0;
  return Math.max(
    number('gpus', 0),
    nodes * Math.max(perNode, number('gpus-per-node', 0)),
    number('ntasks', nodes * number('ntasks-per-node', 1)) * number('gpus-per-task', 0),
  );
}

/** `2`, `a100:2`, `a100:2,v100:1`, `1-4` (nodes). The last number of a range is its upper bound. */
function countOf(text: string): number | undefined {
  const counts = text.split(',').map((part) => /(?:^|[:-])(\d+)$/.exec(part.trim())?.[1]);
  return counts.some((count) => count === undefined) ? undefined : counts.reduce((sum, count) => sum + Number(count), 0);
}

/** gres lists look like `gpu:2`, `gpu:a100:2`, `gpu`, `gpu:2,license:1` (sbatch(1), --gres). */
function gpusInGres(text: string): number {
  return text
    .split(',')
    .map((part) => part.trim().replace(/\(.*\)$/, ''))
    .filter((part) => /^(gres[/:])?gpu(:|$)/.test(part))
    .reduce((sum, part) => sum + Number(/:(\d+)$/.exec(part)?.[1] ?? 1), 0);
}

/** The most that a chain can use, in GPU-hours: every task runs until its time limit. undefined without a time limit. */
export function gpuHours(slurm: Settings['slurm'], cells: number, jobs: number): number | undefined {
  const time = slurm.get('time');
  const seconds = typeof time === 'string' ? secondsOfTime(time) : undefined;
  return seconds === undefined ? undefined : (gpusPerTask(slurm) * cells * jobs * seconds) / 3600;
}
