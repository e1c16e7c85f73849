# shellcheck shell=bash disable=SC2154 # frame.sh, change.sh and submit.sh set EXPERIMENT, RETRY_PAUSES and SCRATCH
# Releasing the jobs of a launch. Needs queue.sh and ledger.sh.

# is_held 'ID ID …': is one of these jobs held, according to squeue? No answer counts as yes.
is_held() {
    local rows base reason
    rows=$(queue_of "$EXPERIMENT") || return 0
    while IFS='|' read -r base _ _ reason _; do
        if [[ $reason == JobHeld* && " $1 " == *" $base "* ]]; then return 0; fi
    done <<<"$rows"
    return 1
}

# release LAUNCH 'ID ID …': releases the jobs, the last one first, so that none finds the job before it still held. Fails with
# scontrol's words in $SCRATCH.
release() {
    local launch=$1 ids=() id pause
    for id in $2; do ids=("$id" "${ids[@]}"); done
    for pause in $RETRY_PAUSES; do
        sleep "$pause"
        # If somebody cancelled one of the jobs, scontrol fails with one of several messages, but releases the others. So squeue
        # says what is still held.
        if timeout 60 scontrol release "${ids[@]}" 2>"$SCRATCH" || ! is_held "$2"; then
            ledger_release released "$launch" "${2%% *}"
            return 0
        fi
    done
    return 1
}
