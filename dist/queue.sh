# shellcheck shell=bash disable=SC2154 # job-name.sh sets JOB_EXPERIMENT
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
