# shellcheck shell=bash disable=SC2034,SC2154 # part of job.sh and of survey.sh
# Finding the newest complete checkpoint. CHECKPOINT_DIR, SAVE_PREFIX and SAVE_COMPLETE say where and what to look for.

is_complete() {
    local inside=("$1"/*)
    [ ${#inside[@]} -gt 0 ] && { [ -z "$SAVE_COMPLETE" ] || [ -e "$1/$SAVE_COMPLETE" ]; }
}

# list_checkpoints: sets CANDIDATES to `number name` of every checkpoint directory, highest first. Numbers are compared as
# numbers, whatever their padding. Other names are ignored, and links (such as one called latest) are not followed.
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

# find_newest: sets NEWEST and NEWEST_STEP to name and number of the newest complete checkpoint, or to nothing. Sets NEWER to the
# names of incomplete ones with a higher number.
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

# checkpoint_ranges ABOVE UP_TO: prints the numbers in CANDIDATES that are greater than ABOVE and at most UP_TO, lowest first.
# Numbers with the same distance become a range: 20-480/20,499. After RANGES_KEPT ranges the rest becomes one range, so that the
# text stays short.
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

# first_save_seconds: prints the seconds from the start of this task to its first new checkpoint, or null. They grow from job to
# job if resuming has to read its way through the data again.
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
