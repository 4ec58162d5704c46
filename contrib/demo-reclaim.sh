#!/usr/bin/env bash
# An owner takes a node back. Two labs share a one-machine cluster: n1 is
# chemistry's, n2 and n3 are the site's. Jobs of biology are guests on n1: one that
# counts in Python's memory, with a shell attached that counts too; one with a GPU;
# and a job on n1 and n2. The owner reclaims n1: the promise and the actual time are
# on the screen, and the owner's job runs there. Meanwhile the guest with the GPU
# goes on elsewhere, from where it stood. When the owner lends the node again, the
# others continue in place. Then the same on the node itself, with the controller stopped.
# Exits 0 only if the promises were kept and no guest lost or repeated a number.
# Needs root, and a CRIU that works here (make setup installs one).
set -euo pipefail

# shellcheck source=contrib/demo-lib.sh
. "$(dirname "$0")/demo-lib.sh"
in_own_mounts "$@"
begin reclaim
add_users bob alice

# A guest counts in its memory, and its user sees each number.
cat > "$directory/home/alice/count.py" <<'END'
import sys, time
ballast = bytearray(range(256)) * (200 << 12)  # 200 MiB, to be found unharmed
last, numbers = int(sys.argv[1]), []
for n in range(1, last + 1):
    numbers.append(n)
    print("count", n, "sum", sum(numbers), flush=True)
    time.sleep(0.1)
print("ballast", "whole" if ballast == bytearray(range(256)) * (200 << 12) else "harmed", flush=True)
END
chmod 755 "$directory/home/alice/count.py"
home=$directory/home/alice

submit() { # USER OPTION... COMMAND
	as_user "$1" gsubmit --parsable --time=1:00:00 "${@:2}"
}
queue() { gqueue --sort=i --Format=JobID:6,Name:9,UserName:6,State:10,NodeList:9,Checkpoint:13,Reason:20 "$@"; }
counted() { sed -n 's/^count \([0-9]*\) .*/\1/p' "$home/$1" 2>/dev/null | tail -n 1; }
counted_to() { [ "$(counted "$1")" -ge "$2" ]; }
runs_on() { [ "$(gqueue --noheader --states=R --jobs="$1" --format=%N)" = "$2" ]; }
runs_elsewhere() { gqueue --noheader --states=R --jobs="$1" --format=%N | grep -q '^n[23]$'; }
# no_gap FILE LAST: every number from 1 to the last one, each once, with its own sum.
no_gap() {
	awk -v last="$2" '/^count/ { n++; sum += $2; if ($2 != n || $4 != sum) { print "line " NR ": " $0 " where " n " was due"; exit 1 } }
		END { if (n != last) { print "it counted to " n; exit 1 } }' "$home/$1"
}
session_says() { tr -d '\r' < "$work/session" | grep -q "$1"; }
session_counted_to() { [ "$(tr -d '\r' < "$work/session" | sed -n 's/^session \([0-9]*\)$/\1/p' | tail -n 1)" -ge "$1" ]; }
session_no_gap() {
	tr -d '\r' < "$work/session" | awk '/^session [0-9]+$/ { n++; if ($2 != n) { print $0 " where " n " was due"; exit 1 } } END { exit n < 30 }'
}

step "starting a cluster of three nodes with two GPUs each in $directory"
start_cluster --nodes 3 --gpus-per-node 2 --cpus-per-node 4

step "n1 belongs to chemistry, of which bob is the coordinator; alice is biology's"
gacctmgr -iQ add account chemistry,biology
gacctmgr -iQ add user bob account=chemistry
gacctmgr -iQ add user alice account=biology
gacctmgr -iQ add coordinator account=chemistry names=bob
cat > "$work/cluster.toml" <<'POLICY'
[[owner]]
account = "chemistry"
nodes = "n1"

[[partition]]
name = "main"
nodes = "ALL"
default = true
POLICY
gcontrol apply --yes --quiet -f "$work/cluster.toml" > /dev/null
gcontrol show config | grep -i 'owner\['

step "alice's jobs are guests on n1"
python="python3 $directory/home/alice/count.py"
# These two do not ask for a node: they go where there is room.
gcontrol update nodename=n[2-3] state=drain reason=demo
watched=$(submit alice -J watched -c 1 --mem=700M -o watched.out --wrap "exec $python 900")
gpu=$(submit alice -J gpu -c 1 --gpus-per-node=1 --mem=700M -o gpu.out --wrap "exec $python 600")
until_true 60 state_is "$watched,$gpu" RUNNING || fail "the guests do not run"
gcontrol update nodename=n[2-3] state=resume
pair=$(submit alice -J pair -w n[1-2] -N 2 -c 1 --mem=700M -o pair.out --wrap "exec $python 500")
for job in $watched $gpu $pair; do
	until_true 60 state_is "$job" RUNNING || fail "job $job does not run: $(gcontrol show job "$job" | grep -E 'JobState|Reason')"
done
for out in watched gpu pair; do until_true 60 counted_to $out.out 20 || fail "$out does not count: $(cat "$home/$out.out" 2>&1)"; done
queue

step "alice opens a shell in one of them, which counts in a variable"
mkfifo -m 666 "$directory/keys"
exec 9<> "$directory/keys"
TERM=dumb script -qfc "setpriv --reuid alice --regid alice --init-groups env HOME=$home USER=alice grun --jobid=$watched --overlap --pty bash --norc" \
	"$work/session" < "$directory/keys" > "$work/script.out" 2>&1 &
session=$!
trap 'kill $session 2>/dev/null || true; clean_up' EXIT
# shellcheck disable=SC2016
printf 'n=0; while :; do n=$((n+1)); echo "session $n"; sleep 0.1; done\n' >&9
until_true 20 session_counted_to 10 || fail "the session does not count: $(tail -n 5 "$work/session" 2>&1)"

step "bob wants to know what would happen"
as_user bob greclaim --mine --within=20s --dry-run

step "bob takes his node back"
check "the promise was kept" as_user bob sh -c 'greclaim --mine --within=20s --wait > reclaim.out'
cat "$directory/home/bob/reclaim.out"
ginfo -N
before=$(counted gpu.out)

step "bob's job has all of n1"
own=$(submit bob -J own -w n1 -c 4 --gpus-per-node=2 --mem=64M -o own.out --wrap 'ls /dev/gpu*; sleep 25')
check "it runs while the guests are parked" until_true 20 state_is "$own" RUNNING
queue

step "a guest that stays parked is packed, and goes on elsewhere while bob works"
check "the one with the GPU runs on another node" until_true 60 runs_elsewhere "$gpu"
check "it counts on there" until_true 30 counted_to gpu.out $((before + 50))
check "bob's job still runs" state_is "$own" RUNNING
queue
gcontrol show job "$gpu" | grep -E 'RestoredFrom|Saves='

step "bob lends the node again"
until_true 60 state_is "$own" COMPLETED || true
check "his job COMPLETED, and had both GPUs" test "$(grep -c /dev/gpu "$directory/home/bob/own.out")" -ge 2
as_user bob grelease n1
check "the others continue where they stood" until_true 60 state_is "$watched,$pair" RUNNING
queue

step "the session, which nobody has touched"
before=$(tr -d '\r' < "$work/session" | sed -n 's/^session \([0-9]*\)$/\1/p' | tail -n 1)
until_true 30 session_counted_to $((before + 20)) || true
# shellcheck disable=SC2016
printf '\003' >&9
sleep 0.5
# shellcheck disable=SC2016
printf 'echo "the shell counted to $n"; exit 7\n' >&9
check "its shell kept its variable" until_true 20 session_says '^the shell counted to [0-9]*$'
check "no number of it is missing, none is there twice" session_no_gap

step "bob takes his node back once more, on the node itself, with the controller stopped"
guests=pair # those that are on n1 now: the other one may have gone on elsewhere
! gqueue --noheader --states=R --jobs="$watched" --format=%N | grep -qx n1 || guests="pair watched"
counts() { for out in $guests; do counted "$out.out"; done; }
counted_on() { local out; for out in $guests; do counted_to "$out.out" $((${at%%$'\n'*} + 10)) || return; done; }
controller=$(cat "$directory/gctld.pid")
trap 'kill -CONT "$controller" 2>/dev/null || true; kill $session 2>/dev/null || true; clean_up' EXIT
kill -STOP "$controller"
check "the promise was kept" as_user bob sh -c 'greclaim --local n1 --within=20s --wait > local.out'
cat "$directory/home/bob/local.out"
at=$(counts)
sleep 1
check "no guest runs there" test "$at" = "$(counts)"
as_user bob grelease --local n1
check "the guests continue, and no controller was asked" until_true 30 counted_on
kill -CONT "$controller"
check "the controller finds them as they are" until_true 60 state_is "$watched,$pair" RUNNING

step "outcomes"
for job in $watched $gpu $pair; do until_true 180 state_is "$job" COMPLETED || true; done
queue --states=all
check "all guests COMPLETED" state_is "$watched,$gpu,$pair" COMPLETED
check "the one with a shell: no number is missing, none is there twice" no_gap watched.out 900
check "the one with a GPU, which moved: the same" no_gap gpu.out 600
check "the one on two nodes: the same" no_gap pair.out 500
for out in watched gpu pair; do check "$out: 200 MiB of its memory are as they were" grep -qx 'ballast whole' "$home/$out.out"; done

step "ending the cluster"
