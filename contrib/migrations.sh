#!/usr/bin/env bash
# Real programs are moved between the two nodes of a one-machine cluster, and end
# as if nothing had been: each of noded/container/programs runs undisturbed once
# and ROUNDS times (2) moved there and back, and outputs, files and exit status are
# compared. Prints a table, also as Markdown into TABLE if that is given. ONLY is a
# regular expression on the names of the programs, PARALLEL (3) how many run at a
# time. Exits 0 only if at least 99 in 100 migrations are good. Needs root, and a
# CRIU that works here (make setup brings one).
set -euo pipefail

# shellcheck source=contrib/demo-lib.sh
. "$(dirname "$0")/demo-lib.sh"
in_own_mounts "$@"
begin migrations
add_users ann

step "starting a cluster of two nodes in $directory"
start_cluster --nodes 2 --gpus-per-node 0 --cpus-per-node 8
ginfo

step "moving programs"
"$root/.build/migrations" -user ann -rounds "${ROUNDS:-2}" -parallel "${PARALLEL:-3}" -only "${ONLY:-}" -o "${TABLE:-}" || failures=1

step "ending the cluster"
