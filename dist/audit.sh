# shellcheck shell=bash disable=SC2153,SC2154 # status is set in the trap, the paths come from layout.sh
# What is on the cluster of each experiment, as it is. src/audit/ compares it with what the commit gives. Changes nothing.
#
# answers (the same table as in src/audit/program.ts; INDEX is the one of audit_experiment):
#   experiment INDEX             the answers about this experiment are complete
#   save-present INDEX           its directory of checkpoints exists
#   directory-present INDEX      its directory under workdir exists
#   checkpoints INDEX ROWS…      `mtime ctime STATE CELL/NAME`, see audit_checkpoints
#   released INDEX PAIRS…        `CELL CHECKSUM`: the end of the journal when the last task released the cell
#   journal INDEX CELL END LINES…   END is `whole`, `half` (the last line has no line end) or `unreadable`
#   ledger INDEX LINES…
#   manifest INDEX FILE TEXT
#   summary INDEX FILE TEXT
#   files INDEX LINES…           of sha256sum
#   code DIR RECORDED ACTUAL COUNT NAMES…   a staged copy: two digests, and the paths that do not match
#   copy INDEX DIR               the experiment's copy of that code was compared; three answers follow
#   copy-changed INDEX COUNT NAMES…
#   copy-gone INDEX COUNT NAMES…
#   copy-added INDEX COUNT NAMES…
#   copy-missing INDEX DIR       the experiment has no copy of that code
#   copy-unknown INDEX DIR       there is a copy, and nothing to compare it with
#   distrusted INDEX WHAT        a record that is a link or belongs to somebody else, and was not read
#   task-end TASK_ID SECONDS     when Slurm's accounting says that a task without an end stopped
#   cost FILES BYTES NANOSECONDS
#
#   audit_begin
#   audit_experiment INDEX DIR SAVE_DIR CODE_NAME SAVE_COMPLETE   once per experiment; DIR may be empty
#   audit_end
#
# One program audits a thousand experiments. So an experiment costs a handful of processes, however many cells and checkpoints it
# has. The code of a commit is hashed once, and a file that an experiment shares with it by a hard link is not hashed again.

audit_begin() {
    SCRATCH=$(mktemp -d) || { answer problem "no temporary directory could be made on $(uname -n)"; return 1; }
    trap 'status=$?; rm -rf "$SCRATCH"; answer end "$status"' EXIT
    export LC_ALL=C # comm and sort must agree on the order
    declare -gA CODES=()
    OPEN_TASKS=() HASHED_FILES=0 HASHED_BYTES=0
    AUDIT_STARTED=$(date +%s%N)
}

# listing_paths: prints the paths of a tree_listing on stdin. sha256sum puts a backslash in front of a line whose name has one.
listing_paths() {
    sed -E -e 's/^\\[0-9a-f]{64}  //;t u' -e 's/^[0-9a-f]{64}  //;t' -e 's/^link (.*) -> .*$/\1/;t' -e 's/^exec //' -e b \
        -e ':u' -e 's/\\\\/\\/g'
}

# inode_listing DIR: prints kind, inode or target, and path of every file and link. Two directories with the same lines share
# all their files.
inode_listing() (
    cd "$1" || exit 1
    find . -type f -perm -100 -printf 'x\t%D:%i\t%p\n' -o -type f -printf 'f\t%D:%i\t%p\n' -o -type l -printf 'l\t%l\t%p\n' | sort
)

# count_hashed: adds up file sizes from stdin, one per line.
count_hashed() {
    local size
    while read -r size; do
        HASHED_FILES=$((HASHED_FILES + 1)) HASHED_BYTES=$((HASHED_BYTES + size))
    done
}

# answer_first KEY FILE [VALUE…]: answers with the number of lines in the file, and the first ten of them.
answer_first() {
    local key=$1 lines=()
    mapfile -t lines <"$2"
    shift 2
    answer "$key" "$@" ${#lines[@]} "${lines[@]:0:10}"
}

# audit_code DIR: the staged code of a commit. Leaves these files in $SCRATCH/N.*, where N is CODES[DIR]:
#   truth          the listing that was recorded when the code was staged, sorted; without one, the listing of now
#   paths, files   the paths in it, and those of regular files
#   marks          its links and executable bits
#   inodes         the inode_listing of now
#   bad            paths that differ from truth
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
    answer_first code "$base.bad" "$dir" "$recorded" "$actual"
}

# audit_copy INDEX SHARED_CODE: compares the experiment's copy with the same truth. A file that is a hard link to one that
# audit_code has hashed is not hashed again.
audit_copy() {
    local index=$1 copy=$CODE base=$SCRATCH/${CODES[$2]} s=$SCRATCH/copy bad
    [ -e "$base.truth" ] || { answer copy-unknown "$index" "$2"; return; }
    answer copy "$index" "$2"
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
    answer_first copy-changed "$bad" "$index"
    answer_first copy-gone "$s.gone" "$index"
    answer_first copy-added "$s.added" "$index"
}

# audit_checkpoints INDEX SAVE_COMPLETE: answers with `mtime ctime STATE CELL/NAME` for every directory that may be a checkpoint.
# STATE is e for empty, p for one that lacks the file which marks a complete checkpoint, w for a whole one.
audit_checkpoints() {
    local of=$1 save=$SAVE_DIR complete=$2 rows row index
    mapfile -t rows < <(cd "$save" && find . -mindepth 2 -maxdepth 2 -type d -regex '\./[0-9]+/[^/]*[0-9]' \
        \( -empty -printf '%T@ %C@ e %P\n' -o -printf '%T@ %C@ w %P\n' \) 2>/dev/null)
    if [ -n "$complete" ]; then
        for index in "${!rows[@]}"; do
            row=${rows[index]}
            [ -e "$save/${row#* * ? }/$complete" ] || rows[index]=${row/ w / p }
        done
    fi
    # In pieces, because an answer is built in memory.
    for ((index = 0; index < ${#rows[@]}; index += 2000)); do answer checkpoints "$of" "${rows[@]:index:2000}"; done
}

# audit_released INDEX: the checksum of the journal's last line, which the last task wrote when it released the cell.
audit_released() {
    local save=$SAVE_DIR entry cell number sum released=()
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
        [ -z "$sum" ] || released+=("$cell $sum")
    done
    answer released "$1" "${released[@]}"
}

# audit_journals INDEX
audit_journals() {
    local save=$SAVE_DIR entry cell last lines end
    for entry in "$save/.chain/"[0-9]*.jsonl; do
        is_trusted "$1" "$entry" || continue
        cell=${entry##*/}
        [ -r "$entry" ] || { answer journal "$1" "${cell%.jsonl}" unreadable; continue; }
        mapfile lines <"$entry"
        last='' end=whole
        [ ${#lines[@]} -eq 0 ] || last=${lines[${#lines[@]} - 1]}
        case $last in '' | *$'\n') ;; *) end=half ;; esac
        answer journal "$1" "${cell%.jsonl}" $end "${lines[@]%$'\n'}"
        if [[ $last =~ ^\{\"event\":\"start\",.*\"task\":\"([0-9]+)\" ]]; then OPEN_TASKS+=("${BASH_REMATCH[1]}"); fi
    done
}

# is_trusted INDEX FILE: succeeds if the file is ours. Answers if it is somebody else's.
is_trusted() {
    is_ours "$2" && return
    [ -z "$DISTRUST" ] || answer distrusted "$1" "$DISTRUST"
    return 1
}

audit_experiment() {
    local index=$1 file text lines=()
    DIR=''
    [ -z "$2" ] || experiment_files "$2"
    save_layout "$3"
    # In this order nothing that a chain writes meanwhile looks like a fault: a start is on record before the checkpoint, a job
    # in the ledger before its start, a launch in the manifest before its release.
    if [ -d "$SAVE_DIR" ]; then
        answer save-present "$index"
        audit_checkpoints "$index" "$5"
        audit_released "$index"
        audit_journals "$index"
    fi
    if [ -n "$DIR" ] && is_trusted "$index" "$LEDGER" && [ -r "$LEDGER" ]; then
        mapfile -t lines <"$LEDGER"
        answer ledger "$index" "${lines[@]}"
    fi
    for file in "$SAVED_SUMMARY" ${DIR:+"$SUMMARY"} "$SAVED_MANIFEST" ${DIR:+"$MANIFEST"}; do
        text=''
        if ! is_trusted "$index" "$file" || [ ! -r "$file" ]; then continue; fi
        IFS= read -r -d '' text <"$file"
        case $file in
            */summary.json) answer summary "$index" "$file" "$text" ;;
            *) answer manifest "$index" "$file" "$text" ;;
        esac
    done
    [ -z "$DIR" ] || [ ! -d "$DIR" ] || audit_directory "$index" "$4"
    answer experiment "$index"
}

# audit_directory INDEX CODE_NAME
audit_directory() {
    local index=$1 lines=()
    answer directory-present "$index"
    mapfile -t lines < <(cd "$DIR" && sha256sum configs/* run.sh task.env job.sh 2>/dev/null)
    count_hashed < <(cd "$DIR" && stat -L -c %s configs/* run.sh task.env job.sh 2>/dev/null)
    answer files "$index" "${lines[@]}"
    shared_code "${DIR%/experiments/*}" "$2"
    [ -n "${CODES[$SHARED_CODE]:-}" ] || audit_code "$SHARED_CODE"
    if [ -d "$CODE" ]; then
        audit_copy "$index" "$SHARED_CODE"
    else
        answer copy-missing "$index" "$SHARED_CODE"
    fi
}

# audit_end: when tasks without an end stopped, according to Slurm's accounting, which may be missing; and the cost.
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
