package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/thread"
)

// EnterWord is the first argument of process 1 of all hosts' namespaces: its
// main calls Inside.
const EnterWord = "lab-init"

// farewell is how long the test may take to end after it was told to.
const farewell = 90 * time.Second

// ErrInterrupted is returned when the test was told to end.
var ErrInterrupted = errors.New("interrupted")

// Enter runs this program again as "PROGRAM words..." in namespaces of its own,
// in which it may call Open and returns its exit status. accounts are the
// test's /etc/passwd and /etc/group there. When Enter returns nothing that the
// program started runs any more.
func Enter(ctx context.Context, directory string, words ...string) (status int, err error) {
	runtime.LockOSThread() // the kernel's parent-death signal is bound to it
	defer runtime.UnlockOSThread()
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	command := exec.Command(self, append([]string{EnterWord, directory}, words...)...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setpgid:    true, // Ctrl-C reaches us only
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := command.Start(); err != nil {
		return 0, fmt.Errorf("make namespaces: %w", err)
	}
	mounts, mountsErr := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", command.Process.Pid))
	ended := make(chan struct{})
	var result error
	go func() {
		result = command.Wait()
		close(ended)
	}()
	if err = wait(ctx, command, ended, Group(directory)); err == nil {
		err = result
	}
	if mountsErr == nil {
		thawAll(mounts, directory)
		mounts.Close()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// wait waits for the program, and ends it when ctx ends.
func wait(ctx context.Context, command *exec.Cmd, ended <-chan struct{}, group string) error {
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	_ = command.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(farewell):
		_ = command.Process.Kill()
		if !waitThawing(ended, group, farewell) {
			return fmt.Errorf("%w, and a process of the test does not end", ErrInterrupted)
		}
	}
	return ErrInterrupted
}

// thawAll makes sure that no file system stays frozen, which would keep it and
// its loop device forever: the program may have been killed in a Stall. It
// enters the mount namespace, of which it holds the last reference.
func thawAll(mounts *os.File, directory string) {
	thread.Discard(func() {
		if unix.Unshare(unix.CLONE_FS) != nil || unix.Setns(int(mounts.Fd()), unix.CLONE_NEWNS) != nil {
			return
		}
		disks, _ := filepath.Glob(filepath.Join(directory, hostsFolder, "*"))
		for _, disk := range disks {
			_ = requestOf(disk, thawRequest)
		}
	})
}

// Inside is process 1 of all hosts' namespaces: words are the test's
// directory, and the program's own words. It returns the program's exit status
// when that has ended.
func Inside(words []string) (int, error) {
	if len(words) < 1 || os.Getpid() != 1 {
		return 0, fmt.Errorf("%s is started by the test, not by hand", EnterWord)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return 0, err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return 0, err
	}
	for _, name := range []string{"passwd", "group"} {
		if err := unix.Mount(filepath.Join(words[0], name), "/etc/"+name, "", unix.MS_BIND, ""); err != nil {
			return 0, fmt.Errorf("put accounts into place: %w", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	told := make(chan os.Signal, 4)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	program, err := syscall.ForkExec(self, append([]string{self}, words[1:]...), &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 0, err
	}
	go func() {
		for got := range told {
			_ = syscall.Kill(program, got.(syscall.Signal))
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case pid == program:
			// What is frozen could not end with this process.
			_ = syscall.Kill(-1, syscall.SIGKILL)
			thawGroups(Group(words[0]))
			if status.Exited() {
				return status.ExitStatus(), nil
			}
			return 128 + int(status.Signal()), nil
		}
	}
}
