# shellcheck shell=bash disable=SC2034 # DISTRUST is for the program
# Other users of the cluster may write where the account writes. So nothing of ours is opened by its name alone: it is no link,
# and it belongs to the account. Directories are made, not adopted, and nobody else may write in them.

# Our own files never depend on the account's umask. The user's run and its checkpoints do.

# private_umask SHARE: from here on, what we make is for the account alone, or with `group` also readable by its group.
private_umask() { if [ "$1" = group ]; then umask 027; else umask 077; fi; }

# open_umask ACCOUNT_UMASK: for directories that lead to checkpoints. Others may not write there, whatever the account allows.
open_umask() { umask "$(printf '%03o' $((8#$1 | 8#022)))"; }

# owner_of PATH: of the link itself, if it is one.
owner_of() { stat -c %U "$1" 2>/dev/null || echo somebody; }

# is_ours FILE: succeeds if this is a regular file of the account, and no link. If it is something else, it sets DISTRUST to what;
# if nothing is there, DISTRUST is empty.
is_ours() {
    DISTRUST=''
    if [ -L "$1" ]; then
        DISTRUST="$1 is a link that $(owner_of "$1") made, so it is not opened"
    elif [ -O "$1" ] && [ -f "$1" ]; then
        return 0
    elif [ -O "$1" ]; then
        DISTRUST="$1 is not a regular file"
    elif [ -e "$1" ]; then # looked at last, because it may be removed meanwhile
        DISTRUST="$1 belongs to $(owner_of "$1") and not to $(id -un), so it is not opened"
    fi
    return 1
}

# are_ours FILE…: succeeds if each of them is ours or does not exist. Sets DISTRUST for the first that is not.
are_ours() {
    local file
    for file; do is_ours "$file" || [ -z "$DISTRUST" ] || return 1; done
    DISTRUST=''
}

# own_directory DIR: makes a directory, or takes one that is ours. Its parent must exist. Nobody else may write there afterwards,
# also where an access control list beats the umask. Fails with DISTRUST.
own_directory() {
    # mkdir also refuses a link, so the directory is ours if it succeeds.
    if ! DISTRUST=$(mkdir "$1" 2>&1); then
        if [ -L "$1" ]; then
            DISTRUST="$1 is a link that $(owner_of "$1") made, and not a directory"
        elif [ ! -e "$1" ]; then
            return 1 # the message of mkdir says why
        elif [ ! -d "$1" ]; then
            DISTRUST="$1 is not a directory"
        elif [ ! -O "$1" ]; then
            DISTRUST="$1 belongs to $(owner_of "$1") and not to $(id -un)"
        else
            DISTRUST=''
        fi
        [ -z "$DISTRUST" ] || return 1
    fi
    keep_others_out "$1"
}

# keep_others_out DIR: takes the right to write from everybody else.
keep_others_out() {
    ! others_may_write "$1" || DISTRUST=$(chmod go-w "$1" 2>&1)
}

# set_readers DIR SHARE: gives a directory of ours its readers, whatever the umask was when it was made.
set_readers() { if [ "$2" = group ]; then chmod u=rwx,g=rx,o= "$1"; else chmod u=rwx,go= "$1"; fi; }

# others_may_write PATH: succeeds if its group or everybody may write to it.
others_may_write() { [ -n "$(find -H "$1" -maxdepth 0 -perm /022 2>/dev/null)" ]; }

# holds_manifest EXPERIMENT_ID FILE…: succeeds if the first of these files that exists is ours and is the manifest of this
# experiment. Another one says that somebody has exchanged two directories.
holds_manifest() {
    local id=$1 file
    shift
    for file; do
        if is_ours "$file"; then
            grep -qF -e "\"id\":\"$id\"" -e "\"id\": \"$id\"" "$file"
            return
        fi
        [ -z "$DISTRUST" ] || return 1
    done
    return 1
}
