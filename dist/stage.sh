# shellcheck shell=bash
# Puts what a launch needs on the cluster. A directory is filled under a temporary name, checked, and renamed into place,
# so that one that has its final name is whole. The tar stream comes on descriptor 3.

# unpack DIR DIGEST LISTING_FILE: the stream into DIR, which must then have that digest.
unpack() {
    local dir=$1 expected=$2 listing=$3 said got
    mkdir -p "$dir" || return 1
    if ! said=$(tar -x -f - --no-same-owner -C "$dir" <&3 2>&1) || ! tree_listing "$dir" >"$listing"; then
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

# stage_code WORKDIR CODE_NAME DIGEST NONCE
stage_code() {
    local place=$1/code final=$1/code/$2 digest=$3 incoming=$1/code/.incoming-$4
    make_directory "$place" || return 1
    if ! unpack "$incoming" "$digest" "$incoming.sha256"; then
        rm -rf "$incoming" "$incoming.sha256"
        return 1
    fi
    # One immutable copy per commit: nothing in it can be changed by accident.
    chmod -R a-w "$incoming" && mv -f "$incoming.sha256" "$final.sha256" || return 1
    if ! mv -T "$incoming" "$final" 2>/dev/null; then
        # Somebody else staged the same commit meanwhile, which is as good.
        chmod -R u+w "$incoming" && rm -rf "$incoming"
        [ -d "$final" ] || { answer problem "$incoming could not be renamed to $final on $(uname -n)"; return 1; }
    fi
    answer staged "$final"
}

# stage_experiment WORKDIR CODE_NAME EXPERIMENT_ID DIGEST NONCE SAVE_PATH
stage_experiment() {
    local final=$1/experiments/$3 code=$1/code/$2 digest=$4 incoming=$1/experiments/.incoming-$5 said
    make_directory "$1/experiments" && make_directory "$6/$3/.chain" || return 1
    if [ -d "$final" ]; then
        if [ "$(sha256_of "$final/files.sha256")" != "$digest" ]; then
            answer problem "$final on $(uname -n) holds other configs or another run script than this launch has for the same EXPERIMENT_ID. Compare its configs/ and run.sh; if they are not worth keeping, move the directory away"
            return 1
        fi
        cat <&3 >/dev/null # the stream is read to its end, or its sender would wait for ever
        answer staged "$final"
        return 0
    fi
    if ! unpack "$incoming" "$digest" "$incoming.sha256"; then
        rm -rf "$incoming" "$incoming.sha256"
        return 1
    fi
    # Hard links to read-only files cost no second copy; some file systems refuse links across directories.
    if ! cp -al "$code" "$incoming/code" 2>/dev/null; then
        rm -rf "$incoming/code"
        if ! said=$(cp -a "$code" "$incoming/code" 2>&1); then
            chmod -R u+w "$incoming"
            rm -rf "$incoming" "$incoming.sha256"
            answer problem "the experiment's own copy of the code could not be made in $incoming on $(uname -n): $said"
            return 1
        fi
    fi
    # A job may add files beside the code, so directories are its own; the files stay read-only because they are shared.
    find "$incoming/code" -type d -exec chmod u+w {} + && mkdir -p "$incoming/logs" &&
        mv "$incoming.sha256" "$incoming/files.sha256" || return 1
    if ! mv -T "$incoming" "$final" 2>/dev/null; then
        rm -rf "$incoming"
        [ -d "$final" ] || { answer problem "$incoming could not be renamed to $final on $(uname -n)"; return 1; }
    fi
    answer staged "$final"
}

# store_job WORKDIR EXPERIMENT_ID JOB_SH SECRETS: the batch script, and shell assignments that only the account can read
# and the jobs source. Both are replaced by every launch: Slurm keeps a copy of the script of what is queued already.
store_job() (
    local dir=$1/experiments/$2
    if ! write_whole "$dir/job.sh" "$3"; then
        answer problem "$dir/job.sh could not be written on $(uname -n)"
        exit 1
    fi
    umask 077
    if ! write_whole "$dir/secrets.env" "$4"; then
        answer problem "$dir/secrets.env could not be written on $(uname -n)"
        exit 1
    fi
)
