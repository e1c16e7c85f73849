import { messageOf, Problem } from '../base/problem.ts';
import type { ExperimentSummary } from '../chain/manifest.ts';
import { connect } from '../cluster/connection.ts';
import type { Login } from '../cluster/login.ts';
import { type BadRecord, type Listing, listExperiments, listSaved } from '../cluster/programs/survey.ts';
import type { Context } from './context.ts';
import type { Asked } from './request.ts';
import { noClusters } from './site.ts';
import { badRecordsOf, resolveTarget, type Target } from './target.ts';

/** A cluster that has experiments a request is about. The login is open until the next one is asked for. */
export interface ClusterMatch {
  readonly login: Login;
  readonly listing: Listing;
  readonly matches: readonly ExperimentSummary[];
  /** Records that the request is about as far as one can tell, and that cannot be read. They do not affect the others. */
  readonly bad: readonly BadRecord[];
}

// A status of everything that is live also shows chains that ended within this time.
const RECENT_MINUTES = 2 * 24 * 60;

/**
 * Asks every cluster for the experiments that a request is about.
 * @param places where to look for records beside checkpoints as well: a save.path, or a path inside one
 * @param mayBeNone whether a pull request that launched nothing is fine
 * @throws Problem when no cluster has any of them, or when none could be asked
 */
export async function* matchingClusters(
  context: Context,
  asked: Pick<Asked, 'overrides'>,
  target: Target,
  { places = [], mayBeNone = false }: { readonly places?: readonly string[]; readonly mayBeNone?: boolean } = {},
): AsyncGenerator<ClusterMatch> {
  const { site, credentials, log } = context;
  const wanted = asked.overrides.find((override) => override.path === 'cluster')?.value;
  const clusters = [...site.clusters.values()].filter(({ name }) => wanted === undefined || name === wanted);
  if (site.clusters.size === 0) throw noClusters(context);
  if (clusters.length === 0)
    throw new Problem(
      `there is no cluster '${wanted}' to ask: .github/slurm-chain.yml of ${site.branch} has ${[...site.clusters.keys()].join(', ')}`,
    );
  // Errors of one cluster matter only if no other cluster has what was asked for.
  const errors: string[] = [];
  let found = false;
  for (const cluster of clusters) {
    log.info(`connecting to ${cluster.login.user}@${cluster.login.host}`);
    let login: Login | undefined;
    try {
      login = { cluster, connection: await connect(cluster, credentials) };
      const match = await matchesOn(login, context, target, places);
      // Two names of one cluster may share a workdir. Each experiment is reached by the name that it was launched with.
      const here = match.matches.filter((one) => one.cluster === cluster.name || !site.clusters.has(one.cluster));
      if (here.length + match.bad.length > 0) {
        found = true;
        yield { ...match, matches: here };
      }
    } catch (error) {
      errors.push(messageOf(error));
    } finally {
      login?.connection.close();
    }
  }
  if (!found && errors.length > 0) throw new Problem([...new Set(errors)].join('\n'));
  for (const error of errors) log.info(error);
  if (!found && target.kind === 'pull-request' && !mayBeNone) {
    throw new Problem(`no cluster has a chain that was launched from pull request #${target.number}`);
  }
}

async function matchesOn(login: Login, context: Context, target: Target, places: readonly string[]): Promise<ClusterMatch> {
  const listed = await listExperiments(login, RECENT_MINUTES);
  const saved = places.length > 0 ? await listSaved(login, places) : { places: [], summaries: [], bad: [], distrusted: [] };
  for (const what of [...listed.distrusted, ...saved.distrusted]) context.log.info(`ignored on ${login.cluster.name}: ${what}`);
  // Several paths may lead to one record. The record under workdir comes before it.
  const byId = new Map([...saved.summaries, ...listed.summaries].map((summary) => [summary.id, summary]));
  const badById = new Map([...saved.bad, ...listed.bad].map((record) => [record.id, record]));
  const listing = { ...listed, summaries: [...byId.values()], bad: [...badById.values()].filter(({ id }) => !byId.has(id)) };
  // The user may have typed ~/ or $NAME/. Use what the cluster expanded it to.
  const expanded = target.kind === 'named' ? saved.places[places.indexOf(target.text)] : undefined;
  const { repository } = context.launcher;
  const meant: Target = expanded === undefined ? target : { kind: 'named', text: expanded };
  const bad = badRecordsOf(listing, repository, meant);
  try {
    return { login, listing, bad, matches: await resolveTarget(listing, context.repo, repository, meant, places.length > 0) };
  } catch (error) {
    // Nothing else has this name. What is wrong with the one that has it says more.
    if (bad.length > 0) return { login, listing, bad, matches: [] };
    throw error;
  }
}
