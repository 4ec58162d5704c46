#!/usr/bin/env bash
# Runs the rows in DIRECTORY/rows, one after the other, against the cluster whose
# commands are on PATH, and writes what each says to DIRECTORY/SIDE/said: NAME.out,
# with what went to standard error and, at its end, the exit status; NAME.jobs has
# the numbers of its jobs.
#
#   rows.sh DIRECTORY SIDE USER
#
# Rows are typed by the user, or by root where a file NAME.root says so. Each begins
# in an empty directory of its own, with no job in the cluster.
set -u
directory=$1 side=$2 user=$3
said=$directory/$side/said
export LC_ALL=C TZ=UTC

as_user() { setpriv --reuid "$user" --regid "$user" --init-groups env HOME="$directory/$side/home" USER="$user" LOGNAME="$user" SHELL=/bin/bash "$@"; }

# empty: no job waits, runs or is about to be over.
empty() {
	local tries=900
	until [ -z "$(squeue --noheader --all --format=%i)" ]; do
		scancel --quiet --user="$user" > /dev/null 2>&1
		scancel --quiet --user=root > /dev/null 2>&1
		[ $((tries -= 1)) -gt 0 ] || { echo "rows.sh: jobs of the row before do not end:"; squeue; exit 1; } >&2
		sleep 0.1
	done
}

sacctmgr -iQ add account physics > /dev/null 2>&1
sacctmgr -iQ add account chemistry > /dev/null 2>&1
sacctmgr -iQ add user "$user" account=physics > /dev/null 2>&1
mkdir -p "$said"
install -d -m 755 -o "$user" -g "$user" "$directory/$side/home"
for row in "$directory"/rows/*.row; do
	name=${row##*/}
	name=${name%.row}
	work=$directory/$side/in/$name
	install -d -m 755 -o "$user" -g "$user" "$directory/$side/in" "$work"
	typed_by=as_user
	if [ -e "${row%.row}.root" ]; then
		typed_by=
		chown root: "$work"
	fi
	before=$(squeue --noheader --all --states=all --format=%A | sort -n | tail -n 1)
	(
		cd "$work" || exit
		export DIFFER_USER=$user
		# shellcheck disable=SC2086
		$typed_by timeout --kill-after=5 60 bash -c '. "$1"; . "$2"; exit $?' row "$directory/words.sh" "$row" < /dev/null > "$said/$name.out" 2>&1
		echo "exit status $?" >> "$said/$name.out"
	)
	squeue --noheader --all --array --states=all --format=%A | sort -nu | awk -v from="${before:-0}" '$1 > from' > "$said/$name.jobs"
	empty
done
