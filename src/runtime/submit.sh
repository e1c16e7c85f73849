# shellcheck shell=bash disable=SC2154,SC2034 # LOCK_HELD is set by lock.sh, which follows in the program
# The submission transaction: either the whole chain is in the queue, recorded and released, or the queue is as it was.
#
#   submit_begin WORKDIR EXPERIMENT_ID SAVE_DIR LAUNCH LAUNCH_TAG LEDGER_LINES HOLDER WHEN_ALIVE WHEN_REFUSED
#   submit_files JOB_SH SECRETS
#   submit_step  STEP CELL AFTER TAG [NAME=VALUE…] -- SBATCH_ARGUMENT…
#   submit_end   MANIFEST COUNT
#
# WHEN_ALIVE is `report` (say so and stop) or `extend` (go on behind the last jobs of the chain that is there). WHEN_REFUSED is
# `cancel` (take everything back) or `keep` (leave the whole steps that were accepted). AFTER is the index of an earlier step,
# `tail` for the end of the chain that is there, or empty.
#
# Every step is submitted held, and all are released together at the end: whatever goes wrong before, nothing runs, not even
# a request that arrives after it was given up. LAUNCH_TAG has a random part, so that a launch only ever sees its own jobs.
#
# Three outcomes of an sbatch call: it said no, it gave one id that carries our tag, or we do not know. The last is settled
# by looking for the tag (the job name) in squeue and sacct; nothing is submitted again before that look found nothing.

SBATCH_PATIENCE=300 # sbatch itself retries for about two minutes when the controller is busy (src/sbatch/sbatch.c)

# Sets FOUND to the base ids that carry the tag. Fails when squeue did not answer. sacct is asked where squeue shows none, for
# jobs that have left the queue already; it may be absent, or slow where its database is.
look_up() {
    local tag=$1 rows
    rows=$(queue_of "$tag") || return 1
    [ -n "$rows" ] || rows=$(timeout 20 sacct -X -n -P -S "$STARTED" --name="$tag" -o JobID 2>/dev/null | sed 's/_.*//')
    FOUND=$(cut -d'|' -f1 <<<"$rows" | grep -E '^[0-9]+$' | sort -u | tr '\n' ' ')
    FOUND=${FOUND% }
}

# read_back ID DEPENDENCY TAG: does squeue show this job under our tag, with the dependency it was given?
# 0 yes, 1 no (WRONG says how), 2 it is not our job or no job at all, 3 squeue did not answer.
read_back() {
    local id=$1 wanted=$2 tag=$3 row base state dependency name
    row=$(timeout 60 squeue -a -h -j "$id" -o '%F|%T|%E|%j' 2>"$SCRATCH") || {
        grep -q 'Invalid job id' "$SCRATCH" && return 2
        return 3
    }
    [ ! -s "$SCRATCH" ] || return 3
    row=${row%%$'\n'*}
    [ -n "$row" ] || return 2
    IFS='|' read -r base state dependency name <<<"$row"
    if [ "$base" != "$id" ] || [ "$name" != "$tag" ]; then return 2; fi
    # squeue shows afterany:4711:4712 of arrays as afterany:4711_*(unfulfilled),afterany:4712_*(unfulfilled).
    dependency=${dependency//'(unfulfilled)'/}
    dependency=${dependency//_\*/}
    dependency=${dependency//,afterany:/:}
    if [ -n "$wanted" ] && [ "$dependency" != "$wanted" ]; then
        WRONG="job $id ($tag) was to wait with $wanted, but its dependency reads '$dependency'"
        return 1
    fi
    if [ "$state" != PENDING ]; then
        WRONG="job $id ($tag) is $state although nothing was released"
        return 1
    fi
}

# has_ended ID…: does squeue say of one of these that it is not in the queue? Not answering says nothing.
has_ended() {
    local id rows
    for id; do
        if rows=$(timeout 60 squeue -a -h -j "$id" -o %i 2>"$SCRATCH"); then
            if [ -z "$rows" ] && [ ! -s "$SCRATCH" ]; then return 0; fi
        elif grep -q 'Invalid job id' "$SCRATCH"; then
            return 0
        fi
    done
    return 1
}

# What sbatch says when it does not know either (src/common/slurm_errno.c, and the system's words for a broken connection).
LOST_ON_THE_WAY='timed out|Zero Bytes|Unable to contact|Unexpected message|I/O error|Message (send|receive)|[Cc]onnection|Communication|Transport|temporarily|standby'

# Sets ID and CLUSTER. 0 submitted, 1 refused (REASON), 2 unknown and beyond settling here (REASON).
sbatch_once() {
    local tag=$1 said status errors
    shift
    said=$(timeout $SBATCH_PATIENCE sbatch --parsable "$@" 2>"$SCRATCH" </dev/null)
    status=$?
    errors=$(<"$SCRATCH")
    REASON=${errors:-"sbatch exited with $status and printed '$said'"}
    if [ $status -eq 0 ] && [[ $said =~ ^([0-9]+)(\;([A-Za-z0-9._-]+))?$ ]]; then
        ID=${BASH_REMATCH[1]}
        CLUSTER=${BASH_REMATCH[3]}
        [ -z "$errors" ] || answer note "sbatch said while it accepted $tag: $errors"
        return 0
    fi
    # The controller's own refusals, and options sbatch does not take, are a no. What got lost on the way is looked for with
    # patience: the request may still be on its way in.
    local looks='0 1 2 4 8 15' pause answered=
    if [[ $errors == *'Batch job submission failed:'* || ( $status -ne 0 && $status -lt 124 && -n $errors ) ]] &&
        ! [[ $errors =~ $LOST_ON_THE_WAY ]]; then
        looks='0 1'
    fi
    for pause in $looks; do
        sleep "$pause"
        keep_lock || { REASON="another launch took the lock over"; return 1; }
        look_up "$tag" || continue
        answered=1
        case $FOUND in
            '') ;;
            *' '*)
                REASON="more than one job carries the tag $tag: $FOUND. Cancel all of them (scancel $FOUND) and launch again"
                return 2
                ;;
            *)
                answer note "sbatch gave no clean answer for $tag ($REASON); found it in the queue as job $FOUND"
                ID=$FOUND
                CLUSTER=
                return 0
                ;;
        esac
    done
    if [ -z "$answered" ]; then
        REASON="sbatch gave no clean answer for $tag ($REASON) and squeue does not answer"
        return 2
    fi
    [ "$looks" = '0 1' ] && return 1
    return 3
}

ledger_release() { ledger "{\"event\":\"$1\",\"launch\":$2,\"job\":\"${3%% *}\",\"time\":\"$(now)\"}"; }

# release LAUNCH 'ID ID …': lets the steps go, the last one first, so that none finds the one before it still held.
release() {
    local launch=$1 ids=() id pause
    for id in $2; do ids=("$id" "${ids[@]}"); done
    for pause in 0 1 2 5 10; do
        sleep $pause
        # One that has ended by now cannot be released and need not be.
        if timeout 60 scontrol release "${ids[@]}" 2>"$SCRATCH" || ! grep -qv 'already completing or completed\|Invalid job id' "$SCRATCH"; then
            ledger_release released "$launch" "$2"
            answer released "${2%% *}"
            return 0
        fi
    done
    answer held "${2%% *}" "$(<"$SCRATCH")"
}

submit_begin() {
    local lines=0 rows row launch
    SAVE_DIR=$3 LAUNCH=$4 LAUNCH_TAG=$5 WHEN_ALIVE=$8 WHEN_REFUSED=$9
    SUBMITTED=() STEPS=() CUT=''
    STARTED=$(date -d '-2 minutes' +%Y-%m-%dT%H:%M:%S)
    take_launch_lock "$1" "$2" "$7"

    [ ! -e "$DIR/ledger.jsonl" ] || lines=$(wc -l <"$DIR/ledger.jsonl")
    if [ "$lines" != "$6" ]; then
        answer changed "$lines"
        exit 0
    fi
    rows=$(queue_of "$EXPERIMENT") || { answer problem "squeue does not answer on $(uname -n)"; exit 1; }
    # What a launch left behind that never got to its release is held and has not run: it is undone before anything else.
    # Whatever is not held is alive, even where the ledger that knew of it is gone.
    local leftover=() unreleased=' '
    ALIVE=()
    while IFS= read -r row; do
        [ -n "$row" ] || continue
        launch=${row##*.l}
        launch=${launch%%[.-]*}
        if grep -qs "\"event\":\"releasing\",\"launch\":$launch," "$DIR/ledger.jsonl"; then
            ALIVE+=("$row")
            grep -q "\"event\":\"released\",\"launch\":$launch," "$DIR/ledger.jsonl" ||
                case $unreleased in *" $launch "*) ;; *) unreleased+="$launch " ;; esac
        elif [[ $row != *'|JobHeldUser|'* ]]; then
            ALIVE+=("$row")
        else
            row=${row##*|}
            leftover+=("${row%.s*}")
        fi
    done <<<"$rows"
    if [ ${#leftover[@]} -gt 0 ]; then
        answer note "an earlier launch of $EXPERIMENT was interrupted before its release; cancelling what it queued"
        cancel_tagged '' "${leftover[@]}" || { answer stuck "what an interrupted launch left could not be cancelled" "$LEFT"; exit 1; }
    fi
    # These were about to be released when their launcher died over it.
    for launch in $unreleased; do
        release "$launch" "$(sed -n "s/^{\"event\":\"submitted\",\"launch\":$launch,.*\"job\":\"\([0-9]*\)\".*/\1/p" "$DIR/ledger.jsonl" | tr '\n' ' ')"
    done
    if [ "$WHEN_ALIVE" = report ] && [ ${#ALIVE[@]} -gt 0 ]; then
        for row in "${ALIVE[@]}"; do answer alive "$row"; done
        exit 0
    fi
}

# Sets TAIL to the last jobs of the chain that is alive: those a cell waits for, or with no cell those of all. Empty when there
# are none (any more).
find_tail() {
    local cell=$1 row base name step of best=()
    declare -A last=() tail=()
    for row in ${ALIVE[@]+"${ALIVE[@]}"}; do
        base=${row%%|*}
        name=${row##*|}
        step=${name##*.s}
        of='all'
        [[ $step != *.c* ]] || of=${step#*.c}
        step=${step%%.*}
        if [ -n "$cell" ] && [ "$of" != all ] && [ "$of" != "$cell" ]; then continue; fi
        # One cell waits for one job, whichever is its last.
        [ -z "$cell" ] || of=any
        if [ "$step" -gt "${last[$of]:-0}" ]; then last[$of]=$step tail[$of]=$base; fi
    done
    for of in "${!tail[@]}"; do best+=("${tail[$of]}"); done
    TAIL=${best[*]-}
}

# roll_back WHY: takes back what this launch queued, found by tag, so that what sbatch queued without saying so goes too.
roll_back() {
    local why=$1 ids=()
    if ! queue_of "$LAUNCH_TAG" >/dev/null; then
        # Not knowing is not a no. What is known goes; the next launch undoes the rest, which is held.
        ids=("${SUBMITTED[@]}" ${ID:+"$ID"})
        [ ${#ids[@]} -eq 0 ] || timeout 60 scancel "${ids[@]}" 2>/dev/null
        answer unknown "$why; and squeue does not answer, so what is in the queue is not known"
        exit 1
    fi
    if cancel_tagged '' "$LAUNCH_TAG"; then
        answer refused "$why"
    else
        answer stuck "$why" "$LEFT"
    fi
    exit 1
}

# keep_whole_steps WHY STEP: where refusals are to leave what was accepted, what there is of this step is taken back and the
# steps before it stay. Fails when there is no whole step to keep.
keep_whole_steps() {
    local why=$1 step=$2 index kept=()
    [ "$WHEN_REFUSED" = keep ] || return 1
    for index in "${!SUBMITTED[@]}"; do
        [ "${STEPS[$index]}" -ge "$step" ] || kept+=("${SUBMITTED[$index]}")
    done
    [ ${#kept[@]} -gt 0 ] || return 1
    if [ ${#kept[@]} -lt ${#SUBMITTED[@]} ]; then cancel_tagged '' "$LAUNCH_TAG.s$step" || return 1; fi
    SUBMITTED=("${kept[@]}")
    CUT=$why
    answer cut "$step" "$why"
}

# submit_files JOB_SH SECRETS: what the jobs read that belongs to the launch, not the experiment. Slurm keeps a copy of the
# script of what is queued already. Secrets are shell assignments that only the account can read; none given keeps the old.
submit_files() {
    write_whole "$DIR/job.sh" "$1" || roll_back "$DIR/job.sh could not be written on $(uname -n)"
    if [ -n "$2" ] || [ ! -e "$DIR/secrets.env" ]; then
        (
            umask 077
            write_whole "$DIR/secrets.env" "$2"
        ) || roll_back "$DIR/secrets.env could not be written on $(uname -n)"
    fi
}

submit_step() {
    local step=$1 cell=$2 after=$3 tag=$4 exports=() after_id='' dependency='' arguments=() argument outcome again='' waits_for=()
    shift 4
    [ -z "$CUT" ] || return 0
    while [ "$1" != -- ]; do exports+=("$1"); shift; done
    shift
    case $after in
        '') ;;
        tail)
            find_tail "$cell"
            after_id=$TAIL
            ;;
        *) after_id=${SUBMITTED[$after]} ;;
    esac
    # @ stands where the ids of what it waits for go, which nobody knows until now.
    for argument; do
        case $argument in
            --dependency=*)
                [ -n "$after_id" ] || continue # what it would wait for has ended
                argument=${argument/@/${after_id// /:}}
                dependency=${argument#--dependency=}
                ;;
        esac
        arguments+=("$argument")
    done
    if launcher_gone; then roll_back "the launcher went away before $tag was submitted"; fi
    keep_lock || roll_back "another launch took the lock over before $tag was submitted"

    while :; do
        (
            clear_sbatch_variables
            export "${exports[@]}"
            sbatch_once "$tag" "${arguments[@]}" "$DIR/job.sh"
            outcome=$?
            printf '%s\n%s\n%s' "${ID:-}" "${CLUSTER:-}" "${REASON:-}" >"$SCRATCH.outcome"
            exit $outcome
        )
        outcome=$?
        { read -r ID; read -r CLUSTER; REASON=$(cat); } <"$SCRATCH.outcome"
        rm -f "$SCRATCH.outcome"
        case $outcome in
            0) break ;;
            1)
                keep_whole_steps "$REASON" "$step" && return 0
                roll_back "$REASON"
                ;;
            3)
                # Looked for with patience, not there, and squeue did answer: asking once more makes no duplicate.
                if [ -n "$again" ]; then roll_back "$REASON"; fi
                again=1
                ;;
            *)
                answer unknown "$REASON"
                exit 1
                ;;
        esac
    done
    # The id is believed once squeue shows it under our tag: a wrong number on record is worse than none, because the next
    # step would wait for it in vain.
    local pause status=3
    for pause in 0 1 2 5 10; do
        sleep $pause
        keep_lock || roll_back "another launch took the lock over while $tag was submitted"
        read_back "$ID" "$dependency" "$tag"
        status=$?
        # The end of the chain that was there may have ended since, and then there is nothing to wait for.
        if [ $status -eq 1 ] && [ "$after" = tail ]; then
            IFS=: read -r -a waits_for <<<"${dependency#afterany:}"
            if has_ended ${waits_for[@]+"${waits_for[@]}"}; then status=0; fi
        fi
        [ $status -gt 1 ] || break
        if [ $status -eq 2 ] && look_up "$tag" && [[ $FOUND =~ ^[0-9]+$ ]] && [ "$FOUND" != "$ID" ]; then
            answer note "sbatch gave $ID for $tag, which is not that job; found it in the queue as job $FOUND"
            ID=$FOUND
        fi
    done
    [ $status -le 1 ] || roll_back "squeue does not show job $ID, which sbatch gave for $tag"
    # On record before anything else happens.
    if ! ledger "{\"event\":\"submitted\",\"launch\":$LAUNCH,\"step\":$step,\"cell\":${cell:-null},\"job\":\"$ID\",\"cluster\":\"$CLUSTER\",\"after\":\"$after_id\",\"tag\":\"$tag\",\"time\":\"$(now)\"}"; then
        roll_back "$DIR/ledger.jsonl could not be written on $(uname -n): $(df -Ph "$DIR" | tail -n 1)"
    fi
    [ $status -eq 0 ] || roll_back "$WRONG"
    SUBMITTED+=("$ID")
    STEPS+=("$step")
    answer submitted "$step" "$cell" "$ID" "$CLUSTER" "$after_id"
}

submit_end() {
    local manifest=$1 count=$2 rows queued
    [ -z "$CUT" ] || count=${#SUBMITTED[@]}
    # Exactly what is on record is in the queue: a request that was given up for lost may have come in since.
    rows=$(queue_of "$LAUNCH_TAG") || roll_back "squeue does not answer before the release"
    queued=$(cut -d'|' -f1 <<<"$rows" | sort -u | tr '\n' ' ')
    if [ "$queued" != "$(printf '%s\n' "${SUBMITTED[@]}" | sort -u | tr '\n' ' ')" ] || [ ${#SUBMITTED[@]} -ne "$count" ]; then
        roll_back "the queue holds jobs ${queued}of this launch, and on record are ${SUBMITTED[*]}"
    fi
    if ! write_whole "$DIR/manifest.json" "$manifest" || ! write_whole "$SAVE_DIR/.chain/manifest.json" "$manifest"; then
        roll_back "the manifest could not be written to $DIR and $SAVE_DIR/.chain on $(uname -n)"
    fi
    keep_lock || roll_back "another launch took the lock over before the release"
    # The intent is on record first: a launch that dies between the two is finished by the next one, not undone.
    ledger_release releasing "$LAUNCH" "${SUBMITTED[*]}" || roll_back "$DIR/ledger.jsonl could not be written on $(uname -n)"
    release "$LAUNCH" "${SUBMITTED[*]}"
}
