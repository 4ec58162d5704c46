package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/checkpoint-restore/go-criu/v8/rpc"
	"golang.org/x/sys/unix"
)

// RestoreOptions say from which image a tree is restored, and where.
type RestoreOptions struct {
	// Images is the directory of CRIU's files, which the root of the
	// container's user namespace must be able to read.
	Images string
	// Log is the directory for CRIU's log: restore.log.
	Log string
	// Root is the container's root: a mount point.
	Root string
	// External answers what to mount at each external path of the dump: paths that
	// the root of the container's user namespace can reach.
	External map[string]string
	// Owner is the host's user who owns a user namespace that is made for CRIU, above
	// the tree's. The kernel charges to this user what the tree uses. 0 = no such
	// namespace is made, and it is charged to root.
	Owner uint32
	// Started is called when CRIU's process exists and has done nothing. All
	// processes become its children first, so it is put into the container's
	// control groups here.
	Started func(pid int) error
	// Check is called when all processes are there, with their credentials and
	// filters, and none has run. Its error ends all of them. pid is process 1.
	Check func(pid int) error
	// Stopped leaves every process stopped by SIGSTOP when Restore returns, without
	// having run. SIGCONT continues each of them. The caller must continue process 1
	// in any case.
	Stopped bool
	// Timeout bounds CRIU's waiting; the context bounds all.
	Timeout time.Duration
}

// Restored is a tree that runs, or is stopped if that was asked for.
type Restored struct {
	Pid  int // of process 1, a child of the caller
	Took time.Duration
}

// ErrHalf is returned, joined with the cause, by Restore when processes of the
// tree may be left: kill what is in the control group.
var ErrHalf = errors.New("the tree was not restored whole, and processes of it may be left")

// Restore makes the tree of an image again and lets it run, unless o.Stopped. Process 1
// becomes a child of the calling thread, and the caller must wait for it. If it
// asked for a signal at its parent's death, it gets that signal when the thread ends.
//
// Processes that were stopped when they were saved are stopped again, except process
// 1: continueInit says why.
//
// After an error, nothing of the tree has run, unless CRIU failed after Check. Then the
// tree is killed.
func (e *Engine) Restore(ctx context.Context, o RestoreOptions) (*Restored, error) {
	begin := time.Now()
	images, err := os.Open(o.Images)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	defer images.Close()
	logs, err := os.Open(o.Log)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	defer logs.Close()
	options := commonOptions(images, logs, restoreLog, o.Timeout)
	options.Root = &o.Root
	options.RstSibling = set(true)
	options.EvasiveDevices = set(true)
	options.LeaveStopped = set(o.Stopped)
	for path, source := range o.External {
		options.ExtMnt = append(options.ExtMnt, &rpc.ExtMountMap{Key: set(path), Val: set(source)})
	}
	through, err := inTime(o.Images)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	var restored atomic.Int32 // process 1
	call := &swrk{
		engine: e, through: through, request: &rpc.CriuReq{Type: set(rpc.CriuReqType_RESTORE), Opts: options},
		started: o.Started, maker: o.Owner, images: images, logs: logs,
		notified: func(notify *rpc.CriuNotify) error {
			switch notify.GetScript() {
			case "setup-namespaces":
				restored.Store(notify.GetPid())
			case "pre-resume":
				if err := o.Check(int(restored.Load())); err != nil {
					// CRIU would let it run nevertheless.
					killTree(int(restored.Load()))
					return err
				}
			}
			return nil
		},
		hold: func() { killTree(int(restored.Load())) },
	}
	err = call.run(ctx)
	for _, name := range []string{restoreLog, "stats-restore"} {
		_ = os.Remove(filepath.Join(o.Images, name)) // CRIU left it beside them
	}
	if err == nil && !o.Stopped {
		err = continueInit(int(restored.Load()))
	}
	if err != nil {
		reap(int(restored.Load()))
		return nil, errors.Join(failure("restore", filepath.Join(o.Log, restoreLog), err), ErrHalf)
	}
	return &Restored{Pid: int(restored.Load()), Took: time.Since(begin)}, nil
}

// killTree kills a stopped process and all below it, so that none of them runs when
// their tracer lets go. The kernel also kills what is in a PID namespace
// with its process 1, but not at the same instant.
func killTree(pid int) {
	if pid == 0 {
		return
	}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list) // gone with its thread
		for _, child := range strings.Fields(string(text)) {
			if number, err := strconv.Atoi(child); err == nil {
				killTree(number)
			}
		}
	}
	_ = unix.Kill(pid, unix.SIGKILL)
}

// reap kills a process 1 that was restored in part, and with it its whole tree.
func reap(pid int) {
	if pid == 0 {
		return
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	_ = process.Kill()
	_, _ = process.Wait()
}
