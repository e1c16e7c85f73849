/**
 * The long options of sbatch that an experiment may set under `slurm:` (sbatch(1); src/common/slurm_opt.c of Slurm 22.05 to
 * 26.11 has them all). Written with `-` or `_`.
 */
export const SLURM_OPTIONS: ReadonlySet<string> = new Set(
  `account acctg-freq batch bb bbf begin comment consolidate-segments constraint container container-id contiguous core-spec
  cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot distribution exclude exclusive extra
  extra-node-info gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint job-name licenses
  mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nice no-kill no-requeue nodefile nodelist
  nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket oom-kill-step overcommit oversubscribe
  partition power prefer priority profile propagate qos reboot requeue reservation segment sockets-per-node spread-job
  spread-segments stepmgr switches tasks-per-node thread-spec threads-per-core time time-min tmp tres-bind tres-per-task
  use-min-nodes wait-all-nodes wckey`.split(/\s+/),
);

/** Options the launcher sets itself or that would break the chain, and what to use instead. */
export const RESERVED_OPTIONS: ReadonlyMap<string, string> = new Map([
  ['array', 'the cells come from the ^ lists of the experiment, and max_concurrent_jobs is the throttle'],
  ['dependency', 'the chain sets it'],
  ['export', 'everything is exported; use env: for variables of your own'],
  ['export-file', 'use env: for variables of your own'],
  ['get-user-env', 'it makes jobs held where the login profile is slow; put what the job needs into setup:'],
  ['wrap', 'use run: for the command'],
  ['parsable', 'the launcher reads the job id itself'],
  ['hold', 'the launcher holds and releases the first step itself'],
  ['test-only', 'use the plan command'],
  ['wait', 'a chain may take weeks'],
  ['clusters', 'multi-cluster submission is not supported; name the login node of that cluster under clusters:'],
  ['signal', 'use chain.warn_before'],
  ['output', 'logs are in logs/ of the experiment'],
  ['error', 'logs are in logs/ of the experiment'],
  ['input', 'a batch job has no input'],
  ['open-mode', 'logs are always appended to'],
  ['chdir', "a job starts in the experiment's own copy of the code"],
  ['kill-on-invalid-dep', 'the chain waits with afterany, which is never invalid'],
  ['uid', 'jobs belong to the account that logs in'],
  ['gid', 'jobs belong to the account that logs in'],
  ['ignore-pbs', 'there is no #PBS line to ignore'],
  ['quiet', 'the launcher reads what sbatch says'],
  ['verbose', 'the launcher reads what sbatch says'],
  ['help', 'it submits nothing'],
  ['usage', 'it submits nothing'],
  ['version', 'it submits nothing'],
  ['het-group', 'heterogeneous jobs are not supported'],
]);
