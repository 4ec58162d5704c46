#!/usr/bin/env bash
# The main job on a one-machine cluster: starts `gleaner dev`, submits the batch
# scripts of contrib/examples, shows the queue while they run, and checks how
# each of them ended. Exits 0 only if all went as they should.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
examples=$root/contrib/examples
directory=$(mktemp -d /tmp/gleaner-demo.XXXXXX)
chmod 755 "$directory"
work=$directory/work
mkdir "$work"
failures=0

# Nothing of the cluster is mounted on the host, but a delete that crosses a
# mount cannot be undone: look first, and stay on one file system.
clean_up() {
	if [ -n "${cluster:-}" ] && kill -TERM "$cluster" 2>/dev/null; then
		wait "$cluster" || { echo "the cluster did not end cleanly:"; tail -5 "$directory/dev.log"; failures=1; }
	fi
	if [ "$failures" -ne 0 ]; then
		echo "logs and outputs are kept in $directory"
	elif grep -q " $directory" /proc/self/mountinfo; then
		echo "something is still mounted below $directory; it is kept"
		failures=1
	else
		rm -rf --one-file-system "$directory"
	fi
	exit "$failures"
}
trap clean_up EXIT
trap 'failures=1; exit' INT TERM

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

# state_is JOB STATE: every task of the job ended in this state.
state_is() {
	local states
	states=$(gqueue --noheader --states=all --jobs="$1" --array --format=%T | sort -u)
	[ "$states" = "$2" ]
}

step "starting a cluster of two nodes in $directory"
"$root/bin/gleaner" dev --dir "$directory" --nodes 2 --gpus-per-node 4 --cpus-per-node 4 > "$directory/dev.log" 2>&1 &
cluster=$!
for _ in $(seq 300); do
	grep -q '^ready' "$directory/dev.log" && break
	kill -0 "$cluster" 2>/dev/null || { cat "$directory/dev.log"; failures=1; exit; }
	sleep 0.1
done
grep -q '^ready' "$directory/dev.log" || { echo "the cluster was not ready in 30 s"; cat "$directory/dev.log"; failures=1; exit; }
# shellcheck source=/dev/null
. "$directory/env"
ginfo

# Device files of all GPUs, in the folder the jobs see: having the file is not
# having the device.
mkdir "$work/gpus"
for gpu in "$directory"/nodes/*/dev/gpu*; do
	[ -e "$gpu" ] || continue
	node=$(basename "$(dirname "$(dirname "$gpu")")")
	mknod -m 666 "$work/gpus/$node-$(basename "$gpu")" c "$((0x$(stat -c %t "$gpu")))" "$((0x$(stat -c %T "$gpu")))"
done

step "submitting contrib/examples"
cd "$work"
cp -r "$root/sched" "$work/sources"
long=$(gsubmit --parsable "$examples/long.sh")
gang=$(gsubmit --parsable "$examples/gang.sh")
array=$(gsubmit --parsable "$examples/array.sh" "$work/sources")
memory=$(gsubmit --parsable "$examples/memory.sh")
foreign=$(gsubmit --parsable --nodelist=n2 "$examples/foreign-gpu.sh" "$work/gpus")
echo "long $long, gang $gang, array $array, memory $memory, foreign-gpu $foreign"

step "the queue while they run"
for _ in $(seq 600); do
	active=$(gqueue --noheader --format=%i --jobs="$gang,$array,$memory,$foreign")
	gqueue
	[ -n "$active" ] || break
	if gqueue --noheader --format=%r | grep -q 'launch failed'; then
		echo
		echo "a node cannot start jobs; it says:"
		gcontrol show node | grep -E 'NodeName|Reason'
		failures=1
		exit
	fi
	echo
	sleep 1
done

step "cancelling the long one (job $long)"
for _ in $(seq 100); do grep -q working "slurm-$long.out" 2>/dev/null && break; sleep 0.1; done
gcancel "$long"
for _ in $(seq 300); do
	[ -n "$(gqueue --noheader --jobs="$long" --format=%i)" ] || break
	sleep 0.1
done

step "outcomes"
gqueue --states=all --array --format='%.10i %.12j %.14T %.8M %.6D %R'
echo
cat "slurm-$gang.out"
echo
check "gang: COMPLETED" state_is "$gang" COMPLETED
for rank in 0 1 2 3; do
	node=n$((rank / 2 + 1))
	check "gang: rank $rank ran on $node with two GPUs" grep -q "^$rank: rank $rank of 4 on $node, GPUs 0,1, visible as 0,1" "slurm-$gang.out"
done
check "array: every task COMPLETED" state_is "$array" COMPLETED
check "array: the parts are the whole" diff \
	<(cat array-part-*.txt | LC_ALL=C sort) <(find "$work/sources" -type f -name '*.go' -exec sha256sum {} + | LC_ALL=C sort)
check "memory: OUT_OF_MEMORY" state_is "$memory" OUT_OF_MEMORY
check "foreign-gpu: COMPLETED" state_is "$foreign" COMPLETED
if ls "$work"/gpus/* >/dev/null 2>&1; then
	check "foreign-gpu: one GPU opened, three refused" grep -qx 'opened 1, refused 3' "slurm-$foreign.out"
fi
check "long: CANCELLED" state_is "$long" CANCELLED
check "long: had time to tidy up" grep -qx 'told to stop' "slurm-$long.out"

step "ending the cluster"
