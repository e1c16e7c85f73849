# shellcheck shell=bash disable=SC2034,SC2154 # part of job.sh
# Which checkpoint is the newest complete one.

is_complete() {
    local inside=("$1"/*)
    [ ${#inside[@]} -gt 0 ] && { [ -z "$SAVE_COMPLETE" ] || [ -e "$1/$SAVE_COMPLETE" ]; }
}

# Sets CANDIDATES to `number name` of every checkpoint directory, highest first. Numbers compare as numbers, whatever their
# padding; other names are not looked at, and a link (such as one called latest) is never followed.
list_checkpoints() {
    local path name found=()
    CANDIDATES=()
    for path in "$CHECKPOINT_DIR/$SAVE_PREFIX"[0-9]*; do
        name=${path##*/}
        if [[ ${name#"$SAVE_PREFIX"} =~ ^0*([0-9]{1,18})$ ]] && [ ! -L "$path" ] && [ -d "$path" ]; then
            found+=("${BASH_REMATCH[1]} $name")
        fi
    done
    [ ${#found[@]} -eq 0 ] || mapfile -t CANDIDATES < <(printf '%s\n' "${found[@]}" | sort -k1,1nr)
}

# Sets NEWEST and NEWEST_STEP to the complete checkpoint with the highest number, or empty, and NEWER to the incomplete ones
# above it.
find_newest() {
    local candidate name
    NEWEST='' NEWEST_STEP='' NEWER=()
    list_checkpoints
    for candidate in ${CANDIDATES[@]+"${CANDIDATES[@]}"}; do
        name=${candidate#* }
        if is_complete "$CHECKPOINT_DIR/$name"; then
            NEWEST=$name NEWEST_STEP=${candidate%% *}
            return 0
        fi
        NEWER+=("$name")
    done
}

RANGES_KEPT=100

# checkpoint_ranges ABOVE UP_TO: the numbers in CANDIDATES above the one and up to the other, lowest first, runs with one
# distance folded: 20-480/20,499. However irregular they are, the text stays short: what is left over becomes one range.
checkpoint_ranges() {
    local above=$1 up_to=$2 index number first='' last='' stride='' text='' kept=0
    for ((index = ${#CANDIDATES[@]} - 1; index >= 0; index--)); do
        number=${CANDIDATES[index]%% *}
        if [ "$number" -le "$above" ] || [ "$number" -gt "$up_to" ] || [ "$number" = "$last" ]; then continue; fi
        if [ -z "$first" ]; then
            first=$number
        elif [ -z "$stride" ]; then
            stride=$((number - last))
        elif [ "$stride" = 1 ] && [ $kept -ge $RANGES_KEPT ]; then
            :
        elif [ $((number - last)) != "$stride" ]; then
            text+="$first-$last/$stride,"
            first=$number stride=''
            kept=$((kept + 1))
            [ $kept -lt $RANGES_KEPT ] || stride=1
        fi
        last=$number
    done
    if [ -n "$stride" ] && [ "$first" != "$last" ]; then text+=$first-$last/$stride; else text+=$first; fi
    printf '%s' "$text"
}

# Seconds from the start of this task to its first new checkpoint, or null. It grows from step to step when resuming has to
# read its way back through the data.
first_save_seconds() {
    local candidate new=() first
    for candidate in ${CANDIDATES[@]+"${CANDIDATES[@]}"}; do
        [ "${candidate%% *}" -gt "${RESUME_STEP:--1}" ] || break
        new+=("$CHECKPOINT_DIR/${candidate#* }")
    done
    if [ ${#new[@]} -eq 0 ]; then
        printf null
        return
    fi
    first=$(stat -c %Y "${new[@]}" | sort -n | head -n 1)
    printf '%s' $((first > STARTED ? first - STARTED : 0))
}
