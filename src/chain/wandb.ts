import { wandbRunId } from '../experiment/identity.ts';
import type { Wandb } from '../experiment/settings.ts';

/**
 * Addresses of the experiment on W&B: its group, and one run per cell. undefined unless entity and project are known.
 * The web app uses these forms: /{entity}/{project}/groups/{group}/workspace and /{entity}/{project}/runs/{id}.
 */
export function wandbLinks(wandb: Wandb, id: string, cells: number): { group: string; runs: string[] } | undefined {
  if (wandb.entity === undefined || wandb.project === undefined) return undefined;
  const base = `${wandb.baseUrl ?? 'https://wandb.ai'}/${encodeURIComponent(wandb.entity)}/${encodeURIComponent(wandb.project)}`;
  return {
    group: `${base}/groups/${encodeURIComponent(id)}/workspace`,
    runs: Array.from({ length: cells }, (_, cell) => `${base}/runs/${wandbRunId(id, cell)}`),
  };
}
