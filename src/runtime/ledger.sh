# shellcheck shell=bash disable=SC2154 # layout.sh sets LEDGER
# Writing the ledger: one line of JSON for every job id that sbatch returned, and for what was done with the job.
# src/chain/ledger.ts reads it.

now() { date -u +%Y-%m-%dT%H:%M:%SZ; }

# ledger_line JSON
ledger_line() {
    # A full disk or a kill may have left half a line. It must not swallow this one.
    if [ -s "$LEDGER" ] && [ -n "$(tail -c 1 "$LEDGER")" ]; then printf '\n' >>"$LEDGER" || return 1; fi
    printf '%s\n' "$1" >>"$LEDGER" && { sync "$LEDGER" 2>/dev/null || true; }
}

# ledger_submitted LAUNCH JOB_NUMBER CELL JOB_ID CLUSTER AFTER TAG: CELL and CLUSTER may be empty, AFTER holds ids with spaces.
ledger_submitted() {
    ledger_line "{\"event\":\"submitted\",\"launch\":$1,\"step\":$2,\"cell\":${3:-null},\"job\":\"$4\",\"cluster\":\"$5\",\"after\":\"$6\",\"tag\":\"$7\",\"time\":\"$(now)\"}"
}

# ledger_cancelled LAUNCH JOB [FIELD]: JOB is `id` or `id_cell`; FIELD is JSON that says who or why.
ledger_cancelled() {
    ledger_line "{\"event\":\"cancelled\",\"launch\":$1,\"job\":\"$2\",\"time\":\"$(now)\"${3:+,$3}}"
}

# ledger_release EVENT LAUNCH FIRST_JOB_ID: EVENT is `releasing` or `released`.
ledger_release() { ledger_line "{\"event\":\"$1\",\"launch\":$2,\"job\":\"$3\",\"time\":\"$(now)\"}"; }
