#!/usr/bin/env bash
# Backfill by checkpoint on a one-machine cluster of two nodes. A job has the first node
# for two minutes. A wide job waits for both nodes, and is promised a start.
# Until then the second node is a hole: short jobs fill it, and so does a job with a
# limit of an hour that counts in Python's memory, because it can be saved. The wide job
# starts when it was promised; the one that was saved goes on afterwards from where it
# stood. Exits 0 only if all of that held, and no number is missing or there twice.
# Needs root, and a CRIU that works here (make setup installs one).
set -euo pipefail

# shellcheck source=contrib/demo-lib.sh
. "$(dirname "$0")/demo-lib.sh"
in_own_mounts "$@"
begin backfill
add_users ada alice

cat > "$directory/home/alice/count.py" <<'END'
import sys, time
numbers = []
for n in range(1, int(sys.argv[1]) + 1):
    numbers.append(n)
    print("count", n, "sum", sum(numbers), flush=True)
    time.sleep(0.1)
END
chmod 755 "$directory/home/alice/count.py"
home=$directory/home/alice

submit() { # USER OPTION... COMMAND
	as_user "$1" gsubmit --parsable "${@:2}"
}
queue() { gqueue --sort=i --Format=JobID:6,Name:9,UserName:7,State:11,NodeList:9,TimeLimit:11,StartTime:21,Reason:22 "$@"; }
starts() { date +%s --date "$(gqueue --noheader --states=all --jobs="$1" --format=%S)"; }
planned() { starts "$wide"; }
detail() { gcontrol show job "$1" | sed -n 's/^ *ReasonDetail=//p'; }
counted() { sed -n 's/^count \([0-9]*\) .*/\1/p' "$home/long.out" 2>/dev/null | tail -n 1; }
counted_to() { [ "$(counted)" -ge "$1" ]; }
saved_and_waits() { state_is "$long" PENDING && gcontrol show job "$long" | grep -q 'Image=[1-9]'; }
# no_gap LAST: every number from 1 to the last one, each once, with its own sum.
no_gap() {
	awk -v last="$1" '/^count/ { n++; sum += $2; if ($2 != n || $4 != sum) { print "line " NR ": " $0 " where " n " was due"; exit 1 } }
		END { if (n != last) { print "it counted to " n; exit 1 } }' "$home/long.out"
}

step "starting a cluster of two nodes with four CPUs each in $directory"
start_cluster --nodes 2 --cpus-per-node 4

step "starts are planned for the first job that waits, and jobs that can be saved fill holes"
cat > "$work/cluster.toml" <<'POLICY'
[scheduler]
bf_job_part_count_reserve = 1

[[partition]]
name = "main"
nodes = "ALL"
default = true
bf_checkpoint = true
POLICY
gcontrol apply --yes --quiet -f "$work/cluster.toml" > /dev/null
gcontrol show partition main | grep BfCheckpoint

step "ada's first job has n1 for two minutes, and her wide job waits for both nodes"
first=$(submit ada -J first -w n1 -c 4 --mem=64M --time=2 --output=/dev/null --wrap 'exec sleep 119')
until_true 30 state_is "$first" RUNNING || fail "job $first does not run"
wide=$(submit ada -J wide -N 2 -c 4 --mem=64M --time=5:00 --output=/dev/null --wrap 'sleep 10')
until_true 20 planned || fail "job $wide has no planned start: $(detail "$wide")"
promised=$(planned)
check "it is promised a start when the first one's time is over" test "$promised" -eq "$(($(starts "$first") + 120))"

step "two short jobs, and alice's job of an hour that can be saved"
short=$(submit ada -J short -c 1 --mem=32M --time=1:00 --output=/dev/null --wrap 'sleep 20')
shorter=$(submit ada -J shorter -c 1 --mem=32M --time=1:00 --output=/dev/null --wrap 'sleep 10')
long=$(submit alice -J long -c 1 --mem=200M --time=1:00:00 -o long.out --wrap "exec python3 $home/count.py 1500")
check "they fill the hole" until_true 30 state_is "$short,$shorter,$long" RUNNING
queue
echo "job $long: $(detail "$long")"
check "the promise stands" test "$(planned)" -eq "$promised"

step "the wide job's time comes"
until_true 150 saved_and_waits || true
before=$(counted)
check "alice's job was saved in time, at $before, and waits" saved_and_waits
echo "job $long: $(detail "$long")"
until_true 150 state_is "$wide" RUNNING || true
started=$(starts "$wide")
queue
echo "promised $(date --date "@$promised" +%T), started $(date --date "@$started" +%T)"
check "it starts on the second it was promised, or the one before" test "$started" -le "$promised" -a "$started" -ge $((promised - 1))
check "the short jobs COMPLETED" state_is "$short,$shorter" COMPLETED

step "alice's job goes on"
until_true 60 state_is "$wide" COMPLETED || true
check "the wide job COMPLETED" state_is "$wide" COMPLETED
check "hers runs again" until_true 60 state_is "$long" RUNNING
check "and counts on" until_true 60 counted_to $((before + 10))
until_true 180 state_is "$long" COMPLETED || true
queue --states=all
check "it COMPLETED" state_is "$long" COMPLETED
check "no number is missing, none is there twice" no_gap 1500

step "ending the cluster"
