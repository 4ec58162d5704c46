package shim

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
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

// A lock that names another process, whose number was given again, kills no
// stranger.
func TestKillNoStranger(t *testing.T) {
	b := newBed(t)
	s := b.launch(b.order("sleep 1000"))
	s.ready()
	text, err := os.ReadFile(s.dir.Path(bundle.LockFile))
	must(t, err)
	for _, wrong := range []string{"1", "", "-1", "x", "999999999"} {
		must(t, os.WriteFile(s.dir.Path(bundle.LockFile), []byte(wrong), 0o600))
		if err := s.Kill(); err == nil {
			t.Errorf("killed process %q", wrong)
		}
	}
	must(t, os.WriteFile(s.dir.Path(bundle.LockFile), text, 0o600))
	must(t, s.Kill())
	eventually(t, "its lock is free", func() bool { return !s.Alive() })
}

// After a restart of the node an allocation is on disk, and nothing of it runs.
func TestNodeRestarted(t *testing.T) {
	b := newBed(t)
	s := b.launch(b.order("sleep 1000"))
	s.ready()
	must(t, s.Kill())
	eventually(t, "its processes are gone", func() bool { return !s.Alive() && len(s.processes()) == 0 })
	must(t, s.removeGroup())
	settings, err := s.dir.Settings()
	must(t, err)
	settings.BootID = "00000000-0000-0000-0000-000000000000"
	data, err := json.Marshal(settings)
	must(t, err)
	must(t, os.WriteFile(s.dir.Path(bundle.SettingsFile), data, 0o600))
	found, _, err := client.List(b.state, parent)
	must(t, err)
	again := b.follow(found[0])
	result, err := again.Recover(context.Background())
	must(t, err)
	wantEnd(t, result, pb.EndCause_END_CAUSE_SUPERVISOR_DIED, 0, 0)
	if result.Detail != "node n1 was restarted while the job ran" {
		t.Errorf("detail %q", result.Detail)
	}
	again.checkNothingLeft()
	must(t, again.Forget())
}

// The machine goes down while an allocation's files are being deleted: its result
// counts, and the rest is deleted afterwards.
func TestNodeRestartedInCleanUp(t *testing.T) {
	b := newBed(t)
	s := b.launch(b.order("exit 3"))
	wantExit(t, s.wait(), 3)
	for _, left := range []string{"disk/upper/usr", "disk/tmp/a/b", "disk/run/stdio", "state"} {
		must(t, os.MkdirAll(s.dir.Path(left), 0o700))
	}
	settings, err := s.dir.Settings()
	must(t, err)
	settings.BootID = "00000000-0000-0000-0000-000000000000"
	data, err := json.Marshal(settings)
	must(t, err)
	must(t, os.WriteFile(s.dir.Path(bundle.SettingsFile), data, 0o600))
	found, _, err := client.List(b.state, parent)
	must(t, err)
	result, err := found[0].Recover(context.Background())
	must(t, err)
	wantExit(t, result, 3)
	must(t, found[0].Forget())
	if exists(string(s.dir)) || exists(s.dir.Gone()) {
		t.Error("its directory is left")
	}
}
