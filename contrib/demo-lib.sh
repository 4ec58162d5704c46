# The demonstrations source this file. Each has its own directory ($directory, with
# $work in it), usually a cluster (start_cluster), sometimes its own users
# (in_own_mounts, then add_users), and $failures. However a demonstration ends, its
# cluster ends with it. Nothing is left except logs and outputs if something went
# wrong. Background loops are in $background and end by themselves when
# $directory/stop exists.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
binaries=$root/bin
failures=0
interrupted=
cluster=
background=

# begin NAME: the directory, and what happens at the end.
begin() {
	directory=$(mktemp -d "/tmp/gleaner-$1.XXXXXX")
	chmod 755 "$directory"
	work=$directory/work
	mkdir "$work"
	trap clean_up EXIT
	trap 'interrupted=1; exit 1' INT TERM
}

# Nothing of the cluster is mounted on the host, but a delete that crosses a
# mount cannot be undone: look first, and stay on one file system.
clean_up() {
	[ "$?" -eq 0 ] || failures=1
	trap '' INT TERM
	touch "$directory/stop"
	# shellcheck disable=SC2086
	[ -z "$background" ] || wait $background 2>/dev/null || true
	if [ -n "$cluster" ]; then
		kill -TERM "$cluster" 2>/dev/null || true
		wait "$cluster" || { echo "the cluster did not end cleanly:"; tail -5 "$directory/dev.log"; failures=1; }
	fi
	if [ "$failures" -ne 0 ] && [ -z "$interrupted" ]; then
		rm -rf --one-file-system "$directory/bin"
		echo "logs and outputs are kept in $directory"
	elif awk -v at="$directory" 'index($5, at) == 1 { found = 1 } END { exit !found }' /proc/self/mountinfo; then
		echo "something is still mounted below $directory; it is kept"
		failures=1
	else
		rm -rf --one-file-system "$directory"
	fi
	exit "$failures"
}

# fail WHAT: the end, at once.
fail() {
	echo "$*"
	failures=1
	exit
}

step() { printf '\n== %s\n' "$*"; }

# check WHAT COMMAND...: one line of the verdict.
check() {
	local what=$1
	shift
	if "$@" >/dev/null 2>&1; then
		printf '   ok    %s\n' "$what"
	else
		printf '   WRONG %s\n' "$what"
		failures=1
	fi
}

# state_is JOB STATE: every task of the job is in this state.
state_is() {
	[ "$(gqueue --noheader --states=all --jobs="$1" --array --format=%T | sort -u)" = "$2" ]
}

now() { date +%s%3N; }
seconds() { printf '%d.%03d s' $(($1 / 1000)) $(($1 % 1000)); }

# until_true SECONDS COMMAND...
until_true() {
	local end=$(($(now) + $1 * 1000))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$(now)" -lt "$end" ] || return 1
		sleep 0.1
	done
}

# start_cluster OPTION...: `gleaner dev` in $directory, and the way to it.
start_cluster() {
	"$binaries/gleaner" dev --dir "$directory" "$@" > "$directory/dev.log" 2>&1 &
	cluster=$!
	until_true 60 ready_or_dead || true
	grep -q '^ready' "$directory/dev.log" || { cat "$directory/dev.log"; fail "the cluster was not ready in 60 s"; }
	# shellcheck source=/dev/null
	. "$directory/env"
}

ready_or_dead() { grep -q '^ready' "$directory/dev.log" || ! kill -0 "$cluster"; }

# in_own_mounts "$@": continues in a mount namespace of its own, so that users may
# be added whom the machine never sees. Before begin.
in_own_mounts() {
	[ -n "${GLEANER_DEMO_MOUNTS:-}" ] || GLEANER_DEMO_MOUNTS=1 exec unshare --mount --propagation private -- "$0" "$@"
}

# add_users NAME...: users with homes in $directory. They use a copy of the
# binaries: the checkout may lie in a home that is closed to others.
add_users() {
	local user file id=40000
	mkdir "$directory/etc" "$directory/home"
	cp /etc/passwd /etc/group "$directory/etc"
	for user; do
		while getent passwd "$id" || getent group "$id"; do id=$((id + 1)); done > /dev/null
		sed -i "/^$user:/d" "$directory"/etc/*
		echo "$user:x:$id:$id::$directory/home/$user:/bin/bash" >> "$directory/etc/passwd"
		echo "$user:x:$id:" >> "$directory/etc/group"
		install -d -m 700 -o "$id" -g "$id" "$directory/home/$user"
		id=$((id + 1))
	done
	for file in passwd group; do
		chmod 644 "$directory/etc/$file"
		mount --bind "$directory/etc/$file" "/etc/$file"
	done
	cp -R "$binaries" "$directory/bin"
	binaries=$directory/bin
}

# as_user NAME COMMAND...: in the user's home.
as_user() (
	user=$1
	shift
	cd "$directory/home/$user"
	exec setpriv --reuid "$user" --regid "$user" --init-groups \
		env HOME="$directory/home/$user" USER="$user" LOGNAME="$user" SHELL=/bin/bash "$@"
)
