package shim

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Without a filter that the kernel takes there is no container, and nothing
// of the job has run.
func TestNoFilterNoJob(t *testing.T) {
	b := newBed(t)
	path := filepath.Join(b.state, bundle.FilterFile)
	good, err := os.ReadFile(path)
	must(t, err)
	filter, err := pid1.DecodeFilter(good)
	must(t, err)
	// A program has to end in a return.
	filter.Program = filter.Program[:1]
	for _, c := range []struct {
		name, detail string
		content      []byte
	}{
		{"none", "syscalls.bpf: no such file", nil},
		{"an empty one", "empty", []byte{}},
		{"flags without a program", "empty", good[:4]},
		{"half an instruction", "which is no program", good[:len(good)-3]},
		{"one that is too long", "which is no program", append(good[:4:4], make([]byte, 8*5000)...)},
		{"one that the kernel refuses", "invalid argument", filter.Encode()},
	} {
		must(t, os.WriteFile(path, c.content, 0o600))
		if c.content == nil {
			must(t, os.Remove(path))
		}
		result := b.launch(b.order("touch $HOME/ran")).wait()
		if result.Cause != pb.EndCause_END_CAUSE_NODE_FAULT || !strings.Contains(result.Detail, c.detail) {
			t.Errorf("%s: ended %v %s", c.name, result.Cause, result.Detail)
		}
		if _, err := os.Lstat(filepath.Join(b.home, "ran")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the script ran: %v", c.name, err)
		}
	}
}

// A process 1 that does not install the filter may not continue, whatever it
// says.
func TestProcess1WithoutFilter(t *testing.T) {
	b := newBed(t)
	b.settings.InitPath = filepath.Join(b.dir, "careless")
	must(t, os.WriteFile(b.settings.InitPath, []byte("#!/bin/sh\nprintf '\\001' >&3; exec 3>&-; sleep 60\n"), 0o755))
	result := b.launch(b.order("true")).wait()
	if result.Cause != pb.EndCause_END_CAUSE_NODE_FAULT || !strings.Contains(result.Detail, container.ErrNoFilter.Error()) {
		t.Errorf("ended %v %s", result.Cause, result.Detail)
	}
}

// Every process of a job has the filter, on each of its threads.
func TestFilterEverywhere(t *testing.T) {
	b := newBed(t)
	_, out := b.run(`(setsid sh -c 'sleep 30 & wait' &) ; sleep 0.2; cat /proc/[0-9]*/task/[0-9]*/status | grep -c ^Name:; cat /proc/[0-9]*/task/[0-9]*/status | grep '^Seccomp' | sort | uniq -c`)
	said := strings.Fields(out)
	if len(said) != 7 || said[2] != "Seccomp:" || said[3] != "2" || said[5] != "Seccomp_filters:" || said[6] != "1" || said[1] != said[4] {
		t.Errorf("output %q", out)
	}
	if said[0] == "1" {
		t.Errorf("only one thread was seen: %q", out)
	}
}

// The filter is what libcontainer would have put on.
func TestFilterRefuses(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil || runtime.GOARCH != "amd64" {
		t.Skip("needs python3 and amd64: makes system calls by their numbers")
	}
	b := newBed(t)
	_, out := b.run(`unshare -U true 2>&1; python3 -c 'import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for name, number in (("bpf", 321), ("keyctl", 250), ("kexec_load", 246), ("a number nobody has", 3000), ("getpid", 39)):
    ctypes.set_errno(0)
    libc.syscall(number, -1, 0, 0, 0, 0, 0)
    print(name, ctypes.get_errno())'`)
	for _, want := range []string{"unshare: unshare failed: Operation not permitted", "bpf 1", "keyctl 1", "kexec_load 1", "a number nobody has 38", "getpid 0"} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("%q is missing in %q", want, out)
		}
	}
	order := b.order("unshare --user --map-root-user id -u; unshare --user --net true 2>&1")
	order.NestedContainers = true
	if _, out := b.runOrder(order); out != "0\nunshare: unshare failed: Operation not permitted\n" {
		t.Errorf("a job that may make containers says %q", out)
	}
}
