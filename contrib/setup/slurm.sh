#!/usr/bin/env bash
# Puts Debian's newest Slurm into a folder, so that `make bench` can measure it
# next to Gleaner. Does nothing if the folder exists.
#
#   contrib/setup/slurm.sh [FOLDER]     (/var/cache/gleaner/slurm)
set -euo pipefail
. "$(dirname "$0")/unpack.sh"

folder=${1:-/var/cache/gleaner/slurm}

[ -x "$folder/usr/bin/sbatch" ] && exit 0
if [ -e "$folder" ]; then
	echo "setup: $folder exists but holds no Slurm: name another folder, or remove it" >&2
	exit 1
fi
echo "setup: fetching Slurm into $folder (35 MB to download, 130 MB unpacked)"
# base-files first: it makes bin, lib and sbin links into usr.
unpack "$folder" 'testing unstable' base-files slurmctld slurmd slurm-client slurm-wlm-basic-plugins libslurm-dev libc-bin bash dash coreutils ||
	{ echo "setup: give make bench a folder with Slurm unpacked, SLURM=DIR" >&2; exit 1; }
