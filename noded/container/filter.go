package container

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	profile "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/opencontainers/runc/libcontainer/seccomp"
	"github.com/opencontainers/runc/libcontainer/specconv"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
)

// The system-call filter is the same for every container, and translating it
// for the kernel takes as long as everything else that libcontainer does. So
// libcontainer's own code translates it once, in a process that installs it. It is
// read back from that process, and each container's process 1 installs it.

// filterWord is the first argument of the process that installs the filter.
const filterWord = "seccomp-filter"

// filterTimeout bounds the life of that process. It is the work of a moment, which a
// machine that starts everything at once may take a minute for.
const filterTimeout = 2 * time.Minute

// CompileFilter answers the filter of all containers for Spec.Filter, or of those that
// may have others inside. It depends on the kernel and on libseccomp, and so is the same
// as long as this process lives: compile it again after a restart.
func CompileFilter(nested bool) ([]byte, error) {
	if nested {
		return nestedFilter()
	}
	return plainFilter()
}

var (
	plainFilter  = sync.OnceValues(func() ([]byte, error) { return compileFilter(false) })
	nestedFilter = sync.OnceValues(func() ([]byte, error) { return compileFilter(true) })
)

func compileFilter(nested bool) ([]byte, error) {
	if !seccomp.Enabled {
		return nil, ErrNoSeccomp
	}
	config, err := seccompConfig(nested)
	if err != nil {
		return nil, err
	}
	flags, err := filterFlags(config)
	if err != nil {
		return nil, err
	}
	program, err := readFilter(nested)
	if err != nil {
		return nil, fmt.Errorf("translate the system-call filter: %w", err)
	}
	return (&pid1.Filter{Flags: flags, Program: program}).Encode(), nil
}

// filterFlags are the flags with which libcontainer would install the filter.
func filterFlags(config *configs.Seccomp) (flags uint32, err error) {
	for _, flag := range config.Flags {
		if flag != specs.LinuxSeccompFlagSpecAllow {
			return 0, fmt.Errorf("the system-call filter wants %s, which is not known", flag)
		}
		flags |= unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW
	}
	return flags, nil
}

// readFilter runs this program under filterWord until it has installed the filter,
// reads the filter from it with ptrace(2), and kills it.
func readFilter(nested bool) ([]unix.SockFilter, error) {
	runtime.LockOSThread() // ptrace belongs to a thread
	defer runtime.UnlockOSThread()
	complaints, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer complaints.Close()
	argv := []string{os.Args[0], filterWord}
	if nested {
		argv = append(argv, nestedWord)
	}
	process, err := os.StartProcess("/proc/self/exe", argv, &os.ProcAttr{
		Env:   []string{},
		Files: []*os.File{nil, nil, theirs},
		Sys:   &syscall.SysProcAttr{Ptrace: true, Pdeathsig: unix.SIGKILL},
	})
	theirs.Close()
	if err != nil {
		return nil, fmt.Errorf("start this program: %w", err)
	}
	var late atomic.Bool
	timer := time.AfterFunc(filterTimeout, func() {
		late.Store(true)
		_ = process.Kill()
	})
	defer timer.Stop()
	program, err := traceFilter(process.Pid)
	_ = process.Kill()
	_, _ = process.Wait()
	if err != nil && late.Load() {
		return nil, fmt.Errorf("the process that puts it on did not do so within %v: see what keeps this machine busy", filterTimeout)
	}
	if err != nil {
		said, _ := io.ReadAll(io.LimitReader(complaints, 4096))
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(said))
	}
	return program, nil
}

// traceFilter follows a process that is stopped by ptrace until it stops
// itself, and answers its filter.
func traceFilter(pid int) ([]unix.SockFilter, error) {
	for {
		var status unix.WaitStatus
		if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return nil, fmt.Errorf("wait for it: %w", err)
		}
		if !status.Stopped() {
			return nil, errors.New("the process that puts it on has ended")
		}
		signal := status.StopSignal()
		if signal == unix.SIGSTOP {
			return fetchFilter(pid)
		}
		if signal == unix.SIGTRAP {
			signal = 0 // its execve
		}
		if err := unix.PtraceCont(pid, int(signal)); err != nil {
			return nil, fmt.Errorf("let it run: %w", err)
		}
	}
}

// fetchFilter reads the filter of a stopped process.
func fetchFilter(pid int) ([]unix.SockFilter, error) {
	const newest = 0
	ask := func(buffer unsafe.Pointer) (int, error) {
		n, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SECCOMP_GET_FILTER, uintptr(pid), newest, uintptr(buffer), 0, 0)
		if errno != 0 {
			return 0, fmt.Errorf("read it back from the kernel, which must have CONFIG_CHECKPOINT_RESTORE: %w", errno)
		}
		return int(n), nil
	}
	n, err := ask(nil)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errors.New("it is empty")
	}
	program := make([]unix.SockFilter, n)
	_, err = ask(unsafe.Pointer(&program[0]))
	return program, err
}

// wearFilter is the process that readFilter starts: it installs the filter as
// libcontainer would in a container, and stops.
func wearFilter(words []string) {
	config, err := seccompConfig(slices.Equal(words, []string{nestedWord}))
	if err == nil {
		_, err = seccomp.InitSeccomp(config)
	}
	if err == nil {
		// The thread that has the filter, which is the main one.
		err = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// seccompConfig is Docker's default profile for a process without
// capabilities, with what containers inside need if there may be any.
func seccompConfig(nested bool) (*configs.Seccomp, error) {
	spec := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}}
	wanted, err := profile.GetDefaultProfile(spec)
	if err != nil {
		return nil, fmt.Errorf("read the seccomp profile: %w", err)
	}
	withoutMPTCP(wanted)
	withoutUnsaved(wanted)
	if nested {
		wanted.Syscalls = append(wanted.Syscalls, nestedCalls()...)
	}
	filter, err := specconv.SetupSeccomp(wanted)
	if err != nil {
		return nil, fmt.Errorf("make the seccomp filter: %w", err)
	}
	if filter == nil || !slices.Contains([]configs.Action{configs.Errno, configs.KillProcess}, filter.DefaultAction) {
		return nil, errors.New("make the seccomp filter: the profile refuses nothing by default")
	}
	return filter, nil
}

// unsavedCalls are those of Docker's profile that give a process something that CRIU does
// not save. It does not even notice Landlock: after a move, what a program has forbidden
// itself would be open to it again, without a word. No file of /proc tells of it.
var unsavedCalls = []string{"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "memfd_secret"}

// withoutUnsaved has these answer as a kernel without them does. Programs that would use
// them run there too, and know that they do without.
func withoutUnsaved(filter *specs.LinuxSeccomp) {
	for i := range filter.Syscalls {
		call := &filter.Syscalls[i]
		call.Names = slices.DeleteFunc(call.Names, func(name string) bool { return slices.Contains(unsavedCalls, name) })
	}
	unknown := uint(unix.ENOSYS)
	filter.Syscalls = append(filter.Syscalls, specs.LinuxSyscall{Names: unsavedCalls, Action: specs.ActErrno, ErrnoRet: &unknown})
}

// withoutMPTCP has socket(2) answer for Multipath TCP as a kernel without it does. CRIU
// saves no such socket, and each server that is written in Go listens on one where it
// can. Programs take TCP then.
func withoutMPTCP(filter *specs.LinuxSeccomp) {
	protocol := specs.LinuxSeccompArg{Index: 2, Value: unix.IPPROTO_MPTCP, Op: specs.OpNotEqual}
	for i := range filter.Syscalls {
		if call := &filter.Syscalls[i]; slices.Contains(call.Names, "socket") {
			call.Args = append(call.Args, protocol)
		}
	}
	unknown := uint(unix.EPROTONOSUPPORT)
	protocol.Op = specs.OpEqualTo
	filter.Syscalls = append(filter.Syscalls, specs.LinuxSyscall{
		Names: []string{"socket"}, Action: specs.ActErrno, ErrnoRet: &unknown, Args: []specs.LinuxSeccompArg{protocol},
	})
}
