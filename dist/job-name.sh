# shellcheck shell=bash disable=SC2034 # the parts are for the caller
# The grammar of a job name, as in src/chain/job-name.ts: ID.lLAUNCH-NONCE.sJOB[.cCELL]

JOB_NAME_FORM='^([A-Za-z0-9][A-Za-z0-9._-]{0,63})\.l([1-9][0-9]{0,8})-([0-9a-f]{1,32})\.s([1-9][0-9]{0,8})(\.c(0|[1-9][0-9]{0,8}))?$'

# parse_job_name NAME: sets JOB_EXPERIMENT, JOB_LAUNCH, JOB_NONCE, JOB_NUMBER and JOB_CELL (empty for an array over all cells).
# Fails for the name of a job that is not ours.
parse_job_name() {
    [[ $1 =~ $JOB_NAME_FORM ]] || return 1
    JOB_EXPERIMENT=${BASH_REMATCH[1]} JOB_LAUNCH=${BASH_REMATCH[2]} JOB_NONCE=${BASH_REMATCH[3]}
    JOB_NUMBER=${BASH_REMATCH[4]} JOB_CELL=${BASH_REMATCH[6]}
}
