# shellcheck shell=bash disable=SC2154 # status is set in the trap
# What is on the cluster of an experiment, told as it is: what it should be is for src/audit/ to say. Changes nothing.
#
#   audit_begin
#   audit_experiment EXPERIMENT_DIR SAVE_DIR    once per experiment; either may be gone, the first may be empty
#   audit_end
#
# One program takes a thousand experiments, so each costs a handful of forks, however many cells and checkpoints it has; the
# code of a commit is hashed once, and a file that an experiment shares with it by a hard link not again.

audit_begin() {
    SCRATCH=$(mktemp -d) || { answer problem "no temporary directory could be made on $(uname -n)"; return 1; }
    trap 'status=$?; rm -rf "$SCRATCH"; answer end "$status"' EXIT
    export LC_ALL=C # comm and sort must agree on the order
    declare -gA CODES=()
    OPEN_TASKS=() HASHED_FILES=0 HASHED_BYTES=0
    AUDIT_STARTED=$(date +%s%N)
}

# The paths in a tree_listing, from stdin; sha256sum marks a name with a backslash in it by one in front.
listing_paths() {
    sed -E -e 's/^\\[0-9a-f]{64}  //;t u' -e 's/^[0-9a-f]{64}  //;t' -e 's/^link (.*) -> .*$/\1/;t' -e 's/^exec //' -e b \
        -e ':u' -e 's/\\\\/\\/g'
}

# kind, inode or target, path of every file and link; two directories with the same lines hold the very same files.
inode_listing() (
    cd "$1" || exit 1
    find . -type f -perm -100 -printf 'x\t%D:%i\t%p\n' -o -type f -printf 'f\t%D:%i\t%p\n' -o -type l -printf 'l\t%l\t%p\n' | sort
)

# From sizes, one a line.
count_hashed() {
    local size
    while read -r size; do
        HASHED_FILES=$((HASHED_FILES + 1)) HASHED_BYTES=$((HASHED_BYTES + size))
    done
}

# some KEY FILE [VALUE…]: how many lines the file has, and the first of them.
some() {
    local key=$1 lines=()
    mapfile -t lines <"$2"
    shift 2
    answer "$key" "$@" ${#lines[@]} "${lines[@]:0:10}"
}

# The staged code of a commit. Leaves in $SCRATCH/N.*, N being CODES[DIR]: truth, the listing that was recorded when it was
# staged, sorted, or else the one of now; paths and files in it; marks, its links and executable bits; inodes of now; bad,
# paths that are not as the truth has them.
audit_code() {
    local dir=$1 base=$SCRATCH/${#CODES[@]} recorded='' actual=''
    CODES[$dir]=${#CODES[@]}
    : >"$base.inodes"
    : >"$base.bad"
    if [ -f "$dir.sha256" ]; then recorded=$(sha256_of "$dir.sha256"); fi
    if [ -d "$dir" ]; then
        tree_listing "$dir" >"$base.actual"
        actual=$(sha256_of "$base.actual")
        inode_listing "$dir" >"$base.inodes"
        count_hashed < <(find "$dir" -type f -printf '%s\n')
    fi
    if [ -n "$recorded" ]; then
        sort "$dir.sha256" >"$base.truth"
    elif [ -n "$actual" ]; then
        sort "$base.actual" >"$base.truth"
    fi
    if [ -e "$base.truth" ]; then
        listing_paths <"$base.truth" | sort -u >"$base.paths"
        grep -v '^link \|^exec ' "$base.truth" | listing_paths | sort >"$base.files"
        grep '^link \|^exec ' "$base.truth" >"$base.marks"
    fi
    if [ -n "$recorded" ] && [ -n "$actual" ] && [ "$recorded" != "$actual" ]; then
        sort "$base.actual" | comm -3 "$base.truth" - | sed 's/^\t//' | listing_paths | sort -u >"$base.bad"
    fi
    some code "$base.bad" "$dir" "$recorded" "$actual"
}

# The experiment's own copy against the same truth. Only what is not the very file that audit_code has hashed is hashed.
audit_copy() {
    local copy=$1 base=$SCRATCH/${CODES[$2]} s=$SCRATCH/copy bad
    [ -e "$base.truth" ] || { answer copy-unknown; return; }
    inode_listing "$copy" >"$s"
    : >"$s.added"
    : >"$s.gone"
    if cmp -s "$s" "$base.inodes"; then
        bad=$base.bad
    else
        cut -f3- "$s" | sort >"$s.paths"
        comm -23 "$s" "$base.inodes" | cut -f3- | sort >"$s.own"
        comm -23 "$base.paths" "$s.paths" >"$s.gone"
        comm -13 "$base.paths" "$s.paths" >"$s.added"
        comm -12 "$s.own" "$base.files" >"$s.hash"
        tr '\n' '\0' <"$s.hash" | (cd "$copy" && xargs -0 -r sha256sum 2>/dev/null) | sort >"$s.hashed"
        count_hashed < <(tr '\n' '\0' <"$s.hash" | (cd "$copy" && xargs -0 -r stat -L -c %s 2>/dev/null))
        {
            comm -12 "$s.hashed" "$base.truth" | listing_paths | sort | comm -23 "$s.hash" -
            sed -n -e 's/^x\t[^\t]*\t/exec /p' -e 's/^l\t\(.*\)\t\(\.\/.*\)$/link \2 -> \1/p' "$s" | sort |
                comm -3 "$base.marks" - | sed 's/^\t//' | listing_paths | sort -u | comm -12 - "$base.paths"
            comm -23 "$base.bad" "$s.own"
        } | sort -u | comm -23 - "$s.gone" >"$s.bad"
        bad=$s.bad
    fi
    some copy-changed "$bad"
    some copy-gone "$s.gone"
    some copy-added "$s.added"
}

# `mtime ctime STATE CELL/NAME` of every directory that may be a checkpoint, STATE being e for empty, p where the file that
# makes a checkpoint complete is not in it, w for whole.
audit_checkpoints() {
    local save=$1 complete=$2 rows row index
    mapfile -t rows < <(cd "$save" && find . -mindepth 2 -maxdepth 2 -type d -regex '\./[0-9]+/[^/]*[0-9]' \
        \( -empty -printf '%T@ %C@ e %P\n' -o -printf '%T@ %C@ w %P\n' \) 2>/dev/null)
    if [ -n "$complete" ]; then
        for index in "${!rows[@]}"; do
            row=${rows[index]}
            [ -e "$save/${row#* * ? }/$complete" ] || rows[index]=${row/ w / p }
        done
    fi
    # In pieces: an answer is built in memory.
    for ((index = 0; index < ${#rows[@]}; index += 2000)); do answer checkpoints "${rows[@]:index:2000}"; done
}

# What the last task that let go of each cell said was the end of its journal.
audit_heads() {
    local save=$1 entry cell number sum heads=()
    declare -A last=()
    for entry in "$save/.chain/"[0-9]*.lock.[0-9]*; do
        cell=${entry##*/}
        number=${cell##*.}
        cell=${cell%%.*}
        [[ $number =~ ^[0-9]{1,9}$ && -d $entry ]] || continue
        [ "$number" -le "${last[$cell]:-0}" ] || last[$cell]=$number
    done
    for cell in "${!last[@]}"; do
        sum=
        read -r sum 2>/dev/null <"$save/.chain/$cell.lock.${last[$cell]}/released"
        [ -z "$sum" ] || heads+=("$cell $sum")
    done
    answer heads "${heads[@]}"
}

audit_journals() {
    local save=$1 entry cell last lines end
    for entry in "$save/.chain/"[0-9]*.jsonl; do
        [ -f "$entry" ] || continue
        cell=${entry##*/}
        [ -r "$entry" ] || { answer journal "${cell%.jsonl}" unreadable; continue; }
        mapfile lines <"$entry"
        last='' end=whole
        [ ${#lines[@]} -eq 0 ] || last=${lines[${#lines[@]} - 1]}
        case $last in '' | *$'\n') ;; *) end=half ;; esac
        answer journal "${cell%.jsonl}" $end "${lines[@]%$'\n'}"
        if [[ $last =~ ^\{\"event\":\"start\",.*\"task\":\"([0-9]+)\" ]]; then OPEN_TASKS+=("${BASH_REMATCH[1]}"); fi
    done
}

# What tells where the code is and which checkpoints are complete stands in either manifest.
JSON_TEXT='(([^"\\]|\\.)*)'
audit_experiment() {
    local dir=$1 save=$2 file text code='' complete='' lines=()
    answer experiment "$dir" "$save"
    for file in "$save/.chain/manifest.json" ${dir:+"$dir/manifest.json"}; do
        [ -r "$file" ] || continue
        IFS= read -r -d '' text <"$file"
        if [ -z "$complete" ] && [[ $text =~ \"checkpoints\":\{\"prefix\":\"$JSON_TEXT\",\"complete\":\"$JSON_TEXT\" ]]; then
            complete=${BASH_REMATCH[3]//\\\\/\\}
            complete=${complete//\\\"/\"}
        fi
        if [ -z "$code" ] && [[ $text =~ \"code\":\{\"name\":\"([0-9a-f-]+)\" ]]; then code=${BASH_REMATCH[1]}; fi
    done

    # In this order nothing that a chain writes meanwhile looks like a fault: a start is on record before the checkpoint, a job
    # in the ledger before its start, a launch in the manifest before its release.
    if [ -d "$save" ]; then
        answer save
        audit_checkpoints "$save" "$complete"
        audit_heads "$save"
        audit_journals "$save"
    fi
    if [ -n "$dir" ] && [ -r "$dir/ledger.jsonl" ]; then
        mapfile -t lines <"$dir/ledger.jsonl"
        answer ledger "${lines[@]}"
    fi
    for file in "$save/.chain/manifest.json" ${dir:+"$dir/manifest.json"}; do
        text=''
        [ ! -r "$file" ] || { IFS= read -r -d '' text <"$file"; answer manifest "$file" "$text"; }
    done
    if [ -z "$dir" ] || [ ! -d "$dir" ]; then return 0; fi

    answer directory
    mapfile -t lines < <(cd "$dir" && sha256sum configs/* run.sh task.env job.sh 2>/dev/null)
    count_hashed < <(cd "$dir" && stat -L -c %s configs/* run.sh task.env job.sh 2>/dev/null)
    answer files "${lines[@]}"
    [ -n "$code" ] || return 0
    code=${dir%/experiments/*}/code/$code
    [ -n "${CODES[$code]:-}" ] || audit_code "$code"
    if [ -d "$dir/code" ]; then
        answer copy "$code"
        audit_copy "$dir/code" "$code"
    else
        answer copy-missing "$code"
    fi
    return 0
}

# When tasks without an end stopped, by Slurm's accounting, which may be absent; and what all of it took.
audit_end() {
    local index rows row
    for ((index = 0; index < ${#OPEN_TASKS[@]}; index += 500)); do
        mapfile -t rows < <(IFS=, && SLURM_TIME_FORMAT=%s timeout 60 sacct -X -n -P -j "${OPEN_TASKS[*]:index:500}" -o JobIDRaw,State,End 2>/dev/null)
        for row in "${rows[@]}"; do
            case $row in *'|RUNNING|'* | *'|PENDING|'* | *'|SUSPENDED|'* | *'|REQUEUED|'*) ;; *) answer task-end "${row%%|*}" "${row##*|}" ;; esac
        done
    done
    answer cost "$HASHED_FILES" "$HASHED_BYTES" "$(($(date +%s%N) - AUDIT_STARTED))"
}
