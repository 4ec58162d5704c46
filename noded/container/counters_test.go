package container

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// takeCounters is a program that takes what the kernel counts for each user until
// there is no more, at most as many as its arguments say, and tells how much it got.
const takeCounters = `
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def take(most, one):
    n = 0
    while n < most and one(n) >= 0: n += 1
    return n
timer = ctypes.c_void_p()
got = [take(int(sys.argv[1]), lambda n: libc.inotify_init1(0)),
       take(int(sys.argv[2]), lambda n: libc.mq_open(b"/gleaner-test-%d-%d" % (os.getpid(), n), os.O_CREAT | os.O_RDWR, 0o600, None)),
       take(int(sys.argv[3]), lambda n: libc.timer_create(1, None, ctypes.byref(timer))),
       take(int(sys.argv[4]), lambda n: libc.posix_openpt(os.O_RDWR | os.O_NOCTTY))]
for n in range(got[1]): libc.mq_unlink(b"/gleaner-test-%d-%d" % (os.getpid(), n))
print(*got, flush=True)
`

// python is one that every user may run.
const python = "/usr/bin/python3"

// takeHere runs the program on the host, as this user or another.
func takeHere(t *testing.T, uid uint32, most ...string) string {
	t.Helper()
	cmd := exec.Command(python, append([]string{"-c", takeCounters}, most...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("take counters: %v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// What one job takes of the kernel's counters is taken from nobody else: not from
// root, not from another user, not from a job beside it. That holds after a move,
// when CRIU has made the user namespace.
func TestCountersAreTheJobs(t *testing.T) {
	b := newBed(t)
	if _, err := exec.LookPath(python); err != nil {
		t.Skip("needs python3 in /usr/bin: it takes the counters")
	}
	script := func(most string) string {
		return "#!/bin/bash\n" + python + " -c '" + takeCounters + "\ntime.sleep(600)' " + most + "\n"
	}
	const enough = "20 2 1000 20"
	enoughIs := func(who, got string) {
		t.Helper()
		if got != enough {
			t.Errorf("%s gets %q, want %q", who, got, enough)
		}
	}
	s := b.start()
	s.must(order{Do: "start", Script: script("100000 100000 1000000 100000")})
	eventually(t, "it has taken all", func() bool { return strings.HasSuffix(b.read(), "\n") })
	var got [4]int
	if _, err := fmt.Sscan(b.read(), &got[0], &got[1], &got[2], &got[3]); err != nil || got[0] == 0 || got[1] == 0 || got[2] == 0 {
		t.Errorf("the job took %q, %v", b.read(), err)
	}
	if got[3] > mostPtys {
		t.Errorf("the job opened %d terminals, want at most %d", got[3], mostPtys)
	}
	others := func() {
		t.Helper()
		enoughIs("root", takeHere(t, 0, strings.Fields(enough)...))
		enoughIs("another user", takeHere(t, testUID+1, strings.Fields(enough)...))
		must(t, os.Truncate(b.output(), 0))
		beside := b.start()
		beside.must(order{Do: "start", Script: script(enough)})
		eventually(t, "the one beside it has what it wants", func() bool { return strings.HasSuffix(b.read(), "\n") })
		enoughIs("a job beside it", strings.TrimSpace(strings.Trim(b.read(), "\x00")))
		beside.must(order{Do: "end"})
	}
	others()
	s.must(order{Do: "end"})

	// One that has moved takes as much, and from nobody either.
	must(t, os.Truncate(b.output(), 0))
	s = b.start()
	s.must(order{Do: "start", Script: "#!/bin/bash\n: > begun\nwhile [ ! -e go ]; do sleep 0.5; done\n" + strings.TrimPrefix(script("100000 100000 1000000 100000"), "#!/bin/bash\n")})
	// While process 1 makes the script, with vfork, the freezer and CRIU would wait for
	// each other; a supervisor looks for that before it saves.
	eventually(t, "its script runs", func() bool { _, err := os.Stat(filepath.Join(b.home(), "begun")); return err == nil })
	s = s.move()
	must(t, os.WriteFile(filepath.Join(b.home(), "go"), nil, 0o644))
	eventually(t, "it has taken all", func() bool { return strings.HasSuffix(b.read(), "\n") })
	if _, err := fmt.Sscan(b.read(), &got[0], &got[1], &got[2], &got[3]); err != nil || got[0] == 0 || got[1] == 0 || got[2] == 0 || got[3] > mostPtys {
		t.Errorf("the job that moved took %q, %v", b.read(), err)
	}
	others()
	// What bounds it inside is there from the first instruction.
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", s.pid))
	must(t, err)
	defer ns.Close()
	text, err := exec.Command("nsenter", fmt.Sprintf("--user=/proc/%d/ns/user", s.pid), "cat", "/proc/sys/user/max_inotify_instances", "/proc/sys/user/max_user_namespaces").Output()
	var instances, namespaces int
	if _, scanErr := fmt.Sscan(string(text), &instances, &namespaces); err != nil || scanErr != nil || instances < got[0] || instances > 1024 || namespaces != 0 {
		t.Errorf("the restored job's bounds are %q, %v", text, err)
	}
	s.must(order{Do: "end"})
}

// Nobody owns a job's user namespace who could log in: its owner is root in it.
func TestNamespaceOwner(t *testing.T) {
	b := newBed(t)
	s := b.start()
	s.must(order{Do: "start", Script: "#!/bin/bash\nsleep 600\n"})
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", s.pid))
	must(t, err)
	defer ns.Close()
	owner, err := unix.IoctlGetUint32(int(ns.Fd()), unix.NS_GET_OWNER_UID)
	if err != nil || owner < ownerBase || owner >= ownerBase+owners {
		t.Errorf("its owner is %d, %v", owner, err)
	}
	enter := exec.Command("nsenter", fmt.Sprintf("--user=/proc/%d/ns/user", s.pid), "true")
	enter.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUID, Gid: testUID}}
	if out, err := enter.CombinedOutput(); err == nil {
		t.Errorf("the job's user went into its user namespace: %s", out)
	}
	s.must(order{Do: "end"})
}
