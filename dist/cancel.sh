# shellcheck shell=bash disable=SC2154 # EXPERIMENT comes from layout.sh, SCRATCH and LEFT from change.sh, JOB_* from job-name.sh
# Cancels a chain, one of its jobs, or one cell; with a job and a cell, one task.
#
# answers (the same table as in src/cluster/programs/cancel.ts):
#   was TASK STATE NAME          a job or a task that was in the queue, by squeue's id, state and job name
#   cancelled                    nothing of what was asked for is in the queue any more
#
#   cancel_jobs WORKDIR EXPERIMENT_ID HOLDER BY JOB_NUMBER CELL
# BY is JSON for the ledger. JOB_NUMBER and CELL may be empty.

cancel_jobs() {
    local by=$4 job=$5 cell=$6 rows row id state rest
    take_launch_lock "$1" "$2" "$3"
    rows=$(queue_of "$EXPERIMENT") || { answer problem "squeue does not answer on $(uname -n); nothing was cancelled"; exit 1; }
    while IFS='|' read -r _ id state rest; do [ -z "$id" ] || answer was "$id" "$state" "${rest##*|}"; done <<<"$rows"
    if [ -n "$cell" ]; then
        cancel_cell "$by" "$job" "$cell"
    elif [ -n "$job" ]; then
        cancel_job "$by" "$job" "$rows"
    else
        cancel_tagged "$by" "$EXPERIMENT"
    fi || still_queued "${LEFT[*]}"
    answer cancelled
}

still_queued() {
    [ -n "$1" ] || { answer problem "squeue does not answer on $(uname -n), so what is left of $EXPERIMENT in the queue is unknown"; exit 1; }
    answer problem "jobs $1 of $EXPERIMENT are still in the queue on $(uname -n). Try again, or run there: scancel $1"
    exit 1
}

# cancel_job BY JOB_NUMBER ROWS
cancel_job() {
    local row prefixes=()
    while IFS= read -r row; do
        parse_job_name "${row##*|}" && [ "$JOB_NUMBER" = "$2" ] && prefixes+=("${row##*|}")
    done <<<"$3"
    [ ${#prefixes[@]} -eq 0 ] || cancel_tagged "$1" "${prefixes[@]}"
}

# cancel_cell BY JOB_NUMBER CELL: the task of one cell in all jobs of the chain, or in one.
cancel_cell() {
    local by=$1 job=$2 cell=$3 rows pause ids=() id
    declare -A gone=()
    for pause in $CANCEL_PAUSES; do
        rows=$(queued_tasks "$job" "$cell") || { sleep "$pause"; continue; }
        if [ -z "$rows" ]; then
            for id in "${!gone[@]}"; do ledger_cancelled 0 "$id" "\"by\":$by" || exit 1; done
            return 0
        fi
        # The last job first, because a cancelled task lets the next one start.
        mapfile -t ids < <(sort -k2,2nr <<<"$rows" | cut -d' ' -f1)
        for id in "${ids[@]}"; do gone[$id]=yes; done
        timeout 60 scancel "${ids[@]}" 2>"$SCRATCH"
        keep_lock || break
        sleep "$pause"
    done
    LEFT=("${ids[@]}")
    return 1
}

# queued_tasks JOB_NUMBER CELL: prints `id_cell job-number` of each task of this cell in the queue. JOB_NUMBER may be empty.
queued_tasks() {
    local job=$1 cell=$2 rows base task name
    rows=$(timeout 60 squeue -a -r -h -u "$(id -un)" -o '%F|%K|%j' 2>"$SCRATCH") && [ ! -s "$SCRATCH" ] || return 1
    while IFS='|' read -r base task name; do
        if [ "$task" != "$cell" ] || ! parse_job_name "$name" || [ "$JOB_EXPERIMENT" != "$EXPERIMENT" ]; then continue; fi
        if [ -z "$job" ] || [ "$JOB_NUMBER" = "$job" ]; then printf '%s_%s %s\n' "$base" "$task" "$JOB_NUMBER"; fi
    done <<<"$rows"
}
