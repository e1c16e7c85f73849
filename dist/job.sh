# shellcheck shell=bash
# The batch script of every task of every step; staged by slurm-chain, needs bash 4.2 and coreutils.
#
# sbatch gives it EXPERIMENT_ID, EXPERIMENT_DIR, EXPERIMENT_COMMIT, CHAIN_STEP, CHAIN_LENGTH and the CHAIN_* settings of the
# launch; task.env beside it says what belongs to the experiment itself; run.sh is the user's variables, setup and run.
# lock.sh, checkpoints.sh and journal.sh are put in front of this text when it is staged.
# shellcheck disable=SC2034,SC2317 # what those call and read is here

CELL=${SLURM_ARRAY_TASK_ID:?this script runs as a task of a job array}
TASK=$SLURM_JOB_ID
ARRAY=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}
RESTART=${SLURM_RESTART_COUNT:-0}
STARTED=$(date +%s)
# Seconds between looks at a file system that may lag, a minute in all.
PAUSES=${CHAIN_PAUSES:-1 2 4 8 16 30}

say() { printf '[chain] %s\n' "$*"; }

# shellcheck source=/dev/null # written by src/chain/task.ts: SAVE_PATH SAVE_PREFIX SAVE_COMPLETE SAVE_OFFSET N_STEPS[cell]
. "$EXPERIMENT_DIR/task.env" || { say "$EXPERIMENT_DIR/task.env cannot be read on $(uname -n)"; exit 74; }

CHECKPOINT_DIR=$SAVE_PATH/$EXPERIMENT_ID/$CELL
RECORDS=$SAVE_PATH/$EXPERIMENT_ID/.chain
JOURNAL=$RECORDS/$CELL.jsonl
STEPS_WANTED=${N_STEPS[$CELL]:-}

say "$EXPERIMENT_ID: step $CHAIN_STEP of $CHAIN_LENGTH, cell $CELL, job ${ARRAY}_$CELL on $(uname -n), restart $RESTART"
mkdir -p "$CHECKPOINT_DIR" "$RECORDS" || exit 73
shopt -s nullglob dotglob
# Set in an account, these change what the Slurm commands below show.
for name in $(compgen -e); do case $name in SQUEUE_* | SCANCEL_* | SLURM_CLUSTERS) unset "$name" ;; esac; done

# A signal before there is anybody to pass it on to: leave, and say so on record if the cell is ours.
# shellcheck disable=SC2154 # name is what the trap calls it with
leave() {
    say "got $1 before the run began; leaving"
    [ -z "$LOCK_HELD" ] || journal left "\"signal\":\"$1\""
    exit $((128 + $(kill -l "$1")))
}
LOCK_HELD=''
for name in USR1 USR2 TERM; do
    # shellcheck disable=SC2064 # the name of now
    trap "leave $name" "$name"
done

# --- one task at a time --------------------------------------------------------------------------------------------

# Is the holder of a lock gone? Only squeue's clear word that it does not know the job counts. Sets HOLDER_STATE to alive,
# leaving, gone or unknown.
lock_is_stale() {
    local task='' restart='' rest cluster rows said
    HOLDER_STATE=alive
    if [ -s "$1/holder" ]; then
        read -r task restart cluster rest 2>/dev/null <"$1/holder"
        [ -n "$task" ] || return 1 # it is there and cannot be read
    else
        # Made a moment ago, or its maker died before it could write its name.
        lock_age "$1" && [ "$LOCK_AGE" -gt 60 ]
        return
    fi
    if [ "$cluster" != "${SLURM_CLUSTER_NAME:--}" ]; then return 1; fi # our squeue knows nothing of it
    if [ "$task" = "$TASK" ]; then
        [ "$restart" -lt "$RESTART" ] # this job before it was requeued
        return
    fi
    HOLDER_STATE=unknown
    said=$RECORDS/.squeue.$CELL.$TASK
    if rows=$(timeout 60 squeue -a -h -j "$task" -o '%A %T' 2>"$said"); then
        # The id of an array is also that of one of its tasks: only a row of that very task counts.
        if grep -q "^$task COMPLETING" <<<"$rows"; then
            HOLDER_STATE=leaving
        elif grep -q "^$task " <<<"$rows"; then
            HOLDER_STATE=alive
        elif [ ! -s "$said" ]; then
            HOLDER_STATE=gone
        fi
    elif grep -q 'Invalid job id' "$said"; then
        HOLDER_STATE=gone
    fi
    rm -f "$said"
    [ "$HOLDER_STATE" = gone ]
}

for pause in $PAUSES ''; do
    HOLDER_STATE=''
    lock_try "$RECORDS/$CELL.lock" "$TASK $RESTART ${SLURM_CLUSTER_NAME:--} $CHAIN_STEP ${ARRAY}_$CELL $(uname -n)" && break
    if [ $? -eq 2 ]; then
        say "the lock of cell $CELL cannot be taken: $LOCK_SAID"
        exit 73
    fi
    # A holder on its way out makes room in a moment, and a squeue that does not answer may do so later.
    if [ "$HOLDER_STATE" = alive ] || [ -z "$pause" ]; then
        read -r task restart cluster step name host 2>/dev/null <"$RECORDS/$CELL.lock.$LOCK_NUMBER/holder" || name=
        say "cell $CELL is held by job ${name:-?} (step ${step:-?}, restart ${restart:-?}, on ${host:-?}): two jobs may not write one checkpoint directory. Leaving without touching anything"
        exit 75
    fi
    sleep "$pause"
done
# The lock remembers how the journal ended, so that a last line that was taken out shows too.
trap 'lock_release "$(journal_sum)"' EXIT

# --- where to begin ------------------------------------------------------------------------------------------------

find_newest
read_journal
# A file system shared between nodes may show half a minute late what the task before saved. The journal says what that was;
# where it cannot (no word from an earlier step, or a task that was killed), an empty directory and a half-written
# checkpoint are looked at again as well.
for pause in $PAUSES; do
    if [ "${NEWEST_STEP:--1}" -ge "$EXPECTED_STEP" ]; then
        [ "$EARLIER_UNCLEAR" = yes ] || break
        # What looks half-written may be whole and not quite here yet.
        if [ -n "$NEWEST" ] && [ ${#NEWER[@]} -eq 0 ]; then break; fi
    fi
    say "the newest checkpoint in $CHECKPOINT_DIR is ${NEWEST:-none}; looking again in $pause s"
    sleep "$pause"
    find_newest
    read_journal
done
RESUME_FROM=${NEWEST:+$CHECKPOINT_DIR/$NEWEST}
RESUME_STEP=$NEWEST_STEP
NEXT_STEP=$((${NEWEST_STEP:--$SAVE_OFFSET} + SAVE_OFFSET))
# Every checkpoint there is, which also says what a task saved that was killed before it could say so itself.
FOUND_NUMBERS="\"found\":\"$(checkpoint_ranges -1 "${NEWEST_STEP:--1}")\""

# --- done already --------------------------------------------------------------------------------------------------

# Cancels what is queued behind this step once every cell is done, so that nothing waits for GPUs only to leave.
cancel_the_rest() {
    local cells=${#N_STEPS[@]} complete rows base tag step rest=()
    complete=$(tail -q -n 1 "$RECORDS"/*.jsonl | grep -c '"complete":true')
    [ "$complete" -eq "$cells" ] || return 0
    rows=$(timeout 60 squeue -a -h -u "$(id -un)" -t PENDING -o '%F|%j') || return 0
    while IFS='|' read -r base tag; do
        case $tag in "$EXPERIMENT_ID".l*.s*) ;; *) continue ;; esac
        step=${tag##*.s}
        step=${step%%.*}
        [ "$step" -gt "$CHAIN_STEP" ] && rest+=("$step $base")
    done <<<"$rows"
    [ ${#rest[@]} -gt 0 ] || return 0
    mapfile -t rest < <(printf '%s\n' "${rest[@]}" | sort -u -k1,1nr -k2,2nr | cut -d' ' -f2)
    say "all $cells cells are done; cancelling what is still queued: ${rest[*]}"
    # Last first: a cancelled step lets the one behind it start.
    timeout 60 scancel "${rest[@]}" || return 0
    for base in "${rest[@]}"; do
        printf '{"event":"cancelled","launch":%s,"job":"%s","time":"%s","why":"done"}\n' "$CHAIN_LAUNCH" "$base" \
            "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >>"$EXPERIMENT_DIR/ledger.jsonl"
    done
}

is_done() {
    [ -e "$CHECKPOINT_DIR/COMPLETE" ] || { [ -n "$STEPS_WANTED" ] && [ "$NEXT_STEP" -ge "$STEPS_WANTED" ]; }
}

if is_done; then
    journal 'done' "\"newest\":$(json_name "$NEWEST")" "$FOUND_NUMBERS" '"complete":true'
    say "training is complete (${NEWEST:-COMPLETE}); nothing to do"
    [ "$CHAIN_CANCEL_WHEN_DONE" = false ] || cancel_the_rest
    exit 0
fi

# --- when to stop --------------------------------------------------------------------------------------------------

stop() {
    journal stopped "\"newest\":$(json_name "$NEWEST")" "$FOUND_NUMBERS" "\"failures\":$FAILURES" "\"why\":\"$1\""
    say "$2"
    exit 1
}

if [ "$FAILURES" -ge "$CHAIN_STOP_AFTER" ]; then
    stop failures "the last $FAILURES tasks of cell $CELL failed without one new checkpoint, so this one does not start: see the logs before this one in $EXPERIMENT_DIR/logs. Launch the experiment again to go on once the cause is mended"
fi
if [ -z "$NEWEST" ] && [ "$EXPECTED_STEP" -ge 0 ]; then
    stop vanished "the journal knows of checkpoint $EXPECTED_STEP of cell $CELL, and $CHECKPOINT_DIR holds none. Not training from scratch: put the checkpoints back, or move $JOURNAL away to begin anew"
fi

# Training code that picks the highest step by itself must not meet a half-written one. Never deleted.
moved=
for name in ${NEWER[@]+"${NEWER[@]}"}; do
    aside=incomplete.$name.$TASK.$RESTART
    mv -T "$CHECKPOINT_DIR/$name" "$CHECKPOINT_DIR/$aside" || exit 73
    say "$name is incomplete; moved aside as $aside"
    moved+="${moved:+,}\"$aside\""
done

# --- run -----------------------------------------------------------------------------------------------------------

export EXPERIMENT_CONFIG=$EXPERIMENT_DIR/configs/config_$CELL.yaml
export CHECKPOINT_DIR RESUME_FROM RESUME_STEP NEXT_STEP
export WANDB_RUN_ID=$EXPERIMENT_ID-$CELL WANDB_RESUME=allow WANDB_RUN_GROUP=$EXPERIMENT_ID WANDB_NAME=$EXPERIMENT_ID-$CELL
# srun would otherwise take --export from the submission, which some sites set to NONE.
export SLURM_EXPORT_ENV=ALL
# torchrun passes on the signals it is told of and dies of the others (torch/distributed/run.py, --signals-to-handle; it takes
# its options from PET_* variables).
export PET_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2

journal start "\"resumed_from\":$(json_name "$NEWEST")" "\"resume_step\":${NEWEST_STEP:--1}" "\"next_step\":$NEXT_STEP" "$FOUND_NUMBERS" "\"moved_aside\":[$moved]" || exit 73
if [ -n "$NEWEST" ]; then say "resuming from $NEWEST"; else say "starting from scratch"; fi

child='' waiting=''
# The warning reaches this shell alone (--signal=B:) and is passed on to the whole group, so that srun, torchrun and plain
# children all see it. The TERM of a time limit, a preemption or scancel Slurm sends to every process of the job itself; a
# second one would cut short what the first one made them do.
forward() {
    say "got $1"
    if [ "$1" = TERM ] && [ "${CHAIN_WARN_SIGNAL:-}" != TERM ]; then return; fi
    CHAIN_WARN_SIGNAL=
    if [ -n "$child" ]; then kill -s "$1" -- "-$child" 2>/dev/null; else waiting=$1; fi
}
trap 'forward USR1' USR1
trap 'forward USR2' USR2
trap 'forward TERM' TERM

# The child says itself how it ended: what wait says of it is not to be relied on once a trap has run (bash 5.2 may give -1).
ended=$(mktemp 2>/dev/null) || ended=$RECORDS/.ended.$CELL.$TASK
set -m # its own process group
(
    trap : USR1 USR2 TERM
    bash "$EXPERIMENT_DIR/run.sh"
    run_status=$?
    echo $run_status >"$ended"
    exit $run_status
) &
child=$!
set +m
[ -z "$waiting" ] || kill -s "$waiting" -- "-$child" 2>/dev/null
# A job that Slurm believes lost, and started again elsewhere, may live on here: it must not go on beside its successor.
(
    trap - USR1 USR2 TERM
    while sleep 60 >/dev/null 2>&1; do
        lock_still_held && continue
        say "another job has taken cell $CELL over; ending this one"
        kill -s TERM -- "-$child"
        break
    done
) &
watcher=$!
while kill -0 "$child" 2>/dev/null; do
    wait "$child"
    seen=$?
    if [ $seen -lt 0 ] || [ $seen -eq 127 ]; then sleep 1; fi
done
kill "$watcher" 2>/dev/null
status=$(cat "$ended" 2>/dev/null)
rm -f "$ended"
: "${status:=${seen:-137}}"
if ! lock_still_held; then
    say "cell $CELL belongs to another job by now; leaving its records alone"
    exit 75
fi

find_newest
NEXT_STEP=$((${NEWEST_STEP:--$SAVE_OFFSET} + SAVE_OFFSET))
signal=null
if [ "$status" -gt 128 ]; then signal="\"$(kill -l $((status - 128)) 2>/dev/null)\""; fi
complete=false new_checkpoint=false verdict=stalled
if [ "${NEWEST_STEP:--1}" -gt "${RESUME_STEP:--1}" ]; then new_checkpoint=true verdict=progress; fi
if is_done; then complete=true verdict=complete; fi
journal end "\"seconds\":$(($(date +%s) - STARTED))" "\"first_save_seconds\":$(first_save_seconds)" "\"exit\":$status" \
    "\"signal\":$signal" "\"resumed_from\":$(json_name "${RESUME_FROM##*/}")" "\"newest\":$(json_name "$NEWEST")" \
    "\"newest_step\":${NEWEST_STEP:--1}" "\"saved\":\"$(checkpoint_ranges "${RESUME_STEP:--1}" "${NEWEST_STEP:--1}")\"" "\"new_checkpoint\":$new_checkpoint" "\"complete\":$complete" "\"verdict\":\"$verdict\""
say "the run ended with $status ($verdict); newest complete checkpoint: ${NEWEST:-none}"
exit "$status"
