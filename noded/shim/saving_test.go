package shim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/lease"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// savedPart is a part whose job is one process in a control group, without a
// container, and whose images are made by the test.
type savedPart struct {
	*part
	t      *testing.T
	counts string // file to which the process writes for ever
	saver  *fakeSaver
	images *fakeImages
}

// fakeSaver writes no image; hold delays it until it is closed.
type fakeSaver struct {
	mu    sync.Mutex
	err   error
	hold  chan struct{}
	began chan struct{}
	dies  func() // what happens to the job when the save is given up
	calls int
	// prepared says that the job ran when it was prepared for the next save.
	prepared func() bool
	ready    bool
}

func (f *fakeSaver) Prepare(context.Context) { f.ready = f.prepared == nil || f.prepared() }

func (f *fakeSaver) Save(ctx context.Context, dir string) (*checkpoint.Manifest, error) {
	f.mu.Lock()
	err, hold := f.err, f.hold
	if !f.ready {
		err = errors.New("the save was not prepared while the job ran")
	}
	f.ready = false
	f.calls++
	f.mu.Unlock()
	if f.began != nil {
		f.began <- struct{}{}
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			if f.dies != nil {
				f.dies()
			}
			return nil, ctx.Err()
		}
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "pages"), []byte("x"), 0o600)
	}
	if err != nil {
		return nil, err
	}
	return &checkpoint.Manifest{Version: checkpoint.ManifestVersion, Parts: []checkpoint.Part{{Name: "pages", Size: 1}}}, nil
}

type fakeImages struct {
	mu   sync.Mutex
	last *checkpoint.Manifest
	dir  map[string]string // files of the last image, by name
	err  error
	hold chan struct{}
	put  []uint32
}

func (f *fakeImages) Put(ctx context.Context, _ string, m *checkpoint.Manifest, dir string) (*packed, error) {
	f.mu.Lock()
	err, hold := f.err, f.hold
	f.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "pages")); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put = append(f.put, m.Number)
	f.last, f.dir = m, map[string]string{}
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		data, _ := os.ReadFile(filepath.Join(dir, entry.Name()))
		f.dir[entry.Name()] = string(data)
	}
	return &packed{digest: checkpoint.Digest{byte(m.Number)}, bytes: 1, written: 1}, nil
}

func newSavedPart(t *testing.T) *savedPart {
	t.Helper()
	b := newBed(t)
	order := b.order("true")
	b.settings.Checkpoint.Engine = &checkpoint.Engine{Path: "/criu", Version: "4.2"}
	dir := partDirectory(b.state, order.Part)
	must(t, makeDirectory(dir, &b.settings, order))
	p, err := newPart(dir, slog.New(slog.DiscardHandler))
	must(t, err)
	s := &savedPart{part: p, t: t, counts: filepath.Join(b.home, "counts"), saver: &fakeSaver{}, images: &fakeImages{}}
	p.saver, p.images = s.saver, s.images
	s.saver.prepared = func() bool {
		frozen, err := p.group.Frozen()
		return err == nil && !frozen
	}
	must(t, p.group.Create())
	must(t, p.makeRunDir())
	must(t, p.serveJob())
	p.ready, p.released, p.lease.Runs = true, true, true
	p.saves.grade = p.firstGrade()
	cmd := exec.Command("/bin/sh", "-c", "read go; while :; do echo x; sleep 0.005; done")
	gate, err := cmd.StdinPipe()
	must(t, err)
	cmd.Stdout, err = os.Create(s.counts)
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		p.stopSaving()
		p.killRest()
		_ = cmd.Wait()
		p.closeJobSockets()
		p.removeCgroup()
		must(t, removeTree(string(dir)))
	})
	must(t, p.group.Add(cmd.Process.Pid))
	_, err = fmt.Fprintln(gate, "go")
	must(t, err)
	s.runs()
	return s
}

func (s *savedPart) size() int64 {
	info, err := os.Stat(s.counts)
	must(s.t, err)
	return info.Size()
}

func (s *savedPart) runs() {
	s.t.Helper()
	size := s.size()
	eventually(s.t, "the job runs", func() bool { return s.size() > size })
}

func (s *savedPart) stands() {
	s.t.Helper()
	if frozen, err := s.group.Frozen(); err != nil || !frozen {
		s.t.Fatalf("the job does not stand: %v, %v", frozen, err)
	}
	size := s.size()
	time.Sleep(50 * time.Millisecond)
	if s.size() != size {
		s.t.Fatal("a job that stands wrote")
	}
}

func (s *savedPart) save(number uint32, then pb.SaveThen) {
	s.takeSave(&pb.SavePart{Part: s.order.Part, Number: number, Then: then})
}

// told waits for how the save of a number ended.
func (s *savedPart) told(number uint32) *pb.PartSaved {
	s.t.Helper()
	var last *pb.PartSaved
	eventually(s.t, fmt.Sprintf("save %d ends", number), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		last = s.saves.last
		return last.GetNumber() == number && s.saves.now == nil
	})
	return last
}

// clean: nothing of a save is left on the disk but what is told of it.
func (s *savedPart) clean() {
	s.t.Helper()
	for _, name := range []string{saveDir, markFile} {
		if _, err := os.Lstat(s.dir.path(name)); err == nil {
			s.t.Errorf("left: %s", name)
		}
	}
}

// answers: the job's socket takes connections.
func (s *savedPart) answers() error {
	conn, err := dialSocket(context.Background(), s.dir.path(runDir, jobSocket))
	if err == nil {
		conn.Close()
	}
	return err
}

const (
	goOn  = pb.SaveThen_SAVE_THEN_GO_ON
	stand = pb.SaveThen_SAVE_THEN_STAND
)

func TestSaveGoOn(t *testing.T) {
	s := newSavedPart(t)
	s.save(1, goOn)
	saved := s.told(1)
	if saved.Image.GetNumber() != 1 || saved.Error != "" || saved.Stands || saved.Grade != pb.SaveGrade_SAVE_GRADE_YES || saved.WrittenBytes != 1 {
		t.Errorf("told %v", saved)
	}
	s.runs()
	s.clean()
	must(t, s.answers())
	if again := s.dir.saved(); again.GetNumber() != 1 {
		t.Errorf("on the disk: %v", again)
	}
	// The same number is told again, and not done again.
	s.save(1, goOn)
	if s.told(1); s.saver.calls != 1 {
		t.Errorf("saved %d times", s.saver.calls)
	}
}

func TestSaveStand(t *testing.T) {
	s := newSavedPart(t)
	s.save(3, stand)
	if saved := s.told(3); !saved.Stands || saved.Image == nil {
		t.Fatalf("told %v", saved)
	}
	s.stands()
	s.clean()
	if s.answers() == nil {
		t.Error("the job's socket answers while it stands")
	}
	s.save(3, goOn)
	s.runs()
	if saved := s.told(3); saved.Stands || saved.Image == nil {
		t.Errorf("told %v", saved)
	}
	eventually(t, "the job's socket answers again", func() bool { return s.answers() == nil })
}

// TestSaveFails: whatever fails, and whatever was asked, the job runs on.
func TestSaveFails(t *testing.T) {
	broken := errors.New("broken")
	for name, breaks := range map[string]func(*savedPart){
		"dump": func(s *savedPart) { s.saver.err = broken },
		"pack": func(s *savedPart) { s.images.err = broken },
	} {
		for _, then := range []pb.SaveThen{goOn, stand} {
			t.Run(name+" "+then.String(), func(t *testing.T) {
				s := newSavedPart(t)
				breaks(s)
				s.save(1, then)
				saved := s.told(1)
				if saved.Image != nil || !strings.Contains(saved.Error, "broken") || saved.Stands || saved.Grade != pb.SaveGrade_SAVE_GRADE_NOT_NOW {
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
	s := newSavedPart(t)
	s.saver.hold, s.saver.began = make(chan struct{}), make(chan struct{})
	s.save(1, stand)
	<-s.saver.began
	s.stands()
	s.takeSave(&pb.SavePart{Part: s.order.Part, Number: 1, Abandon: true})
	s.stands() // a dump is not broken off
	close(s.saver.hold)
	if saved := s.told(1); saved.Image != nil || !strings.Contains(saved.Error, "taken back") {
		t.Errorf("told %v", saved)
	}
	s.runs()
	s.clean()
	s.saver.hold, s.saver.began = nil, nil
	s.save(2, stand)
	s.told(2)
	s.stands()
	s.takeSave(&pb.SavePart{Part: s.order.Part, Number: 2, Abandon: true})
	s.runs()
	// What is taken back before it comes is not done.
	s.takeSave(&pb.SavePart{Part: s.order.Part, Number: 3, Abandon: true})
	s.save(3, stand)
	if saved := s.told(3); saved.Image != nil || saved.Stands {
		t.Errorf("told %v", saved)
	}
	s.runs()
}

// TestSavesAtOnce: a later one waits, and takes the place of one that waits.
func TestSavesAtOnce(t *testing.T) {
	s := newSavedPart(t)
	s.saver.hold, s.saver.began = make(chan struct{}), make(chan struct{}, 8)
	s.save(1, goOn)
	<-s.saver.began
	s.save(2, stand)
	s.save(3, goOn)
	s.save(1, goOn)
	close(s.saver.hold)
	s.told(3)
	if got := fmt.Sprint(s.images.put); got != "[1 3]" {
		t.Errorf("made images %s", got)
	}
	s.runs()
}

// TestSaveOfOneThatStands: it goes on first, for the image before it is nobody's
// wish any more.
func TestSaveOfOneThatStands(t *testing.T) {
	s := newSavedPart(t)
	s.save(1, stand)
	s.told(1)
	s.save(2, stand)
	if saved := s.told(2); !saved.Stands || saved.Image == nil {
		t.Errorf("told %v", saved)
	}
	s.stands()
	s.save(3, goOn)
	s.told(3)
	s.runs()
	must(t, s.answers())
}

// TestSaveLate: a save that takes too long is given up.
func TestSaveLate(t *testing.T) {
	s := newSavedPart(t)
	s.saver.hold = make(chan struct{})
	s.takeSave(&pb.SavePart{Part: s.order.Part, Number: 1, Then: stand, TimeoutS: 1})
	if saved := s.told(1); saved.Image != nil || !strings.Contains(saved.Error, "not done in time") {
		t.Errorf("told %v", saved)
	}
	s.runs()
}

// TestSaveLetsGo: a criu that is killed lets the job run, though it must not.
func TestSaveLetsGo(t *testing.T) {
	s := newSavedPart(t)
	s.saver.hold, s.saver.began = make(chan struct{}), make(chan struct{})
	s.saver.dies = func() { _ = s.group.Thaw(context.Background()) }
	s.lease = lease.Lease{Fence: true, Begun: boottime.Now(), End: boottime.Now() + time.Hour, Margin: time.Minute, Runs: true}
	s.save(1, stand)
	<-s.saver.began
	// Its lease ends meanwhile.
	s.mu.Lock()
	s.lease.End = boottime.Now()
	s.mu.Unlock()
	s.keepLease()
	if saved := s.told(1); saved.Image != nil || !strings.Contains(saved.Error, "lease") {
		t.Errorf("told %v", saved)
	}
	s.stands()
	// With its lease it runs again.
	s.mu.Lock()
	s.lease.End = boottime.Now() + time.Hour
	s.mu.Unlock()
	s.keepLease()
	s.runs()
}

// TestReasonsToStand: the job runs when neither its lease nor a save holds it.
func TestReasonsToStand(t *testing.T) {
	s := newSavedPart(t)
	s.lease = lease.Lease{Fence: true, Begun: boottime.Now(), End: boottime.Now() + time.Hour, Margin: time.Minute, Runs: true}
	ends := func(in time.Duration) {
		s.mu.Lock()
		s.lease.End = boottime.Now() + in
		s.mu.Unlock()
		s.keepLease()
	}
	s.save(1, stand)
	s.told(1)
	ends(0)
	s.stands()
	s.save(1, goOn)
	eventually(t, "the save lets go", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return !s.held })
	s.stands()
	ends(time.Hour)
	s.runs()
	s.save(2, stand)
	s.told(2)
	ends(0)
	ends(time.Hour)
	s.stands()
	s.save(2, goOn)
	s.runs()
}

// TestConnectionsAreClosed: before the job is stopped its programs get the end
// of their connections, and whoever asks process 1 waits.
func TestConnectionsAreClosed(t *testing.T) {
	s := newSavedPart(t)
	conn, err := dialSocket(context.Background(), s.dir.path(runDir, jobSocket))
	must(t, err)
	defer conn.Close()
	// The supervisor lets nobody in but the job's user; as root this is not one.
	s.saver.hold, s.saver.began = make(chan struct{}), make(chan struct{})
	s.save(1, goOn)
	<-s.saver.began
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Read(make([]byte, 1<<10)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a connection stays open while the job is saved")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := s.askStep(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
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
		letGo time.Time
		want  pb.EndCause
		code  uint32
	}{
		{time.Now().Add(-time.Second), pb.EndCause_END_CAUSE_SUPERVISOR_DIED, 0},
		{time.Now().Add(-time.Hour), pb.EndCause_END_CAUSE_EXITED, 2},
		{time.Time{}, pb.EndCause_END_CAUSE_EXITED, 2},
	} {
		s := newSavedPart(t)
		s.mu.Lock()
		s.batch, s.initEnded, s.saves.letGo = true, initStatus{code: 2}, row.letGo
		s.mu.Unlock()
		if got := s.outcome(false); got.Cause != row.want || got.ExitCode != row.code {
			t.Errorf("let go at %v: %v", row.letGo, got)
		}
	}
}
