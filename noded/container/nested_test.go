package container

import (
	"os/exec"
	"strings"
	"testing"
)

func TestTry(t *testing.T) {
	b := newBed(t)
	_ = exec.Command
	s := b.start()
	s.must(order{Do: "start", Nested: true, Script: `#!/bin/bash
exec 2>&1
set -x
id; cat /proc/self/status | grep -E 'NoNew|Cap|Secc'; cat /proc/self/uid_map
bwrap --ro-bind / / --proc /proc --dev /dev --tmpfs /tmp --unshare-pid --unshare-user --uid 0 --gid 0 bash -c 'id; ls /proc | head -3; cat /proc/self/status | grep Cap; mount | head -5; echo x > /proc/sys/kernel/core_pattern; ls -ld /etc/shadow; cat /etc/shadow | head -1; touch /usr/x'
bwrap --ro-bind / / --unshare-all --share-net true; echo all-sharenet $?
bwrap --ro-bind / / --unshare-net true; echo net $?
unshare -Urmp --fork --mount-proc bash -c 'id; mkdir -p /tmp/a; mount -t tmpfs t /tmp/a && echo tmpfs; mount -t sysfs s /tmp/a && echo sysfs; mkdir -p /tmp/o/{u,w,m}; mount -t overlay o -o lowerdir=/usr,upperdir=/tmp/o/u,workdir=/tmp/o/w /tmp/o/m && echo overlay; umount /proc/kcore; mount -t cgroup -o memory c /tmp/a && ls -la /tmp/a | head -5; mount -t cgroup2 c /tmp/a && ls -la /tmp/a | head -5; mount -t debugfs d /tmp/a; mount -t devpts d /tmp/a && echo devpts; mknod /tmp/x c 1 3; mount -t mqueue d /tmp/a && echo mqueue; mount -t ext4 /dev/zero /tmp/a; mount --bind / /tmp/a && echo bind; mount -o remount,rw /sys && echo sysrw; mount -o remount,bind,rw /sys && echo sysrw; hostname foo && echo hostname'
unshare -UrmC bash -c 'mkdir -p /tmp/c; for t in memory devices freezer pids; do mount -t cgroup -o $t c /tmp/c && { ls -la /tmp/c | head -4; cat /tmp/c/cgroup.procs | head -3; echo 0 > /tmp/c/cgroup.procs; mkdir /tmp/c/sub; umount /tmp/c; }; done;  mount -t cgroup2 c /tmp/c && ls -la /tmp/c | head -5'
echo done
`})
	eventually(t, "done", func() bool { return strings.HasSuffix(b.read(), "\ndone\n") })
	t.Log(b.read())
	s.must(order{Do: "end"})
}
