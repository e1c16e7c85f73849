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
        # sed prints nothing for an empty file.
        if [ -s "$file" ]; then files+=("$file"); else answer summary "$file" ''; fi
    done
    [ ${#files[@]} -gt 0 ] || return 0
    # Two lines for each file. The last one may lack its line end.
    while IFS= read -r file; do
        IFS= read -r line
        answer summary "$file" "$line"
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

# tail_logs: src/base/redact.ts removes the secrets that the request has. Those of earlier launches are here alone, so nothing
# leaves the cluster with one of them in it: known spellings are cut out, and a log with one that cannot be cut out, because line
# ends or quotes are in it, is not sent.
tail_logs() {
    local LC_ALL=C bytes=$2 file text value longest=0 spellings=() needles=() compact foreign=''
    [[ $bytes =~ ^[0-9]{1,9}$ ]] || return 1
    experiment_layout "$WORKDIR" "$1"
    shift 2
    if ! is_ours "$SECRETS"; then
        # Without the secrets, nothing can be removed from the logs.
        foreign=$DISTRUST
    elif [ -r "$SECRETS" ]; then
        while IFS= read -r -d '' value; do
            [ ${#value} -lt 4 ] || spellings+=("$value")
            [ ${#value} -le "$longest" ] || longest=${#value}
        done < <(secret_lines "$SECRETS" | spellings | sort -z -u | sort_by_length)
        while IFS= read -r -d '' value; do
            [ ${#value} -lt 8 ] || needles+=("$value")
        done < <(printf '%s\0' ${spellings[@]+"${spellings[@]}"} | compacted | sort -z -u)
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
        text=$(tail -c $((bytes + longest + 1000)) "$LOGS/$file" | without_colours)
        for value in ${spellings[@]+"${spellings[@]}"}; do text=${text//"$value"/***}; done
        compact=$(compacted <<<"$text")
        for value in ${needles[@]+"${needles[@]}"}; do
            case $compact in
                *"$value"*)
                    text="(This log is not shown: it has a secret in it, with line ends, quotes or other letters inside. It is $LOGS/$file)"
                    break
                    ;;
            esac
        done
        if [ ${#text} -gt "$bytes" ]; then
            text=${text: -bytes}
            text=${text#*$'\n'}
        fi
        answer log "$file" "$text"
    done
}

# without_colours: copies a text without its escape sequences (ECMA-48) and NULs.
without_colours() {
    tr -d '\000' | sed $'s/\033\\[[0-?]*[ -\\/]*[@-~]//g; s/\033\\][^\007\033]*\\(\007\\|\033\\\\\\)\\{0,1\\}//g; s/\033[@-Z\\\\-_]//g'
}

# compacted: copies a text without white space, control characters, quotes and backslashes.
compacted() { tr -d '\001-\040\177\042\047\134'; }

# sort_by_length: sorts texts that end in NUL, the longest first, because one may be a part of another.
sort_by_length() {
    local text
    while IFS= read -r -d '' text; do printf '%s %s\0' "${#text}" "$text"; done | sort -z -k1,1nr | sed -z 's/^[0-9]* //'
}

# restoring PREFIX LETTERS: prints a sed script that replaces PREFIX and the hexadecimal digits of each of the letters by the letter.
restoring() {
    local at letter digits
    for ((at = 0; at < ${#2}; at += 1)); do
        letter=${2:at:1}
        printf -v digits '%02x' "'$letter"
        case $letter in [\\/\&]) letter=\\$letter ;; esac
        printf 's/%s%s/%s/g\ns/%s%s/%s/g\n' "$1" "$digits" "$letter" "$1" "${digits^^}" "$letter"
    done
}

# spellings: for each text on stdin that ends in NUL, prints it in the spellings of spellingsOf in src/base/redact.ts. Where only
# quotes and backslashes differ, tail_logs needs no spelling of its own.
spellings() {
    local LC_ALL=C text hex url before digits first quote="'" quoted script scripts=() printable='' kept
    local word=ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_
    # Encoders of addresses differ in what they leave as it is.
    for kept in '.~-' '.~/-' ".~!'()*-" ".~!'()*;,/?:@&=+\$#-" '.*-'; do scripts+=("$(restoring % "$word$kept")"); done
    printable="$word"' !"#$%&'"'"'()*+,-./:;<=>?@[\]^`{|}~'
    while IFS= read -r -d '' text; do
        printf '%s\0' "$text" "${text//\\/\\\\}"
        quoted="'\\''"
        quoted=${text//$quote/$quoted}
        printf '%s\0' "$quoted"
        # In this locale, bash quotes letters beyond ASCII in octal digits.
        printf -v quoted %q "$text"
        quoted=${quoted#\$"$quote"}
        printf '%s\0' "${quoted%"$quote"}"
        hex=$(printf '%s' "$text" | od -An -v -tx1 | tr -d ' \n')
        printf '%s\0' "$hex" "${hex^^}"
        for before in '' x xx; do
            digits=$(printf '%s%s' "$before" "$text" | base64 -w 0)
            # The letters that depend on the secret alone.
            first=$(((${#before} * 8 + 5) / 6))
            digits=${digits:first:$(((${#before} + ${#text}) * 8 / 6 - first))}
            printf '%s\0' "$digits" "$(tr '+/' '-_' <<<"$digits")"
        done
        for script in "${scripts[@]}"; do
            for digits in "$hex" "${hex^^}"; do
                url=$(printf '%s\n' "$digits" | sed 's/../%&/g' | sed -f <(printf '%s' "$script"))
                printf '%s\0' "$url" "${url//%20/+}"
            done
        done
        [[ $text == *[!\ -~]* ]] || continue
        printf '%s\n' "$hex" | sed 's/../\\x&/g' | sed -f <(restoring '\\x' "$printable") | tr '\n' '\0'
        # \u00e9 of JSON. Without iconv, letters beyond ASCII are not looked for in this form.
        printf '%s' "$text" | iconv -f UTF-8 -t UTF-16BE 2>/dev/null | od -An -v -tx1 | tr -d ' \n' | sed 's/..../\\u&/g' |
            sed -f <(restoring '\\u00' "$printable") | tr '\n' '\0'
        printf '\0'
    done
}

# secret_lines FILE: prints each line of every value that a file of assignments sets, without white space around it, with a NUL
# behind it.
secret_lines() (
    # shellcheck source=/dev/null # src/chain/task.ts writes it
    . "$1"
    while IFS= read -r value || [ -n "$value" ]; do
        value=${value%$'\r'}
        value=${value#"${value%%[![:space:]]*}"}
        value=${value%"${value##*[![:space:]]}"}
        [ ${#value} -lt 4 ] || printf '%s\0' "$value"
    done < <(
        while IFS= read -r name; do printf '%s\n' "${!name:-}"; done < <(sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' "$1")
    )
)
