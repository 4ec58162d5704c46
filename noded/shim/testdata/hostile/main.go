// Command hostile does inside a container what a job should not get away
// with: see hostile_test.go.
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

func main() {
	switch os.Args[1] {
	case "syscalls":
		syscalls()
	case "flood":
		flood(os.Args[2])
	case "garbage":
		garbage(os.Args[2])
	case "trace":
		trace(1)
	case "litter":
		count, err := strconv.Atoi(os.Args[2])
		for _, dir := range os.Args[3:] {
			err = errors.Join(err, litter(dir, count))
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
}

// syscalls prints the name of each forbidden call that is not refused. The
// arguments are such that none would do anything if it were allowed.
func syscalls() {
	const newUser, bad = 0x10000000, ^uintptr(0)
	for _, call := range []struct {
		name   string
		number uintptr
		args   [3]uintptr
	}{
		{"unshare user", syscall.SYS_UNSHARE, [3]uintptr{newUser}},
		{"mount", syscall.SYS_MOUNT, [3]uintptr{0, 0, 0}},
		{"open_tree", 428, [3]uintptr{bad, 0, 1}},
		{"fsopen", 430, [3]uintptr{0}},
		{"umount2", syscall.SYS_UMOUNT2, [3]uintptr{0}},
		{"pivot_root", syscall.SYS_PIVOT_ROOT, [3]uintptr{0}},
		{"chroot", syscall.SYS_CHROOT, [3]uintptr{0}},
		{"setns", 308, [3]uintptr{bad, 0}},
		{"bpf", 321, [3]uintptr{0, 0, 0}},
		{"perf_event_open", syscall.SYS_PERF_EVENT_OPEN, [3]uintptr{0, bad, bad}},
		{"userfaultfd", 323, [3]uintptr{0}},
		{"io_uring_setup", 425, [3]uintptr{1, 0}},
		{"keyctl", syscall.SYS_KEYCTL, [3]uintptr{0, bad, 0}},
		{"add_key", syscall.SYS_ADD_KEY, [3]uintptr{0, 0, 0}},
		{"request_key", syscall.SYS_REQUEST_KEY, [3]uintptr{0, 0, 0}},
		{"init_module", syscall.SYS_INIT_MODULE, [3]uintptr{0, 0, 0}},
		{"kexec_load", syscall.SYS_KEXEC_LOAD, [3]uintptr{0, bad, 0}},
		{"open_by_handle_at", 304, [3]uintptr{bad, 0, 0}},
		{"reboot", syscall.SYS_REBOOT, [3]uintptr{0, 0, 0}},
		{"swapon", syscall.SYS_SWAPON, [3]uintptr{0, 0, 0}},
		{"acct", syscall.SYS_ACCT, [3]uintptr{1}},
		{"settimeofday", syscall.SYS_SETTIMEOFDAY, [3]uintptr{1, 0}},
		{"sethostname", syscall.SYS_SETHOSTNAME, [3]uintptr{0, 0}},
		{"iopl", syscall.SYS_IOPL, [3]uintptr{3}},
		{"quotactl", syscall.SYS_QUOTACTL, [3]uintptr{bad, 0, 0}},
		{"memfd_secret", 447, [3]uintptr{bad}},
		{"landlock_create_ruleset", 444, [3]uintptr{0, 0, 1}}, // of which answers a version
		{"landlock_add_rule", 445, [3]uintptr{bad}},
		{"landlock_restrict_self", 446, [3]uintptr{bad}},
		{"fanotify_init", 300, [3]uintptr{bad, 0}},
		{"setuid 0", syscall.SYS_SETUID, [3]uintptr{0}},
		{"setgid 0", syscall.SYS_SETGID, [3]uintptr{0}},
		{"setgroups", syscall.SYS_SETGROUPS, [3]uintptr{0, 0}},
	} {
		_, _, errno := syscall.RawSyscall(call.number, call.args[0], call.args[1], call.args[2])
		if errno != syscall.EPERM && errno != syscall.ENOSYS {
			fmt.Printf("%s: %d\n", call.name, int(errno))
		}
	}
}

// flood opens as many connections as it can, says how many, and holds them.
func flood(socket string) {
	var held []net.Conn
	for len(held) < 3000 {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			break
		}
		held = append(held, conn)
	}
	fmt.Println("held")
	time.Sleep(time.Hour)
	fmt.Println(len(held))
}

// garbage sends frames that are none.
func garbage(socket string) {
	for i := range 200 {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			fmt.Println(err)
			return
		}
		frame := []byte{byte(i), 0xff, 0xff, 0xff, 0xff, '{', byte(i)}
		if i%2 == 0 {
			frame = append([]byte{byte(i % 32), 0, 0, 0, 2}, "[]"...)
		}
		_, _ = conn.Write(frame)
		conn.Close()
	}
}

// trace stops a process by ptrace, and holds it.
func trace(pid int) {
	err := syscall.PtraceAttach(pid)
	fmt.Println("attached " + strconv.FormatBool(err == nil || errors.Is(err, syscall.EPERM)))
	time.Sleep(time.Hour)
}
