# shellcheck shell=bash disable=SC2154 # EXPANDED is set by frame.sh
# What the launcher has to know before it sends or submits anything, in one round trip.
# Usage: probe WORKDIR SAVE_PATH CODE_NAME EXPERIMENT_ID SBATCH_OPTION…

probe() {
    local workdir save code_name=$3 id=$4
    expand_path workdir "$1" || return 1
    workdir=$EXPANDED
    expand_path save.path "$2" || return 1
    save=$EXPANDED
    shift 4
    answer paths "$workdir" "$save"
    answer host "$(id -un)" "$(uname -n)"

    if ! command -v sbatch >/dev/null 2>&1; then
        answer problem "there is no sbatch on the PATH of a login shell on $(uname -n) ($PATH). If Slurm is a module there, give the cluster a prelude in .github/slurm-chain.yml, such as 'prelude: module load slurm'"
        return 1
    fi
    answer slurm "$(sbatch --version 2>/dev/null)"
    local config
    if config=$(timeout 60 scontrol show config 2>&1); then
        answer limits "$(sed -n 's/^MaxArraySize *= *//p' <<<"$config")" "$(sed -n 's/^MaxJobCount *= *//p' <<<"$config")"
    else
        answer problem "scontrol show config failed on $(uname -n): $config"
        return 1
    fi
    local name
    for name in $(compgen -e); do
        case $name in SBATCH_*) answer sbatch-variable "$name" ;; esac
    done

    # --test-only says on stderr whether this could run, and queues nothing. Its answer comes before anything is staged.
    local said
    clear_sbatch_variables
    if said=$(timeout 300 sbatch --test-only "$@" --wrap=true 2>&1 </dev/null); then
        answer test-only accepted "$said"
    else
        answer test-only refused "$said"
    fi

    if [ -d "$workdir/code/$code_name" ]; then
        answer code "$(sha256_of "$workdir/code/$code_name.sha256")"
    fi
    local rows
    if rows=$(queue_of "$id"); then
        [ -z "$rows" ] || answer queued
    else
        answer problem "squeue does not answer on $(uname -n)"
        return 1
    fi
    # A cell is done when the last word of its journal says so.
    if compgen -G "$save/$id/.chain/*.jsonl" >/dev/null; then
        answer complete "$(tail -q -n 1 "$save/$id/.chain/"*.jsonl | grep -c '"complete":true')"
    fi
    local dir=$workdir/experiments/$id line
    if [ -s "$dir/ledger.jsonl" ]; then
        while IFS= read -r line; do answer ledger "$line"; done <"$dir/ledger.jsonl"
    fi
    if [ -s "$dir/manifest.json" ]; then answer manifest "$(<"$dir/manifest.json")"; fi
}
