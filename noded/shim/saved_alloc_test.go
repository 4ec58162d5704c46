package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	"github.com/gleaner-hpc/gleaner/noded/shim/save"
	"github.com/gleaner-hpc/gleaner/noded/shim/socket"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// savedAlloc is an allocation whose job is one process in a control group, without a
// container, and whose images are made by the test.
type savedAlloc struct {
	*alloc
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
	// piped is what the job has in memory; nil = it is in a file.
	piped []byte
	// prepared says that the job ran when it was prepared for the next save.
	prepared func() bool
	ready    bool
}

func (f *fakeSaver) Prepare(context.Context) { f.ready = f.prepared == nil || f.prepared() }

func (f *fakeSaver) Dump(ctx context.Context, dir string, pages func(string, *os.File) error) (*checkpoint.Manifest, error) {
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
	if err == nil && pages != nil && f.piped != nil {
		err = f.pipe(pages)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "pages"), []byte("x"), 0o600)
	}
	if err != nil {
		return nil, err
	}
	return &checkpoint.Manifest{Version: checkpoint.ManifestVersion, Parts: []checkpoint.Part{{Name: "pages", Size: 1}}}, nil
}

// pipe hands on what the job has in memory, and fails if not all of it is taken.
func (f *fakeSaver) pipe(pages func(string, *os.File) error) error {
	from, to, err := os.Pipe()
	if err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() {
		_, err := to.Write(f.piped)
		written <- errors.Join(err, to.Close())
	}()
	err = pages("piped", from)
	return errors.Join(err, from.Close(), <-written)
}

type fakeImages struct {
	mu   sync.Mutex
	last *checkpoint.Manifest
	dir  map[string]string // files of the last image, by name
	err  error
	hold chan struct{}
	put  []uint32
	// added: a store takes the beginning of what comes through a pipe, says so here, and
	// hangs.
	added chan struct{}
}

func (f *fakeImages) Put(ctx context.Context, _ string, m *checkpoint.Manifest, dir string) (save.Packed, error) {
	f.mu.Lock()
	err, hold := f.err, f.hold
	f.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return save.Packed{}, ctx.Err()
		}
	}
	if err != nil {
		return save.Packed{}, err
	}
	if _, err := os.Stat(filepath.Join(dir, "pages")); err != nil {
		return save.Packed{}, err
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
	return save.Packed{Digest: checkpoint.Digest{byte(m.Number)}, Bytes: 1, WrittenBytes: 1}, nil
}

func (f *fakeImages) Begin(_ context.Context, store string, _ *checkpoint.Manifest, _ uint64) (save.Packing, error) {
	return &fakePacking{f, store}, nil
}

// fakePacking puts everything at the end.
type fakePacking struct {
	images *fakeImages
	store  string
}

func (p *fakePacking) Abandon() {}

func (p *fakePacking) Add(ctx context.Context, _ string, pipe *os.File) error {
	if _, err := io.ReadFull(pipe, make([]byte, 1000)); err != nil {
		return err
	}
	if p.images.added != nil {
		p.images.added <- struct{}{}
		<-ctx.Done() // the store does not answer
		return context.Cause(ctx)
	}
	if p.images.err != nil {
		return p.images.err
	}
	_, err := io.Copy(io.Discard, pipe)
	return err
}

func (p *fakePacking) Finish(ctx context.Context, m *checkpoint.Manifest, dir string) (save.Packed, error) {
	return p.images.Put(ctx, p.store, m, dir)
}

func newSavedAlloc(t *testing.T) *savedAlloc {
	t.Helper()
	b := newBed(t)
	order := b.order("true")
	b.settings.Checkpoint.Engine = &checkpoint.Engine{Path: "/criu", Version: "4.2"}
	dir := bundle.At(b.state, order.Alloc)
	must(t, bundle.Create(dir, &b.settings, order))
	p, err := newAlloc(dir, slog.New(slog.DiscardHandler))
	must(t, err)
	s := &savedAlloc{alloc: p, t: t, counts: filepath.Join(b.home, "counts"), saver: &fakeSaver{}, images: &fakeImages{}}
	p.maker.Dumper, p.maker.Store = s.saver, s.images
	s.saver.prepared = func() bool {
		frozen, err := p.group.Frozen()
		return err == nil && !frozen
	}
	must(t, p.group.Create())
	must(t, os.Mkdir(dir.Path(bundle.DiskDir), 0o700))
	must(t, p.job.MakeRunDir())
	must(t, p.relay.Serve())
	p.core.Up, p.core.Ready, p.core.Released, p.core.Lease.Runs = true, true, true, true
	p.core.Checkpointable = p.firstCheckpointable()
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
		p.relay.Close()
		p.removeCgroup()
		must(t, remove.Tree(string(dir)))
	})
	must(t, p.group.Add(cmd.Process.Pid))
	_, err = fmt.Fprintln(gate, "go")
	must(t, err)
	s.runs()
	return s
}

func (s *savedAlloc) size() int64 {
	info, err := os.Stat(s.counts)
	must(s.t, err)
	return info.Size()
}

func (s *savedAlloc) runs() {
	s.t.Helper()
	size := s.size()
	eventually(s.t, "the job runs", func() bool { return s.size() > size })
}

func (s *savedAlloc) frozen() {
	s.t.Helper()
	if frozen, err := s.group.Frozen(); err != nil || !frozen {
		s.t.Fatalf("the job is not frozen: %v, %v", frozen, err)
	}
	size := s.size()
	time.Sleep(50 * time.Millisecond)
	if s.size() != size {
		s.t.Fatal("a frozen job wrote")
	}
}

func (s *savedAlloc) save(number uint32, then pb.SaveThen) {
	s.takeSave(&pb.SaveAlloc{Alloc: s.order.Alloc, Number: number, Then: then})
}

// told waits for how the save of a number ended.
func (s *savedAlloc) told(number uint32) *pb.AllocSaved {
	s.t.Helper()
	var last *pb.AllocSaved
	eventually(s.t, fmt.Sprintf("save %d ends", number), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		last = s.core.Last
		return last.GetNumber() == number && s.core.Now == nil
	})
	return last
}

// clean: nothing of a save is left on the disk but what is told of it.
func (s *savedAlloc) clean() {
	s.t.Helper()
	for _, name := range []string{save.Dir, bundle.MarkFile} {
		if _, err := os.Lstat(s.dir.Path(name)); err == nil {
			s.t.Errorf("left: %s", name)
		}
	}
}

// answers: the job's socket takes connections.
func (s *savedAlloc) answers() error {
	conn, err := socket.Dial(context.Background(), s.dir.Path(bundle.RunDir, bundle.JobSocket))
	if err == nil {
		conn.Close()
	}
	return err
}

const (
	resume = pb.SaveThen_SAVE_THEN_RESUME
	freeze = pb.SaveThen_SAVE_THEN_FREEZE
)
