/** A limit on how many tasks may be in the queue. */
export interface SubmitLimit {
  /** max-submit: per user (MaxSubmitJobs, MaxSubmitJobsPerUser). group-submit: for all users together (GrpSubmitJobs). */
  readonly kind: 'max-submit' | 'group-submit';
  readonly scope: LimitScope;
  readonly most: number;
  /** How many tasks are in the queue. */
  readonly used: number;
}

export type LimitScope =
  | { readonly kind: 'association'; readonly account: string }
  | { readonly kind: 'account'; readonly account: string }
  | { readonly kind: 'qos'; readonly qos: string };

/** Slurm's name of a limit, and whose it is: `MaxSubmitJobs in account lab`. */
export function limitName({ kind, scope }: SubmitLimit): string {
  switch (scope.kind) {
    case 'association':
      return kind === 'max-submit' ? `MaxSubmitJobs in account ${scope.account}` : `GrpSubmitJobs of the user in account ${scope.account}`;
    case 'account':
      return `GrpSubmitJobs of account ${scope.account}`;
    case 'qos':
      return `${kind === 'max-submit' ? 'MaxSubmitJobsPerUser' : 'GrpSubmitJobs'} of QOS ${scope.qos}`;
    default:
      return scope satisfies never;
  }
}

/** A `submit-limit` answer of probe.sh: its kind and its values. */
export interface LimitRow {
  readonly kind: string;
  readonly values: readonly string[];
}

/**
 * The submit limits that apply to a job. Rows, by kind:
 *
 *   user DEFAULT_ACCOUNT
 *   association ACCOUNT USER PARTITION PARENT GRP_SUBMIT MAX_SUBMIT      `50(3)`: at most 50, 3 in the queue; N: no limit
 *   qos NAME GRP_SUBMIT MAX_SUBMIT_OF_USER
 *   qos-limit NAME MAX_SUBMIT_PER_USER                                   of sacctmgr, which also knows users without jobs
 *   default-qos ACCOUNT QOS
 *   partition NAME DEFAULT QOS
 *
 * Every task of an array counts as one, also while it waits (https://slurm.schedmd.com/resource_limits.html, MaxSubmitJobs).
 * A limit that cannot be read is left out: slurmctld checks all of them again.
 */
export function submitLimits(
  rows: readonly LimitRow[],
  asked: { readonly account: string | undefined; readonly partition: string | undefined; readonly qos: string | undefined },
): SubmitLimit[] {
  const of = (kind: string) => rows.filter((row) => row.kind === kind).map((row) => row.values);
  const account = asked.account ?? of('user')[0]?.[0] ?? '';
  const partitions = of('partition');
  const partition = asked.partition ?? partitions.find(([, isDefault]) => isDefault === 'YES')?.[0] ?? '';
  const associations = of('association');
  // An association for the partition comes before the one for all partitions.
  const own = (wanted: string) => associations.find(([a, user, p]) => a === account && user !== '' && p === wanted);
  const mine = own(partition) ?? own('');
  const limits: SubmitLimit[] = [];
  const add = (kind: SubmitLimit['kind'], scope: LimitScope, value: string | undefined, used?: number) => {
    const match = /^(\d+)(?:\((\d+)\))?$/.exec(value ?? '');
    const inUse = used ?? Number(match?.[2] ?? Number.NaN);
    if (match !== null && Number.isFinite(inUse)) limits.push({ kind, scope, most: Number(match[1]), used: inUse });
  };
  if (mine !== undefined) {
    add('max-submit', { kind: 'association', account }, mine[5]);
    add('group-submit', { kind: 'association', account }, mine[4]);
  }
  const seen = new Set<string>();
  for (let name = account; name !== '' && !seen.has(name); ) {
    seen.add(name);
    const group = associations.find(([a, user]) => a === name && user === '');
    add('group-submit', { kind: 'account', account: name }, group?.[4]);
    name = (group?.[3] ?? '').replace(/\(\d+\)$/, '');
  }
  const defaultQos = of('default-qos').find(([a]) => a === account)?.[1] || 'normal';
  const partitionQos = partitions.find(([name]) => name === partition)?.[2];
  for (const name of new Set([asked.qos ?? defaultQos, partitionQos])) {
    const qos = of('qos').find(([other]) => other === name);
    if (qos === undefined || name === undefined) continue;
    const scope: LimitScope = { kind: 'qos', qos: name };
    add('group-submit', scope, qos[1]);
    if (/^\d+\(/.test(qos[2] ?? '')) add('max-submit', scope, qos[2]);
    else add('max-submit', scope, of('qos-limit').find(([other]) => other === name)?.[1], qos[2] ? undefined : 0);
  }
  // A limit of the QOS replaces the same limit of the association (https://slurm.schedmd.com/resource_limits.html, Hierarchy).
  const replaced = (kind: SubmitLimit['kind']) => limits.some((limit) => limit.kind === kind && limit.scope.kind === 'qos');
  return limits.filter((limit) => limit.scope.kind === 'qos' || !replaced(limit.kind));
}

/** The limits that so many more tasks would exceed, the tightest first. */
export function exceeded(limits: readonly SubmitLimit[], tasks: number): SubmitLimit[] {
  const room = (limit: SubmitLimit) => limit.most - limit.used;
  return limits.filter((limit) => room(limit) < tasks).sort((a, b) => room(a) - room(b));
}
