// Where things are on the cluster. src/runtime/layout.sh names the same files in shell; a test compares the two.

/** The two directories that a launch writes to, expanded on the cluster and absolute. */
export interface Places {
  /** `workdir` of the cluster. */
  readonly workdir: string;
  /** `save.path` of the experiment, without the EXPERIMENT_ID. */
  readonly savePath: string;
}

/** The copy of a commit's code that all its experiments share. */
export function sharedCode(workdir: string, codeName: string): string {
  return `${workdir}/code/${codeName}`;
}

/** The files of one experiment under `workdir`. */
export function experimentFiles(workdir: string, id: string) {
  return filesIn(`${workdir}/experiments/${id}`);
}

/** The files of the experiment in a directory. */
export function filesIn(directory: string) {
  return {
    directory,
    manifest: `${directory}/manifest.json`,
    /** The part of the manifest that a listing of many experiments reads. */
    summary: `${directory}/summary.json`,
    ledger: `${directory}/ledger.jsonl`,
    jobScript: `${directory}/job.sh`,
    runScript: `${directory}/run.sh`,
    taskVariables: `${directory}/task.env`,
    secrets: `${directory}/secrets.env`,
    code: `${directory}/code`,
    configs: `${directory}/configs`,
    logs: `${directory}/logs`,
  } as const;
}

/** The name of a task's log inside `logs`. */
export function logName(jobNumber: number, jobId: string, cell: number): string {
  return `${jobNumber}_${jobId}_${cell}.out`;
}

/** The directory of an experiment's checkpoints, `{save.path}/{EXPERIMENT_ID}`. */
export function saveDirectory(savePath: string, id: string): string {
  return `${savePath}/${id}`;
}

/** The EXPERIMENT_ID that a record must hold: the name of its experiment's directory. @param file manifest.json or summary.json */
export function ownerOfRecord(file: string): string {
  return /([^/]*)(?:\/\.chain)?\/[^/]*$/.exec(file)?.[1] ?? '';
}

/** The records beside the checkpoints. @param directory of saveDirectory */
export function savedRecords(directory: string) {
  const records = `${directory}/.chain`;
  return { records, manifest: `${records}/manifest.json`, summary: `${records}/summary.json` } as const;
}
