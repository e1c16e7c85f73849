# shellcheck shell=bash disable=SC2034 # EXPANDED is for the program that follows
# Starts every program that is sent to the login node; src/cluster/shell.ts says how a program gets there.
#
# answers (the same table as in src/cluster/shell.ts):
#   problem WHAT DETAILS…        the program failed; WHAT is for a person
#
# The caller sets MARK, a random word, before this text. An answer is one line `MARK key<TAB>value…`, so nothing that a banner,
# a start-up file or a command prints can be taken for one. The last answer of every program is `end STATUS`. The program's own
# stdout goes to stderr.

exec 4>&1 1>&2

# A start-up file or the prelude may have set options that change what the text below means.
set +efuCxv
shopt -u failglob nullglob dotglob
ACCOUNT_UMASK=$(umask)
private_umask "${CHAIN_SHARE:-}"
# These variables of an account change what the Slurm commands print.
for name in $(compgen -e); do
    case $name in SQUEUE_* | SACCT_* | SCONTROL_* | SCANCEL_* | SINFO_*) unset "$name" ;; esac
done

# answer KEY VALUE…
answer() {
    local line="$MARK $1" value
    shift
    for value; do
        value=${value//'%'/%25}
        value=${value//$'\n'/%0A}
        value=${value//$'\t'/%09}
        value=${value//$'\r'/%0D}
        line+=$'\t'$value
    done
    # The line end in front closes whatever was printed before without one.
    printf '\n%s\n' "$line" >&4
}

# foreign WHAT: answers about something that trust.sh refuses.
foreign() {
    answer problem "$1 on $(uname -n). Slurm Chain uses only what the account made itself. Find out who made it, and move it away"
}

# expand_path WHAT PATH: expands a path that starts with ~/ or $NAME/ from the login environment, and nothing else in it.
# Sets EXPANDED. Fails with an answer if the variable is not set, or if the result is not absolute.
expand_path() {
    local what=$1 path=$2 name
    case $path in
        \~ | \~/*) path=$HOME${path#\~} ;;
        '$'*)
            name=${path#'$'}
            name=${name%%/*}
            # Only a name: bash runs what stands in the subscript of `a[…]`.
            if ! [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]]; then
                answer problem "$what is '$path', and '$name' is not the name of a variable"
                return 1
            fi
            if [ -z "${!name:-}" ]; then
                answer problem "$what is '$path', but \$$name is not set in the login environment of $(id -un)@$(uname -n)"
                return 1
            fi
            path=${!name}${path#'$'"$name"}
            ;;
    esac
    case $path in
        /*) EXPANDED=$path ;;
        *)
            answer problem "$what expands to '$path' on $(uname -n), which is not an absolute path"
            return 1
            ;;
    esac
}

# tree_listing DIR: prints a line for each regular file with its SHA-256, for each symbolic link, and for each executable bit.
# src/repo/code.ts computes the same listing from the commit; its SHA-256 is the digest of the directory.
tree_listing() (
    cd "$1" || exit 1
    export LC_ALL=C
    find . -type f -print0 | sort -z | xargs -0 -r sha256sum || exit 1
    find . -type l -printf 'link %p -> %l\n' | sort
    find . -type f -perm -100 -printf 'exec %p\n' | sort
)

# write_whole FILE TEXT: readers see the old content or the new, never a part of it. Two writers cannot mix their texts. A link
# with the name of the file is replaced and not followed.
write_whole() {
    local hidden
    hidden=$(mktemp "${1%/*}/.new.XXXXXXXXXX") || return 1
    if ! { [ "${CHAIN_SHARE:-}" != group ] || chmod g+r "$hidden"; } || ! printf '%s' "$2" >"$hidden" || ! mv -fT "$hidden" "$1"; then
        rm -f "$hidden"
        return 1
    fi
}

# write_secret FILE TEXT: like write_whole, for what only the account may read, with `share: group` too.
write_secret() {
    local hidden
    hidden=$(mktemp "${1%/*}/.new.XXXXXXXXXX") || return 1
    if ! is_private "$hidden" || ! printf '%s' "$2" >"$hidden" || ! mv -fT "$hidden" "$1"; then
        rm -f "$hidden"
        return 1
    fi
}

# is_private FILE: succeeds if the file is ours and its mode is 0600. An access control list shows in the mode.
is_private() { is_ours "$1" && [ "$(stat -c %a "$1")" = 600 ]; }

sha256_of() { sha256sum <"$1" | cut -d' ' -f1; }

# An account may set variables that change what our arguments mean, send a job's stderr elsewhere, or make sbatch wait for the
# job. No argument overrides them (sbatch(1), INPUT ENVIRONMENT VARIABLES). Other SBATCH_* variables are the user's choice.
clear_sbatch_variables() {
    unset SBATCH_GET_USER_ENV SBATCH_WAIT SBATCH_CLUSTERS SLURM_CLUSTERS SBATCH_ARRAY_INX SBATCH_EXPORT SBATCH_SIGNAL \
        SBATCH_ERROR SBATCH_INPUT
}

trap 'answer end "$?"' EXIT
