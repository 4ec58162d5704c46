#!/usr/bin/env bash
# A job on several nodes that moves with its connections: on a one-machine cluster of
# four nodes, a job on two of them has an encrypted network of its own between them, and a
# stream of numbers goes round over it: an MPI program where MPICH is installed, otherwise
# a Python one. One of its nodes is drained. The job goes on in mid-stream on another, then
# moves to two others. The script checks that no number is skipped or repeated. A
# port of this host leads into the job all the while (gforward), and tells how far it is.
# Exits 0 only if all of this worked. Needs root, and a CRIU that works here (make
# setup installs one).
set -euo pipefail

# shellcheck source=contrib/demo-lib.sh
. "$(dirname "$0")/demo-lib.sh"
begin demo-network

last=600
# counted: how far the count has come.
counted() { sed -n 's/^count \([0-9]*\) .*/\1/p' "$work/count.out" 2>/dev/null | tail -n 1; }
counted_to() { [ "$(counted)" -ge "$1" ]; }
runs_on() { [ "$(gqueue --noheader --states=R --jobs="$1" --format=%N)" = "$2" ]; }
left_node() { runs=$(gqueue --noheader --states=R --jobs="$1" --format=%N) && [ -n "$runs" ] && ! gcontrol show hostnames "$runs" | grep -qx "$2"; }

# no_gap: every number from 1 to the last one, each once, each with the sum of those before.
no_gap() {
	awk -v last=$last '/^count/ { n++; sum += $2; if ($2 != n || $4 != sum) { print "line " NR ": " $0 " where " n " was due"; exit 1 } }
		END { if (n != last) { print "it counted to " n; exit 1 } }' "$work/count.out"
}
# forwarded: what a program of this host hears from inside the job.
forwarded() { (exec 3<>"/dev/tcp/127.0.0.1/$port" && read -r -t 20 heard <&3 && echo "$heard") 2>/dev/null; }
forwarded_to() { heard=$(forwarded) && [ "$heard" -ge "$1" ]; }
no_interface() { ! ip -o link | grep -q gang0 && ! pgrep -f "gang-network $directory/"; }

step "starting a cluster of four nodes in $directory"
start_cluster --nodes 4 --gpus-per-node 0 --cpus-per-node 2
ginfo

step "submitting a job on two nodes, with a network of its own"
cd "$work"
cat > ring.py <<'END'
import os, socket, sys, time
me, nodes, last = int(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3])
listener = socket.create_server(("", 7000))
while True:
    try:
        out = socket.create_connection((nodes[(me + 1) % len(nodes)], 7000), 5)
        break
    except OSError:
        time.sleep(0.1)
out.settimeout(None)
into = listener.accept()[0].makefile("rb")
total = 0
for n in range(1, last + 1):
    if me == 0:
        out.sendall(b"%d\n" % n)
        n = int(into.readline())
        total += n
        print("count", n, "sum", total, flush=True)
        time.sleep(0.01)
    else:
        out.sendall(into.readline())
END
cat > ring.c <<'END'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
	int me, all;
	long block[4096], sum = 0, last = atol(argv[1]);
	struct timespec pause = {0, 10000000};
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	for (long n = 1; n <= last; n++) {
		if (me == 0) {
			for (int i = 0; i < 4096; i++) block[i] = n + i;
			MPI_Send(block, 4096, MPI_LONG, 1, 0, MPI_COMM_WORLD);
		}
		MPI_Recv(block, 4096, MPI_LONG, (me + all - 1) % all, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < 4096; i++) if (block[i] != n + i) { printf("damaged at %ld\n", n); return 1; }
		if (me == 0) {
			printf("count %ld sum %ld\n", n, sum += block[0]);
			fflush(stdout);
			nanosleep(&pause, 0);
		} else
			MPI_Send(block, 4096, MPI_LONG, (me + 1) % all, 0, MPI_COMM_WORLD);
	}
	if (me) sleep(1); // MPICH 4.0 over UCX may stand in MPI_Finalize for ever; with two ranks and rank 0 first it was not seen to
	MPI_Finalize();
	return 0;
}
END
if command -v mpicc.mpich && command -v mpiexec.hydra; then
	mpicc.mpich -O1 -o ring ring.c
	echo "exec mpiexec.hydra ./ring $last" > job.sh
	echo "   an MPI program"
else
	# shellcheck disable=SC2016
	echo 'exec grun -u bash -c "exec python3 ring.py \$SLURM_PROCID $(gcontrol show hostnames "$SLURM_JOB_NODELIST" | paste -sd,) '$last'"' > job.sh
	echo "   a Python program"
fi > kind
tail -n 1 kind
# Beside it: whoever connects to port 8000 hears how far the count has come.
cat > tells.py <<'END'
import re, socket
server = socket.create_server(("127.0.0.1", 8000))
while True:
    conn = server.accept()[0]
    numbers = re.findall(r"^count (\d+) ", open("count.out").read(), re.M)
    conn.sendall(b"%d\n" % int((numbers or [0])[-1]))
    conn.close()
END
sed -i '1i python3 tells.py &' job.sh
sed -i '1i #!/bin/bash' job.sh
job=$(gsubmit --parsable --job-name=stream --output=count.out --nodes=2 --ntasks-per-node=1 --network=private --mem=600M --cpus-per-task=1 --time=10 job.sh)
until_true 60 counted_to 30 || fail "it does not count: $(cat count.out 2>&1); $(gcontrol show job "$job" | grep -E 'JobState|Reason')"
gqueue --Format=JobID,Name,State,NodeList,Checkpoint
gcontrol show job "$job" | grep Checkpointable
check "it runs on n[1-2]" runs_on "$job" 'n[1-2]'

step "leading a port of this host into it: gforward"
port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
gforward "$job" "8000:$port" 2> forward.err &
forwarder=$!
background="$background $forwarder"
trap 'kill $forwarder 2>/dev/null || true; clean_up' EXIT
until_true 30 forwarded_to 1 || fail "nothing comes through the port: $(cat forward.err)"
check "127.0.0.1:$port says: $(forwarded)" forwarded_to 1

step "watching its output while one of its nodes is drained"
tail -n 0 -f count.out | awk '{ if (NR % 50 == 1) print "   " $0; fflush() }' &
background="$background $!"
watcher=$(pgrep -P $$ -x tail || true)
trap 'kill $watcher $forwarder 2>/dev/null || true; clean_up' EXIT
before=$(counted)
moving=$(now)
gcontrol update NodeName=n2 State=DRAIN Reason="new fan" Evacuate=yes
check "it goes on without n2" until_true 60 left_node "$job" n2
echo "   that took $(seconds $(($(now) - moving)))"
check "127.0.0.1:$port leads there" until_true 30 forwarded_to "$before"
gqueue --Format=JobID,Name,State,NodeList
until_true 30 counted_to $((before + 100)) || true
check "it counts on in mid-stream" counted_to $((before + 100))

step "n2 is back, and the job moves to it and another"
gcontrol update NodeName=n2 State=RESUME
before=$(counted)
gcontrol migrate "$job" n2,n4 || fail "it did not move"
until_true 30 counted_to $((before + 100)) || true
check "127.0.0.1:$port leads there" until_true 30 forwarded_to "$before"
sed 's/^/   /' forward.err
check "it runs on n[2,4]" runs_on "$job" 'n[2,4]'
check "it counts on in mid-stream" counted_to $((before + 100))

step "its end"
until_true 120 state_is "$job" COMPLETED || true
kill "$watcher" 2>/dev/null || true
gqueue --states=all --format='%.6i %.8j %.10T %.8M %R'
check "it COMPLETED" state_is "$job" COMPLETED
check "it counted to $last: no number is skipped, none repeated" no_gap
check "nothing is left of its network" until_true 20 no_interface
[ "$failures" -eq 0 ] || no_gap || true

step "ending the cluster"
