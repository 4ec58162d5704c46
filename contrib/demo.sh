#!/usr/bin/env bash
# The basic demonstration on a one-machine cluster: starts `gleaner dev`, submits
# the batch scripts of contrib/examples, shows the queue while they run, and checks
# how each of them ended. Exits 0 only if all of them ended as expected.
set -euo pipefail

# shellcheck source=contrib/demo-lib.sh
. "$(dirname "$0")/demo-lib.sh"
examples=$root/contrib/examples
begin demo

step "starting a cluster of two nodes in $directory"
start_cluster --nodes 2 --gpus-per-node 4 --cpus-per-node 4
ginfo

# Device files of all GPUs, in the folder that the jobs see: a device file alone
# does not give access to the device.
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
end=$(($(now) + 600000))
while :; do
	active=$(gqueue --noheader --format=%i --jobs="$gang,$array,$memory,$foreign")
	gqueue
	[ -n "$active" ] || break
	if gqueue --noheader --format=%r | grep -q 'launch failed'; then
		printf '\na node cannot start jobs; it says:\n'
		gcontrol show node | grep -E 'NodeName|Reason'
		fail "no job can run here"
	fi
	[ "$(now)" -lt "$end" ] || fail "they did not end within ten minutes"
	echo
	sleep 1
done

step "cancelling the long one (job $long)"
until_true 10 grep -q working "slurm-$long.out" || true
gcancel "$long"
until_true 30 state_is "$long" CANCELLED || true

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
