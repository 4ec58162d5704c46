#!/usr/bin/env bash
# Fair share on a one-machine cluster: physics with 60 shares and chemistry with
# 40 submit 500 jobs each, as separate users, chemistry first. The script asks the
# cluster every second what both have used (gshare), and at the end when each job
# ran (gqueue). It makes a table, and a picture (PICTURE=.build/fairshare.svg).
# Exits 0 only if all jobs ran, and if in the second half of the time in which both
# labs had jobs waiting, their use was within 5 points of their shares.
set -euo pipefail

# shellcheck source=contrib/demo-lib.sh
. "$(dirname "$0")/demo-lib.sh"
picture=${PICTURE:-$root/.build/fairshare.svg}
jobs=500
headstart=75 # jobs of chemistry that are over when physics comes
in_own_mounts "$@"
begin fairshare
told=$directory/told
mkdir -p "$told/shares"
add_users ada eve

# stream ACCOUNT USER: submits a lab's jobs, of a GPU for one to two seconds each.
cat > "$directory/stream.sh" <<'SCRIPT'
lengths=(1 1.5 2)
for ((i = 0; i < $2; i++)); do
	[ ! -e "$3/stop" ] || exit 1
	gsubmit --account="$1" --job-name="$1" --gpus=1 --mem=16M --output=/dev/null --wrap "sleep ${lengths[i % 3]}" || exit 1
done
SCRIPT
stream() {
	as_user "$2" bash "$directory/stream.sh" "$1" "$jobs" "$directory" > "$work/$1.numbers" 2> "$work/$1.complaints"
}

# record: what both have used, every second.
record() {
	until [ -e "$directory/stop" ]; do
		at=$(now)
		gshare --all --json=v0.0.39 > "$told/share" && mv "$told/share" "$told/shares/$at.json"
		sleep 1
	done
}

# over ACCOUNT: how many of its jobs are.
over() { gqueue --noheader --states=COMPLETED --account="$1" --format=%i | wc -l; }
ahead() { [ "$(over chemistry)" -ge "$headstart" ]; }

# standing: what runs and waits of each lab, and its part of the usage.
standing() {
	local lab
	printf '%4d s' $((($(now) - begun) / 1000))
	for lab in physics chemistry; do
		gqueue --noheader --account="$lab" --format=%t | sort | uniq -c |
			awk -v lab="$lab" '{ n[$2] = $1 } END { printf "   %-9s %2d run %3d wait", lab, n["R"], n["PD"] }'
		gshare --noheader --parsable2 --accounts="$lab" --users=root --format=EffectvUsage |
			awk '{ printf "  %5.1f%% used", 100 * $1 }'
	done
	echo
}

step "starting a cluster of two nodes with eight GPUs each in $directory"
start_cluster --nodes 2 --gpus-per-node 8 --cpus-per-node 8

step "two labs: physics has 60 shares, chemistry 40; use is half forgotten in a minute"
cat > "$work/cluster.toml" <<'POLICY'
min_job_age = 7200
[priority]
weight_fair_share = 10000
decay_half_life = 60
[accounting]
enforce = ["associations"]
[[partition]]
name = "main"
nodes = "ALL"
default = true
tres_billing_weights = { cpu = 0, "gres/gpu" = 1 }
POLICY
gcontrol apply --yes --quiet -f "$work/cluster.toml" > /dev/null
gacctmgr -iQ add account physics fairshare=60
gacctmgr -iQ add account chemistry fairshare=40
gacctmgr -iQ add user ada account=physics
gacctmgr -iQ add user eve account=chemistry
gacctmgr show association tree format=account,user,fairshare

step "chemistry submits $jobs jobs; physics $jobs more when $headstart of them are over"
begun=$(now)
record & background=$!
stream chemistry eve & chemistry=$!
background="$background $chemistry"
until_true 120 ahead || { cat "$work/chemistry.complaints"; fail "chemistry's jobs do not run"; }
standing
stream physics ada & physics=$!
background="$background $physics"
wait "$chemistry" || { cat "$work/chemistry.complaints"; fail "chemistry could not submit"; }
wait "$physics" || { cat "$work/physics.complaints"; fail "physics could not submit"; }
standing
echo
echo "who goes first, and why:"
gprio --long --sort=-Y | awk 'NR == 1 || !seen[$3]++'
echo
gshare --all --format='Account%-12,User%6,RawShares,NormShares,RawUsage,EffectvUsage,FairShare,LevelFS'
echo
end=$(($(now) + 600000))
while [ -n "$(gqueue --noheader --format=%i)" ]; do
	[ "$(now)" -lt "$end" ] || fail "they did not end within ten minutes"
	standing
	sleep 5
done
touch "$directory/stop"
# shellcheck disable=SC2086
wait $background || true
background=

step "what the cluster has to say"
gqueue --states=all --json=v0.0.39 > "$told/jobs.json"
ginfo --json=v0.0.39 > "$told/nodes.json"
gcontrol show config > "$told/config"
mkdir -p "$(dirname "$picture")"
"$root/.build/shares" -recorded "$told" -band 5 -o "$picture" || failures=1
[ -z "${SUDO_UID:-}" ] || chown "$SUDO_UID:$SUDO_GID" "$picture"
echo
check "physics: $jobs jobs COMPLETED" test "$(over physics)" = "$jobs"
check "chemistry: $jobs jobs COMPLETED" test "$(over chemistry)" = "$jobs"

step "ending the cluster"
