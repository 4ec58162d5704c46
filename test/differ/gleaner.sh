#!/usr/bin/env bash
# A Gleaner of four nodes, as alike to the Slurm of peer.sh as can be, with a user
# whom the machine never sees.
#
#   gleaner.sh USER COMMAND...
#
# runs COMMAND as root with Slurm's names on PATH, and ends the cluster with it.
set -euo pipefail

# shellcheck source=contrib/demo-lib.sh
. "$(dirname "$0")/../../contrib/demo-lib.sh"
in_own_mounts "$@"
begin differ
add_users "$1"
shift
start_cluster --nodes 4 --cpus-per-node 4 --gpus-per-node 2
export PATH=$binaries/slurm:$PATH
# Numbers of jobs begin where those of Slurm's begin.
seq 2 "$FIRST_JOB" | xargs -P 4 -I{} gsubmit --quiet --hold --wrap=true
scancel --quiet --user=root
"$@" || failures=1
