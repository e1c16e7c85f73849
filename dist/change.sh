# shellcheck shell=bash disable=SC2154,SC2034 # layout.sh, lock.sh, queue.sh and job-name.sh come before it; LEFT is for callers
# Shared by submit.sh and cancel.sh: the launch lock, and cancelling jobs.
#
# answers (the same table as in src/cluster/programs/change.ts):
#   waiting HOLDER               another launch of this experiment holds the lock

# Seconds after which a launch lock that was not renewed may be taken over; longer than one call of sbatch may take.
LEASE=600
LOCK_PATIENCE=300 # seconds to wait for another launch of the same experiment
# Seconds to pause, one number per try. Tests set shorter pauses in the prelude of their cluster.
LOOK_PAUSES=${CHAIN_LOOK_PAUSES:-0 1 2 4 8 15}             # before each look for a job whose sbatch gave no clear answer
RETRY_PAUSES=${CHAIN_RETRY_PAUSES:-0 1 2 5 10}             # before each try to read a new job back, or to release jobs
CANCEL_PAUSES=${CHAIN_CANCEL_PAUSES:-1 2 3 4 5 6 7 8 9 10} # after each try to cancel jobs, until Slurm has done it

# The launcher keeps our stdin open as long as it lives. When stdin ends, nobody waits for us any more. A lost connection must
# not kill us halfway either.
trap '' PIPE HUP
launcher_gone() { read -r -t 0 -u 3; }

lock_is_stale() {
    local dir=$1 host pid rest
    read -r host pid rest 2>/dev/null <"$dir/holder" || host=
    if [ "$host" = "$(uname -n)" ] && [[ $pid =~ ^[0-9]+$ ]] && ! kill -0 "$pid" 2>/dev/null; then return 0; fi
    lock_age "$dir" && [ "$LOCK_AGE" -gt $LEASE ]
}

lock_renew() { touch "$LOCK_HELD"; }

# A launch whose lock was taken over must not change anything any more, except jobs with its own tag.
keep_lock() { lock_still_held && lock_renew; }

# take_launch_lock WORKDIR EXPERIMENT_ID HOLDER: only one program at a time changes the jobs of an experiment. The lock is
# released when the program ends.
take_launch_lock() {
    local waited=0 lock
    experiment_layout "$1" "$2"
    if { [ -d "$DIR" ] && ! own_directory "$DIR"; } || ! are_ours "$MANIFEST" "$SUMMARY" "$LEDGER" "$JOB_SCRIPT"; then
        foreign "$DISTRUST"
        exit 1
    fi
    SCRATCH_DIR=$(mktemp -d) || { answer problem "no temporary directory could be made on $(uname -n)"; exit 1; }
    SCRATCH=$SCRATCH_DIR/said OUTCOME=$SCRATCH_DIR/outcome
    trap 'status=$?; rm -rf "$SCRATCH_DIR"; [ -z "${LOCK_HELD:-}" ] || ! lock_still_held || lock_release; answer end "$status"' EXIT

    while :; do
        lock_try "$LAUNCH_LOCK" "$(uname -n) $$ $3" && break
        [ $? -ne 2 ] || { answer problem "the launch lock cannot be taken on $(uname -n): $LOCK_SAID"; exit 1; }
        lock=$LAUNCH_LOCK.$LOCK_NUMBER
        [ $waited -gt 0 ] || answer waiting "$(cat "$lock/holder" 2>/dev/null)"
        if [ $waited -ge $LOCK_PATIENCE ]; then
            answer problem "another launch of $EXPERIMENT holds $lock: $(cat "$lock/holder" 2>/dev/null)"
            exit 1
        fi
        launcher_gone && exit 1
        sleep 1
        waited=$((waited + 1))
    done
}

# cancel_tagged BY PREFIX…: cancels every job of this experiment whose name is one of the prefixes or continues one with a dot.
# It cancels the last job of the chain first, because a cancelled job lets the next one start, and repeats until squeue shows
# none of them. BY is JSON for the ledger, or empty. If jobs are left, it fails and sets LEFT to their ids.
cancel_tagged() {
    local by=$1 rows row name prefix pause ids id
    declare -A gone=()
    shift
    for pause in $CANCEL_PAUSES; do
        if rows=$(queue_of "$EXPERIMENT"); then
            ids=()
            while IFS= read -r row; do
                name=${row##*|}
                for prefix; do
                    case $name in
                        "$prefix" | "$prefix".*)
                            parse_job_name "$name"
                            gone[${row%%|*}]=$JOB_LAUNCH
                            ids+=("$JOB_NUMBER ${row%%|*}")
                            break
                            ;;
                    esac
                done
            done <<<"$rows"
            if [ ${#ids[@]} -eq 0 ]; then
                for id in "${!gone[@]}"; do ledger_cancelled "${gone[$id]}" "$id" "${by:+\"by\":$by}" || return 1; done
                return 0
            fi
            mapfile -t ids < <(printf '%s\n' "${ids[@]}" | sort -u -k1,1nr -k2,2nr | cut -d' ' -f2)
            LEFT=("${ids[@]}")
            timeout 60 scancel "${ids[@]}" 2>"$SCRATCH"
        fi
        [ -z "${LOCK_HELD:-}" ] || ! lock_still_held || lock_renew
        sleep "$pause"
    done
    return 1
}
