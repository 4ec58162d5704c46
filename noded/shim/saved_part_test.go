package shim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
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
