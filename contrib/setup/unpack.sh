# shellcheck shell=bash
# Sourced by scripts that put newer Debian packages into a folder. The packages
# are downloaded with apt's own checks, with separate lists and a separate cache,
# and unpacked. Nothing is installed on this machine, and no package script runs.

# unpack FOLDER FORMER-SUITES PACKAGE...: makes FOLDER and unpacks the packages
# and their dependencies into it, from the first suite that has them. Packages
# are unpacked in the order of their names on the command line. ARCHITECTURE is
# that of the packages, if it is not this machine's.
unpack() {
	local folder=$1 suites=$2 keyring=/usr/share/keyrings/debian-archive-keyring.gpg tool mirror suite package file
	shift 2
	for tool in apt-get dpkg; do
		command -v "$tool" >/dev/null || { echo "setup: $tool is missing, by which packages are fetched" >&2; return 1; }
	done
	[ -e "$keyring" ] || { echo "setup: $keyring is missing: apt-get install debian-archive-keyring" >&2; return 1; }
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Created-By: Packages' 2>/dev/null | grep -m 1 '/debian/$' || true)
	mirror=${mirror:-http://deb.debian.org/debian/}

	mkdir -p "$(dirname "$folder")"
	work=$(mktemp -d "$(dirname "$folder")/.unpack.XXXXXX")
	trap 'rm -rf --one-file-system "$work"' EXIT
	mkdir -p "$work"/{root,apt/lists/partial,apt/cache/archives/partial,apt/preferences.d,apt/sources.d}
	: >"$work/apt/status" # as if nothing were installed: every dependency is fetched
	local apt=(apt-get -qq -o "Dir::State=$work/apt" -o "Dir::State::lists=$work/apt/lists" -o "Dir::State::status=$work/apt/status"
		-o "Dir::Cache=$work/apt/cache" -o "Dir::Etc::sourcelist=$work/apt/sources.list" -o "Dir::Etc::sourceparts=$work/apt/sources.d"
		-o "Dir::Etc::preferencesparts=$work/apt/preferences.d" -o Acquire::Languages=none -o APT::Sandbox::User=root)
	[ -z "${ARCHITECTURE-}" ] || apt+=(-o "APT::Architecture=$ARCHITECTURE" -o "APT::Architectures=$ARCHITECTURE")
	for suite in $suites ''; do
		[ -n "$suite" ] || { echo "setup: $* could not be fetched from $mirror" >&2; return 1; }
		echo "deb [signed-by=$keyring] $mirror $suite main" >"$work/apt/sources.list"
		"${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends --download-only "$@" >/dev/null && break
	done
	for package in "$@" '*'; do
		for file in "$work"/apt/cache/archives/$package\_*.deb; do
			dpkg --extract "$file" "$work/root"
		done
	done
	chmod 755 "$work/root"
	mv "$work/root" "$folder"
}
