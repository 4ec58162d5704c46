// Command init is process 1 of the machine that test/machine boots: it mounts
// what a Linux system has, runs the cases one after another, tells of each on
// the second serial port, and turns the machine off.
//
// It needs a kernel that has mounted the root only, and the files that package
// machine names. It must not run anywhere else: it refuses when it is
// not process 1.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/test/machine"
)

// casesWord is the argument of the process that runs the cases, a child of
// process 1.
const casesWord = "cases"

func main() {
	if len(os.Args) == 2 && os.Args[1] == casesWord {
		if err := runCases(); err != nil {
			fmt.Fprintln(os.Stderr, "init:", err)
			os.Exit(1)
		}
		return
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: only for process 1 of the test's machine")
		os.Exit(2)
	}
	if err := supervise(); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// supervise sets the machine up, starts the process that runs the cases, and
// reaps everything that ends until that process has.
func supervise() error {
	if err := setUp(); err != nil {
		return err
	}
	// Not in the root group, where no daemon of a real machine is.
	const service = "/sys/fs/cgroup/system.slice/cases.service"
	if err := os.MkdirAll(service, 0o755); err != nil {
		return err
	}
	group, err := unix.Open(service, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: service, Err: err}
	}
	child, err := syscall.ForkExec("/proc/self/exe", []string{"init", casesWord}, &syscall.ProcAttr{
		Env:   []string{"PATH=/usr/sbin:/usr/bin", "HOME=/root", "TMPDIR=/tmp", "LANG=C.UTF-8"},
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: group},
	})
	if err != nil {
		return fmt.Errorf("start the cases: %w", err)
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return fmt.Errorf("wait: %w", err)
		case pid == child && status.ExitStatus() != 0:
			return fmt.Errorf("the cases ended with status %#x", status)
		case pid == child:
			return nil
		}
	}
}

// setUp mounts the kernel's file systems, loads the modules and brings the
// loopback device up.
func setUp() error {
	for _, m := range []struct {
		kind, where, options string
		flags                uintptr
	}{
		{"proc", "/proc", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"sysfs", "/sys", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"devtmpfs", "/dev", "mode=755", unix.MS_NOSUID},
		{"devpts", "/dev/pts", "mode=620,gid=5,ptmxmode=666", unix.MS_NOSUID | unix.MS_NOEXEC},
		{"tmpfs", "/dev/shm", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
		{"tmpfs", "/run", "mode=755", unix.MS_NOSUID | unix.MS_NODEV},
		{"cgroup2", "/sys/fs/cgroup", "nsdelegate,memory_recursiveprot", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	} {
		if err := os.MkdirAll(m.where, 0o755); err != nil {
			return err
		}
		err := unix.Mount(m.kind, m.where, m.kind, m.flags, m.options)
		// The kernel mounts /dev by itself.
		if err != nil && err != unix.EBUSY {
			return fmt.Errorf("mount %s: %w", m.where, err)
		}
	}
	if err := loadModules(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("machine")); err != nil {
		return err
	}
	return loopbackUp()
}

// loadModules loads all modules. One that needs another waits until that is there.
func loadModules() error {
	waiting, err := filepath.Glob(filepath.Join(machine.Modules, "*.ko"))
	for err == nil && len(waiting) > 0 {
		var later []string
		for _, path := range waiting {
			switch err := load(path); {
			case errors.Is(err, unix.ENOENT): // it lacks symbols
				later = append(later, path)
			case err != nil:
				return fmt.Errorf("load module %s: %w", path, err)
			}
		}
		if len(later) == len(waiting) {
			return fmt.Errorf("modules lack others that are not there: %q", later)
		}
		waiting = later
	}
	return err
}

func load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("bring the loopback device up: %w", err)
	}
	return nil
}

func runCases() error {
	text, err := os.ReadFile(machine.Cases)
	if err != nil {
		return err
	}
	var cases []machine.Case
	if err := json.Unmarshal(text, &cases); err != nil {
		return fmt.Errorf("%s: %w", machine.Cases, err)
	}
	port, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer port.Close()
	reports := json.NewEncoder(port)
	for _, c := range cases {
		if err := reports.Encode(runCase(c, reports)); err != nil {
			return err
		}
	}
	return nil
}

// runCase runs one case and returns the report of its end.
func runCase(c machine.Case, reports *json.Encoder) machine.Report {
	began := time.Now()
	end := machine.Report{Case: c.Name, Ended: true}
	out, theirs, err := os.Pipe()
	if err != nil {
		end.Failure = err.Error()
		return end
	}
	defer out.Close()
	command := exec.Command(c.Arguments[0], c.Arguments[1:]...)
	command.Dir = c.Directory
	command.Stdout, command.Stderr = theirs, theirs
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = command.Start()
	theirs.Close()
	if err != nil {
		end.Failure = err.Error()
		return end
	}
	deadline := time.AfterFunc(time.Duration(c.Seconds)*time.Second, func() {
		_ = unix.Kill(-command.Process.Pid, unix.SIGKILL)
		// What it has started may still hold the pipe.
		_ = out.SetReadDeadline(time.Now().Add(time.Second))
	})
	buffer := make([]byte, 4096)
	for {
		n, err := out.Read(buffer)
		if n > 0 {
			_ = reports.Encode(machine.Report{Case: c.Name, Output: string(buffer[:n])})
		}
		if err != nil {
			if err != io.EOF {
				end.Failure = fmt.Sprintf("did not end in %d s: ", c.Seconds)
			}
			break
		}
	}
	err = command.Wait()
	if !deadline.Stop() && end.Failure == "" {
		end.Failure = fmt.Sprintf("did not end in %d s: ", c.Seconds)
	}
	if err != nil {
		end.Failure += err.Error()
	}
	end.Seconds = time.Since(began).Seconds()
	return end
}
