package client

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Word is the first argument of a program that calls Main.
const Word = "shim"

// answerTimeout bounds how long a new supervisor may take to listen.
const answerTimeout = 30 * time.Second

// Launch makes the allocation's directory, starts "executable shim DIR" detached
// from the caller, and returns when its socket answers. For an allocation whose
// directory exists it starts nothing, unless a former call was cut off before
// the start, and answers its handle: ask Alive and Result how it is.
func Launch(ctx context.Context, executable string, s bundle.Settings, order *pb.StartAlloc) (*Handle, error) {
	if order.GetAlloc().GetJob() == 0 {
		return nil, fmt.Errorf("%w: the order names no job", bundle.ErrBadAlloc)
	}
	dir := bundle.At(s.StateDir, order.Alloc)
	if !filepath.IsAbs(string(dir)) {
		return nil, fmt.Errorf("%w: the state directory %q is not absolute", bundle.ErrBadAlloc, s.StateDir)
	}
	if order.NestedContainers {
		if err := putNestedFilter(s.StateDir); err != nil {
			return nil, err
		}
	}
	s.BootID = bootID()
	if err := bundle.Create(dir, &s, order); err != nil {
		return nil, err
	}
	h, err := open(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(dir.Path(bundle.LockFile)); err == nil {
		return h, nil // somebody has started it already
	}
	said, err := startProcess(executable, dir)
	if err != nil {
		return nil, err
	}
	defer said.Close()
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = said.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line := make([]byte, len(bundle.Listening))
	if _, err := io.ReadFull(said, line); err == nil && string(line) == bundle.Listening {
		return h, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the supervisor of allocation %s does not answer: %w", dir.ID(), context.Cause(ctx))
	}
	alive := h.Alive() // asked first: it may write its result, and go, at this moment
	if _, err := h.Result(); err == nil || alive {
		return h, nil // another one was or is at work
	}
	return nil, fmt.Errorf("the supervisor of allocation %s ended at once: see %s", dir.ID(), dir.Path(bundle.LogFile))
}

// bootID answers what tells one run of the machine from the next, or "".
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// mostCPUs is how many a supervisor uses at once.
const mostCPUs = 4

// startProcess starts the supervisor in a session and a mount namespace of
// its own. It answers its standard output, which ends with the process.
func startProcess(executable string, dir bundle.Dir) (*os.File, error) {
	log, err := os.OpenFile(dir.Path(bundle.LogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer write.Close()
	cmd := exec.Command(executable, Word, string(dir))
	cmd.Dir = "/"
	// When it starts, a Go program prepares for each CPU that it may use at once,
	// and so does libcontainer's init, which inherits this.
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(min(runtime.GOMAXPROCS(0), mostCPUs)))
	cmd.Stdout, cmd.Stderr = write, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWNS}
	if err := cmd.Start(); err != nil {
		read.Close()
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	go func() { _ = cmd.Wait() }() // how it went is in its result, or its absence
	return read, nil
}
