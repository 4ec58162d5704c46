package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/lease"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/socket"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestSaveResume(t *testing.T) {
	s := newSavedAlloc(t)
	s.save(1, resume)
	saved := s.told(1)
	if saved.Image.GetNumber() != 1 || saved.Error != "" || saved.Frozen || saved.Checkpointable != pb.Checkpointable_CHECKPOINTABLE_YES || saved.WrittenBytes != 1 {
		t.Errorf("told %v", saved)
	}
	s.runs()
	s.clean()
	must(t, s.answers())
	if again := s.dir.Saved(); again.GetNumber() != 1 {
		t.Errorf("on the disk: %v", again)
	}
	// The same number is told again, and not done again.
	s.save(1, resume)
	if s.told(1); s.saver.calls != 1 {
		t.Errorf("saved %d times", s.saver.calls)
	}
}

func TestSaveFreeze(t *testing.T) {
	s := newSavedAlloc(t)
	s.save(3, freeze)
	if saved := s.told(3); !saved.Frozen || saved.Image == nil {
		t.Fatalf("told %v", saved)
	}
	s.frozen()
	s.clean()
	if s.answers() == nil {
		t.Error("the job's socket answers while it is frozen")
	}
	s.save(3, resume)
	s.runs()
	if saved := s.told(3); saved.Frozen || saved.Image == nil {
		t.Errorf("told %v", saved)
	}
	eventually(t, "the job's socket answers again", func() bool { return s.answers() == nil })
}

// TestSaveFails: whatever fails, and whatever was asked, the job runs on.
func TestSaveFails(t *testing.T) {
	broken := errors.New("broken")
	for name, breaks := range map[string]func(*savedAlloc){
		"dump": func(s *savedAlloc) { s.saver.err = broken },
		"pack": func(s *savedAlloc) { s.images.err = broken },
	} {
		for _, then := range []pb.SaveThen{resume, freeze} {
			t.Run(name+" "+then.String(), func(t *testing.T) {
				s := newSavedAlloc(t)
				breaks(s)
				s.save(1, then)
				saved := s.told(1)
				if saved.Image != nil || !strings.Contains(saved.Error, "broken") || saved.Frozen || saved.Checkpointable != pb.Checkpointable_CHECKPOINTABLE_NOT_NOW {
					t.Errorf("told %v", saved)
				}
				s.runs()
				s.clean()
				must(t, s.answers())
			})
		}
	}
}

// TestSaveTakenBack, while it is made and after.
func TestSaveTakenBack(t *testing.T) {
	s := newSavedAlloc(t)
	s.saver.hold, s.saver.began = make(chan struct{}), make(chan struct{})
	s.save(1, freeze)
	<-s.saver.began
	s.frozen()
	s.takeSave(&pb.SaveAlloc{Alloc: s.order.Alloc, Number: 1, Abandon: true})
	s.frozen() // a dump is not broken off
	close(s.saver.hold)
	if saved := s.told(1); saved.Image != nil || !strings.Contains(saved.Error, "taken back") {
		t.Errorf("told %v", saved)
	}
	s.runs()
	s.clean()
	s.saver.hold, s.saver.began = nil, nil
	s.save(2, freeze)
	s.told(2)
	s.frozen()
	s.takeSave(&pb.SaveAlloc{Alloc: s.order.Alloc, Number: 2, Abandon: true})
	s.runs()
	// What is taken back before it comes is not done.
	s.takeSave(&pb.SaveAlloc{Alloc: s.order.Alloc, Number: 3, Abandon: true})
	s.save(3, freeze)
	if saved := s.told(3); saved.Image != nil || saved.Frozen {
		t.Errorf("told %v", saved)
	}
	s.runs()
}

// TestPackingFails: CRIU comes to its end, though the store takes no more of what the job
// has in memory.
func TestPackingFails(t *testing.T) {
	s := newSavedAlloc(t)
	s.saver.piped, s.images.err = make([]byte, 8<<20), errors.New("the store is full")
	s.save(1, freeze)
	if saved := s.told(1); saved.Image != nil || saved.Error != "the store is full" {
		t.Errorf("told %v", saved)
	}
	s.runs()
	s.clean()
}

// TestTakenBackWhilePacked: a save that is taken back does not wait for its store.
func TestTakenBackWhilePacked(t *testing.T) {
	s := newSavedAlloc(t)
	s.saver.piped, s.images.added = make([]byte, 8<<20), make(chan struct{})
	s.save(1, freeze)
	<-s.images.added
	s.frozen()
	s.takeSave(&pb.SaveAlloc{Alloc: s.order.Alloc, Number: 1, Abandon: true})
	if saved := s.told(1); saved.Image != nil || !strings.Contains(saved.Error, "taken back") {
		t.Errorf("told %v", saved)
	}
	s.runs()
	s.clean()
}

// TestSavesAtOnce: a later one waits, and takes the place of one that waits.
func TestSavesAtOnce(t *testing.T) {
	s := newSavedAlloc(t)
	s.saver.hold, s.saver.began = make(chan struct{}), make(chan struct{}, 8)
	s.save(1, resume)
	<-s.saver.began
	s.save(2, freeze)
	s.save(3, resume)
	s.save(1, resume)
	close(s.saver.hold)
	s.told(3)
	if got := fmt.Sprint(s.images.put); got != "[1 3]" {
		t.Errorf("made images %s", got)
	}
	s.runs()
}

// TestSaveOfOneThatIsFrozen: it resumes first, because the image before it is nobody's
// wish any more.
func TestSaveOfOneThatIsFrozen(t *testing.T) {
	s := newSavedAlloc(t)
	s.save(1, freeze)
	s.told(1)
	s.save(2, freeze)
	if saved := s.told(2); !saved.Frozen || saved.Image == nil {
		t.Errorf("told %v", saved)
	}
	s.frozen()
	s.save(3, resume)
	s.told(3)
	s.runs()
	must(t, s.answers())
}

// TestSaveLate: a save that takes too long is given up.
func TestSaveLate(t *testing.T) {
	s := newSavedAlloc(t)
	s.saver.hold = make(chan struct{})
	s.takeSave(&pb.SaveAlloc{Alloc: s.order.Alloc, Number: 1, Then: freeze, TimeoutS: 1})
	if saved := s.told(1); saved.Image != nil || !strings.Contains(saved.Error, "not done in time") {
		t.Errorf("told %v", saved)
	}
	s.runs()
}

// TestSaveLetsGo: a criu that is killed lets the job run, though it must not.
func TestSaveLetsGo(t *testing.T) {
	s := newSavedAlloc(t)
	s.saver.hold, s.saver.began = make(chan struct{}), make(chan struct{})
	s.saver.dies = func() { _ = s.group.Thaw(context.Background()) }
	s.core.Lease = lease.Lease{Fence: true, Begun: boottime.Now(), End: boottime.Now() + time.Hour, Margin: time.Minute, Runs: true}
	s.save(1, freeze)
	<-s.saver.began
	// Its lease ends meanwhile.
	s.mu.Lock()
	s.core.Lease.End = boottime.Now()
	s.mu.Unlock()
	s.keepLease()
	if saved := s.told(1); saved.Image != nil || !strings.Contains(saved.Error, "lease") {
		t.Errorf("told %v", saved)
	}
	s.frozen()
	// With its lease it runs again.
	s.mu.Lock()
	s.core.Lease.End = boottime.Now() + time.Hour
	s.mu.Unlock()
	s.keepLease()
	s.runs()
}

// TestReasonsToFreeze: the job runs when neither its lease nor a save holds it.
func TestReasonsToFreeze(t *testing.T) {
	s := newSavedAlloc(t)
	s.core.Lease = lease.Lease{Fence: true, Begun: boottime.Now(), End: boottime.Now() + time.Hour, Margin: time.Minute, Runs: true}
	ends := func(in time.Duration) {
		s.mu.Lock()
		s.core.Lease.End = boottime.Now() + in
		s.mu.Unlock()
		s.keepLease()
	}
	s.save(1, freeze)
	s.told(1)
	ends(0)
	s.frozen()
	s.save(1, resume)
	eventually(t, "the save lets go", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return !s.core.Held })
	s.frozen()
	ends(time.Hour)
	s.runs()
	s.save(2, freeze)
	s.told(2)
	ends(0)
	ends(time.Hour)
	s.frozen()
	s.save(2, resume)
	s.runs()
}

// TestConnectionsAreClosed: before the job is stopped its programs get the end
// of their connections, and whoever asks process 1 waits.
func TestConnectionsAreClosed(t *testing.T) {
	s := newSavedAlloc(t)
	conn, err := socket.Dial(context.Background(), s.dir.Path(bundle.RunDir, bundle.JobSocket))
	must(t, err)
	defer conn.Close()
	// The supervisor lets nobody in but the job's user; as root this is not one.
	s.saver.hold, s.saver.began = make(chan struct{}), make(chan struct{})
	s.save(1, resume)
	<-s.saver.began
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Read(make([]byte, 1<<10)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a connection stays open while the job is saved")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := s.relay.AskInit(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("process 1 is asked while the job is saved: %v", err)
	}
	close(s.saver.hold)
	s.told(1)
	must(t, s.answers())
}

// TestProcess1DiesOfADump: process 1 may be what a criu that is killed leaves
// broken. Then nobody reports of the script, and its end is not the job's own.
func TestProcess1DiesOfADump(t *testing.T) {
	for _, row := range []struct {
		criuReleased time.Time
		want         pb.EndCause
		code         uint32
	}{
		{time.Now().Add(-time.Second), pb.EndCause_END_CAUSE_SUPERVISOR_DIED, 0},
		{time.Now().Add(-time.Hour), pb.EndCause_END_CAUSE_EXITED, 2},
		{time.Time{}, pb.EndCause_END_CAUSE_EXITED, 2},
	} {
		s := newSavedAlloc(t)
		s.mu.Lock()
		s.batch, s.initEnded, s.criuReleased = true, initStatus{code: 2}, row.criuReleased
		s.mu.Unlock()
		if got := s.outcome(false); got.Cause != row.want || got.ExitCode != row.code {
			t.Errorf("let go at %v: %v", row.criuReleased, got)
		}
	}
}
