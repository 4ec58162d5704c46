package container

/*
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static char stack[16384] __attribute__((aligned(16)));

// wait_to_be_killed shares this program's memory, and touches nothing of it
// but its own stack.
static int wait_to_be_killed(void *unused)
{
	syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	for (;;)
		syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
	return 0;
}

// start_in_userns answers the id of a process in a user namespace of its own,
// or -1. The process has all signals blocked: their handlers are Go's.
static int start_in_userns(void)
{
	sigset_t all, before;
	int pid;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	pid = clone(wait_to_be_killed, stack + sizeof(stack), CLONE_NEWUSER | CLONE_VM | SIGCHLD, NULL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}
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

// oneStack guards the stack of start_in_userns.
var oneStack sync.Mutex

// userNamespace makes a user namespace with these maps and answers a
// descriptor of it, for idmapped mounts.
//
// A namespace needs a process to be born in. To fork one as os/exec does would
// copy this program's page tables, which takes longer than all the rest, so it
// shares the memory. It lives until the namespace is open.
func userNamespace(uids, gids []configs.IDMap) (*os.File, error) {
	oneStack.Lock()
	defer oneStack.Unlock()
	id, err := C.start_in_userns()
	pid := int(id)
	if pid < 0 {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	defer func() {
		_ = unix.Kill(pid, unix.SIGKILL)
		for {
			if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
				return
			}
		}
	}()
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

// mapText is a map as it is written to the kernel, see user_namespaces(7).
func mapText(extents []configs.IDMap) string {
	var text strings.Builder
	for _, e := range extents {
		fmt.Fprintf(&text, "%d %d %d\n", e.ContainerID, e.HostID, e.Size)
	}
	return text.String()
}
