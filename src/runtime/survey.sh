# shellcheck shell=bash disable=SC2034,SC2154 # EXPANDED comes from frame.sh, the paths from layout.sh, NEWEST… from checkpoints.sh
# What is on the cluster: which experiments, what became of their jobs, how far their cells are. Changes nothing.
#
# answers (the same table as in src/cluster/programs/survey.ts):
#   workdir PATH                 expanded
#   now SECONDS                  since 1970, by the clock of the login node
#   queue ROW                    of squeue; see QUEUE_FORMAT
#   queue-silent MESSAGE         squeue did not answer
#   summary FILE TEXT            summary.json, or the manifest of an older version
#   recent ID                    an experiment whose logs changed lately
#   place PATH                   a path that was asked for, expanded; empty if it cannot be expanded
#   manifest ID FILE TEXT
#   ledger ID LINE
#   journal ID CELL LINE
#   cell ID CELL NEWEST NEWEST_STEP SAVED_AT COMPLETE_FILE   the last four may be empty
#   accounting ROW               of sacct; see ACCOUNTING_FORMAT
#   accounting-silent MESSAGE    sacct did not answer
#   user UID NAME                a user who cancelled a job
#   log FILE TEXT                the end of a log
#   distrusted ID WHAT           a record that is a link or belongs to somebody else, and was not read; ID is empty in a listing
#
#   list_experiments WORKDIR MINUTES QUEUE_FORMAT   a summary of each experiment, and the queue; one call of squeue
#   list_saved PATH…                              experiments by the records beside their checkpoints; a PATH is a save.path or
#                                                  something inside one
#   use_workdir WORKDIR                           for the two that follow
#   look_at ID SAVE_DIR NAME=VALUE…               everything about one experiment; the variables are those of checkpoints.sh
#   tail_logs ID BYTES FILE…                      the ends of logs, without the secrets of the jobs
#   ask_accounting ACCOUNTING_FORMAT              one call of sacct for the jobs of all experiments that were looked at

export SLURM_TIME_FORMAT=%s # seconds since 1970, whatever the time zones
export SLURM_BITSTR_LEN=0   # whole task lists, not cut at 64 characters

use_workdir() {
    expand_path workdir "$1" || return 1
    WORKDIR=$EXPANDED
}

list_experiments() {
    local line rows said
    use_workdir "$1" || return 1
    answer workdir "$WORKDIR"
    answer now "$(date +%s)"
    said=$(mktemp) || return 1
    if rows=$(timeout 60 squeue -a -h -u "$(id -un)" -o "$3" 2>"$said") && [ ! -s "$said" ]; then
        while IFS= read -r line; do [ -z "$line" ] || answer queue "$line"; done <<<"$rows"
    else
        answer queue-silent "$(head -c 500 "$said")"
    fi
    rm -f "$said"
    [ -d "$WORKDIR/experiments" ] || return 0
    summaries < <(find "$WORKDIR/experiments" -mindepth 2 -maxdepth 2 -name manifest.json -print0)
    while IFS= read -r line; do answer recent "$line"; done < <(
        find "$WORKDIR/experiments" -mindepth 3 -maxdepth 3 -path '*/logs/*.out' -mmin "-$2" -printf '%h\n' | sed 's:/logs$::; s:.*/::' | sort -u
    )
}

# summaries: answers with the summary of each experiment whose manifest's path comes on stdin.
summaries() {
    local file line files=()
    while IFS= read -r -d '' file; do
        are_ours "$file" "${file%/*}/summary.json" || { answer distrusted '' "$DISTRUST"; continue; }
        # An experiment of an older version has no summary.
        if [ -s "${file%/*}/summary.json" ]; then file=${file%/*}/summary.json; fi
        files+=("$file")
    done
    [ ${#files[@]} -gt 0 ] || return 0
    while IFS= read -r line; do
        case $line in
            /*) file=$line ;;
            *) answer summary "$file" "$line" ;;
        esac
    done < <(printf '%s\0' "${files[@]}" | xargs -0 -r sed -s -n '1{F;p}')
}

list_saved() {
    local path up
    for path; do
        # A path that cannot be expanded here has nothing under it.
        path=$(exec 4>/dev/null; expand_path path "$path" && printf '%s' "$EXPANDED")
        answer place "$path"
        [ -n "$path" ] || continue
        # The path may be a checkpoint, or a file in one: look for the experiment that it belongs to.
        up=$path
        while [ "$up" != / ] && { save_layout "$up"; [ ! -e "$SAVED_MANIFEST" ]; }; do up=$(dirname "$up"); done
        if [ "$up" != / ]; then
            summaries < <(printf '%s\0' "$SAVED_MANIFEST")
        elif [ -d "$path" ]; then
            summaries < <(find "$path" -mindepth 3 -maxdepth 3 -path '*/.chain/manifest.json' -print0)
        fi
    done
}

JOBS=()
look_at() {
    local id=$1 file line cell
    experiment_layout "$WORKDIR" "$id"
    save_layout "$2"
    shift 2
    for file in "$MANIFEST" "$SAVED_MANIFEST"; do
        if ! is_trusted "$id" "$file" || [ ! -s "$file" ]; then continue; fi
        answer manifest "$id" "$file" "$(<"$file")"
        break
    done
    if is_trusted "$id" "$LEDGER"; then
        while IFS= read -r line; do
            answer ledger "$id" "$line"
            if [[ $line =~ ^\{\"event\":\"submitted\",.*\"job\":\"([0-9]+)\" ]]; then JOBS+=("${BASH_REMATCH[1]}"); fi
        done <"$LEDGER"
    fi
    for file in "$RECORDS"/*.jsonl; do
        is_trusted "$id" "$file" || continue
        cell=${file##*/}
        cell=${cell%.jsonl}
        while IFS= read -r line; do answer journal "$id" "$cell" "$line"; done <"$file"
        cell_of "$id" "$cell" "$@"
    done
}

# is_trusted ID FILE: succeeds if the file is ours. Answers if it is somebody else's.
is_trusted() {
    is_ours "$2" && return
    [ -z "$DISTRUST" ] || answer distrusted "$1" "$DISTRUST"
    return 1
}

# cell_of ID CELL NAME=VALUE…: how far a cell is. A subshell, because it sets options and variables of checkpoints.sh.
cell_of() (
    shopt -s nullglob dotglob
    CHECKPOINT_DIR=$SAVE_DIR/$2
    id=$1 cell=$2
    shift 2
    for variable; do
        case $variable in
            SAVE_PREFIX=*) SAVE_PREFIX=${variable#*=} ;;
            SAVE_COMPLETE=*) SAVE_COMPLETE=${variable#*=} ;;
        esac
    done
    find_newest
    answer cell "$id" "$cell" "$NEWEST" "$NEWEST_STEP" "$([ -z "$NEWEST" ] || stat -c %Y "$CHECKPOINT_DIR/$NEWEST")" \
        "$([ ! -e "$CHECKPOINT_DIR/COMPLETE" ] || echo COMPLETE)"
)

ask_accounting() {
    local rows said line uid
    [ ${#JOBS[@]} -gt 0 ] || return 0
    said=$(mktemp) || return 1
    if rows=$(timeout 60 sacct -X -n -P -j "$(IFS=, && printf '%s' "${JOBS[*]}")" -o "$1" 2>"$said"); then
        while IFS= read -r line; do [ -z "$line" ] || answer accounting "$line"; done <<<"$rows"
        while IFS= read -r uid; do
            answer user "$uid" "$(id -un "$uid" 2>/dev/null)"
        done < <(sed -n 's/.*|CANCELLED by \([0-9]*\)|.*/\1/p' <<<"$rows" | sort -u)
    else
        answer accounting-silent "$(head -c 500 "$said")"
    fi
    rm -f "$said"
}

tail_logs() {
    local bytes=$2 file text values=() value foreign=''
    [[ $bytes =~ ^[0-9]{1,9}$ ]] || return 1
    experiment_layout "$WORKDIR" "$1"
    shift 2
    if ! is_ours "$SECRETS"; then
        # Without the secrets, nothing can be removed from the logs.
        foreign=$DISTRUST
    elif [ -r "$SECRETS" ]; then
        while IFS= read -r -d '' value; do
            value=${value#* }
            [ ${#value} -lt 4 ] || values+=("$value")
        done < <(secret_lines "$SECRETS")
    fi
    for file; do
        case $file in */*) continue ;; esac
        is_ours "$LOGS/$file"
        if [ -n "$foreign$DISTRUST" ]; then
            answer log "$file" "This log is not shown: ${foreign:-$DISTRUST}."
            continue
        fi
        [ -r "$LOGS/$file" ] || continue
        # More than is shown, so that a secret that starts before the shown part is found whole.
        text=$(tail -c $((bytes + 20000)) "$LOGS/$file" | tr -d '\000')
        for value in ${values[@]+"${values[@]}"}; do text=${text//"$value"/***}; done
        if [ ${#text} -gt "$bytes" ]; then
            text=${text: -bytes}
            text=${text#*$'\n'}
        fi
        answer log "$file" "$text"
    done
}

# secret_lines FILE: prints `length value` and NUL for every line of every value that a file of assignments sets. The longest
# come first, because one may be a part of another.
secret_lines() (
    # shellcheck source=/dev/null # src/chain/task.ts writes it
    . "$1"
    while IFS= read -r value; do
        printf '%s %s\0' "${#value}" "$value"
    done < <(
        while IFS= read -r name; do printf '%s\n' "${!name:-}"; done < <(sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' "$1")
    ) | sort -z -k1,1nr
)
