#!/usr/bin/env bash
# Installs what building and testing Gleaner needs beside Go and a C compiler:
# libseccomp's headers, pkg-config, and procps, by which the tests look for what
# a job left. Does nothing, and asks for nothing, when they are there.
#
#   contrib/setup/debian.sh
#   contrib/setup/debian.sh slurm    Slurm for make bench, in a folder of its own
set -euo pipefail

root=()
if [ "$(id -u)" -ne 0 ]; then
	root=(sudo)
fi
need_root() {
	[ ${#root[@]} -eq 0 ] || command -v sudo >/dev/null || { echo "setup: run as root: $*" >&2; exit 1; }
}

if [ "${1:-}" = slurm ]; then
	need_root "contrib/setup/debian.sh slurm"
	shift
	exec "${root[@]}" "$(dirname "$0")/slurm.sh" "$@"
fi
[ $# -eq 0 ] || { echo "setup: unknown word $1: there is only slurm" >&2; exit 1; }

command -v go >/dev/null || { echo "setup: go is missing: install Go 1.26 or later (https://go.dev/dl)" >&2; exit 1; }
command -v cc >/dev/null || command -v gcc >/dev/null || { echo "setup: a C compiler is missing: apt-get install gcc libc6-dev" >&2; exit 1; }

if command -v pkg-config >/dev/null && pkg-config --exists libseccomp && command -v pkill >/dev/null; then
	exit 0
fi
command -v apt-get >/dev/null || { echo "setup: install libseccomp's headers, pkg-config and procps with your package manager" >&2; exit 1; }

need_root "apt-get install libseccomp-dev pkg-config procps"
echo "setup: installing libseccomp-dev, pkg-config and procps"
export DEBIAN_FRONTEND=noninteractive
"${root[@]}" apt-get -qq update
"${root[@]}" apt-get -qq install -y --no-install-recommends libseccomp-dev pkg-config procps >/dev/null
