package host

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// InitWord is the first argument of process 1 of a host: its main calls Init.
const InitWord = "host-init"

// hiddenProc is where a host has /proc once more, without the boot id that
// covers the real one: the kernel lets a container mount its own /proc only
// where one is to be seen whole.
const hiddenProc = "/run/gleaner-host-proc"

// Init is process 1 of a host. words are its name, the file with its boot id,
// and what to unmount: the disks of the others. It starts what it is ordered
// to and reaps what is left to it, until its input ends.
func Init(words []string) error {
	if len(words) < 2 || os.Getpid() != 1 {
		return fmt.Errorf("%s is started by the lab, not by hand", InitWord)
	}
	lines := bufio.NewScanner(os.Stdin)
	if !lines.Scan() { // until the network is there
		return errors.New("the lab has gone")
	}
	if err := furnish(words[0], words[1], words[2:]); err != nil {
		return err
	}
	s := &starter{out: json.NewEncoder(os.Stdout), running: map[int]int{}, pids: map[int]int{}}
	s.report(report{})
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	go func() {
		for lines.Scan() {
			var o order
			if json.Unmarshal(lines.Bytes(), &o) == nil {
				s.obey(o)
			}
		}
		os.Exit(0)
	}()
	// A signal may report many children, and come before the next wait.
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-children:
		case <-tick.C:
		}
		s.reap()
	}
}

// furnish makes the host's mounts.
func furnish(name, bootFile string, others []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, path := range others {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	for _, step := range []func() error{
		func() error { return unix.Sethostname([]byte(name)) },
		// /run of its own: what a daemon leaves there does not outlive the boot.
		func() error { return unix.Mount("run", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755") },
		func() error { return os.MkdirAll(hiddenProc, 0o700) },
		func() error { return unix.Mount("proc", "/proc", "proc", 0, "") },
		func() error { return unix.Mount("proc", hiddenProc, "proc", 0, "") },
		func() error { return unix.Mount(bootFile, "/proc/sys/kernel/random/boot_id", "", unix.MS_BIND, "") },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("furnish host %s: %w", name, err)
		}
	}
	return nil
}

// starter starts daemons and reaps all children.
type starter struct {
	mu      sync.Mutex
	out     *json.Encoder
	running map[int]int // pid -> daemon
	pids    map[int]int // daemon -> pid
}

func (s *starter) report(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(r)
}

func (s *starter) obey(o order) {
	if o.Signal != 0 {
		s.mu.Lock()
		if pid := s.pids[o.Daemon]; pid != 0 {
			_ = syscall.Kill(pid, syscall.Signal(o.Signal))
		}
		s.mu.Unlock()
		return
	}
	// Held until the pid is known, so that its end is not reaped before.
	s.mu.Lock()
	pid, err := start(o)
	if err == nil {
		s.running[pid], s.pids[o.Daemon] = o.Daemon, pid
	}
	s.mu.Unlock()
	if err != nil {
		s.report(report{Daemon: o.Daemon, End: err.Error()})
	}
}

func start(o order) (int, error) {
	log, err := os.OpenFile(o.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	return syscall.ForkExec(o.Words[0], o.Words, &syscall.ProcAttr{
		Dir: filepath.Dir(o.Log), Env: os.Environ(), Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

func (s *starter) reap() {
	for {
		var status syscall.WaitStatus
		s.mu.Lock()
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		daemon := s.running[pid]
		if pid > 0 {
			delete(s.running, pid)
			delete(s.pids, daemon)
		}
		s.mu.Unlock()
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if pid <= 0 {
			return
		}
		if daemon != 0 {
			s.report(report{Daemon: daemon, End: endOf(status), OK: status.Exited() && status.ExitStatus() == 0})
		}
	}
}

func endOf(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "killed by " + status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}
