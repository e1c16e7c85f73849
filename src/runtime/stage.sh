# shellcheck shell=bash
# Puts what a launch needs on the cluster. A directory is filled under a temporary name, checked, and renamed into place,
# so that one that has its final name is whole. The tar stream comes on descriptor 3.

# Times are those of the arrival: scratch file systems purge by age, and a commit may be old.
# unpack DIR DIGEST LISTING_FILE: the stream into DIR, which must then have that digest.
unpack() {
    local dir=$1 expected=$2 listing=$3 said got
    mkdir -p "$dir" || return 1
    if ! said=$(tar -x -m -f - --no-same-owner -C "$dir" <&3 2>&1) || ! tree_listing "$dir" >"$listing"; then
        answer problem "unpacking into $dir on $(uname -n) failed: ${said:-$(df -Ph "$dir" | tail -n 1)}"
        return 1
    fi
    got=$(sha256_of "$listing")
    if [ "$got" != "$expected" ]; then
        answer problem "what arrived in $dir on $(uname -n) has the digest $got, sent was $expected: the stream was damaged or cut"
        return 1
    fi
}

# make_directory DIR: answers why when it cannot be made or written.
make_directory() {
    local said
    if ! said=$(mkdir -p "$1" 2>&1) || ! said=$( (: >"$1/.slurm-chain-probe.$$") 2>&1 && rm -f "$1/.slurm-chain-probe.$$"); then
        answer problem "$1 cannot be written on $(uname -n) by $(id -un): ${said##*: }"
        return 1
    fi
}

# Directories of a copy may be read-only, and rm cannot empty those.
remove_copy() { [ ! -e "$1" ] || { chmod -R u+w "$1" && rm -rf "$1"; }; }

# stage_code WORKDIR CODE_NAME DIGEST NONCE REPLACE
stage_code() {
    local place=$1/code final=$1/code/$2 digest=$3 incoming=$1/code/.incoming-$4 replace=$5
    make_directory "$place" || return 1
    if ! unpack "$incoming" "$digest" "$incoming.sha256"; then
        rm -rf "$incoming" "$incoming.sha256"
        return 1
    fi
    # One immutable copy per commit: nothing in it can be changed by accident.
    if [ "$replace" = true ]; then mv -T "$final" "$final.damaged.$4" 2>/dev/null; fi
    chmod -R a-w "$incoming" && mv -f "$incoming.sha256" "$final.sha256" || return 1
    if ! mv -T "$incoming" "$final" 2>/dev/null; then
        # Somebody else staged the same commit meanwhile, which is as good.
        remove_copy "$incoming"
        [ -d "$final" ] || { answer problem "$incoming could not be renamed to $final on $(uname -n)"; return 1; }
    fi
    answer staged "$final"
}

# differences DIR LISTING OTHER: what OTHER has otherwise than DIR, whose listing is given; the first few as diffs.
differences() {
    local dir=$1 listing=$2 other=$3 name names
    mapfile -t names < <(cd "$other" && grep -E '^[0-9a-f]{64} ' "$listing" | sha256sum -c --quiet - 2>/dev/null | sed -n 's/: FAILED.*//p')
    for name in "${names[@]:0:3}"; do
        diff -u --label "$name of the commit" --label "$name on the cluster" "$dir/$name" "$other/$name" 2>&1 | head -n 20
    done
    [ ${#names[@]} -le 3 ] || printf '… and %s files more\n' $((${#names[@]} - 3))
}

# stage_experiment WORKDIR CODE_NAME CODE_DIGEST EXPERIMENT_ID DIGEST NONCE SAVE_PATH
stage_experiment() {
    local code=$1/code/$2 code_digest=$3 final=$1/experiments/$4 digest=$5 incoming=$1/experiments/.incoming-$6 save=$7/$4 said
    make_directory "$1/experiments" && make_directory "$save/.chain" || return 1
    if ! unpack "$incoming" "$digest" "$incoming.sha256"; then
        rm -rf "$incoming" "$incoming.sha256"
        return 1
    fi
    if [ -d "$final" ]; then
        said=$(differences "$incoming" "$incoming.sha256" "$final")
        # Jobs may add files beside the code; those of the commit must be what they were.
        if [ -z "$said" ] && [ "$(sha256_of "$code.sha256")" = "$code_digest" ]; then
            said=$(cd "$final/code" && grep -E '^\\?[0-9a-f]{64} ' "$code.sha256" | sha256sum -c --quiet - 2>&1 | head -n 5)
        fi
        rm -rf "$incoming" "$incoming.sha256"
        if [ -n "$said" ]; then
            answer problem "$final on $(uname -n) is not what this launch has for the same EXPERIMENT_ID. Somebody edited it, or another version of the action made it. Put it right, or give the experiment a name: of its own or a new attempt (command restart)" "$said"
            return 1
        fi
        answer staged "$final"
        return 0
    fi
    # Hard links to read-only files cost no second copy; some file systems refuse links across directories.
    if ! cp -alT "$code" "$incoming/code" 2>/dev/null; then
        remove_copy "$incoming/code"
        if ! said=$(cp -aT "$code" "$incoming/code" 2>&1); then
            remove_copy "$incoming"
            rm -f "$incoming.sha256"
            answer problem "the experiment's own copy of the code could not be made in $incoming on $(uname -n): $said"
            return 1
        fi
    fi
    # What was staged once may have been changed or purged since.
    if ! tree_listing "$incoming/code" >"$incoming.code" || [ "$(sha256_of "$incoming.code")" != "$code_digest" ]; then
        remove_copy "$incoming"
        rm -f "$incoming.sha256" "$incoming.code"
        answer damaged "$code"
        return 0
    fi
    rm -f "$incoming.code"
    # A job may add files beside the code, so directories are its own; the files stay read-only because they are shared.
    find "$incoming/code" -type d -exec chmod u+w {} + && mkdir -p "$incoming/logs" &&
        mv "$incoming.sha256" "$incoming/files.sha256" || return 1
    if ! mv -T "$incoming" "$final" 2>/dev/null; then
        remove_copy "$incoming"
        [ -d "$final" ] || { answer problem "$incoming could not be renamed to $final on $(uname -n)"; return 1; }
    fi
    answer staged "$final"
}
