#!/usr/bin/env bash
# Puts what programs for another architecture are linked with into a folder:
# libseccomp and SQLite of this machine's Debian, and installs the C compiler for it if that
# is missing. Does nothing if both are there.
#
#   contrib/setup/cross.sh arm64 [FOLDER]     (/var/cache/gleaner/cross/arm64)
set -euo pipefail
. "$(dirname "$0")/unpack.sh"

architecture=${1:-} folder=${2:-/var/cache/gleaner/cross/${1:-}}
case $architecture in
arm64) compiler=aarch64-linux-gnu ;;
*) echo "usage: cross.sh arm64 [FOLDER]" >&2; exit 1 ;;
esac

if ! command -v "$compiler-gcc" >/dev/null; then
	echo "setup: installing gcc-$compiler"
	export DEBIAN_FRONTEND=noninteractive
	apt-get -qq update
	apt-get -qq install -y --no-install-recommends "gcc-$compiler" "libc6-dev-$architecture-cross" >/dev/null
fi
[ -e "$folder/usr/include/seccomp.h" ] && [ -e "$folder/usr/include/sqlite3.h" ] && exit 0
if [ -e "$folder" ]; then
	echo "setup: $folder exists but lacks libseccomp or SQLite: name another folder, or remove it" >&2
	exit 1
fi
echo "setup: fetching libseccomp and SQLite for $architecture into $folder"
# Programs must run on this release, and so are not linked with a newer one.
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
ARCHITECTURE=$architecture unpack "$folder" "$suite" libseccomp-dev libsqlite3-dev
