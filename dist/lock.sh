# shellcheck shell=bash disable=SC2034 # LOCK_SAID and LOCK_AGE are for the program
# A lock made of numbered directories: PATH.1, PATH.2, … Only the highest number counts. A lock is free if it holds a file
# `released`. To take it, a program makes the directory with the next number, and mkdir lets exactly one program succeed. A lock
# that counts is never removed. So a program that takes over a stale lock cannot remove a fresh one by mistake, and a holder
# that was overtaken can see it. flock does not work across nodes on every shared file system.

# lock_current PATH: sets LOCK_NUMBER to the number that counts, or to 0 if there is no lock yet.
lock_current() {
    local path=$1 entry number
    LOCK_NUMBER=0
    for entry in "$path".[0-9]*; do
        number=${entry##*.}
        [[ $number =~ ^[1-9][0-9]{0,8}$ ]] || continue
        [ -d "$entry" ] && [ "$number" -gt "$LOCK_NUMBER" ] && LOCK_NUMBER=$number
    done
    return 0
}

# lock_age DIR: sets LOCK_AGE to the seconds since a lock was made or renewed. Both times come from the file system, so clocks
# that differ between nodes do not matter.
lock_age() {
    local dir=$1 probe now made
    probe=$(mktemp "${dir%/*}/.now.XXXXXXXXXX") || return 1
    now=$(stat -c %Y "$probe")
    made=$(stat -c %Y "$dir" 2>/dev/null) || made=$now # it went away meanwhile
    rm -f "$probe"
    LOCK_AGE=$((now - made))
}

# lock_try PATH HOLDER: returns 0 if the lock is ours now (LOCK_HELD is its directory), 1 if another program holds it, 2 if it
# cannot be made (LOCK_SAID says why). The program defines `lock_is_stale DIR`, which succeeds if the holder of a lock is gone.
lock_try() {
    local path=$1 holder=$2 current number
    LOCK_HELD=''
    lock_current "$path"
    current=$path.$LOCK_NUMBER
    # A lock that somebody else made would keep us out for ever.
    if [ -L "$current" ] || { [ ! -O "$current" ] && [ -e "$current" ]; } || ! are_ours "$current/holder" "$current/released"; then
        LOCK_SAID=${DISTRUST:-"$current belongs to $(owner_of "$current") and not to $(id -un)"}
        LOCK_HELD=''
        return 2
    fi
    if [ "$LOCK_NUMBER" -gt 0 ] && [ ! -e "$current/released" ] && ! lock_is_stale "$current"; then
        return 1
    fi
    LOCK_HELD=$path.$((LOCK_NUMBER + 1))
    if ! LOCK_SAID=$(mkdir "$LOCK_HELD" 2>&1); then
        [ -d "$LOCK_HELD" ] || { LOCK_HELD='' && return 2; }
        LOCK_HELD=''
        return 1
    fi
    # A lock without a holder looks like one whose maker died.
    if ! LOCK_SAID=$( (printf '%s\n' "$holder" >"$LOCK_HELD/holder") 2>&1); then
        rm -rf "$LOCK_HELD"
        LOCK_HELD=''
        return 2
    fi
    # If the look above took long, others may have taken and released the lock since, and removed old numbers.
    if ! lock_still_held; then
        rm -rf "$LOCK_HELD"
        LOCK_HELD=''
        return 1
    fi
    # Older locks no longer count. The one just overtaken stays, because its holder may be looking at it.
    number=$((LOCK_NUMBER - 2))
    while [ $number -gt 0 ] && [ -d "$path.$number" ]; do
        rm -rf "$path.$number"
        number=$((number - 1))
    done
}

lock_still_held() {
    lock_current "${LOCK_HELD%.*}"
    [ "$LOCK_HELD" = "${LOCK_HELD%.*}.$LOCK_NUMBER" ]
}

# lock_release [TEXT]: releases the lock. The file that says so holds TEXT, for the next holder.
lock_release() { printf '%s' "${1:-}" >"$LOCK_HELD/released"; }
