# shellcheck shell=bash disable=SC2034,SC2153,SC2154 # part of job.sh
# The journal of a cell: one JSON object per line. Only the holder of the cell's lock writes it; src/chain/journal.ts reads it.
# The last field of a line, sum, is a checksum: the start of the SHA-256 of the checksum of the line before and of the line
# without this field. So an audit sees a line that was edited, inserted or removed (src/audit/attribution.ts). It is not a
# signature: somebody who edits a line can compute all checksums again.

# journal_sum: prints the checksum of the journal's last line, or nothing if there is no line.
journal_sum() {
    local line
    [ -s "$JOURNAL" ] || return 0
    line=$(tail -n 1 "$JOURNAL")
    [[ ! $line =~ \"sum\":\"([0-9a-f]{16})\"\}$ ]] || printf '%s' "${BASH_REMATCH[1]}"
}

# journal EVENT FIELD…: writes a line. A field is "name":value in JSON. Half a line that a killed task left is removed first, so
# that every line is valid.
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

# json_name TEXT: prints it as JSON, or null if it is empty.
json_name() { if [ -n "$1" ]; then printf '"%s"' "$1"; else printf null; fi; }

# read_journal: sets
#   EXPECTED_STEP    the newest checkpoint according to the last line that names one, -1 for none
#   EARLIER_UNCLEAR  yes if an earlier task may have saved a checkpoint that no line reports
#   FAILURES         how many tasks of this launch in a row, up to the last one, ended without a new checkpoint and before training
#                    was complete
# A task that was requeued is the same task: only its last end counts. A new launch starts counting from 0, so that a person can
# continue after the stop rule.
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
                    # A task without an end failed, unless this task resumes from a newer checkpoint.
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
        # Whether it made progress shows in the newest checkpoint, which the caller has found.
        count_task "$open_task" "$TASK" $((${NEWEST_STEP:--1} > open_step ? 0 : 1))
    fi
}

# count_task TASK NEXT_TASK FAILED: counts a task without an end that another one follows. The same task again was requeued.
count_task() {
    [ "$1" != "$2" ] || return 0
    if [ "$3" -eq 1 ]; then FAILURES=$((FAILURES + 1)); else FAILURES=0; fi
}
