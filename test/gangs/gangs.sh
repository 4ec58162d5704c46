#!/usr/bin/env bash
# Connected jobs on several nodes, moved again and again: one of their nodes is replaced, or
# all of them. Each program works through numbers, over connections between its nodes, and
# is right only if none is skipped or repeated; at the end its output is compared with what
# it must be. Prints for each program how many moves succeeded, and how long the job was
# frozen.
#   ROUNDS=50 ONLY=ring test/gangs/gangs.sh
# Exits 0 only if every program was right and 99 of 100 moves succeeded. Needs root, and a
# CRIU that works here. MPI programs are left out where MPICH or Open MPI is missing, and dask
# where Debian's python3-distributed is.
set -euo pipefail

# shellcheck source=contrib/demo-lib.sh
. "$(dirname "$0")/../../contrib/demo-lib.sh"
in_own_mounts "$@"
begin gangs
rounds=${ROUNDS:-50}
moved=0 tried=0
add_users carol
start_cluster --nodes 6 --gpus-per-node 0 --cpus-per-node 2
home=$directory/home/carol
cd "$home"

cat > ring.py <<'END'
import os, socket, sys, time
me, nodes = int(sys.argv[1]), sys.argv[2].split(",")
listener = socket.create_server(("", 7000))
while True:
    try:
        out = socket.create_connection((nodes[(me + 1) % len(nodes)], 7000), 5)
        break
    except OSError:
        time.sleep(0.1)
out.settimeout(None)
into = listener.accept()[0].makefile("rb")
n = 0
while True:
    if me == 0:
        n = -1 if os.path.exists("stop") else n + 1
        out.sendall(b"%d\n" % n)
    line = into.readline()
    if me != 0:
        out.sendall(line)
    elif int(line) == n > 0:
        print("count", n, flush=True)
        time.sleep(0.005)
    elif n > 0:
        print("got", line, "in place of", n, flush=True)
    if int(line) < 0:
        break
END
cat > workers.py <<'END'
import os, queue, sys, time
from multiprocessing.managers import BaseManager
me, nodes = int(sys.argv[1]), sys.argv[2].split(",")
class Master(BaseManager):
    pass
if me == 0:
    asked, done = queue.Queue(8), queue.Queue()
    Master.register("asked", lambda: asked)
    Master.register("done", lambda: done)
    master = Master(("", 7000), b"known")
    import threading
    threading.Thread(target=master.get_server().serve_forever, daemon=True).start()
    open("serves", "w")
    due, have, n = 1, {}, 0
    while True:
        while n - due < 8 and not os.path.exists("stop"):
            n += 1
            asked.put(n)
        if due > n:
            break
        k, square = done.get()
        if k in have or square != k * k:
            print("twice or wrong", k, flush=True)
        have[k] = square
        while due in have:
            del have[due]
            print("count", due, flush=True)
            due += 1
    for _ in nodes[1:]:
        asked.put(None)
    time.sleep(1)
else:
    Master.register("asked")
    Master.register("done")
    while not os.path.exists("serves"):
        time.sleep(0.1)
    master = Master((nodes[0], 7000), b"known")
    master.connect()
    asked, done = master.asked(), master.done()
    while (k := asked.get()) is not None:
        time.sleep(0.01)
        done.put((k, k * k))
END
cat > cluster.py <<'END'
import asyncio, os, sys
import distributed
me, nodes = int(sys.argv[1]), sys.argv[2].split(",")
at = "tcp://%s:7000" % nodes[0]
def square(k):
    return k * k
async def master():
    async with distributed.Scheduler(host=nodes[0], port=7000, dashboard=False):
        async with distributed.Client(at, asynchronous=True) as client:
            await client.wait_for_workers(len(nodes) - 1)
            n = 0
            while not os.path.exists("stop"):
                for square_of in await client.gather(client.map(square, range(n + 1, n + 9), pure=False)):
                    n += 1
                    print("count" if square_of == n * n else "wrong", n, flush=True)
            await client.shutdown()
async def worker():
    async with distributed.Worker(at, host=nodes[me], nthreads=1, dashboard=False) as w:
        await w.finished()
asyncio.run(master() if me == 0 else worker())
END
cat > ring.c <<'END'
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static long block[4096];
int main(int argc, char **argv) {
	int me, all;
	struct timespec pause = {0, 5000000};
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	for (long n = 1; n > 0; n++) {
		if (me == 0) {
			if (access("stop", F_OK) == 0) n = -1;
			for (int i = 0; i < 4096; i++) block[i] = n + i;
			MPI_Send(block, 4096, MPI_LONG, 1, 0, MPI_COMM_WORLD);
		}
		MPI_Recv(block, 4096, MPI_LONG, (me + all - 1) % all, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < 4096; i++) if (block[i] != block[0] + i) printf("damaged at %ld\n", n);
		if (me != 0) {
			n = block[0];
			MPI_Send(block, 4096, MPI_LONG, (me + 1) % all, 0, MPI_COMM_WORLD);
		} else if (n > 0) {
			printf(block[0] == n ? "count %ld\n" : "wrong at %ld\n", n);
			fflush(stdout);
			nanosleep(&pause, 0);
		}
	}
	MPI_Finalize();
	return 0;
}
END
chown carol: ./*

as_carol() { setpriv --reuid carol --regid carol --init-groups env "HOME=$home" "$@"; }
counted() { awk '/^count/ { n = $2 } END { print n + 0 }' "$home/count.out"; }
counted_to() { [ "$(counted)" -ge "$1" ]; }
no_gap() { awk '$1 != "count" || $2 != ++n { print "line " NR ": " $0; exit 1 } END { if (n < 1) exit 1 }' "$home/count.out"; }

# other_nodes JOB ALL: as many nodes as the job has, of which one is another (ALL=0), or,
# as far as there are others, all.
other_nodes() {
	local now free
	now=$(gcontrol show hostnames "$(gqueue --noheader --states=R --jobs="$1" --format=%N)" | shuf)
	free=$(printf 'n%d\n' 1 2 3 4 5 6 | grep -vxF "$now" | shuf)
	local nodes
	nodes=$(echo "$now" | wc -l)
	if [ "$2" = 1 ]; then
		printf '%s\n' "$free" "$now" | sed -n "1,${nodes}p"
	else
		{ sed -n 1p <<< "$free"; sed -n "1,$((nodes - 1))p" <<< "$now"; }
	fi | sort | paste -sd,
}

# program NAME NODES COMMAND: runs and moves one of them.
program() {
	[[ $1 =~ ${ONLY:-.} ]] || return 0
	local job good=0 round to frozen=0 time answer
	rm -f stop serves count.out
	printf '#!/bin/bash\nnodes=$(gcontrol show hostnames "$SLURM_JOB_NODELIST" | paste -sd,)\n%s\n' "$3" > job.sh
	chown carol: job.sh
	job=$(as_carol "$binaries/gsubmit" --parsable --job-name="$1" --output=count.out --nodes="$2" --ntasks-per-node=1 --network=private --mem=400M --cpus-per-task=1 --time=unlimited job.sh)
	until_true 60 counted_to 20 || { echo "$1: it does not begin: $(tail -n 3 count.out)"; failures=1; gcancel "$job"; return; }
	for round in $(seq "$rounds"); do
		to=$(other_nodes "$job" $((round % 2)))
		tried=$((tried + 1))
		if answer=$(timeout 120 gcontrol migrate "$job" "$to" 2>&1); then
			good=$((good + 1))
			time=$(sed -n 's/.*frozen for about \([0-9.]*\) s.*/\1/p' <<< "$answer")
			frozen=$(awk -v a="$frozen" -v b="${time:-0}" 'BEGIN { print a + b }')
		else
			echo "   $1, round $round, to $to: $answer"
		fi
		if ! until_true 60 counted_to $(($(counted) + 20)); then
			echo "   $1 stands after round $round: $(tail -n 1 count.out)"
			failures=1
			break
		fi
	done
	moved=$((moved + good))
	touch stop
	until_true 60 state_is "$job" COMPLETED || true
	check "$1: $good of $rounds moves, frozen for $(awk -v a="$frozen" -v n="$good" 'BEGIN { printf "%.1f", n ? a / n : 0 }') s each; it counted to $(counted)" no_gap
	check "$1 ended by itself" state_is "$job" COMPLETED
	gcancel -Q "$job" || true
}

# shellcheck disable=SC2016
program ring 4 'exec grun -u bash -c "exec python3 -u ring.py \$SLURM_PROCID $nodes"'
# shellcheck disable=SC2016
program workers 3 'exec grun -u bash -c "exec python3 -u workers.py \$SLURM_PROCID $nodes"'
if /usr/bin/python3 -c 'import distributed' 2> /dev/null; then
	# shellcheck disable=SC2016
	program dask 3 'exec grun -u bash -c "exec /usr/bin/python3 -u cluster.py \$SLURM_PROCID $nodes 2> dask.\$SLURM_PROCID"'
fi
if command -v mpicc.mpich mpiexec.hydra > /dev/null; then
	mpicc.mpich -O1 -o ring.mpich ring.c
	program mpich 2 'exec mpiexec.hydra ./ring.mpich'
	program mpich6 2 'UCX_TCP_AF_PRIO=inet6 UCX_NET_DEVICES=gang0 exec mpiexec.hydra ./ring.mpich'
fi
if command -v mpicc.openmpi mpirun.openmpi > /dev/null; then
	mpicc.openmpi -O1 -o ring.openmpi ring.c
	program openmpi 2 'exec mpirun.openmpi --mca btl tcp,self ./ring.openmpi'
	program openmpi6 2 'exec mpirun.openmpi --mca btl tcp,self --mca btl_tcp_disable_family 4 ./ring.openmpi'
fi
echo "$moved of $tried moves"
[ $((moved * 100)) -ge $((tried * 99)) ] || failures=1
