#!/usr/bin/env bash
# A week of a Slurm user: everything is typed with Slurm's names, by an ordinary
# user, on a one-machine cluster of two nodes. What each command prints is compared
# with what Slurm prints, line by line. Exits 0 only if all of it is that.
set -euo pipefail

# shellcheck source=contrib/demo-lib.sh
. "$(dirname "$0")/demo-lib.sh"
in_own_mounts "$@"
begin demo-people
add_users ada

# typed COMMAND: in ada's shell, shown as she sees it.
typed() {
	printf '   $ %s\n' "$1"
	as_user ada bash -c "$1" > "$work/said" 2>&1 < "${input:-/dev/null}" || printf 'exit status %d\n' $? >> "$work/said"
	tr -d '\r' < "$work/said" | sed 's/[[:blank:]]*$//' > "$work/printed"
	sed 's/^/   /' "$work/printed"
}

# prints WHAT: the lines printed last match those on standard input, one by one; *
# stands for what cannot be known before.
prints() {
	local expected line right=yes
	exec 3< "$work/printed"
	while IFS= read -r expected; do
		# shellcheck disable=SC2053
		IFS= read -r line <&3 && [[ $line == $expected ]] || { right=; break; }
	done
	! IFS= read -r line <&3 || right=
	exec 3<&-
	check "$1" test -n "$right"
}

# number: the job's, in what was printed last.
number() { grep -o '[0-9]*$' "$work/printed" | head -n 1; }

over() { [ -z "$(squeue --noheader --jobs="$1" --format=%i)" ]; }
wait_for() { until_true 60 over "$1" || fail "job $1 does not end: $(scontrol show job "$1")"; }

# in_history JOB: sacct knows how it ended. The database is told a moment after.
in_history() { sacct --noheader --allocations --jobs="$1" --format=State | grep -q -v -e PENDING -e RUNNING; }

step "starting a cluster of two nodes in $directory"
start_cluster --nodes 2 --gpus-per-node 2 --cpus-per-node 4
export PATH=$binaries/slurm:$PATH
sacctmgr -iQ add account physics
sacctmgr -iQ add user ada account=physics
home=$directory/home/ada

step "Monday: a look around, and a script with #SBATCH lines"
typed 'sinfo'
prints "sinfo: the partition, and a line for each state of nodes" <<'END'
PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
main[*]        up   infinite      2   idle n[[]1-2]
END
cat > "$home/train.sh" <<'END'
#!/bin/bash
#SBATCH --job-name=train
#SBATCH --output=%x-%j.out
#SBATCH --ntasks=1 --cpus-per-task=2
#SBATCH --mem=100M --time=00:10:00
#SBATCH --gres=gpu:1
#SBATCH --mail-type=END,FAIL
echo "$SLURM_JOB_NAME on $SLURM_JOB_NODELIST with $SLURM_CPUS_PER_TASK CPUs, GPU $CUDA_VISIBLE_DEVICES, account $SLURM_JOB_ACCOUNT"
srun sleep 2
END
typed 'sbatch train.sh 2>/dev/null'
train=$(number)
prints "sbatch: the number of the job" <<< "Submitted batch job $train"
runs() { [ "$(squeue --noheader --jobs="$train" --format=%T)" = RUNNING ]; }
until_true 60 runs || true
typed 'squeue'
prints "squeue: its line" <<END
             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
                 $train      main    train      ada  R       0:0?      1 n1
END
wait_for "$train"
typed "cat train-$train.out"
prints "its output is where it should be" <<< "train on n1 with 2 CPUs, GPU 0, account physics"

step "Tuesday: an interactive session, srun --pty"
printf 'echo "in job" "$SLURM_JOB_NAME, step $SLURM_STEP_ID"; test -t 0 && echo "a terminal"\nexit 3\n' > "$directory/keys"
chmod 644 "$directory/keys"
# script gives it a terminal, and hands on its exit status.
input=$directory/keys typed "script -qec 'srun -n1 --job-name=look --pty bash --norc -i' /dev/null | grep -ao -e 'in job look.*' -e '^a terminal' -e '^srun: error.*'"
prints "srun --pty: a shell on a terminal, in a job of its own" <<'END'
in job look, step 0
a terminal
srun: error: n1: task 0: Exited with exit code 3
END

step "Wednesday: two nodes by salloc, and steps on both"
typed 'salloc -N2 -t 5 bash -c '\''srun -l hostname; scontrol show hostnames $SLURM_JOB_NODELIST; echo $SLURM_NNODES nodes'\'' | sort'
allocation=$(sed -n 's/^salloc: Granted job allocation //p' "$work/printed")
sort -o "$work/printed" "$work/printed"
prints "salloc: the nodes, what ran on them, and that they were given back" <<END
0: n1
1: n2
2 nodes
n1
n2
salloc: Granted job allocation $allocation
salloc: Nodes n[[]1-2] are ready for job
salloc: Relinquishing job allocation $allocation
END

step "Thursday: training on two nodes: the tasks find each other by MASTER_ADDR and MASTER_PORT"
cat > "$home/meet.py" <<'END'
import os, socket, time

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:  # takes a number of everyone, and tells everyone the sum
    server = socket.create_server(("", place[1]))
    others = [server.accept()[0] for _ in range(world - 1)]
    total = sum(int(c.makefile().readline()) for c in others)
    for c in others:
        c.sendall(b"%d\n" % total)
else:
    for attempt in range(100):
        try:
            c = socket.create_connection(place)
            break
        except OSError:
            time.sleep(0.1)
    c.sendall(b"%d\n" % (10 ** rank))
    total = int(c.makefile().readline())
print(f"rank {rank} of {world}, local rank {os.environ['LOCAL_RANK']}, on {os.environ['SLURMD_NODENAME']}: the sum is {total}")
END
cat > "$home/meet.sh" <<'END'
#!/bin/bash
#SBATCH -J meet -N2 --ntasks-per-node=2 --gpus-per-node=2 -t 5 -o meet.out
srun python3 meet.py
END
typed 'sbatch --parsable meet.sh'
meet=$(number)
wait_for "$meet"
typed 'sort meet.out'
prints "four tasks on two nodes met" <<'END'
rank 0 of 4, local rank 0, on n1: the sum is 1110
rank 1 of 4, local rank 1, on n1: the sum is 1110
rank 2 of 4, local rank 0, on n2: the sum is 1110
rank 3 of 4, local rank 1, on n2: the sum is 1110
END

step "Friday: an array, and a job that waits for all of it"
typed 'a=$(sbatch --parsable --hold -J part -a 1-3%2 -o part.%a --wrap '\''echo $((SLURM_ARRAY_TASK_ID * 7))'\''); echo $a; sbatch --parsable -J whole -d afterok:$a -o whole --wrap "cat part.* | paste -sd+ | bc || cat part.* | paste -sd+"'
array=$(head -n 1 "$work/printed") whole=$(tail -n 1 "$work/printed")
typed 'squeue -S i -o "%.12i %.6j %.2t %R %E"'
prints "squeue: the array is a line, and the other waits for it" <<END
       JOBID   NAME ST NODELIST(REASON) DEPENDENCY
*${array}_[[]1-3%2]   part PD (JobHeldUser) (null)
* $whole  whole PD (Dependency) afterok:${array}_[*](unfulfilled)
END
typed "scontrol release $array"
prints "scontrol release: silent" < /dev/null
wait_for "$whole"
typed 'cat part.1 part.2 part.3; cat whole | tail -n 1'
prints "the array's tasks ran, and the other behind them" <<'END'
7
14
21
*
END
typed "sbatch -Q -J endless --wrap 'sleep 600'; squeue -h -n endless -o %j"
prints "it is there" <<< endless
typed "scancel -n endless"
prints "scancel: silent" < /dev/null
endless=$(sacct --noheader --allocations --allusers --name=endless --format=JobID | tr -d ' ')
wait_for "$endless"

step "the week in sacct, and what a job used in seff"
for job in "$train" "$whole" "$endless"; do until_true 30 in_history "$job" || fail "history does not know the end of job $job"; done
typed "sacct -X -j $train,$meet,$array,$whole,$endless -o jobid%-8,jobname,account,alloccpus,state%-20,exitcode | awk 'NR < 3 { print; next } { print | \"sort\" }'"
prints "sacct: the jobs of the week, and how they ended" <<END
JobID       JobName    Account  AllocCPUS State                ExitCode
-------- ---------- ---------- ---------- -------------------- --------
$train        *train    physics          2 COMPLETED                 0:0
$meet        * meet    physics          4 COMPLETED                 0:0
${array}_1      *part    physics          1 COMPLETED                 0:0
${array}_2      *part    physics          1 COMPLETED                 0:0
${array}_3      *part    physics          1 COMPLETED                 0:0
$whole        *whole    physics          1 COMPLETED                 0:0
$endless        *endless    physics          * CANCELLED by * 0:0
END
typed "seff $train | head -n 5"
prints "seff: the job, its user and its end" <<END
Job ID: $train
Cluster: gleaner
User/Group: ada/ada
State: COMPLETED (exit code 0)
Cores: 2
END

step "ending the cluster"
