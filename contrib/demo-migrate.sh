#!/usr/bin/env bash
# A job that moves: on a one-machine cluster of two nodes, a Python program counts
# in memory. The job moves from one node to the other and back while one user
# watches its output, and another has a shell in it that counts too. The counts are
# never on a disk. The script checks that they neither skip nor repeat a number,
# and that Python's memory came along.
# Exits 0 only if all of this worked. Needs root, and a CRIU that works here (make
# setup installs one).
set -euo pipefail

# shellcheck source=contrib/demo-lib.sh
. "$(dirname "$0")/demo-lib.sh"
begin demo-migrate

# counted: how far the count has come.
counted() { sed -n 's/^count \([0-9]*\) .*/\1/p' "$work/count.out" 2>/dev/null | tail -n 1; }
counted_to() { [ "$(counted)" -ge "$1" ]; }
runs_on() { [ "$(gqueue --noheader --states=R --jobs="$1" --format=%N)" = "$2" ]; }

# no_images: no node keeps an image of a job any more.
no_images() { ! find "$directory"/nodes/*/images -name 'manifest*' | grep -q .; }

# no_gap: every number from 1 to the last one, each once, each with its own sum.
no_gap() {
	awk '/^count/ { n++; sum += $2; if ($2 != n || $4 != sum) { print "line " NR ": " $0 " where " n " was due"; exit 1 } }
		END { if (n != 900) { print "it counted to " n; exit 1 } }' "$work/count.out"
}

step "starting a cluster of two nodes in $directory"
start_cluster --nodes 2 --gpus-per-node 0 --cpus-per-node 2
ginfo

# session_no_gap: what the shell wrote, as its user saw it.
session_no_gap() {
	tr -d '\r' < "$work/session" | awk '/^session [0-9]+$/ { n++; if ($2 != n) { print $0 " where " n " was due"; exit 1 } } END { exit n < 60 }'
}
session_says() { tr -d '\r' < "$work/session" | grep -q "$1"; }
session_counted_to() { [ "$(tr -d '\r' < "$work/session" | sed -n 's/^session \([0-9]*\)$/\1/p' | tail -n 1)" -ge "$1" ]; }

step "submitting a job that counts in its memory"
cd "$work"
cat > count.py <<'END'
import threading, time

ballast = bytearray(range(256)) * (200 << 12)  # 200 MiB, to be found unharmed
numbers = []

def think():  # a second thread, which moves too
    while len(numbers) < 900:
        time.sleep(0.01)
threading.Thread(target=think).start()

for n in range(1, 901):
    numbers.append(n)
    print("count", n, "sum", sum(numbers), flush=True)
    time.sleep(0.02)
print("ballast", "whole" if all(ballast[i] == i % 256 for i in range(0, len(ballast), 4099)) else "damaged", flush=True)
END
job=$(gsubmit --parsable --job-name=count --output=count.out --mem=600M --cpus-per-task=1 --time=10 --wrap 'exec python3 count.py')
until_true 30 counted_to 50 || fail "it does not count: $(cat count.out 2>&1); $(gcontrol show job "$job" | grep -E 'JobState|Reason')"
home=$(gqueue --noheader --jobs="$job" --format=%N)
other=$([ "$home" = n1 ] && echo n2 || echo n1)
gqueue --Format=JobID,Name,State,NodeList,Checkpoint
gcontrol show job "$job" | grep Checkpointable

step "opening a session in it: a shell at a terminal, which counts in a variable"
mkfifo "$directory/keys"
exec 9<> "$directory/keys"
TERM=dumb script -qfc "grun --jobid=$job --overlap --pty bash --norc" "$work/session" < "$directory/keys" > "$work/script.out" 2>&1 &
session=$!
# shellcheck disable=SC2016
printf 'n=0; while :; do n=$((n+1)); echo "session $n"; sleep 0.1; done\n' >&9
until_true 20 session_counted_to 10 || fail "the session does not count: $(tail -n 5 "$work/session" 2>&1)"

step "watching its output while it moves from $home to $other"
tail -n 0 -f count.out | awk '{ if (NR % 25 == 1) print "   " $0; fflush() }' &
background="$background $!"
watcher=$(pgrep -P $$ -x tail || true)
trap 'kill $watcher $session 2>/dev/null || true; clean_up' EXIT
before=$(counted)
moving=$(now)
gcontrol migrate "$job" "$other" || fail "it did not move"
echo "   the command took $(seconds $(($(now) - moving)))"
check "it runs on $other" runs_on "$job" "$other"
until_true 30 counted_to $((before + 100)) || true
check "it counts on there" counted_to $((before + 100))

step "saving it where it is, without moving it"
gcontrol checkpoint "$job" || failures=1

step "and back, to wherever it can"
gcontrol migrate "$job" || fail "it did not move back"
check "it runs on $home" runs_on "$job" "$home"
gcontrol show job "$job" | grep -E 'Image=|RestoredFrom|Saves='

step "the session, which nobody has touched"
until_true 30 session_counted_to 60 || true
tr -d '\r' < "$work/session" | grep -E '^grun: ' | sed 's/^/   /'
# shellcheck disable=SC2016
printf '\003' >&9
sleep 0.5
# shellcheck disable=SC2016
printf 'echo "the shell counted to $n"; exit 7\n' >&9
check "its shell kept its variable" until_true 20 session_says '^the shell counted to [0-9]*$'
check "it ended with the status of its shell" until_true 20 session_says 'task 0: Exited with exit code 7'
check "no number of it is missing, none is there twice" session_no_gap

step "its end"
until_true 120 state_is "$job" COMPLETED || true
kill "$watcher" "$session" 2>/dev/null || true
gqueue --states=all --format='%.6i %.8j %.10T %.8M %R'
check "it COMPLETED" state_is "$job" COMPLETED
check "it counted to 900: no number is missing, none is there twice" no_gap
check "200 MiB of its memory are as they were" grep -qx 'ballast whole' count.out
check "nothing is left of its images" until_true 40 no_images
[ "$failures" -eq 0 ] || no_gap || true

step "ending the cluster"
