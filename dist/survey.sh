# shellcheck shell=bash disable=SC2034,SC2154 # EXPANDED is set by frame.sh, NEWEST and the like by checkpoints.sh
# What there is on the cluster: which experiments, what became of their jobs, how far their cells are. Changes nothing.
#
#   list_experiments WORKDIR MINUTES     one short answer for each, and the queue; one squeue call
#   list_records PATH…                  those whose record is beside the checkpoints under PATH: a save.path, or one inside it
#   look_at ID MANIFEST_COPY             all there is of one; MANIFEST_COPY beside the checkpoints or empty
#   ask_accounting                       one sacct call for the jobs of all that were looked at
#   tail_logs ID BYTES FILE…             the ends of logs, without the secrets the jobs were given

export SLURM_TIME_FORMAT=%s # seconds since 1970, whatever the time zones
export SLURM_BITSTR_LEN=0   # task lists whole, not cut to 64 characters

list_experiments() {
    local line rows said
    expand_path workdir "$1" || return 1
    WORKDIR=$EXPANDED
    answer workdir "$WORKDIR"
    answer account "$(id -u)" "$(id -un)"
    answer now "$(date +%s)"
    said=$(mktemp) || return 1
    if rows=$(timeout 60 squeue -a -h -u "$(id -un)" -o '%F|%K|%T|%r|%S|%N|%E|%j' 2>"$said") && [ ! -s "$said" ]; then
        while IFS= read -r line; do [ -z "$line" ] || answer queue "$line"; done <<<"$rows"
    else
        answer queue-unknown "$(head -c 500 "$said")"
    fi
    rm -f "$said"
    [ -d "$WORKDIR/experiments" ] || return 0
    heads_of < <(find "$WORKDIR/experiments" -mindepth 2 -maxdepth 2 -name manifest.json -print0)
    while IFS= read -r line; do answer recent "$line"; done < <(
        find "$WORKDIR/experiments" -mindepth 3 -maxdepth 3 -path '*/logs/*.out' -mmin "-$2" -printf '%h\n' | sed 's:/logs$::; s:.*/::' | sort -u
    )
}

# Prints the first line of manifests, up to what only a closer look needs, behind the file it is from. Files come on stdin.
heads_of() {
    local line file=''
    while IFS= read -r line; do
        case $line in
            /*) file=$line ;;
            *) answer head "$file" "$line" ;;
        esac
    done < <(xargs -0 -r sed -s -n '1{F;s/,"checkpoints":.*/}/p}')
}

list_records() {
    local path up
    for path; do
        # One that cannot be expanded here has nothing under it.
        path=$(exec 4>/dev/null; expand_path path "$path" && printf '%s' "$EXPANDED")
        answer place "$path"
        [ -n "$path" ] || continue
        # A checkpoint, or what is in one, belongs to the experiment it is under.
        up=$path
        while [ "$up" != / ] && [ ! -e "$up/.chain/manifest.json" ]; do up=$(dirname "$up"); done
        if [ "$up" != / ]; then
            printf '%s\0' "$up/.chain/manifest.json" | heads_of
        elif [ -d "$path" ]; then
            find "$path" -mindepth 3 -maxdepth 3 -path '*/.chain/manifest.json' -print0 | heads_of
        fi
    done
}

look_at() {
    local id=$1 dir=$WORKDIR/experiments/$1 copy=$2 manifest line file cell
    answer experiment "$id"
    manifest=$dir/manifest.json
    [ -s "$manifest" ] || manifest=$copy
    if [ -z "$manifest" ] || [ ! -s "$manifest" ]; then
        answer missing "$id"
        return 0
    fi
    answer manifest "$manifest" "$(<"$manifest")"
    if [ -s "$dir/ledger.jsonl" ]; then
        while IFS= read -r line; do
            answer ledger "$line"
            [[ $line != '{"event":"submitted",'* ]] || [[ ! $line =~ \"job\":\"([0-9]+)\" ]] || JOBS+=("${BASH_REMATCH[1]}")
        done <"$dir/ledger.jsonl"
    fi
    local save prefix complete
    save=$(sed -n '1s/.*,"save":"\([^"]*\)","checkpoints":.*/\1/p' "$manifest")
    prefix=$(sed -n '1s/.*,"checkpoints":{"prefix":"\([^"]*\)".*/\1/p' "$manifest")
    complete=$(sed -n '1s/.*,"checkpoints":{"prefix":"[^"]*","complete":"\([^"]*\)".*/\1/p' "$manifest")
    for file in "$save/.chain"/*.jsonl; do
        [ -e "$file" ] || continue
        cell=${file##*/}
        cell=${cell%.jsonl}
        while IFS= read -r line; do answer journal "$cell" "$line"; done <"$file"
        newest_of "$save/$cell" "$prefix" "$complete" "$cell"
    done
}

newest_of() (
    shopt -s nullglob dotglob
    CHECKPOINT_DIR=$1 SAVE_PREFIX=$2 SAVE_COMPLETE=$3
    find_newest
    answer cell "$4" "$NEWEST" "$NEWEST_STEP" "$([ -z "$NEWEST" ] || stat -c %Y "$1/$NEWEST")" "$([ ! -e "$1/COMPLETE" ] || echo COMPLETE)"
)

JOBS=()
ask_accounting() {
    local rows said line uid
    [ ${#JOBS[@]} -gt 0 ] || return 0
    said=$(mktemp) || return 1
    # The task lists of what never ran and the times are as in squeue.
    if rows=$(timeout 60 sacct -X -n -P -j "$(IFS=,; printf '%s' "${JOBS[*]}")" -o JobID,JobName,State,ExitCode,Start,End,NodeList 2>"$said"); then
        while IFS= read -r line; do [ -z "$line" ] || answer accounting "$line"; done <<<"$rows"
        while IFS= read -r uid; do
            answer user "$uid" "$(id -un "$uid" 2>/dev/null)"
        done < <(sed -n 's/.*|CANCELLED by \([0-9]*\)|.*/\1/p' <<<"$rows" | sort -u)
    else
        answer accounting-unknown "$(head -c 500 "$said")"
    fi
    rm -f "$said"
}

# Prints every line of the values that a file of assignments sets, the longest first because one may be a part of another;
# each with its length in front and NUL behind.
secrets_of() (
    # shellcheck source=/dev/null # written by src/chain/task.ts
    . "$1"
    while IFS= read -r name; do
        printf '%s %s\0' "${#name}" "$name"
    done < <(
        while IFS= read -r name; do printf '%s\n' "${!name:-}"; done < <(sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' "$1")
    ) | sort -z -k1,1nr
)

tail_logs() {
    local dir=$WORKDIR/experiments/$1 bytes=$2 file text values=() value
    shift 2
    if [ -r "$dir/secrets.env" ]; then
        while IFS= read -r -d '' value; do
            value=${value#* }
            [ ${#value} -lt 4 ] || values+=("$value")
        done < <(secrets_of "$dir/secrets.env")
    fi
    for file; do
        [ -r "$dir/logs/$file" ] || continue
        # More than is shown, so that no secret is cut before it is found.
        text=$(tail -c $((bytes + 20000)) "$dir/logs/$file" | tr -d '\000')
        for value in ${values[@]+"${values[@]}"}; do text=${text//"$value"/***}; done
        if [ ${#text} -gt "$bytes" ]; then
            text=${text: -bytes}
            text=${text#*$'\n'}
        fi
        answer log "$file" "$text"
    done
}
