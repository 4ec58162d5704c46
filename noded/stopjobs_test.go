package noded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
)

// TestStopAll: running, finished and dead allocations, and a process in a group that
// no allocation knows any more.
func TestStopAll(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: creates control groups")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	top := fmt.Sprintf("/gleaner-noded-test-%d", os.Getpid())
	config := Config{StateDir: t.TempDir(), CgroupParent: top + "/n1"}
	t.Cleanup(func() {
		g := cgroup.New(top, cgroup.Limits{})
		if err := errors.Join(g.Kill(context.Background()), g.Remove()); err != nil {
			t.Error(err)
		}
	})
	if err := os.Mkdir(filepath.Join(config.StateDir, "jobs"), 0o755); err != nil {
		t.Fatal(err)
	}
	group := cgroup.New(config.CgroupParent+"/9.1", cgroup.Limits{})
	if err := group.Create(); err != nil {
		t.Fatal(err)
	}
	stray := exec.Command("sleep", "600")
	if err := stray.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(stray.Process.Pid, unix.SIGKILL) })
	if err := group.Add(stray.Process.Pid); err != nil {
		t.Fatal(err)
	}

	shims := newFakeShims(t)
	for job := range uint32(3) {
		if _, err := shims.Launch(ctx, resources{}, startOrder(job+1, 1)); err != nil {
			t.Fatal(err)
		}
	}
	shims.get(2, 1).exit(4)
	dead := shims.get(3, 1)
	dead.recoverErrs, dead.forgetErrs = 2, 2
	dead.kill()

	if err := stopAll(ctx, shims, config, slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
	if left, _ := shims.List(); len(left) != 0 {
		t.Errorf("%d allocations are left", len(left))
	}
	if err := stray.Wait(); err == nil {
		t.Error("the stray process ended by itself")
	}
	if _, err := cgroup.Open(top); !errors.Is(err, cgroup.ErrNotFound) {
		t.Errorf("the parent group is left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(config.StateDir, "jobs")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of allocations is left: %v", err)
	}
}

func TestStopAllSaysWhatIsLeft(t *testing.T) {
	shims := newFakeShims(t)
	if _, err := shims.Launch(context.Background(), resources{}, startOrder(12, 1)); err != nil {
		t.Fatal(err)
	}
	shim := shims.get(12, 1)
	shim.recoverErrs = 1 << 30
	shim.kill()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second) // long enough to try it once
	defer cancel()
	err := stopAll(ctx, shims, Config{StateDir: t.TempDir(), CgroupParent: "/gleaner-none/n1"}, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "allocation 12.1") || !strings.Contains(err.Error(), "4711") {
		t.Errorf("stop-jobs said: %v", err)
	}
}

// TestStopJobsLeavesForeignFiles: what lies where allocations do, and is none, is named and
// waited for by nobody.
func TestStopJobsLeavesForeignFiles(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: StopJobs refuses others")
	}
	config := Config{StateDir: t.TempDir(), CgroupParent: "/gleaner-none/n1"}
	file, directory := filepath.Join(config.StateDir, "jobs", "1.1"), filepath.Join(config.StateDir, "jobs", "2.1")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(directory, "another's")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := StopJobs(ctx, config, slog.New(slog.DiscardHandler))
	if ctx.Err() != nil || err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), directory) {
		t.Errorf("stop-jobs said: %v, %v", err, ctx.Err())
	}
}

func TestStopJobsWhileDaemonRuns(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: StopJobs refuses others")
	}
	config := Config{StateDir: t.TempDir(), CgroupParent: "/gleaner-none/n1"}
	unlock, err := lockState(config.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	err = StopJobs(context.Background(), config, slog.New(slog.DiscardHandler))
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("stop-jobs said: %v", err)
	}
	config.StateDir += "/never-started"
	if err := StopJobs(context.Background(), config, slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("a node that never ran: %v", err)
	}
}
