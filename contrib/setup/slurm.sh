#!/usr/bin/env bash
# Puts Debian's newest Slurm into a folder, for `make bench` to measure beside
# Gleaner. The packages are downloaded with apt's own checks, by lists and a
# cache of their own, and unpacked: nothing is installed on this machine, and
# no script of theirs runs. Does nothing when the folder is there.
#
#   contrib/setup/slurm.sh [FOLDER]     (/var/cache/gleaner/slurm)
set -euo pipefail

folder=${1:-/var/cache/gleaner/slurm}
packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins libslurm-dev base-files libc-bin bash dash coreutils)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

[ -x "$folder/usr/bin/sbatch" ] && exit 0
if [ -e "$folder" ]; then
	echo "setup: $folder exists but holds no Slurm: name another folder, or remove it" >&2
	exit 1
fi
for tool in apt-get dpkg; do
	command -v "$tool" >/dev/null || { echo "setup: Slurm is fetched with $tool, which is missing: give make bench a folder with Slurm unpacked, SLURM=DIR" >&2; exit 1; }
done
[ -e "$keyring" ] || { echo "setup: $keyring is missing: apt-get install debian-archive-keyring" >&2; exit 1; }

mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$(dirname "$folder")/.slurm.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
mkdir -p "$work"/{root,apt/lists/partial,apt/cache/archives/partial,apt/preferences.d,apt/sources.d}
: >"$work/apt/status" # as if nothing were installed: every dependency is fetched

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Created-By: Packages' 2>/dev/null | grep -m 1 '/debian/$' || true)
mirror=${mirror:-http://deb.debian.org/debian/}

apt=(apt-get -qq -o "Dir::State=$work/apt" -o "Dir::State::lists=$work/apt/lists" -o "Dir::State::status=$work/apt/status"
	-o "Dir::Cache=$work/apt/cache" -o "Dir::Etc::sourcelist=$work/apt/sources.list" -o "Dir::Etc::sourceparts=$work/apt/sources.d"
	-o "Dir::Etc::preferencesparts=$work/apt/preferences.d" -o Acquire::Languages=none -o APT::Sandbox::User=root)

fetch() {
	echo "deb [signed-by=$keyring] $mirror $1 main" >"$work/apt/sources.list"
	"${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends --download-only "${packages[@]}" >/dev/null
}

echo "setup: fetching Slurm into $folder (35 MB to download, 130 MB unpacked)"
fetch testing || fetch unstable || { echo "setup: Slurm could not be fetched from $mirror" >&2; exit 1; }
# base-files first: it makes bin, lib and sbin links into usr.
for package in "$work"/apt/cache/archives/base-files_*.deb "$work"/apt/cache/archives/*.deb; do
	dpkg --extract "$package" "$work/root"
done
mv "$work/root" "$folder"
