#!/usr/bin/env bash
# Puts Debian's newest CRIU into a folder, with every library that it needs, if
# this machine's own CRIU does not pass `criu check`. Debian 12's, for one, is too
# old for newer kernels. Does nothing if either works. The program is
# FOLDER/criu; gnoded looks in the default folder by itself.
#
#   contrib/setup/criu.sh [FOLDER]     (/usr/local/lib/gleaner/criu)
set -euo pipefail
. "$(dirname "$0")/unpack.sh"

folder=${1:-/usr/local/lib/gleaner/criu}

works() { "$1" --version && "$1" check; } >/dev/null 2>&1

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
for program in "$folder/criu" criu; do
	if works "$program"; then
		exit 0
	fi
done
if [ -e "$folder" ] && ! [ -d "$folder/root" ]; then
	echo "setup: $folder exists but holds no CRIU: name another folder, or remove it" >&2
	exit 1
fi
echo "setup: fetching CRIU into $folder (10 MB to download, 30 MB unpacked)"
mkdir -p "$folder"
rm -rf --one-file-system "$folder/root"
unpack "$folder/root" 'testing unstable' criu
# Its libraries are newer than this machine's, and found by the loader that
# came with them.
cat >"$folder/criu.new" <<'END'
#!/bin/sh
root=$(dirname "$(readlink -f "$0")")/root
exec "$root"/usr/lib64/ld-linux-*.so.* --library-path "$(echo "$root"/usr/lib/*-linux-gnu)" "$root/usr/sbin/criu" "$@"
END
chmod 755 "$folder/criu.new"
mv "$folder/criu.new" "$folder/criu"
if works "$folder/criu"; then
	echo "setup: $("$folder/criu" --version | head -n 1) is in $folder"
else
	echo "setup: CRIU does not work on this machine: $("$folder/criu" check 2>&1 | tail -n 1)" >&2
	exit 1
fi
