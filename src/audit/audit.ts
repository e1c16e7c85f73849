import { messageOf } from '../base/problem.ts';
import { count } from '../base/text.ts';
import { experimentFiles, savedRecords } from '../chain/layout.ts';
import { parseLedger } from '../chain/ledger.ts';
import type { Manifest } from '../chain/manifest.ts';
import type { Login } from '../cluster/login.ts';
import { shortId } from '../repo/commit-id.ts';
import { ensureHistory, type Repo } from '../repo/git.ts';
import { accountFor, type CellAccount } from './attribution.ts';
import { compareCode, compareFiles, compareSummaries, type ManifestCopies, presence, readManifests } from './compare.ts';
import { combine, type Findings, findings } from './findings.ts';
import { type AuditFacts, type AuditTarget, type ClusterFacts, checkpointsOf, examine } from './program.ts';
import { type Recomputed, type RepoCache, reachabilityOf, recompute, repoCache, unknownReachability, whyUnavailable } from './recompute.ts';
import { compareRecords } from './records.ts';
import { type Audit, type AuditReport, cellOf, identityOf, launchOf } from './report.ts';

/**
 * Audits experiments in one round trip. A fault of one of them is in its audit and does not stop the others.
 * @throws Problem when the cluster gives no complete answer
 */
export async function auditExperiments(
  login: Login,
  repo: Repo,
  targets: readonly AuditTarget[],
  progress: (line: string) => void,
): Promise<AuditReport> {
  const started = performance.now();
  progress(`examining ${count(targets.length, 'experiment')} on ${login.cluster.name}`);
  let examined = 0;
  const facts = await examine(login, targets, () => {
    examined += 1;
    if (examined % 100 === 0) progress(`examined ${count(examined, 'experiment')} of ${targets.length}`);
  });
  const copies = facts.experiments.map(readManifests);
  const pullRequests = copies.flatMap(({ readable }) => readable.flatMap(({ manifest }) => manifest.pullRequests));
  progress('fetching branches and tags of the repository');
  const cache = repoCache(repo, await fetchHistory(repo, [...new Set(pullRequests)]));
  const audits: Audit[] = [];
  for (const [index, target] of targets.entries()) {
    audits.push(await auditOne(target, index, facts, copies, cache));
    if ((index + 1) % 100 === 0) progress(`compared ${count(index + 1, 'experiment')} with the repository`);
  }
  return {
    audits,
    cost: { experiments: targets.length, ...facts.cost, seconds: (performance.now() - started) / 1000 },
  };
}

/** @returns why branches and tags are not known; undefined if they are */
async function fetchHistory(repo: Repo, pullRequests: readonly number[]): Promise<string | undefined> {
  try {
    await ensureHistory(repo, pullRequests);
    return undefined;
  } catch (error) {
    return `the branches of the repository could not be fetched: ${messageOf(error)}`;
  }
}

async function auditOne(
  target: AuditTarget,
  index: number,
  cluster: ClusterFacts,
  copies: readonly ManifestCopies[],
  cache: RepoCache,
): Promise<Audit> {
  try {
    const [facts, own] = [cluster.experiments[index], copies[index]];
    if (facts === undefined || own === undefined) throw new Error('the cluster gave no answer');
    const confrontation = await confrontBest(cache, target, own);
    return auditOf(target, facts, own, cluster, confrontation);
  } catch (error) {
    return failedAudit(target, error);
  }
}

function failedAudit({ id, experimentDirectory, saveDirectory }: AuditTarget, error: unknown): Audit {
  return {
    ...{ id, experimentDirectory, saveDirectory },
    verdict: { kind: 'incomplete', changed: [], missing: [`the audit failed: ${messageOf(error)}`] },
    ...{ identity: undefined, launches: [], cells: [], notes: [] },
    reachability: unknownReachability('the audit failed'),
  };
}

/** Audits of experiments whose record cannot be read, so that nobody knows where the rest is. */
export function auditOfBad(records: readonly { readonly id: string; readonly why: string }[]): AuditReport {
  const audits = records.map(
    ({ id, why }): Audit => ({
      ...{ id, experimentDirectory: undefined, saveDirectory: '' },
      verdict: { kind: 'changed', changed: [why], missing: [] },
      ...{ identity: undefined, launches: [], cells: [], notes: [] },
      reachability: unknownReachability('no manifest names the commit'),
    }),
  );
  return { audits, cost: { experiments: audits.length, filesHashed: 0, bytesHashed: 0, clusterSeconds: 0, seconds: 0 } };
}

/** A manifest against what its commit gives. */
interface Confrontation extends Findings {
  readonly manifest: Manifest;
  /** undefined if the commit is not available, or does not give this experiment. */
  readonly recomputed: Recomputed | undefined;
  readonly reachability: Audit['reachability'];
}

/** Of two manifests that differ, the one that is closer to what its commit gives. */
async function confrontBest(cache: RepoCache, target: AuditTarget, copies: ManifestCopies): Promise<Confrontation | undefined> {
  const [one, other] = copies.readable;
  if (one === undefined) return undefined;
  const first = await confront(cache, target, one.manifest);
  if (other === undefined || other.text === one.text) return first;
  const second = await confront(cache, target, other.manifest);
  const distance = ({ changed, missing }: Findings) => changed.length * 2 + missing.length;
  return distance(second) < distance(first) ? second : first;
}

async function confront(cache: RepoCache, target: AuditTarget, manifest: Manifest): Promise<Confrontation> {
  const otherId = manifest.id === target.id ? [] : [`the manifest belongs to ${manifest.id}`];
  const result = async (found: Partial<Findings>, recomputed?: Recomputed, isAvailable = true): Promise<Confrontation> => ({
    ...findings({ ...found, changed: [...otherId, ...(found.changed ?? [])] }),
    ...{ manifest, recomputed, reachability: await reachabilityOf(cache, manifest, isAvailable) },
  });
  const unavailable = await whyUnavailable(cache, manifest.commit, manifest.pullRequests);
  if (unavailable !== undefined) {
    const missing = [`the commit ${shortId(manifest.commit)} is no longer in the repository, so nothing could be compared with it`];
    return result({ missing, notes: [unavailable] }, undefined, false);
  }
  try {
    const recomputed = await recompute(cache, target, manifest);
    return await result({ changed: recomputed.different }, recomputed);
  } catch (error) {
    return result({ changed: [`commit ${shortId(manifest.commit)} does not give this experiment: ${messageOf(error)}`] });
  }
}

function auditOf(
  target: AuditTarget,
  facts: AuditFacts,
  copies: ManifestCopies,
  cluster: ClusterFacts,
  confrontation: Confrontation | undefined,
): Audit {
  const { id, experimentDirectory, saveDirectory } = target;
  const manifest = confrontation?.manifest;
  const recomputed = confrontation?.recomputed;
  const accounts = accountsOf(facts, manifest, cluster.taskEnds);
  const ledger = facts.ledger === undefined ? undefined : parseLedger(facts.ledger);
  const { changed, missing, notes } = combine([
    findings({ changed: [...facts.distrusted, ...copies.changed] }),
    presence(target, facts, savedRecords(saveDirectory).manifest),
    ...(confrontation === undefined ? [] : [confrontation]),
    ...(manifest === undefined ? [] : [compareSummaries(facts, manifest), placesThen(target, facts, manifest)]),
    ...(manifest === undefined || recomputed === undefined || !facts.directoryPresent
      ? []
      : [compareFiles(facts, manifest, recomputed), compareCode(target, facts, cluster.codes, recomputed.code)]),
    ...accounts.map((account) => findingsOfCell(account, facts)),
    ...(manifest === undefined ? [] : [findingsOfRecords(manifest, facts, ledger, accounts)]),
  ]);
  return {
    ...{ id, experimentDirectory, saveDirectory },
    verdict: { kind: changed.length > 0 ? 'changed' : missing.length > 0 ? 'incomplete' : 'verified', changed, missing },
    identity: manifest && identityOf(manifest),
    launches: manifest === undefined ? [] : manifest.launches.map((launch) => launchOf(launch, ledger, accounts)),
    cells: accounts.map((account) => cellOf(account, manifest)),
    reachability: confrontation?.reachability ?? unknownReachability('no manifest names the commit'),
    notes,
  };
}

/** The directories may have been moved since. */
function placesThen({ id, experimentDirectory, saveDirectory }: AuditTarget, facts: AuditFacts, manifest: Manifest): Findings {
  const then = experimentFiles(manifest.workdir, id).directory;
  return findings({
    notes: [
      ...(facts.directoryPresent && experimentDirectory !== undefined && then !== experimentDirectory
        ? [`according to the manifest the experiment was in ${then}; now it is in ${experimentDirectory}`]
        : []),
      ...(facts.savePresent && manifest.save !== saveDirectory
        ? [`according to the manifest the checkpoints were in ${manifest.save}; now they are in ${saveDirectory}`]
        : []),
    ],
  });
}

function accountsOf(facts: AuditFacts, manifest: Manifest | undefined, taskEnds: ReadonlyMap<string, number>): CellAccount[] {
  const checkpoints = checkpointsOf(facts.checkpoints, manifest?.checkpoints.prefix);
  const cells = new Set([
    ...(manifest?.cells.map((cell) => cell.cell) ?? []),
    ...facts.journals.keys(),
    ...facts.releasedChecksums.keys(),
    ...checkpoints.keys(),
  ]);
  return [...cells]
    .sort((a, b) => a - b)
    .map((cell) => {
      const journal = facts.journals.get(cell);
      const record = {
        ...{ cell, journal: journal?.lines, cut: journal?.cut ?? false },
        releasedChecksum: facts.releasedChecksums.get(cell),
        checkpoints: checkpoints.get(cell) ?? [],
      };
      return accountFor(record, taskEnds);
    });
}

const UNACCOUNTED_SHOWN = 20;

function findingsOfCell({ cell, gaps, unaccounted, notes }: CellAccount, facts: AuditFacts): Findings {
  if (facts.unreadable.has(cell)) return findings({ missing: [`the journal of cell ${cell}, which this account may not read`] });
  const more = unaccounted.length - UNACCOUNTED_SHOWN;
  const lost = !facts.journals.has(cell) && (unaccounted.length > 0 || facts.releasedChecksums.has(cell));
  return {
    changed: [
      ...gaps.map((gap) => `cell ${cell}: ${gap}`),
      ...unaccounted.slice(0, UNACCOUNTED_SHOWN).map(({ checkpoint, why }) => `${cell}/${checkpoint.name} is unaccounted for: ${why}`),
      ...(more > 0 ? [`${more} more checkpoints of cell ${cell} are unaccounted for`] : []),
    ],
    missing: lost ? [`the journal of cell ${cell}`] : [],
    notes,
  };
}

function findingsOfRecords(
  manifest: Manifest,
  facts: AuditFacts,
  ledger: ReturnType<typeof parseLedger> | undefined,
  accounts: readonly CellAccount[],
): Findings {
  const usable = ledger !== undefined && ledger.length > 0 ? ledger : undefined;
  const records = compareRecords(manifest, usable, (facts.ledger?.length ?? 0) - (ledger?.length ?? 0), accounts);
  return ledger !== undefined && usable === undefined
    ? { ...records, missing: ['a ledger that can be read', ...records.missing] }
    : records;
}
