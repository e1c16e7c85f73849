# shellcheck shell=bash disable=SC2034 # EXPANDED is for the program that follows
# Prepended to every program that is sent to the login node; see src/cluster/shell.ts for how it gets there.
#
# The caller sets MARK, a random word, before this text. An answer is one line `MARK key<TAB>value…`, so nothing that a
# banner, a start-up file or a chatty command prints can be taken for one. The program's own stdout goes to stderr.

exec 4>&1 1>&2

# What a start-up file or a prelude may have switched on would change what the text below means.
set +efuCxv
shopt -u failglob nullglob dotglob
# These change what the Slurm commands show, in an account that sets them.
for name in $(compgen -e); do
    case $name in SQUEUE_* | SACCT_* | SCONTROL_* | SCANCEL_* | SINFO_*) unset "$name" ;; esac
done

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
    # The leading line end closes whatever was printed before without one.
    printf '\n%s\n' "$line" >&4
}

# A path that starts with ~/ or $NAME/ is expanded from the login environment; nothing else in it ever is.
# Sets EXPANDED. Fails, having answered why, when the variable is unset or what comes out is not absolute.
expand_path() {
    local what=$1 path=$2 name
    case $path in
        \~ | \~/*) path=$HOME${path#\~} ;;
        '$'*)
            name=${path#'$'}
            name=${name%%/*}
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

# The digest of a directory's regular files, symbolic links and executable bits, as src/experiment/code.ts computes it
# from the commit. Prints the listing it is the SHA-256 of.
tree_listing() (
    cd "$1" || exit 1
    export LC_ALL=C
    find . -type f -print0 | sort -z | xargs -0 -r sha256sum || exit 1
    find . -type l -printf 'link %p -> %l\n' | sort
    find . -type f -perm -100 -printf 'exec %p\n' | sort
)

# write_whole FILE TEXT: others see the old content or the new, never half of it, and two writers do not meet.
write_whole() {
    local hidden
    hidden=$1.new.$(uname -n).$$
    printf '%s' "$2" >"$hidden" && mv -f "$hidden" "$1"
}

# Rows `base id|id|state|reason|dependency|name` of the account's queue whose name is TAG or goes on behind it with a dot: an
# EXPERIMENT_ID may itself be the start of another one, which goes on with a hyphen. Fails when squeue did not answer: an empty list then means nothing.
queue_of() {
    local tag=$1 rows row said
    said=$(mktemp) || return 1
    if ! rows=$(timeout 60 squeue -a -h -u "$(id -un)" -o '%F|%i|%T|%r|%E|%j' 2>"$said") || [ -s "$said" ]; then
        rm -f "$said" # squeue may complain and exit 0
        return 1
    fi
    rm -f "$said"
    while IFS= read -r row; do
        case ${row##*|} in "$tag" | "$tag".*) printf '%s\n' "$row" ;; esac
    done <<<"$rows"
}

sha256_of() { sha256sum <"$1" | cut -d' ' -f1; }

# What an account may have set that would change what our arguments say, send a job's stderr elsewhere, or make sbatch wait
# for the job, and that no argument undoes (sbatch(1), INPUT ENVIRONMENT VARIABLES). Other SBATCH_* are the user's choice.
clear_sbatch_variables() {
    unset SBATCH_GET_USER_ENV SBATCH_WAIT SBATCH_CLUSTERS SLURM_CLUSTERS SBATCH_ARRAY_INX SBATCH_EXPORT SBATCH_SIGNAL \
        SBATCH_ERROR SBATCH_INPUT
}

trap 'answer end "$?"' EXIT
