#!/usr/bin/env bash
# Moves real programs, each with a GPU, between the nodes of a one-machine cluster.
# Each of noded/container/programs runs once undisturbed and ROUNDS times (2) with
# moves, back and forth or further. The script compares outputs, files and exit
# status. The GPUs are stand-ins, with different names, numbers and order on each
# node. Prints a table, and writes it as Markdown into TABLE if that is set. ONLY is
# a regular expression on the names of the programs, and PARALLEL (3) says how many
# run at a time. Exits 0 only if at least 99 in 100 migrations are good. Needs root,
# and a CRIU that works here (make setup installs one).
set -euo pipefail

# shellcheck source=contrib/demo-lib.sh
. "$(dirname "$0")/demo-lib.sh"
in_own_mounts "$@"
begin migrations
add_users ann

step "starting a cluster of three nodes in $directory, whose GPUs are unlike"
start_cluster --nodes 3 --gpus-per-node 6 --unlike-gpus --cpus-per-node 8
ginfo

step "moving programs"
"$root/.build/migrations" -user ann -rounds "${ROUNDS:-2}" -parallel "${PARALLEL:-3}" -only "${ONLY:-}" -o "${TABLE:-}" || failures=1

step "ending the cluster"
