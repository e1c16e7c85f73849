#!/bin/bash
# The batch script of every task of every step; staged by slurm-chain, needs bash 4.2 and coreutils.
#
# sbatch gives it EXPERIMENT_ID, EXPERIMENT_DIR, EXPERIMENT_COMMIT, CHAIN_STEP, CHAIN_LENGTH and the CHAIN_* settings of the
# launch; task.env beside it says what belongs to the experiment itself; run.sh is the user's
# variables, setup and run.
# lock.sh is put in front of this text when it is staged.

CELL=${SLURM_ARRAY_TASK_ID:?this script runs as a task of a job array}
TASK=$SLURM_JOB_ID
ARRAY=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}
RESTART=${SLURM_RESTART_COUNT:-0}
STARTED=$(date +%s)

say() { printf '[chain] %s\n' "$*"; }

# shellcheck source=/dev/null # written by src/chain/task.ts: SAVE_PATH SAVE_COMPLETE N_STEPS[cell]
. "$EXPERIMENT_DIR/task.env" || { say "$EXPERIMENT_DIR/task.env cannot be read on $(uname -n)"; exit 74; }

CHECKPOINT_DIR=$SAVE_PATH/$EXPERIMENT_ID/$CELL
RECORDS=$SAVE_PATH/$EXPERIMENT_ID/.chain
JOURNAL=$RECORDS/$CELL.jsonl
STEPS_WANTED=${N_STEPS[$CELL]:-}

say "$EXPERIMENT_ID: step $CHAIN_STEP of $CHAIN_LENGTH, cell $CELL, job ${ARRAY}_$CELL on $(uname -n), restart $RESTART"
mkdir -p "$CHECKPOINT_DIR" "$RECORDS" || exit 73
shopt -s nullglob dotglob

# --- the journal: one JSON object a line ---------------------------------------------------------------------------

# journal EVENT FIELD…: a field is "name":value, already JSON. The lock makes us its only writer; a line that a killed
# task left half-written is dropped first, so that every line stays valid.
journal() {
    local event=$1 line
    shift
    if [ -s "$JOURNAL" ] && [ -n "$(tail -c 1 "$JOURNAL")" ]; then
        head -n "$(wc -l <"$JOURNAL")" "$JOURNAL" >"$JOURNAL.whole" && mv -f "$JOURNAL.whole" "$JOURNAL"
    fi
    line="{\"event\":\"$event\",\"launch\":$CHAIN_LAUNCH,\"step\":$CHAIN_STEP,\"cell\":$CELL,\"job\":\"$ARRAY\",\"task\":\"$TASK\""
    line+=",\"restart\":$RESTART,\"host\":\"$(uname -n)\",\"time\":\"$(date -u +%Y-%m-%dT%H:%M:%SZ)\""
    local field
    for field; do line+=",$field"; done
    printf '%s}\n' "$line" >>"$JOURNAL" || say "the journal $JOURNAL could not be written"
}

json_name() { if [ -n "$1" ]; then printf '"%s"' "$1"; else printf null; fi; }

# --- checkpoints ---------------------------------------------------------------------------------------------------

is_complete() {
    local inside=("$1"/*)
    [ ${#inside[@]} -gt 0 ] && { [ -z "$SAVE_COMPLETE" ] || [ -e "$1/$SAVE_COMPLETE" ]; }
}

# Sets NEWEST and NEWEST_STEP to the complete checkpoint with the highest number, or empty, and NEWER to the incomplete ones above it.
find_newest() {
    local path name number candidates=()
    NEWEST='' NEWEST_STEP='' NEWER=()
    for path in "$CHECKPOINT_DIR"/step_*; do
        name=${path##*/}
        # Numbers compare as numbers, whatever their padding; a link (such as one called latest) is never followed.
        if [[ $name =~ ^step_0*([0-9]{1,18})$ ]] && [ ! -L "$path" ] && [ -d "$path" ]; then
            candidates+=("${BASH_REMATCH[1]} $name")
        fi
    done
    [ ${#candidates[@]} -gt 0 ] || return 0
    while read -r number name; do
        if is_complete "$CHECKPOINT_DIR/$name"; then
            NEWEST=$name NEWEST_STEP=$number
            return 0
        fi
        NEWER+=("$name")
    done < <(printf '%s\n' "${candidates[@]}" | sort -k1,1nr)
}

find_newest
if [ "$CHAIN_STEP" -gt 1 ]; then
    # A file system shared between nodes may show what the step before saved half a minute late.
    for pause in 1 2 4 8 16 30; do
        [ -z "$NEWEST" ] || break
        say "no checkpoint in $CHECKPOINT_DIR yet; looking again in $pause s"
        sleep $pause
        find_newest
    done
fi
RESUME_FROM=${NEWEST:+$CHECKPOINT_DIR/$NEWEST}
RESUME_STEP=$NEWEST_STEP
NEXT_STEP=$((${NEWEST_STEP:--1} + 1))

# --- done already --------------------------------------------------------------------------------------------------

if [ -e "$CHECKPOINT_DIR/COMPLETE" ] || { [ -n "$STEPS_WANTED" ] && [ $NEXT_STEP -ge "$STEPS_WANTED" ]; }; then
    journal 'done' "\"newest\":$(json_name "$NEWEST")"
    say "training is complete (${NEWEST:-COMPLETE}); nothing to do"
    exit 0
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

journal start "\"resumed_from\":$(json_name "$NEWEST")" "\"next_step\":$NEXT_STEP" "\"moved_aside\":[$moved]"
if [ -n "$NEWEST" ]; then say "resuming from $NEWEST"; else say "starting from scratch"; fi

interrupted=
# shellcheck disable=SC2317 # called by the traps
# The whole group gets the signal, so that srun, torchrun and plain children all see it.
forward() {
    interrupted=$1
    say "got $1, passing it on"
    kill -s "$1" -- "-$child" 2>/dev/null
}
trap 'forward USR1' USR1
trap 'forward USR2' USR2
trap 'forward TERM' TERM

set -m # its own process group
bash "$EXPERIMENT_DIR/run.sh" &
child=$!
set +m
# wait returns early when a trap ran; only an uninterrupted one tells how the child ended.
status=0
while :; do
    interrupted=
    before=$status
    wait "$child"
    status=$?
    [ -n "$interrupted" ] || break
done
# 127: an earlier, interrupted wait had the answer already.
[ "$status" -ne 127 ] || [ "$before" -eq 0 ] || status=$before

find_newest
signal=null
if [ "$status" -gt 128 ]; then signal="\"$(kill -l $((status - 128)) 2>/dev/null)\""; fi
progress=false
[ "${NEWEST_STEP:--1}" -le "${RESUME_STEP:--1}" ] || progress=true
journal end "\"seconds\":$(($(date +%s) - STARTED))" "\"exit\":$status" "\"signal\":$signal" \
    "\"resumed_from\":$(json_name "${RESUME_FROM##*/}")" "\"newest\":$(json_name "$NEWEST")" "\"new_checkpoint\":$progress"
say "the run ended with $status; newest complete checkpoint: ${NEWEST:-none}"
exit "$status"
