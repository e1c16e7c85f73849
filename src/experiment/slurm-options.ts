/** The long options of sbatch that `slurm:` takes (sbatch(1); all are in src/common/slurm_opt.c of Slurm 22.05 to 26.11). */
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

/** Options that Slurm Chain sets itself or that would break a chain: why, and what to use instead. */
export const RESERVED_OPTIONS: ReadonlyMap<string, string> = new Map([
  ['array', 'the cells come from the ^ lists of the experiment; use max_concurrent_jobs for the throttle'],
  ['dependency', 'Slurm Chain lets each job of the chain depend on the one before it'],
  ['export', 'jobs get the whole environment; use env: for variables of your own'],
  ['export-file', 'use env: for variables of your own'],
  ['get-user-env', 'if the login profile is slow, Slurm holds the job; put what the job needs into setup:'],
  ['wrap', 'use run: for the command'],
  ['parsable', 'Slurm Chain sets it to read the job id'],
  ['hold', 'Slurm Chain submits every job held and releases it once the whole chain is in the queue'],
  ['test-only', 'use the command plan'],
  ['wait', 'sbatch would wait for the job, and a chain may take weeks; use the input wait of the action'],
  [
    'clusters',
    'Slurm Chain does not submit to another cluster from here; add that cluster with its login node to clusters: of .github/slurm-chain.yml',
  ],
  ['signal', 'use chain.warn_before and chain.warn_signal'],
  ['output', 'logs go to logs/ in the directory of the experiment'],
  ['error', 'logs go to logs/ in the directory of the experiment'],
  ['input', 'the job gets no input'],
  ['open-mode', 'logs are always appended to, so that a requeue keeps them'],
  ['chdir', "a job starts in the experiment's own copy of the code; use cd in setup:"],
  ['kill-on-invalid-dep', 'jobs depend on each other with afterany, which never becomes invalid'],
  ['uid', 'jobs belong to the account that logs in; use user in .github/slurm-chain.yml'],
  ['gid', 'jobs belong to the account that logs in; use user in .github/slurm-chain.yml'],
  ['ignore-pbs', 'the batch script has no #PBS lines'],
  ['quiet', 'Slurm Chain reads the output of sbatch'],
  ['verbose', 'Slurm Chain reads the output of sbatch'],
  ['help', 'it prints a text and submits nothing'],
  ['usage', 'it prints a text and submits nothing'],
  ['version', 'it prints a text and submits nothing'],
  ['het-group', 'heterogeneous jobs are not supported'],
]);
