# shellcheck shell=bash disable=SC2154,SC2034,SC2153 # change.sh and the parts it needs come before it
# The submission: either the whole chain is in the queue, on record and released, or the queue is as it was.
#
# answers (the same table as in src/cluster/programs/submit.ts):
#   note TEXT                    something a person should know
#   changed                      the chain or its ledger changed since the probe; nothing was done
#   alive JOB_ID STATE DEPENDENCY NAME   a row of squeue of the chain that is in the queue already
#   submitted JOB_NUMBER CELL JOB_ID AFTER…   CELL is empty for an array over all cells
#   cut JOB_NUMBER REASON        Slurm refused this job, and the jobs before it are kept
#   released                     all jobs are released
#   held REASON                  all jobs are submitted and on record, and could not be released
#   refused REASON               Slurm refused, and the queue is as it was
#   stuck REASON JOB_IDS…        rolling back failed; these jobs are left, and they are held
#   unknown REASON               what is in the queue is not known; nothing was released
#
#   submit_begin WORKDIR EXPERIMENT_ID SAVE_DIR LAUNCH LAUNCH_TAG LEDGER_LINES QUEUED HOLDER WHEN_ALIVE WHEN_REFUSED
#   submit_files JOB_SH SECRETS
#   submit_job   JOB_NUMBER CELL AFTER TAG [NAME=VALUE…] -- SBATCH_ARGUMENT…
#   submit_end   MANIFEST SUMMARY COUNT
#
# QUEUED is `yes` if the probe found jobs of the experiment in the queue. WHEN_ALIVE is `report` (answer with the jobs in the queue
# and stop) or `extend` (continue behind the last of them). WHEN_REFUSED is `cancel` (roll back everything) or `keep` (keep the
# whole jobs that were accepted). AFTER is the index of an earlier submission, `tail` for the end of the chain that is in the
# queue, or empty.
#
# Every job is submitted held, and all are released together at the end. So nothing runs if anything goes wrong before, not even
# a request that arrives after we gave it up. LAUNCH_TAG has a random part, so that a launch only ever sees its own jobs.
#
# A call of sbatch has three outcomes: it was refused, it gave one id that has our tag, or we do not know. Unknown is settled by
# looking for the tag (the job name) in squeue and sacct. Nothing is submitted again before that look found nothing.

SBATCH_PATIENCE=300 # seconds; sbatch itself retries for two minutes when the controller is busy (src/sbatch/sbatch.c)

submit_begin() {
    local lines=0
    LAUNCH=$4 LAUNCH_TAG=$5 WHEN_ALIVE=$9 WHEN_REFUSED=${10}
    SUBMITTED=() JOB_NUMBERS=() CUT='' ALIVE=() LEFTOVER=() TAILS=()
    STARTED=$(date -d '-2 minutes' +%Y-%m-%dT%H:%M:%S)
    take_launch_lock "$1" "$2" "$8"
    save_layout "$3"
    if ! own_directory "$RECORDS" || ! are_ours "$SAVED_MANIFEST" "$SAVED_SUMMARY"; then
        foreign "$DISTRUST"
        exit 1
    fi

    [ ! -e "$LEDGER" ] || lines=$(wc -l <"$LEDGER")
    if [ "$lines" != "$6" ]; then
        answer changed
        exit 0
    fi
    settled_queue_of "$EXPERIMENT" || { answer problem "squeue does not answer on $(uname -n)"; exit 1; }
    settle_launches "$ROWS"
    # The launch was planned for a chain in the queue, and that chain has left it since.
    if [ "$7" = yes ] && [ ${#ALIVE[@]} -eq 0 ] && [ ${#LEFTOVER[@]} -eq 0 ]; then
        answer changed
        exit 0
    fi
    if [ "$WHEN_ALIVE" = report ] && [ ${#ALIVE[@]} -gt 0 ]; then
        answer_alive
        exit 0
    fi
}

answer_alive() {
    local row base id state reason dependency name
    for row in "${ALIVE[@]}"; do
        IFS='|' read -r base id state reason dependency name <<<"$row"
        answer alive "$base" "$state" "$dependency" "$name"
    done
}

# settle_launches ROWS: sets ALIVE to the rows of the chain that is alive, and LEFTOVER to the tags of interrupted launches. An
# interrupted launch left jobs that are held. If its release had not begun, they have not run and are cancelled. If it had begun,
# it is finished. A job that is not held is alive, even if the ledger that knew it is gone.
settle_launches() {
    local row launch unreleased=' '
    while IFS= read -r row; do
        parse_job_name "${row##*|}" || continue
        launch=$JOB_LAUNCH
        if grep -qs "\"event\":\"releasing\",\"launch\":$launch," "$LEDGER"; then
            ALIVE+=("$row")
            grep -q "\"event\":\"released\",\"launch\":$launch," "$LEDGER" ||
                case $unreleased in *" $launch "*) ;; *) unreleased+="$launch " ;; esac
        elif [[ $row != *'|JobHeldUser|'* ]]; then
            ALIVE+=("$row")
        else
            row=${row##*|}
            LEFTOVER+=("${row%.s*}")
        fi
    done <<<"$1"
    if [ ${#LEFTOVER[@]} -gt 0 ]; then
        answer note "an earlier launch of $EXPERIMENT was interrupted before its release; cancelling the jobs that it queued"
        cancel_tagged '' "${LEFTOVER[@]}" ||
            { answer stuck "the jobs of an interrupted launch could not be cancelled" "${LEFT[@]}"; exit 1; }
    fi
    for launch in $unreleased; do
        release "$launch" "$(sed -n "s/^{\"event\":\"submitted\",\"launch\":$launch,.*\"job\":\"\([0-9]*\)\".*/\1/p" "$LEDGER" | tr '\n' ' ')"
    done
}

# submit_files JOB_SH SECRETS: the files that belong to the launch and not to the experiment. Slurm keeps its own copy of the
# script of a job that is in the queue. SECRETS are shell assignments; without any, those of an earlier launch stay.
submit_files() {
    write_whole "$JOB_SCRIPT" "$1" || roll_back "$JOB_SCRIPT could not be written on $(uname -n)"
    if [ -z "$2" ] && is_ours "$SECRETS"; then
        chmod 600 "$SECRETS"
    elif [ -z "$2" ] && [ -n "$DISTRUST" ]; then
        roll_back "$DISTRUST. Give the secrets to this launch again, or remove the file"
    else
        write_secret "$SECRETS" "$2" || roll_back "$SECRETS could not be written on $(uname -n)"
    fi
    is_private "$SECRETS" || roll_back "$SECRETS is not a file that only $(id -un) can read. Its file system does not keep the mode 0600, so no secrets can be kept there"
}

submit_job() {
    local number=$1 cell=$2 after=$3 tag=$4 argument dependency=''
    shift 4
    [ -z "$CUT" ] || return 0
    EXPORTS=() ARGUMENTS=()
    while [ "$1" != -- ]; do
        [[ $1 =~ ^[A-Z_][A-Z0-9_]*= ]] || roll_back "'$1' does not start with the name of a variable. This is a fault of slurm-chain; please report it"
        EXPORTS+=("$1")
        shift
    done
    shift
    find_after "$after" "$cell"
    for argument; do
        case $argument in
            --dependency=*)
                [ ${#AFTER[@]} -gt 0 ] || continue # the job that it would wait for has ended
                # @ stands for the ids of the jobs that it waits for.
                argument=${argument/@/$(IFS=: && printf '%s' "${AFTER[*]}")}
                dependency=${argument#--dependency=}
                ;;
        esac
        ARGUMENTS+=("$argument")
    done
    if launcher_gone; then roll_back "the launcher stopped before $tag was submitted"; fi
    keep_lock || roll_back "another launch took over the lock before $tag was submitted"
    submit_until_known "$number" "$tag" || return 0
    confirm "$tag" "$dependency" "$after"
    # On record before anything else happens.
    if ! ledger_submitted "$LAUNCH" "$number" "$cell" "$ID" "$SLURM_CLUSTER" "${AFTER[*]}" "$tag"; then
        roll_back "$LEDGER could not be written on $(uname -n): $(df -Ph "$DIR" | tail -n 1)"
    fi
    [ -z "$WRONG" ] || roll_back "$WRONG"
    SUBMITTED+=("$ID")
    JOB_NUMBERS+=("$number")
    answer submitted "$number" "$cell" "$ID" "${AFTER[@]}"
}

# find_after AFTER CELL: sets AFTER to the ids of the jobs that the next job waits for.
find_after() {
    case $1 in
        '') AFTER=() ;;
        tail)
            find_tail "$2"
            TAILS+=("${AFTER[@]}")
            ;;
        *[!0-9]*) roll_back "'$1' is not the index of a submission. This is a fault of slurm-chain; please report it" ;;
        *) AFTER=("${SUBMITTED[10#$1]}") ;;
    esac
}

# find_tail CELL: sets AFTER to the last jobs of the chain that is alive: those of the cell, or without a cell those of all
# cells. Empty if the chain has ended.
find_tail() {
    local cell=$1 row of
    declare -A last=() tail=()
    for row in ${ALIVE[@]+"${ALIVE[@]}"}; do
        parse_job_name "${row##*|}"
        of=${JOB_CELL:-all}
        if [ -n "$cell" ] && [ "$of" != all ] && [ "$of" != "$cell" ]; then continue; fi
        # A single cell waits for one job: its own last one, or an array over all cells.
        [ -z "$cell" ] || of=any
        if [ "$JOB_NUMBER" -gt "${last[$of]:-0}" ]; then last[$of]=$JOB_NUMBER tail[$of]=${row%%|*}; fi
    done
    AFTER=("${tail[@]}")
}

# submit_until_known JOB_NUMBER TAG: calls sbatch with EXPORTS and ARGUMENTS until the outcome is known. Sets ID and
# SLURM_CLUSTER. Fails if Slurm refused and the jobs before this one are kept; rolls back if it refused otherwise.
submit_until_known() {
    local number=$1 tag=$2 outcome again=''
    while :; do
        (
            clear_sbatch_variables
            export "${EXPORTS[@]}" CHAIN_UMASK="$ACCOUNT_UMASK" CHAIN_SHARE="${CHAIN_SHARE:-}"
            # Slurm gives our umask to the job and to its log (sbatch(1), SLURM_UMASK).
            sbatch_once "$tag" "${ARGUMENTS[@]}" "$JOB_SCRIPT"
            outcome=$?
            printf '%s\n%s\n%s' "${ID:-}" "${SLURM_CLUSTER:-}" "${REASON:-}" >"$OUTCOME"
            exit $outcome
        )
        outcome=$?
        { read -r ID; read -r SLURM_CLUSTER; REASON=$(cat); } <"$OUTCOME"
        case $outcome in
            0) return 0 ;;
            1)
                keep_whole_jobs "$REASON" "$number" && return 1
                roll_back "$REASON"
                ;;
            3)
                # squeue answered every look, and the job is not there: one more call cannot make a second job.
                if [ -n "$again" ]; then roll_back "$REASON"; fi
                again=1
                ;;
            *)
                answer unknown "$REASON"
                exit 1
                ;;
        esac
    done
}

# What sbatch says when it does not know the outcome itself (src/common/slurm_errno.c, and errno texts of a broken connection).
LOST_ON_THE_WAY='timed out|Zero Bytes|Unable to contact|Unexpected message|I/O error|Message (send|receive)|[Cc]onnection|Communication|Transport|temporarily|standby'

# sbatch_once TAG ARGUMENT…: returns 0 submitted (sets ID and SLURM_CLUSTER), 1 refused, 2 unknown, 3 lost and not in the queue;
# the last three set REASON.
sbatch_once() {
    local tag=$1 said status errors pauses=$LOOK_PAUSES refused=''
    shift
    said=$(timeout $SBATCH_PATIENCE sbatch --parsable "$@" 2>"$SCRATCH" </dev/null)
    status=$?
    errors=$(<"$SCRATCH")
    REASON=${errors:-"sbatch exited with $status and printed '$said'"}
    if [ $status -eq 0 ] && [[ $said =~ ^([0-9]+)(\;([A-Za-z0-9._-]+))?$ ]]; then
        ID=${BASH_REMATCH[1]}
        SLURM_CLUSTER=${BASH_REMATCH[3]}
        [ -z "$errors" ] || answer note "sbatch accepted $tag and said: $errors"
        return 0
    fi
    # A refusal by the controller, or an option that sbatch does not take, is a clear no and needs only a short look. A request
    # that got lost may still arrive.
    if [[ $errors == *'Batch job submission failed:'* || ($status -ne 0 && $status -lt 124 && -n $errors) ]] &&
        ! [[ $errors =~ $LOST_ON_THE_WAY ]]; then
        pauses='0 1' refused=1
    fi
    look_for "$tag" "$pauses" && return 0
    case $? in
        1) if [ -n "$refused" ]; then return 1; else return 3; fi ;;
        2) return 2 ;;
        *) return 1 ;;
    esac
}

# look_for TAG PAUSES: looks for a job with this name. Returns 0 found (sets ID), 1 not there, 2 unknown, 3 our lock is gone; the
# last two set REASON.
look_for() {
    local tag=$1 pause answered=''
    for pause in $2; do
        sleep "$pause"
        keep_lock || { REASON="another launch took over the lock"; return 3; }
        find_by_tag "$tag" || continue
        answered=1
        case $FOUND in
            '') ;;
            *' '*)
                REASON="more than one job has the tag $tag: $FOUND. Cancel them (scancel $FOUND) and launch again"
                return 2
                ;;
            *)
                answer note "sbatch gave no clear answer for $tag ($REASON); found it in the queue as job $FOUND"
                ID=$FOUND
                SLURM_CLUSTER=''
                return 0
                ;;
        esac
    done
    [ -n "$answered" ] && return 1
    REASON="sbatch gave no clear answer for $tag ($REASON), and squeue does not answer"
    return 2
}

# find_by_tag TAG: sets FOUND to the ids of the jobs with this name. Fails if squeue did not answer. If squeue shows none, sacct
# is asked for jobs that left the queue already; it may be missing or slow.
find_by_tag() {
    local tag=$1 rows
    rows=$(queue_of "$EXPERIMENT" "$tag") || return 1
    [ -n "$rows" ] || rows=$(timeout 20 sacct -X -n -P -S "$STARTED" --name="$tag" -o JobID 2>/dev/null | sed 's/_.*//')
    FOUND=$(cut -d'|' -f1 <<<"$rows" | grep -E '^[0-9]+$' | sort -u | tr '\n' ' ')
    FOUND=${FOUND% }
}

# confirm TAG DEPENDENCY AFTER: waits until squeue shows ID with our tag, and sets WRONG if the job is not as it should be. A
# wrong id on record is worse than none, because the next job would wait for it. Rolls back if squeue never shows the job.
confirm() {
    local tag=$1 dependency=$2 after=$3 pause status=3 waits_for=()
    WRONG=''
    for pause in $RETRY_PAUSES; do
        sleep "$pause"
        keep_lock || roll_back "another launch took over the lock while $tag was submitted"
        read_back "$ID" "$dependency" "$tag"
        status=$?
        if [ $status -eq 1 ] && [ "$after" = tail ]; then
            # The end of the chain may have ended since; then squeue shows no dependency any more.
            IFS=: read -r -a waits_for <<<"${dependency#afterany:}"
            if any_ended ${waits_for[@]+"${waits_for[@]}"}; then status=0 WRONG=''; fi
        fi
        [ $status -gt 1 ] || return 0
        if [ $status -eq 2 ] && find_by_tag "$tag" && [[ $FOUND =~ ^[0-9]+$ ]] && [ "$FOUND" != "$ID" ]; then
            answer note "sbatch gave the id $ID for $tag, but that is another job; found it in the queue as job $FOUND"
            ID=$FOUND
        fi
    done
    roll_back "squeue does not show job $ID, which sbatch gave for $tag"
}

# read_back ID DEPENDENCY TAG: returns 0 if squeue shows this job with our tag and this dependency, 1 if something else is wrong
# with it (sets WRONG), 2 if it is not our job or no job at all, 3 if squeue did not answer.
read_back() {
    local id=$1 wanted=$2 tag=$3 row base state dependency name
    WRONG=''
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
        WRONG="job $id ($tag) should wait with $wanted, but its dependency is '$dependency'"
        return 1
    fi
    if [ "$state" != PENDING ]; then
        WRONG="job $id ($tag) is $state although nothing was released"
        return 1
    fi
}

# any_ended ID…: succeeds if squeue says that one of these is not in the queue.
any_ended() {
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

# keep_whole_jobs REASON JOB_NUMBER: with `keep`, cancels what was submitted of this job and keeps the jobs before it. Fails if
# there is no whole job to keep.
keep_whole_jobs() {
    local index kept=()
    [ "$WHEN_REFUSED" = keep ] || return 1
    for index in "${!SUBMITTED[@]}"; do
        [ "${JOB_NUMBERS[$index]}" -ge "$2" ] || kept+=("${SUBMITTED[$index]}")
    done
    [ ${#kept[@]} -gt 0 ] || return 1
    if [ ${#kept[@]} -lt ${#SUBMITTED[@]} ]; then cancel_tagged '' "$LAUNCH_TAG.s$2" || return 1; fi
    SUBMITTED=("${kept[@]}")
    CUT=$1
    answer cut "$2" "$1"
}

# roll_back REASON: cancels what this launch queued, and ends the program. Jobs are found by tag, so that a job that sbatch
# queued without saying so is cancelled too.
roll_back() {
    local reason=$1 ids=()
    if ! queue_of "$EXPERIMENT" "$LAUNCH_TAG" >/dev/null; then
        # No answer is not a no. The ids we know are cancelled. The rest is held, and the next launch cancels it.
        ids=("${SUBMITTED[@]}" ${ID:+"$ID"})
        [ ${#ids[@]} -eq 0 ] || timeout 60 scancel "${ids[@]}" 2>/dev/null
        answer unknown "$reason; and squeue does not answer, so what is in the queue is not known"
        exit 1
    fi
    if cancel_tagged '' "$LAUNCH_TAG"; then
        answer refused "$reason"
    else
        answer stuck "$reason" "${LEFT[@]}"
    fi
    exit 1
}

submit_end() {
    local manifest=$1 summary=$2 count=$3 rows queued others
    [ -z "$CUT" ] || count=${#SUBMITTED[@]}
    # The queue must hold exactly what is on record: a request that was given up as lost may have arrived since.
    rows=$(queue_of "$EXPERIMENT") || roll_back "squeue does not answer before the release"
    others=$(grep -vF "|$LAUNCH_TAG." <<<"$rows")
    rows=$(grep -F "|$LAUNCH_TAG." <<<"$rows")
    queued=$(cut -d'|' -f1 <<<"$rows" | sort -u | tr '\n' ' ')
    if [ "$queued" != "$(printf '%s\n' "${SUBMITTED[@]}" | sort -u | tr '\n' ' ')" ] || [ ${#SUBMITTED[@]} -ne "$count" ]; then
        roll_back "the queue holds jobs ${queued}of this launch, and on record are ${SUBMITTED[*]}"
    fi
    refuse_lost_tail "$others"
    if ! write_whole "$SUMMARY" "$summary" || ! write_whole "$SAVED_SUMMARY" "$summary" ||
        ! write_whole "$MANIFEST" "$manifest" || ! write_whole "$SAVED_MANIFEST" "$manifest"; then
        roll_back "the manifest could not be written to $DIR and $RECORDS on $(uname -n)"
    fi
    keep_lock || roll_back "another launch took over the lock before the release"
    # The intent goes on record first. If this launch dies between the two, the next one finishes the release.
    ledger_release releasing "$LAUNCH" "${SUBMITTED[0]}" || roll_back "$LEDGER could not be written on $(uname -n)"
    if release "$LAUNCH" "${SUBMITTED[*]}"; then answer released; else answer held "$(<"$SCRATCH")"; fi
}

# refuse_lost_tail ROWS: ends the program with `changed` if somebody cancelled the end of the chain since it was looked up, while
# earlier jobs of the chain (ROWS) are still there. Otherwise the new jobs would run beside those. read_back cannot tell, because
# squeue shows the dependency as unfulfilled for a while.
refuse_lost_tail() {
    local id
    [ -n "$1" ] || return 0
    for id in ${TAILS[@]+"${TAILS[@]}"}; do
        if grep -q "^$id|" <<<"$1"; then continue; fi
        cancel_tagged '' "$LAUNCH_TAG" || { answer stuck "job $id left the queue while the chain was extended" "${LEFT[@]}"; exit 1; }
        answer changed
        exit 0
    done
}
