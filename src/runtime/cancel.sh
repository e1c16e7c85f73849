# shellcheck shell=bash disable=SC2154 # EXPERIMENT, SCRATCH and what takes the lock and cancels come from change.sh
# cancel_jobs WORKDIR EXPERIMENT_ID HOLDER BY STEP CELL
#
# Takes the whole chain out of the queue, or one step, or one cell of all steps; with both one task. BY, a JSON string, goes
# into the ledger.

# Rows `base_cell step` of every task of the experiment that is in the queue, of this cell and step where they are given.
tasks_in_queue() {
    local step=$1 cell=$2 rows row base task name of
    rows=$(timeout 60 squeue -a -r -h -u "$(id -un)" -o '%F|%K|%j' 2>"$SCRATCH") && [ ! -s "$SCRATCH" ] || return 1
    while IFS='|' read -r base task name; do
        case $name in "$EXPERIMENT".*) ;; *) continue ;; esac
        of=${name##*.s}
        of=${of%%.*}
        if [ -n "$step" ] && [ "$of" != "$step" ]; then continue; fi
        if [ -n "$cell" ] && [ "$task" != "$cell" ]; then continue; fi
        printf '%s_%s %s\n' "$base" "$task" "$of"
    done <<<"$rows"
}

still_there() {
    answer problem "jobs $1 of $EXPERIMENT are still in the queue on $(uname -n); try again, or there: scancel $1"
}

cancel_jobs() {
    local by=$4 step=$5 cell=$6 rows row tries tags=() ids=() id
    declare -A gone=()
    take_launch_lock "$1" "$2" "$3"
    rows=$(queue_of "$EXPERIMENT") || { answer problem "squeue does not answer on $(uname -n); nothing was cancelled"; exit 1; }
    while IFS= read -r row; do [ -z "$row" ] || answer was "$row"; done <<<"$rows"
    if [ -z "$cell" ]; then
        if [ -z "$step" ]; then
            tags=("$EXPERIMENT")
        else
            while IFS= read -r row; do
                row=${row##*|}
                case $row in *".s$step" | *".s$step.c"*) tags+=("$row") ;; esac
            done <<<"$rows"
        fi
        [ ${#tags[@]} -eq 0 ] || cancel_tagged "$by" "${tags[@]}" || { still_there "$LEFT"; exit 1; }
    else
        for tries in 1 2 3 4 5 6 7 8 9 10; do
            rows=$(tasks_in_queue "$step" "$cell") || { sleep "$tries"; continue; }
            if [ -z "$rows" ]; then
                for id in "${!gone[@]}"; do
                    ledger "{\"event\":\"cancelled\",\"launch\":0,\"job\":\"$id\",\"time\":\"$(now)\",\"by\":$by}" || exit 1
                done
                answer cancelled
                return 0
            fi
            # Last step first: a cancelled one lets the one behind it start.
            mapfile -t ids < <(sort -k2,2nr <<<"$rows" | cut -d' ' -f1)
            for id in "${ids[@]}"; do gone[$id]=yes; done
            timeout 60 scancel "${ids[@]}" 2>"$SCRATCH"
            keep_lock || break
            sleep "$tries"
        done
        still_there "${ids[*]}"
        exit 1
    fi
    answer cancelled
}
