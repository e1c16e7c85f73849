# shellcheck shell=bash disable=SC2034,SC2153,SC2154 # part of job.sh
# The journal of a cell: one JSON object a line, written by whoever holds the cell's lock. The last field of a line, sum, is the
# start of the SHA-256 of the sum of the line before and of the line without this field, so that a line that was edited, put
# in or taken out shows (src/audit/attribution.ts checks it). It is no signature: who edits a line can make all sums anew.

# The sum of the journal's last line; nothing where there is none.
journal_sum() {
    local line
    [ -s "$JOURNAL" ] || return 0
    line=$(tail -n 1 "$JOURNAL")
    [[ ! $line =~ \"sum\":\"([0-9a-f]{16})\"\}$ ]] || printf '%s' "${BASH_REMATCH[1]}"
}

# journal EVENT FIELD…: a field is "name":value, already JSON. A line that a killed task left half-written is dropped first,
# so that every line stays valid.
journal() {
    local event=$1 line field sum
    shift
    if [ -s "$JOURNAL" ] && [ -n "$(tail -c 1 "$JOURNAL")" ]; then
        truncate -s "$(head -n "$(wc -l <"$JOURNAL")" "$JOURNAL" | wc -c)" "$JOURNAL"
    fi
    line="{\"event\":\"$event\",\"launch\":$CHAIN_LAUNCH,\"step\":$CHAIN_STEP,\"cell\":$CELL,\"job\":\"$ARRAY\",\"task\":\"$TASK\""
    line+=",\"restart\":$RESTART,\"host\":\"$(uname -n)\",\"time\":\"$(date -u +%Y-%m-%dT%H:%M:%SZ)\""
    for field; do line+=",$field"; done
    sum=$(printf '%s%s}' "$(journal_sum)" "$line" | sha256sum)
    if ! printf '%s,"sum":"%s"}\n' "$line" "${sum:0:16}" >>"$JOURNAL"; then
        say "the journal $JOURNAL could not be written: $(df -Ph "$RECORDS" | tail -n 1)"
        return 1
    fi
}

json_name() { if [ -n "$1" ]; then printf '"%s"' "$1"; else printf null; fi; }

# Sets
#   EXPECTED_STEP    the newest checkpoint by the last word of any task of this cell, -1 for none
#   EARLIER_UNCLEAR  yes when an earlier task may have saved something nobody reported
#   FAILURES         how many tasks of this launch, up to the last one, ended without a new checkpoint and without being done
# A task that was requeued is the same task: only how it ends at last counts. A new launch counts anew, which is how a
# person goes on after a stop.
read_journal() {
    local line task step launch open_task='' open_step=-1 last_task='' last_failed=0
    EXPECTED_STEP=-1 FAILURES=0 EARLIER_UNCLEAR=no
    if [ ! -s "$JOURNAL" ]; then
        [ "$CHAIN_STEP" -le 1 ] || EARLIER_UNCLEAR=yes
        return 0
    fi
    while IFS= read -r line; do
        [[ $line =~ ^\{\"event\":\"([a-z]+)\",\"launch\":([0-9]+),.*\"task\":\"([0-9]+)\".*\}$ ]] || continue
        launch=${BASH_REMATCH[2]}
        task=${BASH_REMATCH[3]}
        case ${BASH_REMATCH[1]} in
            start)
                [[ $line =~ \"resume_step\":(-?[0-9]+) ]] && step=${BASH_REMATCH[1]}
                EXPECTED_STEP=$step
                if [ "$launch" = "$CHAIN_LAUNCH" ]; then
                    # One that never came to its end failed unless this one found something newer to resume from.
                    [ -z "$open_task" ] || count_task "$open_task" "$task" $((step > open_step ? 0 : 1))
                    [ "$task" != "$last_task" ] || FAILURES=$((FAILURES - last_failed))
                    last_task='' last_failed=0
                    open_task=$task open_step=$step
                fi
                ;;
            end)
                [[ $line =~ \"newest_step\":(-?[0-9]+) ]] && step=${BASH_REMATCH[1]}
                EXPECTED_STEP=$step
                if [ "$launch" = "$CHAIN_LAUNCH" ]; then
                    open_task=''
                    if [[ $line == *'"new_checkpoint":true'* || $line == *'"complete":true'* ]]; then
                        FAILURES=0 last_failed=0
                    elif [[ $line != *'"exit":0,'* || -n $STEPS_WANTED ]]; then
                        FAILURES=$((FAILURES + 1)) last_failed=1
                    fi
                    last_task=$task
                fi
                ;;
            done) FAILURES=0 open_task='' ;;
        esac
    done <"$JOURNAL"
    if [ -n "$open_task" ]; then
        EARLIER_UNCLEAR=yes
        # Whether it got anywhere shows in the newest checkpoint, which the caller has looked for.
        count_task "$open_task" "$TASK" $((${NEWEST_STEP:--1} > open_step ? 0 : 1))
    fi
}

# count_task TASK NEXT_TASK FAILED: a task without an end, followed by another. The same task again is one that was requeued.
count_task() {
    [ "$1" != "$2" ] || return 0
    if [ "$3" -eq 1 ]; then FAILURES=$((FAILURES + 1)); else FAILURES=0; fi
}
