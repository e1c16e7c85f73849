import { messageOf, Problem } from '../base/problem.ts';
import { type Connection, type Credentials, connect } from '../cluster/connection.ts';
import { type ExperimentSummary, type Listing, listExperiments, listSavedManifests } from '../cluster/programs/survey.ts';
import type { Cluster } from '../experiment/repo-config.ts';
import type { Repo } from '../repo/git.ts';
import { resolveTarget, type Target } from './target.ts';

/** A cluster that was asked, with what of it is meant. */
export interface ClusterMatch {
  readonly cluster: Cluster;
  readonly connection: Connection;
  readonly listing: Listing;
  readonly matches: readonly ExperimentSummary[];
}

// A chain that ended within this time still gets its last word from a status of all that is live.
const LATELY_MINUTES = 2 * 24 * 60;

/**
 * Asks every cluster for what is meant, and does something with what it has of it, on one connection each.
 * @param known the names of all clusters of the repository, those that are not asked included
 * @param token for git, to bring branches and tags the checkout lacks
 * @param repository `owner/name`, whose experiments these are
 * @returns whether any of them had something of it
 * @throws Problem when no cluster has any of what was named, or none could be asked
 */
export async function onClusters(
  clusters: readonly Cluster[],
  known: ReadonlySet<string>,
  credentials: Credentials,
  repo: Repo,
  repository: string,
  target: Target,
  token: string,
  progress: (line: string) => void,
  /** Where records beside checkpoints are looked for as well: a save.path, or a path inside one. */
  places: readonly string[],
  act: (found: ClusterMatch) => Promise<void>,
): Promise<boolean> {
  if (clusters.length === 0) throw new Problem('there is no cluster to ask: .github/slurm-chain.yml has no clusters at this commit');
  // What could not be asked or has nothing of it only matters when no other cluster has it.
  const silent: string[] = [];
  let found = false;
  for (const cluster of clusters) {
    progress(`asking ${cluster.login.user}@${cluster.login.host}`);
    let connection: Connection | undefined;
    try {
      let heads: ExperimentSummary[];
      let listing: Listing;
      try {
        connection = await connect(cluster, credentials);
        listing = await listExperiments(connection, cluster, LATELY_MINUTES);
        const records = places.length > 0 ? await listSavedManifests(connection, cluster, places) : { places: [], summaries: [] };
        // One record is found from several paths; what workdir has comes before it.
        const byId = new Map([...records.summaries, ...listing.summaries].map((head) => [head.id, head]));
        listing = { ...listing, summaries: [...byId.values()] };
        // A path of checkpoints was written the way a person knows it.
        const index = target.kind === 'named' ? places.indexOf(target.text) : -1;
        const expanded = records.places[index];
        heads = await resolveTarget(
          listing,
          repo,
          repository,
          expanded === undefined ? target : { kind: 'named', text: expanded },
          token,
          places.length > 0,
        );
      } catch (error) {
        silent.push(messageOf(error));
        continue;
      }
      // Two names of one cluster may share a workdir; each experiment is reached by the name it was launched under.
      const here = heads.filter((head) => head.cluster === cluster.name || !known.has(head.cluster));
      if (here.length === 0) continue;
      found = true;
      await act({ cluster, connection, listing, matches: here });
    } finally {
      connection?.close();
    }
  }
  if (!found && silent.length > 0) throw new Problem([...new Set(silent)].join('\n'));
  for (const problem of silent) progress(problem);
  return found;
}
