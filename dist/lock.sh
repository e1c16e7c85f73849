# shellcheck shell=bash disable=SC2034 # LOCK_SAID and LOCK_AGE are for the program
# A lock made of numbered directories: PATH.1, PATH.2, … The highest number is the one that counts. It is free when it
# holds a file `released`; who wants it makes the next number, and mkdir lets exactly one win. No lock is ever removed
# while it counts, so taking over a stale one cannot hit a fresh one by mistake, and a holder that was overtaken can see it.
# Works without flock, which does not reach across nodes on every shared file system.

# Sets LOCK_NUMBER to the number that counts, 0 when there is none yet.
lock_current() {
    local path=$1 entry number
    LOCK_NUMBER=0
    for entry in "$path".[0-9]*; do
        number=${entry##*.}
        case $number in *[!0-9]*) continue ;; esac
        [ -d "$entry" ] && [ "$number" -gt "$LOCK_NUMBER" ] && LOCK_NUMBER=$number
    done
    return 0
}

# Sets LOCK_AGE to the seconds since a lock was made or renewed. Both times are the file system's own, so clocks that differ
# between nodes do not matter.
lock_age() {
    local dir=$1 now made
    : >"$dir.now" || return 1
    now=$(stat -c %Y "$dir.now")
    made=$(stat -c %Y "$dir" 2>/dev/null) || made=$now # it went away while we looked
    rm -f "$dir.now"
    LOCK_AGE=$((now - made))
}

# lock_try PATH HOLDER: 0 taken (LOCK_HELD is its directory), 1 somebody has it, 2 it cannot be made (LOCK_SAID says why).
# `lock_is_stale DIR`, which the program defines, says whether the holder of a lock that was not released is gone.
lock_try() {
    local path=$1 holder=$2 current number
    LOCK_HELD=''
    lock_current "$path"
    current=$path.$LOCK_NUMBER
    if [ "$LOCK_NUMBER" -gt 0 ] && [ ! -e "$current/released" ] && ! lock_is_stale "$current"; then
        return 1
    fi
    LOCK_HELD=$path.$((LOCK_NUMBER + 1))
    if ! LOCK_SAID=$(mkdir "$LOCK_HELD" 2>&1); then
        [ -d "$LOCK_HELD" ] || { LOCK_HELD='' && return 2; }
        LOCK_HELD=''
        return 1
    fi
    # A lock without a name on it would pass for one whose maker died.
    if ! LOCK_SAID=$( (printf '%s\n' "$holder" >"$LOCK_HELD/holder") 2>&1); then
        rm -rf "$LOCK_HELD"
        LOCK_HELD=''
        return 2
    fi
    # Looking may have taken long: others may have come and gone since, and taken their numbers with them.
    if ! lock_still_held; then
        rm -rf "$LOCK_HELD"
        LOCK_HELD=''
        return 1
    fi
    # Older ones no longer count and go, the one just overtaken excepted: somebody may be looking at it.
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

# lock_release [LAST_WORD]: frees it; the file that says so keeps the last word of who had it.
lock_release() { printf '%s' "${1:-}" >"$LOCK_HELD/released"; }
