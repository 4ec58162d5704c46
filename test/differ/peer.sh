#!/usr/bin/env bash
# Slurm as one host sees it: slurmctld, four slurmd and, where the folder has them,
# slurmdbd and MariaDB, over a folder that holds an installed Slurm and is not changed.
#
#   peer.sh FOLDER DIRECTORY USER COMMAND...
#
# runs COMMAND inside as root, with DIRECTORY at its own path, and ends with it. All
# of it lives in namespaces of its own: what was started ends with them, by the
# kernel's hand, and no port or mount is seen outside.
set -euo pipefail
[ "$$" = 1 ] || exec unshare --mount --net --uts --ipc --pid --fork --kill-child --propagation private "$BASH" "$0" "$@"
packages=$1 directory=$2 user=$3
shift 3
root=$directory/slurm/root
mkdir -p "$root" "$directory/slurm/upper" "$directory/slurm/work"
mount -t overlay overlay -o "lowerdir=$packages,upperdir=$directory/slurm/upper,workdir=$directory/slurm/work" "$root"
mount -t proc proc /proc
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/dev"
mount -t tmpfs tmpfs "$root/run"
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 gpu0:1:3 gpu1:1:3; do
	IFS=: read -r name major minor <<< "$device"
	mknod -m 666 "$root/dev/$name" c "$major" "$minor"
done
mkdir -p "$root/dev/shm" "$root/dev/pts" "$root$directory"
chmod 1777 "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount --bind "$directory" "$root$directory"
hostname peer
ip link set lo up
# getaddrinfo takes a machine whose one address is 127.0.0.1 for one without a network.
ip address add 127.0.0.2/8 dev lo
# Name services may look where their sockets are not: files alone have the users.
printf 'passwd: files\ngroup: files\nhosts: files\n' > "$root/etc/nsswitch.conf"
cp "$packages/etc/passwd" "$packages/etc/group" "$root/etc/"
echo "$user:x:40000:40000::/:/bin/bash" >> "$root/etc/passwd"
echo "$user:x:40000:" >> "$root/etc/group"
echo '127.0.0.1 localhost peer n1 n2 n3 n4' > "$root/etc/hosts"

inside() { chroot "$root" "$@"; }

# until_true SECONDS COMMAND...
until_true() {
	local tries=$(($1 * 10))
	shift
	until "$@" > /dev/null 2>&1; do
		[ $((tries -= 1)) -gt 0 ] || { echo "peer.sh: this did not become true: $*"; tail -n 5 "$directory"/slurm/*.log "$root"/var/log/slurm/*.log; exit 1; } >&2
		sleep 0.1
	done
}

mkdir -p "$root/etc/slurm" "$root/var/spool/slurmctld" "$root/var/log/slurm"
head -c 1024 /dev/urandom > "$root/etc/slurm/slurm.key"
chmod 600 "$root/etc/slurm/slurm.key"
echo 'CgroupPlugin=disabled' > "$root/etc/slurm/cgroup.conf"
echo 'NodeName=n[1-4] Name=gpu File=/dev/gpu[0-1]' > "$root/etc/slurm/gres.conf"
accounting=none
[ -x "$root/usr/sbin/slurmdbd" ] && [ -x "$root/usr/sbin/mariadbd" ] && accounting=slurmdbd
cat > "$root/etc/slurm/slurm.conf" <<END
ClusterName=gleaner
SlurmctldHost=peer(127.0.0.1)
SlurmUser=root
AuthType=auth/slurm
CredType=cred/slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd.%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.%n.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.%n.log
SlurmctldDebug=error
SlurmdDebug=error
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
AccountingStorageType=accounting_storage/$accounting
PriorityType=priority/multifactor
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1,bf_interval=1,defer_batch=no
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=$MEMORY_PER_CPU
KillWait=2
FirstJobId=$FIRST_JOB
MaxArraySize=100001
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=n[1-4] NodeHostname=peer NodeAddr=127.0.0.1 Port=[17001-17004] CPUs=4 RealMemory=$MEMORY Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
if [ "$accounting" = slurmdbd ]; then
	cat >> "$root/etc/slurm/slurm.conf" <<-END
		AccountingStorageHost=localhost
		AccountingStorageTRES=gres/gpu
	END
	cat > "$root/etc/slurm/slurmdbd.conf" <<-END
		AuthType=auth/slurm
		DbdHost=localhost
		SlurmUser=root
		PidFile=/run/slurmdbd.pid
		LogFile=/var/log/slurm/slurmdbd.log
		StorageType=accounting_storage/mysql
		StorageUser=root
		StorageLoc=slurm
	END
	chmod 600 "$root/etc/slurm/slurmdbd.conf"
	mkdir -p "$root/run/mysqld"
	inside chown mysql: /run/mysqld
	inside mariadbd --user=mysql --skip-networking > "$directory/slurm/mariadb.log" 2>&1 &
	until_true 60 inside test -S /run/mysqld/mysqld.sock
	inside slurmdbd -D > "$directory/slurm/slurmdbd.log" 2>&1 &
	until_true 60 inside sacctmgr -n show cluster
	inside sacctmgr -iQ add cluster gleaner > /dev/null
fi


[ -L "$root/usr/sbin/slurmstepd" ] || ln -s slurmstepd-wlm "$root/usr/sbin/slurmstepd"
inside slurmctld-wlm -D > "$directory/slurm/slurmctld.log" 2>&1 &
until_true 60 inside scontrol ping
for node in n1 n2 n3 n4; do
	mkdir -p "$root/var/spool/slurmd.$node"
	inside slurmd-wlm -D -N "$node" > "$directory/slurm/slurmd.$node.log" 2>&1 &
done
all_idle() { [ "$(inside sinfo -h -t idle -o %D)" = 4 ]; }
until_true 60 all_idle
inside "$@"
