package shim

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// frozenDisk mounts a file system that can be frozen: who writes to it then is
// held by the kernel, and not even SIGKILL ends it.
func frozenDisk(t *testing.T, dir string) (freeze, thaw func()) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, 16<<20))
	must(t, os.Mkdir(dir, 0o755))
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-F", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("needs mkfs.ext4 and a loop device: %v\n%s", err, out)
		}
	}
	must(t, os.Chmod(dir, 0o777))
	run := func(option string) { _ = exec.Command("fsfreeze", option, dir).Run() }
	t.Cleanup(func() {
		run("--unfreeze")
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return func() { run("--freeze") }, func() { run("--unfreeze") }
}

// nextEvent reads events until want takes one.
func nextEvent(t *testing.T, stream pb.Shim_WatchClient, want func(*pb.ShimEvent) bool) *pb.ShimEvent {
	t.Helper()
	for {
		event, err := stream.Recv()
		must(t, err)
		if want(event) {
			return event
		}
	}
}

// A process that the kernel does not let go of keeps its allocation from ending: it
// is named, and the allocation ends when it is let go.
func TestStuckProcess(t *testing.T) {
	noRace(t)
	if !privately(t) {
		return
	}
	mountTmpfs(t, "/srv", 0o755, "size=64m")
	freeze, thaw := frozenDisk(t, "/srv/disk")
	b := newBed(t)
	for name, c := range map[string]struct {
		script string
		end    bool
		cause  pb.EndCause
		code   uint32
	}{
		"told to end": {script: "while :; do echo x > /srv/disk/file; done", end: true, cause: pb.EndCause_END_CAUSE_CANCELLED},
		"ends itself": {script: "(while :; do echo x > /srv/disk/file; done) & while [ ! -e $HOME/go ]; do sleep 0.05; done; exit 7", cause: pb.EndCause_END_CAUSE_EXITED, code: 7},
	} {
		_ = os.Remove(b.home + "/go")
		s := b.launch(b.order(c.script))
		ctx, cancel := context.WithTimeout(context.Background(), 2*prototest.Patience)
		defer cancel()
		stream, err := s.client().Watch(ctx, &pb.ShimWatchRequest{})
		must(t, err)
		nextEvent(t, stream, func(e *pb.ShimEvent) bool { return e.GetReady() != nil })
		eventually(t, "it writes", func() bool { return exists("/srv/disk/file") })
		freeze()
		if c.end {
			_, err = s.client().End(ctx, endOrder(s))
			must(t, err)
		}
		must(t, os.WriteFile(b.home+"/go", nil, 0o644))
		stuck := nextEvent(t, stream, func(e *pb.ShimEvent) bool { return e.GetStuck().GetError() != "" }).GetStuck()
		if stuck.What != "cgroup "+parent+"/"+s.dir.ID() || !strings.Contains(stuck.Error, "state D") {
			t.Errorf("%s: stuck: %v", name, stuck)
		}
		if _, err := s.Result(); err == nil {
			t.Errorf("%s: it has a result", name)
		}
		thaw()
		ended := nextEvent(t, stream, func(e *pb.ShimEvent) bool { return e.GetEnded() != nil }).GetEnded()
		if ended.Cause != c.cause || ended.ExitCode != c.code {
			t.Errorf("%s: ended %v", name, ended)
		}
		s.wait()
		must(t, s.Forget())
	}
}

// The same with the supervisor killed: Recover names the process, and succeeds
// when it is let go.
func TestStuckAfterSupervisor(t *testing.T) {
	noRace(t)
	if !privately(t) {
		return
	}
	mountTmpfs(t, "/srv", 0o755, "size=64m")
	freeze, thaw := frozenDisk(t, "/srv/disk")
	b := newBed(t)
	s := b.launch(b.order("while :; do echo x > /srv/disk/file; done"))
	s.ready()
	eventually(t, "it writes", func() bool { return exists("/srv/disk/file") })
	freeze()
	must(t, s.Kill())
	eventually(t, "its lock is free", func() bool { return !s.Alive() })
	_, err := s.Recover(context.Background())
	if err == nil || !strings.Contains(err.Error(), "state D") || !strings.Contains(err.Error(), s.dir.ID()) {
		t.Errorf("Recover: %v", err)
	}
	thaw()
	result, err := s.Recover(context.Background())
	must(t, err)
	wantEnd(t, result, pb.EndCause_END_CAUSE_SUPERVISOR_DIED, 0, 0)
	s.checkNothingLeft()
}
