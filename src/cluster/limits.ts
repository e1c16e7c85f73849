/** A limit on how many tasks may be in the queue, and how much of it is taken. */
export interface SubmitLimit {
  /** Slurm's name of it and whose it is, for messages. */
  readonly name: string;
  readonly most: number;
  readonly used: number;
}

/**
 * The submit limits that hold for a job, read from rows of the probe:
 *
 *   user DEFAULT_ACCOUNT
 *   association ACCOUNT USER PARTITION PARENT GRP_SUBMIT MAX_SUBMIT      `50(3)`: at most 50, 3 in the queue; N: no limit
 *   qos NAME GRP_SUBMIT MAX_SUBMIT_OF_USER
 *   qos-limit NAME MAX_SUBMIT_PER_USER                                   from sacctmgr, which also knows it of users without jobs
 *   default-qos ACCOUNT QOS
 *   partition NAME DEFAULT QOS
 *
 * Every task of an array counts as one, waiting ones too (https://slurm.schedmd.com/resource_limits.html, MaxSubmitJobs).
 * What cannot be read is no limit here: the controller has the last word.
 */
export function submitLimits(
  rows: readonly (readonly string[])[],
  asked: { readonly account: string | undefined; readonly partition: string | undefined; readonly qos: string | undefined },
): SubmitLimit[] {
  const of = (kind: string) => rows.filter((row) => row[0] === kind).map((row) => row.slice(1));
  const account = asked.account ?? of('user')[0]?.[0] ?? '';
  const partitions = of('partition');
  const partition = asked.partition ?? partitions.find(([, isDefault]) => isDefault === 'YES')?.[0] ?? '';
  const associations = of('association');
  // An association for the partition comes before the one for all of them.
  const own = (wanted: string) => associations.find(([a, user, p]) => a === account && user !== '' && p === wanted);
  const mine = own(partition) ?? own('');
  const limits: SubmitLimit[] = [];
  const defaultQos = of('default-qos').find(([a]) => a === account)?.[1] || 'normal';
  const add = (name: string, value: string | undefined, used?: number) => {
    const match = /^(\d+)(?:\((\d+)\))?$/.exec(value ?? '');
    const inUse = used ?? Number(match?.[2] ?? Number.NaN);
    if (match !== null && Number.isFinite(inUse)) limits.push({ name, most: Number(match[1]), used: inUse });
  };
  if (mine !== undefined) {
    add(`MaxSubmitJobs in account ${account}`, mine[5]);
    add(`GrpSubmitJobs of the user in account ${account}`, mine[4]);
  }
  const seen = new Set<string>();
  for (let name = account; name !== '' && !seen.has(name); ) {
    seen.add(name);
    const group = associations.find(([a, user]) => a === name && user === '');
    add(`GrpSubmitJobs of account ${name}`, group?.[4]);
    name = (group?.[3] ?? '').replace(/\(\d+\)$/, '');
  }
  const partitionQos = partitions.find(([name]) => name === partition)?.[2];
  for (const name of new Set([asked.qos ?? defaultQos, partitionQos])) {
    const qos = of('qos').find(([other]) => other === name);
    if (qos === undefined) continue;
    add(`GrpSubmitJobs of QOS ${name}`, qos[1]);
    if (/^\d+\(/.test(qos[2] ?? '')) add(`MaxSubmitJobsPerUser of QOS ${name}`, qos[2]);
    else add(`MaxSubmitJobsPerUser of QOS ${name}`, of('qos-limit').find(([other]) => other === name)?.[1], qos[2] ? undefined : 0);
  }
  // A limit of the QOS takes the place of the association's (https://slurm.schedmd.com/resource_limits.html, Hierarchy).
  const byQos = (kind: string) => limits.some(({ name }) => name.startsWith(kind) && name.includes(' of QOS '));
  return limits.filter(
    ({ name }) => name.includes(' of QOS ') || !(name.startsWith('MaxSubmitJobs') ? byQos('MaxSubmitJobs') : byQos('GrpSubmitJobs')),
  );
}

/** The limits that so many more tasks would go over, tightest first. */
export function exceeded(limits: readonly SubmitLimit[], tasks: number): SubmitLimit[] {
  const room = (limit: SubmitLimit) => limit.most - limit.used;
  return limits.filter((limit) => room(limit) < tasks).sort((a, b) => room(a) - room(b));
}
