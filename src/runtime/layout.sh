# shellcheck shell=bash disable=SC2034 # the names are for the programs
# Where things are on the cluster, as in src/chain/layout.ts.

# experiment_layout WORKDIR EXPERIMENT_ID: sets EXPERIMENT and the names of experiment_files.
experiment_layout() {
    EXPERIMENT=$2
    experiment_files "$1/experiments/$2"
}

# experiment_files DIR: names the files of the experiment in this directory.
experiment_files() {
    DIR=$1
    MANIFEST=$DIR/manifest.json SUMMARY=$DIR/summary.json LEDGER=$DIR/ledger.jsonl LAUNCH_LOCK=$DIR/launch.lock
    JOB_SCRIPT=$DIR/job.sh RUN_SCRIPT=$DIR/run.sh TASK_VARIABLES=$DIR/task.env SECRETS=$DIR/secrets.env
    CODE=$DIR/code CONFIGS=$DIR/configs LOGS=$DIR/logs
}

# save_layout SAVE_DIR, which is {save.path}/{EXPERIMENT_ID}
save_layout() {
    SAVE_DIR=$1
    RECORDS=$SAVE_DIR/.chain
    SAVED_MANIFEST=$RECORDS/manifest.json SAVED_SUMMARY=$RECORDS/summary.json
}

# shared_code WORKDIR CODE_NAME: sets SHARED_CODE, the copy of a commit's code that all its experiments share.
shared_code() { SHARED_CODE=$1/code/$2; }
