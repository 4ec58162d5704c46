package shim

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// A supervisor that hangs can be killed, at any moment of its work.
func TestSupervisorHangs(t *testing.T) {
	b := newBed(t)
	for range 10 {
		s := b.launch(b.order("sleep 1000"))
		time.Sleep(rand.N(90 * time.Millisecond))
		must(t, unix.Kill(s.pid(), unix.SIGSTOP))
		must(t, s.Kill())
		eventually(t, "its lock is free", func() bool { return !s.Alive() })
		must(t, s.Kill())
		result, err := s.Recover(context.Background())
		must(t, err)
		wantEnd(t, result, pb.EndCause_END_CAUSE_SUPERVISOR_DIED, 0, 0)
		s.checkNothingLeft()
		must(t, s.Forget())
	}
}

// A lock that names another process, whose number was given anew, kills no
// stranger.
func TestKillNoStranger(t *testing.T) {
	b := newBed(t)
	s := b.launch(b.order("sleep 1000"))
	s.ready()
	text, err := os.ReadFile(s.dir.path(lockFile))
	must(t, err)
	for _, wrong := range []string{"1", "", "-1", "x", "999999999"} {
		must(t, os.WriteFile(s.dir.path(lockFile), []byte(wrong), 0o600))
		if err := s.Kill(); err == nil {
			t.Errorf("killed process %q", wrong)
		}
	}
	must(t, os.WriteFile(s.dir.path(lockFile), text, 0o600))
	must(t, s.Kill())
	eventually(t, "its lock is free", func() bool { return !s.Alive() })
}

// After a restart of the node a part is on disk, and nothing of it runs.
func TestNodeRestarted(t *testing.T) {
	b := newBed(t)
	s := b.launch(b.order("sleep 1000"))
	s.ready()
	must(t, s.Kill())
	eventually(t, "its processes are gone", func() bool { return !s.Alive() && len(s.processes()) == 0 })
	must(t, s.removeGroup())
	settings := *s.settings
	settings.BootID = "00000000-0000-0000-0000-000000000000"
	data, err := json.Marshal(settings)
	must(t, err)
	must(t, os.WriteFile(s.dir.path(settingsFile), data, 0o600))
	found, err := List(b.state)
	must(t, err)
	again := &started{found[0], b}
	result, err := again.Recover(context.Background())
	must(t, err)
	wantEnd(t, result, pb.EndCause_END_CAUSE_SUPERVISOR_DIED, 0, 0)
	if result.Detail != "node n1 was restarted while the job ran" {
		t.Errorf("detail %q", result.Detail)
	}
	again.checkNothingLeft()
	must(t, again.Forget())
}

// Parts that cannot be read are removed all the same, and nothing else.
func TestDiscardUnreadable(t *testing.T) {
	b := newBed(t)
	running := b.launch(b.order("touch /tmp/x; sleep 1000"))
	running.ready()
	supervisor := running.pid()
	must(t, os.WriteFile(running.dir.path(orderFile), []byte("no order"), 0o600))
	readable := b.launch(b.order("sleep 1000"))
	readable.ready()
	empty := filepath.Join(b.state, jobsDir, "4000000.1")
	must(t, os.Mkdir(empty, 0o700))
	mounted := filepath.Join(b.state, jobsDir, "4000000.2")
	must(t, os.MkdirAll(mounted+"/run", 0o700))
	host := filepath.Join(b.dir, "host")
	must(t, os.Mkdir(host, 0o700))
	must(t, os.WriteFile(host+"/file", nil, 0o600))
	must(t, unix.Mount(host, mounted+"/run", "", unix.MS_BIND, ""))
	unmount := func() { _ = unix.Unmount(mounted+"/run", unix.MNT_DETACH) }
	t.Cleanup(unmount)
	stray := filepath.Join(b.state, jobsDir, "README")
	must(t, os.WriteFile(stray, nil, 0o600))

	handles, err := List(b.state)
	if len(handles) != 1 || err == nil || !strings.Contains(err.Error(), "4000000.1") {
		t.Errorf("List: %d parts, %v", len(handles), err)
	}
	err = DiscardUnreadable(context.Background(), b.state, parent)
	if !errors.Is(err, ErrLeftOver) || !strings.Contains(err.Error(), mounted) || !strings.Contains(err.Error(), "README") {
		t.Errorf("it said: %v", err)
	}
	if unix.Kill(supervisor, 0) == nil {
		t.Error("the supervisor still runs")
	}
	for path, there := range map[string]bool{string(running.dir): false, empty: false, mounted: true, host + "/file": true, stray: true, string(readable.dir): true} {
		if exists(path) != there {
			t.Errorf("%s is there: %v", path, !there)
		}
	}
	running.b = b
	if pids := running.processes(); len(pids) > 0 {
		t.Errorf("its processes run: %v", pids)
	}
	unmount()
	must(t, os.Remove(stray))
	must(t, DiscardUnreadable(context.Background(), b.state, parent))
	if exists(mounted) || !exists(host+"/file") || !readable.Alive() {
		t.Error("the second time went wrong")
	}
}
