package container

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// attackNested is what root of a container inside a job tries against everything
// outside of it. It prints what has worked.
const attackNested = `#!/usr/bin/env python3
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    if libc.syscall(*arguments) < 0: raise OSError(ctypes.get_errno(), "")
def mount(source, target, kind, flags=0, data=None):
    if libc.mount(*(text and text.encode() for text in (source, target, kind)), flags, data and data.encode()) < 0: raise OSError(ctypes.get_errno(), "")
def write(path, text="0"):
    fd = os.open(path, os.O_WRONLY); os.write(fd, text.encode())
def attempt(name, what, *arguments):
    try: what(*arguments)
    except (OSError, KeyError, IndexError): return
    print("BROKEN", name, flush=True)
status = open("/proc/self/status").read()
assert "NoNewPrivs:\t1" in status and os.getuid() == 0 and "CapEff:\t0000000000000000" not in status, status
there = "/tmp/there"
os.makedirs(there, exist_ok=True)
mount("t", there, "tmpfs")
print("mounted", flush=True)

# Devices, also by files of its own, and in a file system of its own.
for device in sys.argv[1:]:
    os.stat(device)
    attempt("device " + device, os.open, device, os.O_RDWR)
for number in ((1, 1), (7, 0), (10, 200), (195, 0)):
    attempt("mknod %d:%d" % number, os.mknod, there + "/device", 0o20666, os.makedev(*number))
attempt("a disk", mount, "/dev/vda", there, "ext4")
# The host's files, and root's in the job's own root.
for path in ("/etc/shadow", "/etc/sudoers", "/root/x", "/proc/kcore"): attempt("read " + path, os.open, path, os.O_RDONLY)
for path in ("/etc/passwd", "/usr/bin/env", "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches",
             "/proc/irq/default_smp_affinity", "/sys/kernel/uevent_helper", "/sys/power/state", "/proc/bus/pci/00/00.0"):
    attempt("write " + path, write, path)
attempt("chown to root", os.chown, "/etc/passwd", 0, 0)
attempt("another's id", os.setuid, 1000)
attempt("another's group", os.setgroups, [0, 6])
attempt("read only /sys", mount, None, "/sys", None, 32 | 4096)
# Namespaces and processes outside.
for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
    attempt("setns " + kind, lambda: call(308, os.open("/proc/1/ns/" + kind, os.O_RDONLY), 0))
for flag, kind in ((0x40000000, "network"), (0x80, "time")):
    attempt("new " + kind, call, 272, flag)
attempt("host name", socket.sethostname, "other")
# Kernel file systems. A control group is seen, at most, and not written.
for kind in ("sysfs", "debugfs", "tracefs", "securityfs", "configfs", "bpf", "pstore", "efivarfs", "fuse", "ext4", "btrfs", "nfs"):
    attempt("mount " + kind, mount, "x", there, kind, 0, "fd=0,rootmode=40000,user_id=0,group_id=0" if kind == "fuse" else None)
call(272, 0x02000000)  # a namespace of control groups
for kind, data in (("cgroup", "memory"), ("cgroup", "devices"), ("cgroup", "freezer"), ("cgroup", "pids"), ("cgroup", "cpuset"), ("cgroup2", None)):
    try: mount("c", there, kind, 0, data)
    except OSError: continue
    print("group", kind, flush=True)
    for name in ("cgroup.procs", "tasks", "memory.limit_in_bytes", "memory.max", "devices.allow", "freezer.state", "pids.max", "cgroup.kill", "cgroup.freeze", "cgroup.subtree_control", "release_agent", "notify_on_release", "cpuset.cpus"):
        attempt(kind + "/" + name, write, there + "/" + name)
    attempt(kind + ": a group inside", os.mkdir, there + "/sub")
    libc.umount2(there.encode(), 2)
# Calls with which the kernel was broken before.
for name, number in (("bpf", 321), ("perf_event_open", 298), ("userfaultfd", 323), ("io_uring_setup", 425), ("keyctl", 250), ("add_key", 248), ("request_key", 249),
                     ("init_module", 175), ("finit_module", 313), ("kexec_load", 246), ("open_by_handle_at", 304), ("fsopen", 430), ("fsconfig", 431), ("fsmount", 432),
                     ("open_tree", 428), ("move_mount", 429), ("mount_setattr", 442), ("clone3", 435), ("reboot", 169), ("swapon", 167), ("syslog", 103), ("settimeofday", 164),
                     ("quotactl", 179), ("acct", 163), ("iopl", 172), ("fanotify_init", 300)):
    ctypes.set_errno(0)
    libc.syscall(number, 0, 0, 0, 0, 0, 0)
    if ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS): print("BROKEN call", name, ctypes.get_errno(), flush=True)
print("attacked", flush=True)
`

// A job that may makes containers, with bubblewrap too; root in them reaches nothing of the
// host, of other jobs or of the job's own control group. While one runs, the job is
// not saved, and says why. Afterwards it is; and where it resumes it makes containers
// only if it may there.
func TestNested(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil || runtime.GOARCH != "amd64" {
		t.Skip("needs python3 and amd64: makes system calls by their numbers")
	}
	b := newBed(t)
	must(t, os.WriteFile(filepath.Join(b.home(), "attack"), []byte(attackNested), 0o755))
	other := filepath.Join(b.home(), "gpu1")
	must(t, unix.Mknod(other, unix.S_IFCHR|0o666, int(unix.Mkdev(7, 1))))
	must(t, os.Chmod(other, 0o666))
	s := b.start()
	s.must(order{Do: "start", Nested: true, Script: `#!/bin/bash
exec 2>&1
unshare --user --map-root-user --mount --pid --fork --mount-proc bash -c "$HOME/attack ` + other + `"
if [ -e /usr/bin/bwrap ]; then
    bwrap --ro-bind / / --proc /proc --dev /dev --tmpfs /tmp --unshare-all --share-net bash -c 'ls -d /proc/[0-9]* | wc -l; id -u; touch /usr/x' || echo bwrap $?
    bwrap --ro-bind / / --unshare-net true || echo no network
fi
echo inside
unshare --user --map-root-user --pid --fork sleep 600
echo outside
for move in 1 2; do
    while [ ! -e $HOME/resumed$move ]; do sleep 0.1; done
    unshare --user true && echo made || echo refused
done
echo end
sleep 600
`})
	eventually(t, "it has attacked", func() bool { return strings.Contains(b.read(), "inside\n") })
	said := b.read()
	if strings.Contains(said, "BROKEN") || !strings.Contains(said, "mounted\n") || !strings.Contains(said, "group cgroup") || !strings.Contains(said, "attacked\n") {
		t.Errorf("the attack says:\n%s", said)
	}
	if _, err := os.Stat("/usr/bin/bwrap"); err != nil {
		t.Log("bubblewrap is not tried: apt-get install bubblewrap")
	} else if !strings.Contains(said, "4242\ntouch: ") || !strings.Contains(said, "no network\n") {
		t.Errorf("bubblewrap says:\n%s", said)
	}

	inside := func() int {
		n := 0
		for _, reason := range s.must(order{Do: "reasons"}).Reasons {
			if strings.Contains(reason, "a user namespace of its own") {
				n++
			}
		}
		return n
	}
	eventually(t, "the container inside is an obstacle", func() bool { return inside() > 0 })
	s.must(order{Do: "freeze"})
	if r := s.do(order{Do: "save", Image: b.image("nested")}); !isAny(r, "obstacles") || !strings.Contains(r.Error, ") runs in a container that the job has made") {
		t.Errorf("a save says %q", r.Error)
	}
	s.must(order{Do: "thaw"})
	s.killNested()
	eventually(t, "the container inside has ended", func() bool { return strings.HasSuffix(b.read(), "outside\n") })
	if n := inside(); n != 0 {
		t.Errorf("%d obstacles afterwards", n)
	}
	for number, allowed := range []bool{true, false} {
		image, _ := s.save()
		s.must(order{Do: "end"})
		s = b.start()
		s.must(order{Do: "restore", Image: image, Nested: allowed})
		must(t, os.WriteFile(filepath.Join(b.home(), fmt.Sprint("resumed", number+1)), nil, 0o644))
		eventually(t, "it has resumed", func() bool { return strings.HasSuffix(b.read(), []string{"made\n", "end\n"}[number]) })
	}
	if !strings.HasSuffix(b.read(), "made\nunshare: unshare failed: No space left on device\nrefused\nend\n") {
		t.Errorf("it says %s", b.read())
	}
	s.must(order{Do: "end"})
}

// killNested ends what runs in user namespaces other than that of the job.
func (s *supervisor) killNested() {
	s.b.t.Helper()
	own, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(s.pid), "ns/user"))
	must(s.b.t, err)
	pids, err := s.group().Procs()
	must(s.b.t, err)
	for _, pid := range pids {
		if users, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns/user")); err == nil && users != own {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// Root's jobs make no containers, whatever is allowed: what /proc shows belongs to them.
func TestRootDoesNotNest(t *testing.T) {
	for uid, want := range map[uint32]bool{0: false, testUID: true} {
		spec := Spec{Nested: true, User: User{UID: uid}}
		if spec.Nests() != want {
			t.Errorf("uid %d: %v", uid, !want)
		}
	}
	if spec := (Spec{User: User{UID: testUID}}); spec.Nests() {
		t.Error("it nests without leave")
	}
}
