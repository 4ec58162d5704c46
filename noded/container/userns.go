package container

/*
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static char helper_stack[16384] __attribute__((aligned(16)));
static char holder_stack[16384] __attribute__((aligned(16)));

#define MOST_BOUNDS 16

// What the processes below are to do, and what came of it. They share this
// program's memory, and touch nothing of it but this and their own stacks.
static struct {
	int parent;  // this program
	unsigned int owner;
	int join;  // a user namespace to go into; -1 = one is made
	struct { char path[64]; char value[24]; } bounds[MOST_BOUNDS];
	int bounds_count;

	int done;  // a futex
	int pid;   // of the process that holds the namespace
	int error;
	int refused;  // position of the bound that was refused
} ns;

// bound writes the bounds of the user namespace that the caller is in.
static void bound(void)
{
	for (int i = 0; i < ns.bounds_count; i++) {
		int length = 0, fd = syscall(SYS_openat, AT_FDCWD, ns.bounds[i].path, O_WRONLY | O_CLOEXEC, 0);
		if (fd < 0 && errno == ENOENT)
			continue;  // this kernel has no such counter
		while (ns.bounds[i].value[length])
			length++;
		if (fd < 0 || syscall(SYS_write, fd, ns.bounds[i].value, length) != length) {
			ns.error = errno;
			ns.refused = i;
		}
		if (fd >= 0)
			syscall(SYS_close, fd);
	}
}

// end_with_parent has the caller end when this program does, also if that was
// killed before: an orphan would keep what the program has locked.
static void end_with_parent(void)
{
	syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (syscall(SYS_getppid) != ns.parent)
		syscall(SYS_exit, 1);
}

// hold is process 1 of a user namespace: it bounds it, and waits to be killed.
static int hold(void *unused)
{
	end_with_parent();
	bound();
	__atomic_store_n(&ns.done, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &ns.done, FUTEX_WAKE, 1, NULL, NULL, 0);
	for (;;)
		syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
	return 0;
}

// become takes on an effective user id and keeps all capabilities.
static int become(unsigned int uid)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct caps[2];

	if (syscall(SYS_setresuid, -1, uid, -1) < 0 || syscall(SYS_capget, &header, caps) < 0)
		return -1;
	caps[0].effective = caps[0].permitted;
	caps[1].effective = caps[1].permitted;
	return syscall(SYS_capset, &header, caps);
}

// help makes, or enters, the namespace. Its caller waits meanwhile.
static int help(void *unused)
{
	ns.pid = -1;
	if (ns.join >= 0) {
		if (syscall(SYS_setns, ns.join, CLONE_NEWUSER) < 0)
			ns.error = errno;
		else
			bound();
		syscall(SYS_exit, 0);
	}
	int became = become(ns.owner);
	end_with_parent();  // the kernel forgets that when the user id changes
	if (became == 0)
		ns.pid = clone(hold, holder_stack + sizeof(holder_stack), CLONE_NEWUSER | CLONE_VM | CLONE_PARENT | SIGCHLD, NULL);
	if (ns.pid < 0)
		ns.error = errno;
	else
		while (!__atomic_load_n(&ns.done, __ATOMIC_SEQ_CST))
			syscall(SYS_futex, &ns.done, FUTEX_WAIT, 0, NULL, NULL, 0);
	syscall(SYS_exit, 0);
	return 0;
}

static void clear_order(unsigned int owner, int join)
{
	ns.owner = owner;
	ns.join = join;
	ns.bounds_count = ns.done = ns.error = 0;
	ns.pid = ns.refused = -1;
}

static void add_bound(_GoString_ path, _GoString_ value)
{
	size_t i;

	if (ns.bounds_count == MOST_BOUNDS)
		return;
	for (i = 0; i < _GoStringLen(path) && i < sizeof(ns.bounds[0].path) - 1; i++)
		ns.bounds[ns.bounds_count].path[i] = _GoStringPtr(path)[i];
	ns.bounds[ns.bounds_count].path[i] = 0;
	for (i = 0; i < _GoStringLen(value) && i < sizeof(ns.bounds[0].value) - 1; i++)
		ns.bounds[ns.bounds_count].value[i] = _GoStringPtr(value)[i];
	ns.bounds[ns.bounds_count++].value[i] = 0;
}

// carry_out answers the id of the helper, which has ended, or -1. Both
// processes have all signals blocked: their handlers are Go's.
static int carry_out(void)
{
	sigset_t all, before;
	int pid;

	ns.parent = getpid();
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	pid = clone(help, helper_stack + sizeof(helper_stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}

static int holder(void) { return ns.pid; }
static int failure(void) { return ns.error; }
static int refused_bound(void) { return ns.refused; }
*/
import "C"

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"
)

// oneOrder guards what the C side is told and answers.
var oneOrder sync.Mutex

// userNamespace makes a user namespace with these maps, owned by the host's user
// owner, with these bounds on its counters, and answers a descriptor of it.
//
// A namespace needs a process to be born in. To fork one as os/exec does would
// copy this program's page tables, which takes longer than all the rest, so it
// shares the memory. It lives until the namespace is open.
func userNamespace(uids, gids []configs.IDMap, owner uint32, bounds []counterBound) (*os.File, error) {
	oneOrder.Lock()
	defer oneOrder.Unlock()
	C.clear_order(C.uint(owner), -1)
	err := carryOut(bounds)
	pid := int(C.holder())
	if pid > 0 {
		defer func() {
			_ = unix.Kill(pid, unix.SIGKILL)
			collect(pid)
		}()
	}
	if err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	proc := fmt.Sprintf("/proc/%d/", pid)
	for name, extents := range map[string][]configs.IDMap{"uid_map": uids, "gid_map": gids} {
		if err := os.WriteFile(proc+name, []byte(mapText(extents)), 0); err != nil {
			return nil, fmt.Errorf("map ids of a user namespace: %w", err)
		}
	}
	ns, err := os.Open(proc + "ns/user")
	if err != nil {
		return nil, fmt.Errorf("open a user namespace: %w", err)
	}
	return ns, nil
}

// boundNamespace bounds the counters of a user namespace that exists.
func boundNamespace(ns *os.File, bounds []counterBound) error {
	oneOrder.Lock()
	defer oneOrder.Unlock()
	C.clear_order(0, C.int(ns.Fd()))
	if err := carryOut(bounds); err != nil {
		return fmt.Errorf("bound a user namespace: %w", err)
	}
	return nil
}

// carryOut runs the helper process.
func carryOut(bounds []counterBound) error {
	for _, b := range bounds {
		C.add_bound(b.path(), b.text())
	}
	id, err := C.carry_out()
	if int(id) < 0 {
		return err
	}
	collect(int(id))
	if number := int(C.failure()); number != 0 {
		if i := int(C.refused_bound()); i >= 0 {
			return &os.PathError{Op: "write to", Path: bounds[i].path(), Err: unix.Errno(number)}
		}
		return unix.Errno(number)
	}
	return nil
}

func collect(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
			return
		}
	}
}

// mapText is a map as it is written to the kernel, see user_namespaces(7).
func mapText(extents []configs.IDMap) string {
	var text strings.Builder
	for _, e := range extents {
		fmt.Fprintf(&text, "%d %d %d\n", e.ContainerID, e.HostID, e.Size)
	}
	return text.String()
}
