# shellcheck shell=bash disable=SC2154 # the paths come from layout.sh
# Puts the files of a launch on the cluster. A directory is filled under a temporary name, verified, and renamed into place. So
# a directory with its final name is complete. The tar stream comes on descriptor 3.
#
# answers (the same table as in src/cluster/programs/stage.ts):
#   damaged                      the staged code no longer matches its digest, or somebody else owns a part of it
#
#   stage_code WORKDIR CODE_NAME DIGEST NONCE REPLACE
#   stage_experiment WORKDIR CODE_NAME CODE_DIGEST EXPERIMENT_ID DIGEST NONCE SAVE_PATH

stage_code() {
    local digest=$3 incoming=$1/code/.incoming-$4 replace=$5
    shared_code "$1" "$2"
    claim_directory "$1/code" || return 1
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
    claim_directory "$1/experiments" && claim_save_directory || return 1
    if ! unpack "$incoming" "$digest" "$incoming.sha256"; then
        rm -rf "$incoming" "$incoming.sha256"
        return 1
    fi
    if [ -e "$DIR" ] || [ -L "$DIR" ]; then
        claim_staged && keep_staged "$incoming" "$code_digest" && return
        rm -rf "$incoming" "$incoming.sha256"
        return 1
    fi
    copy_code "$incoming" "$code_digest" || return
    [ -d "$incoming" ] || return 0 # the code is damaged, which was answered
    # A job may add files beside the code, so directories are writable. Files stay read-only, because experiments share them.
    find "$incoming/code" -type d -exec chmod u+w {} + && mkdir "$incoming/logs" &&
        mv "$incoming.sha256" "$incoming/files.sha256" || return 1
    if ! mv -T "$incoming" "$DIR" 2>/dev/null; then
        remove_copy "$incoming"
        [ -d "$DIR" ] || { answer problem "$incoming could not be renamed to $DIR on $(uname -n)"; return 1; }
        claim_staged # another launch staged the same experiment meanwhile
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
    if [ -n "$said" ]; then
        answer problem "$DIR on $(uname -n) does not match what this launch has for the same EXPERIMENT_ID. Somebody edited it, or another version of the action made it. Restore it, give the experiment another name, or start a new attempt (command restart)" "$said"
        return 1
    fi
    rm -rf "$incoming" "$incoming.sha256"
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
    # A file of somebody else has the right content now, and may have another one later.
    if [ -n "$(not_ours "$incoming/code")" ] || ! tree_listing "$incoming/code" >"$incoming.code" ||
        [ "$(sha256_of "$incoming.code")" != "$2" ]; then
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
    mkdir "$dir" || return 1
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

# claim_directory DIR: a directory of workdir, where only the account writes; so a link is the account's own. Fails with an
# answer if the directory cannot be made or written to, or if it is not ours.
claim_directory() {
    local said
    said=$(mkdir -p "$1" 2>&1) || { cannot_write "$1" "$said"; return 1; }
    [ -O "$1" ] || { foreign "$1 belongs to $(stat -L -c %U "$1") and not to $(id -un)"; return 1; }
    said=$(set_readers "$1" "${CHAIN_SHARE:-}" 2>&1) || { cannot_write "$1" "$said"; return 1; }
    can_write "$1"
}

# claim_save_directory: SAVE_DIR and RECORDS. One that exists counts if the account made it for this experiment. Its manifest
# shows that; a launch that was refused left no more than an empty RECORDS.
claim_save_directory() {
    local said path
    if ! said=$(
        open_umask "$ACCOUNT_UMASK"
        mkdir -p "${SAVE_DIR%/*}" 2>&1
    ); then
        cannot_write "${SAVE_DIR%/*}" "$said"
        return 1
    fi
    open_umask "$ACCOUNT_UMASK"
    own_directory "$SAVE_DIR" || { private_umask "${CHAIN_SHARE:-}"; refuse_directory "$SAVE_DIR"; return 1; }
    private_umask "${CHAIN_SHARE:-}"
    if ! holds_manifest "$EXPERIMENT" "$SAVED_MANIFEST" "$MANIFEST"; then
        path=$(find "$SAVE_DIR" -mindepth 1 -maxdepth 1 ! -name .chain -print -quit)
        [ -z "$path" ] || { foreign "${DISTRUST:-no launch of $EXPERIMENT made $path: the directory holds no manifest of it}"; return 1; }
    fi
    own_directory "$RECORDS" || { refuse_directory "$RECORDS"; return 1; }
    path=$(not_ours "$RECORDS")
    [ -z "$path" ] || { foreign "$path belongs to $(owner_of "$path") and not to $(id -un)"; return 1; }
    set_readers "$RECORDS" "${CHAIN_SHARE:-}"
    can_write "$RECORDS"
}

# claim_staged: the experiment's directory, which exists. One of an older version may be open to others.
claim_staged() {
    local path
    for path in "$DIR" "$LOGS" "$CONFIGS" "$CODE"; do
        own_directory "$path" || { refuse_directory "$path"; return 1; }
    done
    path=$(not_ours "$DIR")
    [ -z "$path" ] || { foreign "$path belongs to $(owner_of "$path") and not to $(id -un)"; return 1; }
}

# not_ours DIR: prints the first path under a directory that belongs to somebody else.
not_ours() { find "$1" ! -uid "$(id -u)" -print -quit; }

# refuse_directory DIR: after own_directory has failed.
refuse_directory() {
    if [ -e "$1" ] || [ -L "$1" ]; then foreign "$DISTRUST"; else cannot_write "$1" "$DISTRUST"; fi
}

cannot_write() { answer problem "$(id -un) cannot write to $1 on $(uname -n): ${2##*: }"; }

# can_write DIR: fails with an answer if no file can be made in it.
can_write() {
    local said probe
    said=$({ probe=$(mktemp "$1/.probe.XXXXXXXXXX") && rm -f "$probe"; } 2>&1) || {
        cannot_write "$1" "$said"
        return 1
    }
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
