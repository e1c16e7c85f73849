# shellcheck shell=bash disable=SC2154 # EXPANDED comes from frame.sh, the paths from layout.sh, ROWS from queue.sh
# Everything a launch has to know before it sends or submits anything, in one round trip. Changes nothing.
#
# answers (the same table as in src/cluster/programs/probe.ts):
#   paths WORKDIR SAVE_PATH      expanded
#   note TEXT                    something a person should know
#   slurm VERSION
#   limits MAX_ARRAY_SIZE MAX_JOB_COUNT
#   sbatch-variable NAME         an SBATCH_* variable that the account sets
#   test-only OUTCOME MESSAGE    OUTCOME is `accepted` or `refused`
#   submit-limit KIND VALUES…    see src/cluster/limits.ts
#   defaults ACCOUNT PARTITION QOS   from the account's SBATCH_* variables
#   attempt NUMBER               the newest attempt there is; the answers that follow are about that one
#   code DIGEST                  the code is staged; DIGEST is empty if its listing is missing
#   queued                       jobs of the experiment are in the queue
#   complete-cells COUNT         cells whose journal says that training is complete
#   ledger LINE
#   manifest FILE TEXT
#
#   probe WORKDIR SAVE_PATH CODE_NAME EXPERIMENT_ID SBATCH_OPTION…
# EXPERIMENT_ID is the one of the first attempt.

probe() {
    local workdir save_path code_name=$3 id=$4
    expand_path workdir "$1" || return 1
    workdir=$EXPANDED
    expand_path save.path "$2" || return 1
    save_path=$EXPANDED
    shift 4
    answer paths "$workdir" "$save_path"
    probe_workdir "$workdir" || return 1
    probe_save_path "$save_path"
    probe_slurm || return 1
    probe_test_only "$@"
    probe_submit_limits
    probe_records "$workdir" "$save_path" "$code_name" "$id"
}

# probe_workdir WORKDIR: whoever may write in workdir, or rename it, could exchange the code that jobs run.
probe_workdir() {
    local dir
    dir=$(readlink -m "$1")
    if [ -d "$dir" ]; then
        if [ ! -O "$dir" ] && { others_may_write "$dir" || [ "$(owner_of "$dir")" != root ]; }; then
            answer problem "workdir $dir on $(uname -n) is not for $(id -un) alone: it is a directory of $(owner_of "$dir") with the mode $(stat -c %a "$dir"). Whoever may write there could change what your jobs run. Choose a directory that the account makes itself, such as $dir/$(id -un)"
            return 1
        fi
        if others_may_write "$dir" && [ ! -k "$dir" ]; then
            too_open "$dir"
            return 1
        fi
    fi
    while [ "$dir" != / ]; do
        dir=$(dirname "$dir")
        { [ -d "$dir" ] && others_may_write "$dir" && [ ! -k "$dir" ]; } || continue
        [ ! -O "$dir" ] || { too_open "$dir"; return 1; }
        note_open "$dir" workdir
    done
}

# probe_save_path SAVE_PATH: its directories are often shared, and not the account's own. A job sees a directory that somebody
# put in place of its own, but cannot prevent it.
probe_save_path() {
    local dir
    dir=$(readlink -m "$1")
    while :; do
        if [ -d "$dir" ] && others_may_write "$dir" && [ ! -k "$dir" ]; then note_open "$dir" save.path; fi
        [ "$dir" != / ] || return 0
        dir=$(dirname "$dir")
    done
}

# too_open DIR: a directory of the account.
too_open() {
    answer problem "others may write to $1 on $(uname -n) (mode $(stat -c %a "$1")), and so change what your jobs run. Take that right away: chmod go-w $(printf %q "$1")"
}

# note_open DIR KEY
note_open() {
    answer note "Others may rename what is in $1 (mode $(stat -c %a "$1"), owner $(owner_of "$1")), and $2 leads through it. So they can stop this experiment or hide its files. $(owner_of "$1") can prevent that: chmod +t $(printf %q "$1")"
}

probe_slurm() {
    local config name
    if ! command -v sbatch >/dev/null 2>&1; then
        answer problem "there is no sbatch on the PATH of a login shell on $(uname -n) ($PATH). If Slurm is a module there, give the cluster a prelude in .github/slurm-chain.yml, such as 'prelude: module load slurm'"
        return 1
    fi
    answer slurm "$(sbatch --version 2>/dev/null)"
    if ! config=$(timeout 60 scontrol show config 2>&1); then
        answer problem "scontrol show config failed on $(uname -n): $config"
        return 1
    fi
    answer limits "$(sed -n 's/^MaxArraySize *= *//p' <<<"$config")" "$(sed -n 's/^MaxJobCount *= *//p' <<<"$config")"
    for name in $(compgen -e); do
        case $name in SBATCH_*) answer sbatch-variable "$name" ;; esac
    done
}

# --test-only says on stderr whether this job could run, and queues nothing.
probe_test_only() {
    local said
    clear_sbatch_variables
    if said=$(timeout 300 sbatch --test-only "$@" --wrap=true 2>&1 </dev/null); then
        answer test-only accepted "$said"
    else
        answer test-only refused "$said"
    fi
}

# How many tasks may be in the queue. A launch works without these answers; they only give a better error.
probe_submit_limits() {
    local fields
    while IFS='|' read -r -a fields; do
        answer submit-limit "${fields[@]}"
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
    answer defaults "${SBATCH_ACCOUNT:-}" "${SBATCH_PARTITION:-}" "${SBATCH_QOS:-}"
}

# probe_records WORKDIR SAVE_PATH CODE_NAME EXPERIMENT_ID
probe_records() {
    local workdir=$1 save_path=$2 id=$4 line file
    newest_attempt "$workdir" "$save_path" "$id"
    [ "$ATTEMPT" = 1 ] || id=$id-a$ATTEMPT
    answer attempt "$ATTEMPT"
    experiment_layout "$workdir" "$id"
    save_layout "$save_path/$id"
    shared_code "$workdir" "$3"
    if [ -d "$SHARED_CODE" ]; then answer code "$(sha256_of "$SHARED_CODE.sha256")"; fi
    if ! settled_queue_of "$id"; then
        answer problem "squeue does not answer on $(uname -n)"
        return 1
    fi
    [ -z "$ROWS" ] || answer queued
    if ! are_ours "$LEDGER" "$MANIFEST" "$SAVED_MANIFEST" "$RECORDS/"*.jsonl; then
        foreign "$DISTRUST"
        return 1
    fi
    if compgen -G "$RECORDS/*.jsonl" >/dev/null; then
        answer complete-cells "$(tail -q -n 1 "$RECORDS/"*.jsonl | grep -c '"complete":true')"
    fi
    if [ -s "$LEDGER" ]; then
        while IFS= read -r line; do answer ledger "$line"; done <"$LEDGER"
    fi
    # The copy beside the checkpoints outlives a workdir that was purged.
    for file in "$MANIFEST" "$SAVED_MANIFEST"; do
        if [ -s "$file" ]; then
            answer manifest "$file" "$(<"$file")"
            break
        fi
    done
}

# newest_attempt WORKDIR SAVE_PATH EXPERIMENT_ID: sets ATTEMPT.
newest_attempt() {
    local entry number
    ATTEMPT=1
    for entry in "$1/experiments/$3"-a[0-9]* "$2/$3"-a[0-9]*; do
        number=${entry##*-a}
        # A hash of overrides stands in the same place, and is longer.
        [[ $number =~ ^[1-9][0-9]?$ ]] || continue
        [ "$number" -gt "$ATTEMPT" ] || continue
        experiment_layout "$1" "$3-a$number"
        save_layout "$2/$3-a$number"
        # An attempt that was refused left a directory and nothing else. One that was interrupted has jobs to cancel.
        if [ -s "$MANIFEST" ] || [ -s "$SAVED_MANIFEST" ] || queue_of "$EXPERIMENT" | grep -q .; then ATTEMPT=$number; fi
    done
}
