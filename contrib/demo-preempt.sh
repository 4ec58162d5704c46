#!/usr/bin/env bash
# Preemption on a one-machine cluster. Jobs of a low QOS fill both nodes: an
# expensive one the first, and two cheap ones the second. One more waits. Then a job
# of a high QOS needs a whole node. The cluster says which jobs it preempts, what
# that costs, and what the next best choice would have cost. The demonstration
# computes both itself. Exits 0 only if the cheap jobs were preempted, saved their
# work and ran again to their end, and all sums are right.
set -euo pipefail

# shellcheck source=contrib/demo-lib.sh
. "$(dirname "$0")/demo-lib.sh"
in_own_mounts "$@"
begin preempt
add_users ada eve

# A preempted job takes three seconds to save its work. When it runs again, it
# ends at once.
cat > "$directory/victim.sh" <<'SCRIPT'
#!/bin/bash
#GSUB --requeue --mem=16M --output=/dev/null
say() { echo "$1" >> "$SLURM_JOB_NAME.log"; }
trap 'sleep 3; say "saves its work"; exit 1' TERM
say "start ${SLURM_RESTART_COUNT:-0}"
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || exit 0
for ((i = 0; i < 6000; i++)); do sleep 0.1; done
SCRIPT
submit() { # USER OPTION... SCRIPT
	as_user "$1" gsubmit --parsable "${@:2}"
}
queue() { gqueue --sort=i --format='%.5i %.8j %.5u %.5q %.10T %.16R' "$@"; }
reason() { gcontrol show job "$1" | sed -n 's/^ *ReasonDetail=//p'; }
preempted() { reason "$1" | grep -q "preempted by job $urgent "; }
# figure NAME: of the leader's line about the choice.
figure() { sed -n "/jobs are preempted to make room/s/.* $1=\([^ ]*\).*/\1/p" "$directory/gctld.log"; }
# started JOB: when, before the urgent job came.
started() { awk -v job="$1" '$1 == job { print $2 }' "$work/starts"; }
# reckon JOB GPUS...: the GPU-seconds that were lost when the urgent job came.
reckon() {
	local sum=0
	while [ "$#" -gt 0 ]; do
		sum=$((sum + $2 * (came - $(date +%s --date "$(started "$1")"))))
		shift 2
	done
	echo "$sum"
}
# near A B: times are told in whole seconds, and each has four GPUs.
near() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a - b <= 8 && b - a <= 8) }'; }

step "starting a cluster of two nodes with four GPUs each in $directory"
start_cluster --nodes 2 --gpus-per-node 4 --cpus-per-node 8

step "two QOS: jobs of high may send those of low away, who have ten seconds to save their work"
cat > "$work/cluster.toml" <<'POLICY'
kill_wait = 5
[priority]
weight_qos = 10000
[preempt]
type = "qos"
mode = "requeue"
[[partition]]
name = "main"
nodes = "ALL"
default = true
POLICY
gcontrol apply --yes --quiet -f "$work/cluster.toml" > /dev/null
gacctmgr -iQ add qos low priority=10 gracetime=10
gacctmgr -iQ add qos high priority=100 preempt=low
gacctmgr show qos format=name,priority,preempt,gracetime

step "ada's jobs of QOS low: one that has run for a while, two that have not, one that waits"
dear=$(submit ada --qos=low --job-name=dear --gpus-per-node=4 "$directory/victim.sh")
until_true 30 state_is "$dear" RUNNING || fail "job $dear does not run"
sleep 8
cheap=$(submit ada --qos=low --job-name=cheap --gpus-per-node=2 "$directory/victim.sh")
cheaper=$(submit ada --qos=low --job-name=cheaper --gpus-per-node=2 "$directory/victim.sh")
until_true 30 state_is "$cheap,$cheaper" RUNNING || fail "jobs $cheap and $cheaper do not run"
patient=$(submit ada --qos=low --job-name=patient --gpus-per-node=1 --mem=16M --output=/dev/null --wrap true)
sleep 2
queue
echo
gprio --long
gqueue --noheader --states=RUNNING --format='%i %S' > "$work/starts"

step "eve's job of QOS high needs a whole node"
urgent=$(submit eve --qos=high --job-name=urgent --gpus-per-node=4 --mem=16M --output=/dev/null --wrap 'sleep 3')
came=$(date +%s)
until_true 30 preempted "$cheap" || fail "nobody makes room for job $urgent"
gprio --long
echo
echo "job $urgent: $(reason "$urgent")"
for job in "$cheap" "$cheaper"; do echo "job $job: $(reason "$job")"; done
echo "the leader's log:"
grep 'jobs are preempted to make room' "$directory/gctld.log" | sed 's/^/   /'

step "the urgent job runs, and those that made room run again"
until_true 60 state_is "$urgent" COMPLETED || true
until_true 60 state_is "$cheap,$cheaper,$patient" COMPLETED || true
queue --states=all

step "outcomes"
check "the log names the cheap ones, and the dear one as the next best" test "$(figure victims) $(figure next_best)" = "$cheap,$cheaper $dear"
check "they cost less: $(figure cost_gpu_seconds) GPU-seconds against $(figure next_cost_gpu_seconds)" \
	awk -v a="$(figure cost_gpu_seconds)" -v b="$(figure next_cost_gpu_seconds)" 'BEGIN { exit !(a > 0 && a < b) }'
cost=$(reckon "$cheap" 2 "$cheaper" 2)
next=$(reckon "$dear" 4)
check "the first is their time times their GPUs, to the second: $cost" near "$(figure cost_gpu_seconds)" "$cost"
check "the other that of the dear one: $next" near "$(figure next_cost_gpu_seconds)" "$next"
check "the dear one still runs, since when it did" test "$(gqueue --noheader --jobs="$dear" --format='%t %S')" = "R $(started "$dear")"
check "the urgent one COMPLETED" state_is "$urgent" COMPLETED
for name in cheap cheaper; do
	check "$name saved its work and ran again" cmp -s "$directory/home/ada/$name.log" <(printf 'start 0\nsaves its work\nstart 1\n')
done
check "both COMPLETED, and the one that waited" state_is "$cheap,$cheaper,$patient" COMPLETED

step "ending the cluster"
