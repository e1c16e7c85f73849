# shellcheck shell=bash disable=SC2034,SC2154 # job-name.sh sets JOB_EXPERIMENT; ROWS is for the program
# Finding the jobs of an experiment in the queue.

# queue_of EXPERIMENT_ID [PREFIX]: prints `array id|id|state|reason|dependency|name` for each row of squeue whose job name is of
# this experiment, and whose name is PREFIX or starts with `PREFIX.`. Fails if squeue did not answer: then no rows mean nothing.
queue_of() {
    local experiment=$1 prefix=${2:-$1} rows row said name
    said=$(mktemp) || return 1
    # squeue may complain and exit with 0.
    if ! rows=$(timeout 60 squeue -a -h -u "$(id -un)" -o '%F|%i|%T|%r|%E|%j' 2>"$said") || [ -s "$said" ]; then
        rm -f "$said"
        return 1
    fi
    rm -f "$said"
    while IFS= read -r row; do
        name=${row##*|}
        case $name in "$prefix" | "$prefix".*) ;; *) continue ;; esac
        # One EXPERIMENT_ID may start with another one.
        if parse_job_name "$name" && [ "$JOB_EXPERIMENT" = "$experiment" ]; then printf '%s\n' "$row"; fi
    done <<<"$rows"
}

# Seconds. Slurm gives a job KillWait seconds to end, 30 by default (slurm.conf(5)). Tests set fewer.
COMPLETING_PATIENCE=${COMPLETING_PATIENCE:-45}
[[ $COMPLETING_PATIENCE =~ ^[0-9]{1,4}$ ]] || COMPLETING_PATIENCE=45

# completing_jobs ROWS: prints the ids of the jobs that are COMPLETING in every row of queue_of.
completing_jobs() {
    comm -23 <(grep '|COMPLETING|' <<<"$1" | cut -d'|' -f1 | sort -u) <(grep -v '|COMPLETING|' <<<"$1" | cut -d'|' -f1 | sort -u)
}

# settled_queue_of EXPERIMENT_ID: sets ROWS to the rows of queue_of, as soon as no job is completing. A completing job leaves the
# queue in a moment, or is PENDING again if it was requeued; squeue shows COMPLETING for both. A job that is still completing
# after COMPLETING_PATIENCE stays in ROWS. Fails if squeue did not answer.
settled_queue_of() {
    local end=$((SECONDS + COMPLETING_PATIENCE))
    while :; do
        ROWS=$(queue_of "$1") || return 1
        if [ -z "$(completing_jobs "$ROWS")" ] || [ $SECONDS -ge $end ]; then return 0; fi
        sleep 1
    done
}
