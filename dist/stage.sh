# shellcheck shell=bash disable=SC2154 # the paths come from layout.sh
# Puts the files of a launch on the cluster. A directory is filled under a temporary name, verified, and renamed into place. So
# a directory with its final name is complete. The tar stream comes on descriptor 3.
#
# answers (the same table as in src/cluster/programs/stage.ts):
#   damaged                      the staged code no longer matches its digest
#
#   stage_code WORKDIR CODE_NAME DIGEST NONCE REPLACE
#   stage_experiment WORKDIR CODE_NAME CODE_DIGEST EXPERIMENT_ID DIGEST NONCE SAVE_PATH

stage_code() {
    local digest=$3 incoming=$1/code/.incoming-$4 replace=$5
    shared_code "$1" "$2"
    make_directory "$1/code" || return 1
    if ! unpack "$incoming" "$digest" "$incoming.sha256"; then
        rm -rf "$incoming" "$incoming.sha256"
        return 1
    fi
    # One read-only copy per commit, so that nothing changes it by accident.
    if [ "$replace" = true ]; then mv -T "$SHARED_CODE" "$SHARED_CODE.damaged.$4" 2>/dev/null; fi
    chmod -R a-w "$incoming" && mv -f "$incoming.sha256" "$SHARED_CODE.sha256" || return 1
    if ! mv -T "$incoming" "$SHARED_CODE" 2>/dev/null; then
        # Another launch staged the same commit meanwhile.
        remove_copy "$incoming"
        [ -d "$SHARED_CODE" ] || { answer problem "$incoming could not be renamed to $SHARED_CODE on $(uname -n)"; return 1; }
    fi
}

stage_experiment() {
    local code_digest=$3 digest=$5 incoming=$1/experiments/.incoming-$6
    experiment_layout "$1" "$4"
    save_layout "$7/$4"
    shared_code "$1" "$2"
    make_directory "$1/experiments" && make_directory "$RECORDS" || return 1
    if ! unpack "$incoming" "$digest" "$incoming.sha256"; then
        rm -rf "$incoming" "$incoming.sha256"
        return 1
    fi
    if [ -d "$DIR" ]; then
        keep_staged "$incoming" "$code_digest"
        return
    fi
    copy_code "$incoming" "$code_digest" || return
    [ -d "$incoming" ] || return 0 # the code is damaged, which was answered
    # A job may add files beside the code, so directories are writable. Files stay read-only, because experiments share them.
    find "$incoming/code" -type d -exec chmod u+w {} + && mkdir -p "$incoming/logs" &&
        mv "$incoming.sha256" "$incoming/files.sha256" || return 1
    if ! mv -T "$incoming" "$DIR" 2>/dev/null; then
        remove_copy "$incoming"
        [ -d "$DIR" ] || { answer problem "$incoming could not be renamed to $DIR on $(uname -n)"; return 1; }
    fi
}

# keep_staged INCOMING CODE_DIGEST: the experiment is staged already. Fails if its files are not the ones that arrived.
keep_staged() {
    local incoming=$1 said
    said=$(differences "$incoming" "$incoming.sha256" "$DIR")
    # Jobs may add files beside the code. The files of the commit must not have changed.
    if [ -z "$said" ] && [ "$(sha256_of "$SHARED_CODE.sha256")" = "$2" ]; then
        said=$(cd "$CODE" && grep -E '^\\?[0-9a-f]{64} ' "$SHARED_CODE.sha256" | sha256sum -c --quiet - 2>&1 | head -n 5)
    fi
    rm -rf "$incoming" "$incoming.sha256"
    if [ -n "$said" ]; then
        answer problem "$DIR on $(uname -n) does not match what this launch has for the same EXPERIMENT_ID. Somebody edited it, or another version of the action made it. Restore it, give the experiment another name, or start a new attempt (command restart)" "$said"
        return 1
    fi
}

# copy_code INCOMING CODE_DIGEST: the experiment's own copy of the code, verified. Answers `damaged` and removes INCOMING if the
# shared copy was changed or purged since it was staged.
copy_code() {
    local incoming=$1 said
    # Hard links to read-only files take no space. Some file systems refuse links across directories.
    if ! cp -alT "$SHARED_CODE" "$incoming/code" 2>/dev/null; then
        remove_copy "$incoming/code"
        if ! said=$(cp -aT "$SHARED_CODE" "$incoming/code" 2>&1); then
            remove_copy "$incoming"
            rm -f "$incoming.sha256"
            answer problem "the experiment's copy of the code could not be made in $incoming on $(uname -n): $said"
            return 1
        fi
    fi
    if ! tree_listing "$incoming/code" >"$incoming.code" || [ "$(sha256_of "$incoming.code")" != "$2" ]; then
        remove_copy "$incoming"
        rm -f "$incoming.sha256" "$incoming.code"
        answer damaged
        return 0
    fi
    rm -f "$incoming.code"
}

# unpack DIR DIGEST LISTING_FILE: unpacks the stream into DIR and verifies the digest. File times are those of the arrival:
# scratch file systems purge by age, and a commit may be old.
unpack() {
    local dir=$1 expected=$2 listing=$3 said got
    mkdir -p "$dir" || return 1
    if ! said=$(tar -x -m -f - --no-same-owner -C "$dir" <&3 2>&1) || ! tree_listing "$dir" >"$listing"; then
        answer problem "unpacking into $dir on $(uname -n) failed: ${said:-$(df -Ph "$dir" | tail -n 1)}"
        return 1
    fi
    got=$(sha256_of "$listing")
    if [ "$got" != "$expected" ]; then
        answer problem "the files that arrived in $dir on $(uname -n) have the digest $got instead of $expected: the stream was damaged or cut off"
        return 1
    fi
}

# make_directory DIR: fails with an answer if it cannot be made or written to.
make_directory() {
    local said
    if ! said=$(mkdir -p "$1" 2>&1) || ! said=$( (: >"$1/.slurm-chain-probe.$$") 2>&1 && rm -f "$1/.slurm-chain-probe.$$"); then
        answer problem "$(id -un) cannot write to $1 on $(uname -n): ${said##*: }"
        return 1
    fi
}

# remove_copy DIR: a copy may have read-only directories, which rm cannot empty.
remove_copy() { [ ! -e "$1" ] || { chmod -R u+w "$1" && rm -rf "$1"; }; }

# differences DIR LISTING OTHER: prints how the files of OTHER differ from those of DIR, whose listing is given.
differences() {
    local dir=$1 listing=$2 other=$3 name names
    mapfile -t names < <(cd "$other" && grep -E '^[0-9a-f]{64} ' "$listing" | sha256sum -c --quiet - 2>/dev/null | sed -n 's/: FAILED.*//p')
    for name in "${names[@]:0:3}"; do
        diff -u --label "$name of the commit" --label "$name on the cluster" "$dir/$name" "$other/$name" 2>&1 | head -n 20
    done
    [ ${#names[@]} -le 3 ] || printf '… and %s more files\n' $((${#names[@]} - 3))
}
