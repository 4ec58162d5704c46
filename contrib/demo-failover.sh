#!/usr/bin/env bash
# Fail-over on a one-machine cluster: three controllers, running jobs, and jobs
# that are submitted one after another. The leading controller is killed with -9
# again and again (KILLS=5). Prints how long a submission had to wait after each
# kill. Exits 0 only if every job number was given once and ran once, and the
# running jobs noticed nothing.
set -euo pipefail

# shellcheck source=contrib/demo-lib.sh
. "$(dirname "$0")/demo-lib.sh"
kills=${KILLS:-5}
begin failover

leader() { gcontrol peer list 2>/dev/null | awk '$2 == "leader" && $3 == "up" { print $1 }'; }
all_up() { [ "$(gcontrol peer list 2>/dev/null | awk '$3 == "up"' | wc -l)" = 3 ]; }
nodes_up() { [ "$(ginfo -h -N -o %T 2>/dev/null | grep -c -e idle -e mixed -e allocated)" = 2 ]; }
pid_of() { local number=${1#c}; cat "$directory/gctld${number/#1/}.pid"; }

step "starting three controllers and two nodes in $directory"
start_cluster --controllers 3 --nodes 2 --gpus-per-node 0 --cpus-per-node 16
gcontrol peer list

step "four jobs that run, and two streams of short ones"
cd "$work"
long=$(gsubmit --parsable --mem=16M --array=1-4 --output=/dev/null --wrap \
	'echo "task $SLURM_ARRAY_TASK_ID, start ${SLURM_RESTART_COUNT:-0}" >> begun; until [ -e end ]; do sleep 0.2; done')
until_true 30 sh -c "[ \$(gqueue -h -r -j $long -o %T | grep -c RUNNING) = 4 ]" || true
gqueue -h -r -j "$long" -o '%K %S %N' | sort > before
stream() {
	until [ -e "$directory/stop" ]; do
		gsubmit --parsable --job-name=short --mem=16M --output=/dev/null --wrap 'echo $SLURM_JOB_ID >> ran' 2>> complaints >> numbers || echo "a submission failed" >> failed
		sleep 0.05
	done
}
stream & background=$!
stream & background="$background $!"
sleep 1
wc -l < numbers | xargs printf 'the first %d numbers are given\n'

step "killing the leader $kills times"
for kill in $(seq "$kills"); do
	victim=$(leader)
	[ -n "$victim" ] || fail "nobody leads"
	begin=$(now)
	kill -9 "$(pid_of "$victim")"
	given=$(gsubmit --parsable --job-name=short --mem=16M --output=/dev/null --wrap 'echo $SLURM_JOB_ID >> ran' 2>> complaints)
	took=$(($(now) - begin))
	echo "$given" >> numbers
	until_true 30 nodes_up || { echo "the nodes do not answer"; failures=1; }
	printf '%d: %s killed; a submission was answered after %s (job %s); %s leads now, nodes answer after %s\n' \
		"$kill" "$victim" "$(seconds $took)" "$given" "$(leader)" "$(seconds $(($(now) - begin)))"
	echo $took >> took
	until_true 30 all_up || { echo "the killed controller is not back"; gcontrol peer list; failures=1; }
	sleep 1.5
done
touch "$directory/stop"
# shellcheck disable=SC2086
wait $background || true
background=
count=$(wc -l < numbers)

step "waiting for the last of $count short jobs"
until_true 120 sh -c "[ \$(sort -u ran | wc -l) -ge $count ] && [ -z \"\$(gqueue -h -n short -o %i)\" ]" || true
gqueue -h -r -j "$long" -o '%K %S %N' | sort > after
touch end
until_true 30 sh -c "[ -z \"\$(gqueue -h -j $long -o %i)\" ]" || true

step "outcomes"
sort -n took | awk '{ t[NR] = $1 } END { printf "submission again after: median %.3f s, longest %.3f s, of %d kills\n", t[int((NR + 1) / 2)] / 1000, t[NR] / 1000, NR }'
check "no submission failed" test ! -e failed
check "numbers continue: $count of them, without a gap, none twice" sh -c "sort -n numbers | awk 'NR > 1 && \$1 != last + 1 { exit 1 } { last = \$1 }'"
check "every accepted job ran, and no other" sh -c 'sort -u numbers > a; sort -u ran > b; cmp a b'
check "no job ran twice" sh -c '[ -z "$(sort ran | uniq -d)" ]'
check "each of them COMPLETED" sh -c '[ "$(gqueue -h -t all -n short -o %T | sort -u)" = COMPLETED ]'
check "the four that ran still do, where and since when they did" cmp before after
check "each of them was started once" sh -c '[ "$(sort begun | cut -d, -f1 | uniq -c | grep -c "^ *1 ")" = 4 ] && ! grep -qv "start 0" begun'
check "they COMPLETED" sh -c "[ \"\$(gqueue -h -t all -r -j $long -o %T | sort -u)\" = COMPLETED ]"

step "ending the cluster"
