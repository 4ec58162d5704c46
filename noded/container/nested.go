package container

import (
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// A job may make containers of its own (bubblewrap, Apptainer) where the site or the
// owner of the node allows it. Such a container is a user namespace in which the job's
// user has all capabilities, and nothing else has changed: no_new_privs, the device rules
// and the control group are those of the job, and no id is there but the job's own.
//
// Three things keep other jobs from that, and differ here: the counters of the job's user
// namespace allow others in it, the filter lets through what makes them, and
// nothing covers a part of /proc, because the kernel allows a new /proc only where the
// whole of one is seen. What is covered otherwise is open to reading by every user of the
// host, and to writing only by root.

// nestedWord follows filterWord for the filter of jobs that nest.
const nestedWord = "nested"

// mostNested is how many namespaces of each kind such a job may have.
const mostNested = 256

// Nests says whether the job may make containers of its own. Root's may not: /proc would
// be open to it, without any capability, because the files belong to it.
func (s *Spec) Nests() bool { return s.Nested && s.User.UID != 0 }

func ofProc(path string) bool { return within(path, "/proc") }

// nestedCalls are the system calls that make a container, in addition to Docker's
// default. They need a capability over the namespace that they change, which nobody has
// outside of a user namespace of the job's. Networks cannot be made: what the kernel does
// for the administrator of one (packet filters, traffic control) is where its
// holes were. clone3 stays refused with ENOSYS, because a filter cannot see its
// flags, and programs take clone then.
func nestedCalls() []specs.LinuxSyscall {
	allow := func(names []string, args ...specs.LinuxSeccompArg) specs.LinuxSyscall {
		return specs.LinuxSyscall{Names: names, Action: specs.ActAllow, Args: args}
	}
	return []specs.LinuxSyscall{
		allow([]string{"mount", "umount", "umount2", "pivot_root", "chroot", "sethostname"}),
		allow([]string{"clone", "unshare"}, specs.LinuxSeccompArg{Index: 0, Value: unix.CLONE_NEWNET | unix.CLONE_NEWTIME, Op: specs.OpMaskedEqual}),
	}
}
