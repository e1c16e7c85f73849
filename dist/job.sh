# shellcheck shell=bash
# The batch script of every task of every job in the chain. It needs bash 4.2 and coreutils.
#
# sbatch gives it EXPERIMENT_ID, EXPERIMENT_DIR, EXPERIMENT_COMMIT, CHAIN_STEP, CHAIN_LENGTH and the CHAIN_* settings of the
# launch. In EXPERIMENT_DIR, task.env has the settings of the experiment, and run.sh the user's variables, `setup` and `run`.
# When it is staged, trust.sh, lock.sh, layout.sh, job-name.sh, ledger.sh, checkpoints.sh and journal.sh come before this text.
#
# It exits with the status of run.sh, or with one of sysexits.h: 73 a file or a lock cannot be made, 74 task.env cannot be read,
# 75 another job holds the cell, 77 a file or a directory is not what the account made.
# shellcheck disable=SC2034,SC2154,SC2317 # variables and functions of those files, and for them

# The account may export a variable with a name that this script uses. The user's program gets it back.
declare -A ACCOUNT_ENVIRONMENT=()
for _name in $(compgen -e); do ACCOUNT_ENVIRONMENT[$_name]=${!_name}; done

# What we make is private. The user's run gets the umask of the account, which sbatch had before it took ours.
ACCOUNT_UMASK=${CHAIN_UMASK:-}
[[ $ACCOUNT_UMASK =~ ^[0-7]{3,4}$ ]] || ACCOUNT_UMASK=$(umask)
private_umask "${CHAIN_SHARE:-}"

CELL=${SLURM_ARRAY_TASK_ID:?this script runs as a task of a job array}
TASK=$SLURM_JOB_ID
ARRAY=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}
RESTART=${SLURM_RESTART_COUNT:-0}
STARTED=$(date +%s)
# Seconds between looks at a file system that may lag; a minute in all.
PAUSES=${CHAIN_PAUSES:-1 2 4 8 16 30}

say() { printf '[chain] %s\n' "$*"; }

# distrust: after a check has failed. Whoever wrote this could run code as the account, or make the task resume from their weights.
distrust() {
    say "$DISTRUST. Slurm Chain uses only what the account made itself. Find out who made it, and move it away"
    exit 77
}

experiment_files "$EXPERIMENT_DIR"
if ! [[ $CELL =~ ^(0|[1-9][0-9]*)$ && $TASK =~ ^[0-9]+$ && $ARRAY =~ ^[0-9]+$ && $RESTART =~ ^[0-9]+$ ]]; then
    say "Slurm gives this task the numbers '$CELL', '$TASK', '$ARRAY' and '$RESTART'"
    exit 73
fi
[ ! -e "$DIR" ] || own_directory "$DIR" || distrust
are_ours "$TASK_VARIABLES" "$RUN_SCRIPT" "$SECRETS" "$LEDGER" || distrust
# shellcheck source=/dev/null # src/chain/task.ts writes it: SAVE_PATH SAVE_PREFIX SAVE_COMPLETE SAVE_OFFSET N_STEPS[cell]
. "$TASK_VARIABLES" || { say "$TASK_VARIABLES cannot be read on $(uname -n)"; exit 74; }
save_layout "$SAVE_PATH/$EXPERIMENT_ID"
CHECKPOINT_DIR=$SAVE_DIR/$CELL
JOURNAL=$RECORDS/$CELL.jsonl
STEPS_WANTED=${N_STEPS[$CELL]:-}

say "$EXPERIMENT_ID: job $CHAIN_STEP of $CHAIN_LENGTH, cell $CELL, task ${ARRAY}_$CELL on $(uname -n), restart $RESTART"
# own_or_leave DIR: makes a directory, or takes ours.
own_or_leave() {
    own_directory "$1" && return
    if [ -e "$1" ] || [ -L "$1" ]; then distrust; fi
    say "$DISTRUST"
    exit 73
}
# The directories down to the checkpoints are as open as the account wants them, except that nobody else may write there.
open_umask "$ACCOUNT_UMASK"
mkdir -p "$SAVE_PATH" || exit 73
own_or_leave "$SAVE_DIR"
if [ -e "$CHECKPOINT_DIR" ]; then
    # A launch may be replacing the manifest, and a file system shared between nodes may show neither file for a moment.
    for pause in $PAUSES ''; do
        if holds_manifest "$EXPERIMENT_ID" "$SAVED_MANIFEST" "$MANIFEST"; then break; fi
        [ -z "$DISTRUST" ] || distrust
        if [ -z "$pause" ]; then
            DISTRUST="$SAVE_DIR has checkpoints and no manifest of $EXPERIMENT_ID"
            distrust
        fi
        sleep "$pause"
    done
fi
own_or_leave "$CHECKPOINT_DIR"
private_umask "${CHAIN_SHARE:-}"
own_or_leave "$RECORDS"
are_ours "$JOURNAL" || distrust
shopt -s nullglob dotglob
# These variables of an account change what the Slurm commands below print.
for name in $(compgen -e); do case $name in SQUEUE_* | SCANCEL_* | SLURM_CLUSTERS) unset "$name" ;; esac; done

# A signal that comes before the run: leave, and record it if the cell is ours.
leave() {
    say "got $1 before the run began; leaving"
    [ -z "$LOCK_HELD" ] || journal left "\"signal\":\"$1\""
    exit $((128 + $(kill -l "$1")))
}
LOCK_HELD=''
for name in USR1 USR2 TERM; do
    # shellcheck disable=SC2064 # the trap needs the name of now
    trap "leave $name" "$name"
done

# --- one task at a time --------------------------------------------------------------------------------------------

# lock_is_stale DIR: is the holder of the lock gone? Only if squeue clearly does not know its job. Sets HOLDER_STATE to alive,
# leaving, gone or unknown.
lock_is_stale() {
    local task='' restart='' rest cluster rows said
    HOLDER_STATE=alive
    if [ -s "$1/holder" ]; then
        read -r task restart cluster rest 2>/dev/null <"$1/holder"
        [[ $task =~ ^[0-9]+$ && $restart =~ ^[0-9]+$ ]] || return 1 # the file exists and cannot be read
    else
        # Its maker has not written its name yet, or died before it could.
        lock_age "$1" && [ "$LOCK_AGE" -gt 60 ]
        return
    fi
    if [ "$cluster" != "${SLURM_CLUSTER_NAME:--}" ]; then return 1; fi # our squeue does not know that cluster
    if [ "$task" = "$TASK" ]; then
        [ "$restart" -lt "$RESTART" ] # this task before it was requeued
        return
    fi
    HOLDER_STATE=unknown
    said=$(mktemp "$RECORDS/.squeue.XXXXXXXXXX") || return 1
    if rows=$(timeout 60 squeue -a -h -j "$task" -o '%A %T' 2>"$said"); then
        # The id of an array is also the id of one of its tasks: only a row of that task counts.
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
    # A task that is ending releases the lock in a moment, and squeue may answer later.
    if [ "$HOLDER_STATE" = alive ] || [ -z "$pause" ]; then
        read -r task restart cluster number name host 2>/dev/null <"$RECORDS/$CELL.lock.$LOCK_NUMBER/holder" || name=
        say "cell $CELL is held by task ${name:-?} (job ${number:-?} of the chain, restart ${restart:-?}, on ${host:-?}). Two tasks must not write to one checkpoint directory; leaving without touching anything"
        exit 75
    fi
    sleep "$pause"
done
# The lock remembers the end of the journal, so that an audit also sees a last line that was removed.
trap 'lock_release "$(journal_sum)"' EXIT

# --- where to begin ------------------------------------------------------------------------------------------------

find_newest
read_journal
# A file system shared between nodes may show the last checkpoint of the task before half a minute late. The journal says which
# one that is. If it cannot (no line of an earlier job, or a task that was killed), look again as well when the directory is
# empty or when a checkpoint seems incomplete.
for pause in $PAUSES; do
    if [ "${NEWEST_STEP:--1}" -ge "$EXPECTED_STEP" ]; then
        [ "$EARLIER_UNCLEAR" = yes ] || break
        if [ -n "$NEWEST" ] && [ ${#NEWER[@]} -eq 0 ]; then break; fi
    fi
    say "the newest checkpoint in $CHECKPOINT_DIR is ${NEWEST:-none}; looking again in $pause s"
    sleep "$pause"
    find_newest
    read_journal
done
# Training code may run what a checkpoint holds (torch.load of a pickle). The machine's root may do anything anyway.
if [ -n "$NEWEST" ] && [ ! -O "$CHECKPOINT_DIR/$NEWEST" ] && [ "$(owner_of "$CHECKPOINT_DIR/$NEWEST")" != root ]; then
    DISTRUST="$CHECKPOINT_DIR/$NEWEST belongs to $(owner_of "$CHECKPOINT_DIR/$NEWEST") and not to $(id -un)"
    distrust
fi
RESUME_FROM=${NEWEST:+$CHECKPOINT_DIR/$NEWEST}
RESUME_STEP=$NEWEST_STEP
NEXT_STEP=$((${NEWEST_STEP:--$SAVE_OFFSET} + SAVE_OFFSET))
# Every checkpoint that is there. That also tells what a task saved that was killed before it could write its end.
FOUND_NUMBERS="\"found\":\"$(checkpoint_ranges -1 "${NEWEST_STEP:--1}")\""

# --- complete already ----------------------------------------------------------------------------------------------

# cancel_the_rest: cancels the later jobs of the chain once every cell is complete, so that none waits for GPUs only to leave.
cancel_the_rest() {
    local cells=${#N_STEPS[@]} complete rows base name rest=()
    complete=$(tail -q -n 1 "$RECORDS"/*.jsonl | grep -c '"complete":true')
    [ "$complete" -eq "$cells" ] || return 0
    rows=$(timeout 60 squeue -a -h -u "$(id -un)" -t PENDING -o '%F|%j') || return 0
    while IFS='|' read -r base name; do
        if parse_job_name "$name" && [ "$JOB_EXPERIMENT" = "$EXPERIMENT_ID" ] && [ "$JOB_NUMBER" -gt "$CHAIN_STEP" ]; then
            rest+=("$JOB_NUMBER $base")
        fi
    done <<<"$rows"
    [ ${#rest[@]} -gt 0 ] || return 0
    # The last job first, because a cancelled job lets the next one start.
    mapfile -t rest < <(printf '%s\n' "${rest[@]}" | sort -u -k1,1nr -k2,2nr | cut -d' ' -f2)
    say "all $cells cells are complete; cancelling the jobs that are still in the queue: ${rest[*]}"
    timeout 60 scancel "${rest[@]}" || return 0
    for base in "${rest[@]}"; do ledger_cancelled "$CHAIN_LAUNCH" "$base" '"why":"done"'; done
}

is_complete_training() {
    [ -e "$CHECKPOINT_DIR/COMPLETE" ] || { [ -n "$STEPS_WANTED" ] && [ "$NEXT_STEP" -ge "$STEPS_WANTED" ]; }
}

if is_complete_training; then
    journal 'done' "\"newest\":$(json_name "$NEWEST")" "$FOUND_NUMBERS" '"complete":true'
    say "training is complete (${NEWEST:-COMPLETE}); nothing to do"
    [ "$CHAIN_CANCEL_WHEN_DONE" = false ] || cancel_the_rest
    exit 0
fi

# --- when to stop --------------------------------------------------------------------------------------------------

# stop WHY MESSAGE
stop() {
    journal stopped "\"newest\":$(json_name "$NEWEST")" "$FOUND_NUMBERS" "\"failures\":$FAILURES" "\"why\":\"$1\""
    say "$2"
    exit 1
}

if [ "$FAILURES" -ge "$CHAIN_STOP_AFTER" ]; then
    stop failures "the last $FAILURES tasks of cell $CELL failed without a new checkpoint, so this one does not start. Read the logs before this one in $LOGS, fix the cause, and launch the experiment again to continue"
fi
if [ -z "$NEWEST" ] && [ "$EXPECTED_STEP" -ge 0 ]; then
    stop vanished "the journal has checkpoint $EXPECTED_STEP of cell $CELL, but $CHECKPOINT_DIR holds no checkpoint. This task does not train from scratch: put the checkpoints back, or move $JOURNAL away to start over"
fi

# Training code that picks the highest number itself must not find an incomplete checkpoint. It is moved aside, never deleted.
moved=
for name in ${NEWER[@]+"${NEWER[@]}"}; do
    aside=incomplete.$name.$TASK.$RESTART
    mv -T "$CHECKPOINT_DIR/$name" "$CHECKPOINT_DIR/$aside" || exit 73
    say "$name is incomplete; moved it aside as $aside"
    moved+="${moved:+,}\"$aside\""
done

# --- run -----------------------------------------------------------------------------------------------------------

journal start "\"resumed_from\":$(json_name "$NEWEST")" "\"resume_step\":${NEWEST_STEP:--1}" "\"next_step\":$NEXT_STEP" \
    "$FOUND_NUMBERS" "\"moved_aside\":[$moved]" || exit 73
if [ -n "$NEWEST" ]; then say "resuming from $NEWEST"; else say "starting from scratch"; fi

# The variables that the training code may rely on.
CONTRACT='EXPERIMENT_CONFIG CHECKPOINT_DIR RESUME_FROM RESUME_STEP NEXT_STEP WANDB_RUN_ID WANDB_RESUME WANDB_RUN_GROUP WANDB_NAME'
export EXPERIMENT_CONFIG=$CONFIGS/config_$CELL.yaml
export CHECKPOINT_DIR RESUME_FROM RESUME_STEP NEXT_STEP
export WANDB_RUN_ID=$EXPERIMENT_ID-$CELL WANDB_RESUME=allow WANDB_RUN_GROUP=$EXPERIMENT_ID WANDB_NAME=$EXPERIMENT_ID-$CELL
# Otherwise srun takes --export from the submission, which some sites set to NONE.
export SLURM_EXPORT_ENV=ALL
# torchrun passes these signals on to its workers and dies from all others (torch/distributed/run.py, --signals-to-handle). It
# reads its options from PET_* variables.
export PET_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2
CONTRACT+=' SLURM_EXPORT_ENV PET_SIGNALS_TO_HANDLE'

# restore_account_environment: gives exported variables that this script changed their old values.
restore_account_environment() {
    local _name # not a name that an account uses
    for _name in "${!ACCOUNT_ENVIRONMENT[@]}"; do
        case " $CONTRACT " in *" $_name "*) continue ;; esac
        [ "${!_name-}" = "${ACCOUNT_ENVIRONMENT[$_name]}" ] || export "$_name=${ACCOUNT_ENVIRONMENT[$_name]}"
    done
}

child='' waiting=''
# The warning comes to this shell alone (--signal=B:) and is passed on to the whole process group, so that srun, torchrun and
# their children see it. At a time limit, a preemption or scancel, Slurm sends TERM to every process of the job itself. A second
# TERM would interrupt what the first one started.
forward() {
    say "got $1"
    if [ "$1" = TERM ] && [ "${CHAIN_WARN_SIGNAL:-}" != TERM ]; then return; fi
    CHAIN_WARN_SIGNAL=
    if [ -n "$child" ]; then kill -s "$1" -- "-$child" 2>/dev/null; else waiting=$1; fi
}
trap 'forward USR1' USR1
trap 'forward USR2' USR2
trap 'forward TERM' TERM

# The child writes down how it ended: what wait reports is not reliable once a trap has run (bash 5.2 may give -1).
ended=$(mktemp 2>/dev/null) || ended=$(mktemp "$RECORDS/.ended.XXXXXXXXXX") || exit 73
set -m # its own process group
(
    trap : USR1 USR2 TERM
    set -- "$RUN_SCRIPT" "$ended" "$ACCOUNT_UMASK" # the next line may change these variables
    restore_account_environment
    umask "$3"
    bash "$1"
    status=$?
    echo $status >"$2"
    exit $status
) &
child=$!
set +m
[ -z "$waiting" ] || kill -s "$waiting" -- "-$child" 2>/dev/null
# If Slurm believes that the node of this task is lost, it starts the task elsewhere while this one still runs. This one must not
# go on beside the other.
(
    trap - USR1 USR2 TERM
    while sleep 60 >/dev/null 2>&1; do
        lock_still_held && continue
        say "another task took over cell $CELL; ending this one"
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
[[ $status =~ ^[0-9]{1,3}$ ]] || status=${seen:-137}
if ! lock_still_held; then
    say "cell $CELL belongs to another task now; leaving its records alone"
    exit 75
fi

find_newest
NEXT_STEP=$((${NEWEST_STEP:--$SAVE_OFFSET} + SAVE_OFFSET))
signal=null
if [ "$status" -gt 128 ]; then signal="\"$(kill -l $((status - 128)) 2>/dev/null)\""; fi
complete=false new_checkpoint=false verdict=stalled
if [ "${NEWEST_STEP:--1}" -gt "${RESUME_STEP:--1}" ]; then new_checkpoint=true verdict=progress; fi
if is_complete_training; then complete=true verdict=complete; fi
journal end "\"seconds\":$(($(date +%s) - STARTED))" "\"first_save_seconds\":$(first_save_seconds)" "\"exit\":$status" \
    "\"signal\":$signal" "\"resumed_from\":$(json_name "${RESUME_FROM##*/}")" "\"newest\":$(json_name "$NEWEST")" \
    "\"newest_step\":${NEWEST_STEP:--1}" "\"saved\":\"$(checkpoint_ranges "${RESUME_STEP:--1}" "${NEWEST_STEP:--1}")\"" \
    "\"new_checkpoint\":$new_checkpoint" "\"complete\":$complete" "\"verdict\":\"$verdict\""
say "the run ended with $status ($verdict); newest complete checkpoint: ${NEWEST:-none}"
exit "$status"
