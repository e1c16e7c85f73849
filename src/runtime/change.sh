# shellcheck shell=bash disable=SC2154,SC2034 # LOCK_HELD is set by lock.sh, which goes before; LEFT is for what comes behind
# What whoever changes an experiment's jobs needs: its launch lock, its ledger, and a way to take jobs out of the queue.

LEASE=600         # seconds after which a launch lock that was not renewed is up for grabs; longer than one sbatch may take
LOCK_PATIENCE=300 # seconds to wait for another launch of the same experiment

# The launcher keeps our standard input open for as long as it lives; its end means that nobody is there any more.
# A lost connection must not kill us half-way either.
trap '' PIPE HUP
launcher_gone() { read -r -t 0 -u 3; }

ledger() {
    local file=$DIR/ledger.jsonl
    # A line that a full disk or a kill left half-written must not swallow this one.
    if [ -s "$file" ] && [ -n "$(tail -c 1 "$file")" ]; then printf '\n' >>"$file" || return 1; fi
    printf '%s\n' "$1" >>"$file" && { sync "$file" 2>/dev/null || true; }
}
now() { date -u +%Y-%m-%dT%H:%M:%SZ; }

lock_is_stale() {
    local dir=$1 host pid rest
    read -r host pid rest 2>/dev/null <"$dir/holder" || host=
    if [ "$host" = "$(uname -n)" ] && ! kill -0 "$pid" 2>/dev/null; then return 0; fi
    lock_age "$dir" && [ "$LOCK_AGE" -gt $LEASE ]
}

lock_renew() { touch "$LOCK_HELD"; }

# An overtaken launch touches nothing any more but what carries its own tag.
keep_lock() { lock_still_held && lock_renew; }

# take_launch_lock WORKDIR EXPERIMENT_ID HOLDER: one at a time changes what an experiment has in the queue. Let go at the end.
take_launch_lock() {
    local waited=0
    EXPERIMENT=$2
    DIR=$1/experiments/$EXPERIMENT
    SCRATCH=$(mktemp) || { answer problem "no temporary file could be made on $(uname -n)"; exit 1; }
    trap 'status=$?; rm -f "$SCRATCH"; [ -z "${LOCK_HELD:-}" ] || ! lock_still_held || lock_release; answer end "$status"' EXIT

    while :; do
        lock_try "$DIR/launch.lock" "$(uname -n) $$ $3" && break
        [ $? -ne 2 ] || { answer problem "the launch lock cannot be taken on $(uname -n): $LOCK_SAID"; exit 1; }
        [ $waited -gt 0 ] || answer waiting "$(cat "$DIR/launch.lock.$LOCK_NUMBER/holder" 2>/dev/null)"
        if [ $waited -ge $LOCK_PATIENCE ]; then
            answer problem "another launch of $EXPERIMENT holds $DIR/launch.lock.$LOCK_NUMBER: $(cat "$DIR/launch.lock.$LOCK_NUMBER/holder" 2>/dev/null)"
            exit 1
        fi
        launcher_gone && exit 1
        sleep 1
        waited=$((waited + 1))
    done
}

# cancel_tagged BY TAG…: cancels every job of this experiment whose name starts with one of the tags, in one call and last step
# first, because a cancelled step lets the one behind it start; then looks by tag until none is left. BY, a JSON string or
# empty, goes into the ledger. Sets LEFT to what could not be cancelled.
cancel_tagged() {
    local by=$1 rows row name tag tries ids id launch
    declare -A gone=()
    shift
    for tries in 1 2 3 4 5 6 7 8 9 10; do
        if rows=$(queue_of "$EXPERIMENT"); then
            ids=()
            while IFS= read -r row; do
                name=${row##*|}
                for tag; do
                    case $name in
                        "$tag" | "$tag".*)
                            launch=${name##*.l}
                            gone[${row%%|*}]=${launch%%[.-]*}
                            name=${name##*.s}
                            ids+=("${name%%.*} ${row%%|*}")
                            break
                            ;;
                    esac
                done
            done <<<"$rows"
            if [ ${#ids[@]} -eq 0 ]; then
                for id in "${!gone[@]}"; do
                    ledger "{\"event\":\"cancelled\",\"launch\":${gone[$id]},\"job\":\"$id\",\"time\":\"$(now)\"${by:+,\"by\":$by}}" || return 1
                done
                return 0
            fi
            mapfile -t ids < <(printf '%s\n' "${ids[@]}" | sort -u -k1,1nr -k2,2nr | cut -d' ' -f2)
            LEFT=${ids[*]}
            timeout 60 scancel "${ids[@]}" 2>"$SCRATCH"
        fi
        [ -z "${LOCK_HELD:-}" ] || ! lock_still_held || lock_renew
        sleep "$tries"
    done
    return 1
}
