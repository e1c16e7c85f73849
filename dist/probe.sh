# shellcheck shell=bash disable=SC2154 # EXPANDED is set by frame.sh
# What the launcher has to know before it sends or submits anything, in one round trip.
# Usage: probe WORKDIR SAVE_PATH CODE_NAME EXPERIMENT_ID SBATCH_OPTION…
# EXPERIMENT_ID is that of the first attempt; what is told is told of the newest one there is.

# Rows `limit\tKIND\t…` of what may be in the queue at a time; see src/cluster/limits.ts. All of it is a help, not a need.
submit_limits() {
    local fields
    while IFS='|' read -r -a fields; do
        answer limit "${fields[@]}"
    done < <(
        timeout 30 scontrol -o show assoc_mgr "users=$(id -un)" flags=users,assoc,qos 2>/dev/null | sed -nE \
            -e 's/^UserName=.* DefAccount=([^ ]*) .*/user|\1/p' \
            -e 's/^ClusterName=[^ ]* Account=([^ ]*) UserName=([^ ]*) Partition=([^ ]*) .* ParentAccount=([^ ]*) .* GrpSubmitJobs=([^ ]*) .* MaxSubmitJobs=([^ ]*) .*/association|\1|\2|\3|\4|\5|\6/p' \
            -e "s/^QOS=([^( ]*).* GrpSubmitJobs=([^ ]*) .* User Limits=(.*[ =])?$(id -u)=\{[^}]* MaxSubmitJobsPU=([^ ]*) .*/qos|\1|\2|\4/p;t" \
            -e 's/^QOS=([^( ]*).* GrpSubmitJobs=([^ ]*) .*/qos|\1|\2|/p'
        timeout 20 sacctmgr -n -P show qos format=name,maxsubmitjobspu 2>/dev/null | sed 's/^/qos-limit|/'
        timeout 20 sacctmgr -n -P show assoc "user=$(id -un)" format=account,defaultqos 2>/dev/null | sed 's/^/default-qos|/'
        timeout 30 scontrol -a -o show partition 2>/dev/null | sed -nE \
            's/^PartitionName=([^ ]*) .* Default=([^ ]*) QoS=([^ ]*) .*/partition|\1|\2|\3/p'
    )
    answer asked "${SBATCH_ACCOUNT:-}" "${SBATCH_PARTITION:-}" "${SBATCH_QOS:-}"
}

probe() {
    local workdir save code_name=$3 id=$4 attempt=1 entry number
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

    submit_limits

    for entry in "$workdir/experiments/$id"-a[0-9]* "$save/$id"-a[0-9]*; do
        number=${entry##*-a}
        # Hashes of overrides stand in the same place and are longer.
        [[ $number =~ ^[1-9][0-9]?$ ]] || continue
        [ "$number" -gt "$attempt" ] || continue
        # One that was refused has left a directory and nothing else; one that was cut short has jobs to be undone.
        if [ -s "$entry/manifest.json" ] || [ -s "$entry/.chain/manifest.json" ] || queue_of "$id-a$number" | grep -q .; then
            attempt=$number
        fi
    done
    [ "$attempt" = 1 ] || id=$id-a$attempt
    answer attempt "$attempt"

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
    # Beside the checkpoints it outlives a workdir that was purged.
    for entry in "$dir/manifest.json" "$save/$id/.chain/manifest.json"; do
        if [ -s "$entry" ]; then
            answer manifest "$entry" "$(<"$entry")"
            break
        fi
    done
}
