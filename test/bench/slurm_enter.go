package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hostPatience bounds the start and the end of a Slurm host.
const hostPatience = 20 * time.Second

// slurmHost is a set of namespaces in which Slurm runs: another machine, as
// far as it can tell. Programs are started there by a thread that has moved
// in, so that starting one costs what it costs outside.
type slurmHost struct {
	directory string
	holder    *exec.Cmd
	life      io.Closer // the holder's standard input
	orders    chan order
}

type order struct {
	command *exec.Cmd
	done    chan error
}

// newSlurmHost makes a host below directory, on the disk, from the folder of
// unpacked packages. shared is a directory seen inside at the same path.
func newSlurmHost(packages, directory, shared string) (*slurmHost, error) {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	holder := exec.Command(self, hostWord, packages, directory, shared)
	holder.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Setpgid:    true,
	}
	holder.Stderr = os.Stderr
	life, err := holder.StdinPipe()
	if err != nil {
		return nil, err
	}
	said, err := holder.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := holder.Start(); err != nil {
		return nil, fmt.Errorf("make namespaces for Slurm: %w", err)
	}
	host := &slurmHost{directory: directory, holder: holder, life: life, orders: make(chan order)}
	ready := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(said).ReadString('\n')
		ready <- line
	}()
	select {
	case line := <-ready:
		if strings.TrimSpace(line) != "ready" {
			return nil, errors.Join(errors.New("the root for Slurm could not be made"), host.close())
		}
	case <-time.After(hostPatience):
		return nil, errors.Join(errors.New("the root for Slurm was not made in time"), host.close())
	}
	entered := make(chan error, 1)
	go host.live(entered)
	if err := <-entered; err != nil {
		return nil, errors.Join(err, host.close())
	}
	return host, nil
}

// live moves the calling goroutine's thread into the host and starts there
// what is ordered. The thread is never given back: it ends with the goroutine.
func (h *slurmHost) live(entered chan<- error) {
	runtime.LockOSThread()
	if err := h.enter(); err != nil {
		entered <- fmt.Errorf("enter the namespaces for Slurm: %w", err)
		return
	}
	entered <- nil
	for o := range h.orders {
		o.done <- o.command.Start()
	}
}

func (h *slurmHost) enter() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	kinds := []struct {
		name string
		flag int
	}{{"net", unix.CLONE_NEWNET}, {"uts", unix.CLONE_NEWUTS}, {"ipc", unix.CLONE_NEWIPC}, {"pid", unix.CLONE_NEWPID}, {"mnt", unix.CLONE_NEWNS}}
	var open []*os.File
	defer func() {
		for _, f := range open {
			f.Close()
		}
	}()
	// All first: /proc is another one in the other mount namespace.
	for _, kind := range kinds {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", h.holder.Process.Pid, kind.name))
		if err != nil {
			return err
		}
		open = append(open, f)
	}
	for i, kind := range kinds {
		if err := unix.Setns(int(open[i].Fd()), kind.flag); err != nil {
			return fmt.Errorf("%s namespace: %w", kind.name, err)
		}
	}
	if err := unix.Chroot(filepath.Join(h.directory, hostRoot)); err != nil {
		return err
	}
	return unix.Chdir("/")
}

// launch starts a program on the host; the caller waits for it. Its path is
// one inside.
func (h *slurmHost) launch(command *exec.Cmd) error {
	o := order{command, make(chan error, 1)}
	h.orders <- o
	return <-o.done
}

// close ends every process on the host, and with the last one its mounts.
func (h *slurmHost) close() error {
	close(h.orders)
	h.life.Close()
	ended := make(chan error, 1)
	go func() { ended <- h.holder.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(hostPatience):
		_ = h.holder.Process.Kill()
		return errors.Join(errors.New("the namespaces of Slurm did not end by themselves"), <-ended)
	}
}
