package shim

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	"github.com/gleaner-hpc/gleaner/noded/shim/imagedir"
	"github.com/gleaner-hpc/gleaner/noded/shim/save"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// newSavingBed is a bed whose allocations can be saved, with a CRIU that works.
func newSavingBed(t *testing.T) *bed {
	t.Helper()
	b := newBed(t)
	noRace(t)
	engine, rejected := checkpoint.Find(context.Background(), checkpoint.Programs(""))
	if engine == nil {
		t.Skipf("needs a CRIU that works: saves and restores containers; found %v", rejected)
	}
	b.settings.Checkpoint.Engine = engine
	b.settings.Checkpoint.Stores.Own = filepath.Join(b.dir, "images")
	return b
}

// counter is a job that counts in memory and writes each number once.
func (b *bed) counter() *pb.StartAlloc {
	return b.order("i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done")
}

// counts checks that the numbers neither skip nor repeat, and answers the last.
func (b *bed) counts() int {
	b.t.Helper()
	text := b.output()
	if at := strings.LastIndexByte(text, '\n'); at >= 0 {
		text = text[:at]
	}
	for i, line := range strings.Split(text, "\n") {
		if n, err := strconv.Atoi(line); err != nil || n != i+1 {
			b.t.Fatalf("line %d of the output is %q", i+1, line)
		}
	}
	return strings.Count(text, "\n") + 1
}

func (b *bed) countsOn() {
	b.t.Helper()
	eventually(b.t, "the job writes", func() bool { return strings.Contains(b.output(), "\n1") || strings.HasPrefix(b.output(), "1\n") })
	from := b.counts()
	eventually(b.t, "the job counts on", func() bool { return b.counts() > from+3 })
}

// save orders a save and waits for how it ended.
func (s *started) save(order *pb.SaveAlloc) *pb.AllocSaved {
	t := s.b.t
	t.Helper()
	order.Alloc = s.order.Alloc
	ctx, cancel := context.WithTimeout(context.Background(), prototest.Patience)
	defer cancel()
	_, err := s.client().Save(ctx, order)
	must(t, err)
	return s.saved(order.Number)
}

// saveOnceStarted saves an allocation that is about to start, by a number or a later one:
// its processes may run before the supervisor has noted it.
func (s *started) saveOnceStarted(number uint32) *pb.AllocSaved {
	s.b.t.Helper()
	for deadline := time.Now().Add(prototest.Patience); ; number++ {
		saved := s.save(&pb.SaveAlloc{Number: number, Then: resume})
		if saved.Checkpointable != pb.Checkpointable_CHECKPOINTABLE_NOT_NOW || time.Now().After(deadline) {
			return saved
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// saved waits for how the save of a number ended.
func (s *started) saved(number uint32) *pb.AllocSaved {
	s.b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), prototest.Patience)
	defer cancel()
	saved, err := s.watchSave(ctx, number)
	if err != nil {
		log, _ := os.ReadFile(s.dir.Path(bundle.LogFile))
		s.b.t.Fatalf("save %d: %v\n%s", number, err, log)
	}
	return saved
}

func (s *started) watchSave(ctx context.Context, number uint32) (*pb.AllocSaved, error) {
	stream, err := s.client().Watch(ctx, &pb.ShimWatchRequest{})
	if err != nil {
		return nil, err
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if saved := event.GetSaved(); saved.GetNumber() == number {
			return saved, nil
		}
	}
}

// dumping waits until save 1 has more files than some, or is over: who is slow to
// look may miss it.
func (s *started) dumping(files int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	over := make(chan struct{})
	go func() { _, _ = s.watchSave(ctx, 1); close(over) }()
	eventually(s.b.t, "the dump", func() bool {
		select {
		case <-over:
			return true
		default:
		}
		found, _ := os.ReadDir(s.dir.Path(save.Dir, "criu"))
		return len(found) > files
	})
}

// restored is the order of the next run, which resumes from an image.
func restored(order *pb.StartAlloc, image *pb.Image) *pb.StartAlloc {
	order = proto.CloneOf(order)
	order.Alloc.Epoch++
	order.RestartCount++
	order.Restore = image
	return order
}

// saveAndEnd saves the job, which stays frozen with its image, and ends it here.
func (s *started) saveAndEnd(number uint32) *pb.AllocSaved {
	t := s.b.t
	t.Helper()
	saved := s.save(&pb.SaveAlloc{Number: number, Then: freeze})
	wantSaved(t, saved)
	_, err := s.client().End(context.Background(), endOrder(s))
	must(t, err)
	s.wait()
	return saved
}

// move saves the job, ends it here, and answers its next run, resumed from the image.
func (s *started) move(number uint32) *started {
	s.b.t.Helper()
	saved := s.saveAndEnd(number)
	next := s.b.launch(restored(s.order, saved.Image))
	next.ready()
	return next
}

func wantSaved(t testing.TB, saved *pb.AllocSaved) {
	t.Helper()
	if saved.Image == nil || saved.Error != "" {
		t.Fatalf("not saved: %v", saved)
	}
	t.Logf("frozen in %d ms, for %d ms, packed in %d ms, %d bytes, %d new", saved.StopMs, saved.StandingMs, saved.PackMs, saved.Image.Bytes, saved.WrittenBytes)
}

// TestSavedJobResumes here, and elsewhere from where it was frozen.
func TestSavedJobResumes(t *testing.T) {
	b := newSavingBed(t)
	order := b.counter()
	first := b.launch(order)
	first.ready()
	b.countsOn()
	wantSaved(t, first.save(&pb.SaveAlloc{Number: 1, Then: resume}))
	b.countsOn()
	again := first.save(&pb.SaveAlloc{Number: 2, Then: freeze})
	wantSaved(t, again)
	if !again.Frozen || again.WrittenBytes*2 > again.Image.Bytes {
		t.Errorf("the second image: %v", again)
	}
	at := b.counts()
	_, err := first.client().End(context.Background(), endOrder(first))
	must(t, err)
	wantEnd(t, first.wait(), pb.EndCause_END_CAUSE_CANCELLED, 0, 9)
	if now := b.counts(); now != at {
		t.Errorf("it was frozen at %d and ended at %d", at, now)
	}

	// Another node, with the same store.
	b.state = filepath.Join(b.dir, "state2")
	must(t, os.Mkdir(b.state, 0o700))
	must(t, client.PrepareStateDir(b.state))
	former := b.settings.StateDir
	b.settings.StateDir = b.state
	second := b.launch(restored(order, again.Image))
	second.ready()
	b.countsOn()
	if _, err := os.Lstat(second.dir.Path(imagedir.Name, "criu")); err == nil {
		t.Error("the image's files are left in the allocation's directory")
	}
	// What resumes can be saved and moved again.
	third := second.saveAndEnd(3)
	order.Alloc.Epoch++
	b.settings.StateDir, b.state = former, former
	last := b.launch(restored(order, third.Image))
	last.ready()
	b.countsOn()
	_, err = last.client().End(context.Background(), &pb.EndAlloc{GraceS: 5})
	must(t, err)
	result := last.wait()
	if result.Cause != pb.EndCause_END_CAUSE_CANCELLED || result.StartMs == 0 || result.Usage.GetCpuNs() == 0 {
		t.Errorf("ended %v", result)
	}
	b.counts()
}

// TestRestoredJobEnds with its own exit code, and its commands reach the
// supervisor's socket.
func TestRestoredJobEnds(t *testing.T) {
	b := newSavingBed(t)
	order := b.order(`x=kept; echo up; while [ ! -e $HOME/go ]; do sleep 0.02; done
test -S /run/gleaner/job.sock || exit 1
test "$x" = kept || exit 2
exit 42`)
	first := b.launch(order)
	first.ready()
	eventually(t, "it is up", func() bool { return b.output() == "up\n" })
	second := first.move(1)
	must(t, os.WriteFile(filepath.Join(b.home, "go"), nil, 0o644))
	result := second.wait()
	wantExit(t, result, 42)
	if b.output() != "up\n" {
		t.Errorf("wrote %q", b.output())
	}
}

// TestNotRestored: what is wrong with an image, or with this node, is said, and
// nothing has run.
func TestNotRestored(t *testing.T) {
	b := newSavingBed(t)
	order := b.counter()
	first := b.launch(order)
	first.ready()
	b.countsOn()
	saved := first.saveAndEnd(1)
	at := b.counts()
	settings := b.settings
	for name, row := range map[string]struct {
		change func(*pb.StartAlloc)
		want   string
	}{
		"another user":  {func(o *pb.StartAlloc) { o.Owner.Uid++ }, "user"},
		"another job":   {func(o *pb.StartAlloc) { o.Alloc.Job += 1000 }, "job"},
		"no such image": {func(o *pb.StartAlloc) { o.Restore.Digest = make([]byte, 32) }, "image"},
		// What the manifest says of itself is compared with the order, in each word.
		"another run":     {func(o *pb.StartAlloc) { o.Restore.Alloc.Epoch++ }, "another image"},
		"another number":  {func(o *pb.StartAlloc) { o.Restore.Number++ }, "another image"},
		"two other words": {func(o *pb.StartAlloc) { o.Alloc.Job += 1000; o.Restore.Alloc.Job += 1000 }, "another image"},
		"no digest":       {func(o *pb.StartAlloc) { o.Restore.Digest = nil }, "SHA-256"},
		"no criu": {func(*pb.StartAlloc) {
			b.settings.Checkpoint.Engine, b.settings.Checkpoint.WhyNot = nil, "install it"
		}, "CRIU: install it"},
		"no work directory": {func(o *pb.StartAlloc) { o.Spec.WorkDirectory = "/nonexistent" }, "/nonexistent"},
	} {
		t.Run(name, func(t *testing.T) {
			b.settings = settings
			next := restored(order, proto.CloneOf(saved.Image))
			next.Alloc.Epoch += lastJob.Add(1)
			row.change(next)
			result := b.launch(next).wait()
			if result.Cause != pb.EndCause_END_CAUSE_RESTORE_FAILED || !strings.Contains(result.Detail, row.want) {
				t.Errorf("ended %v", result)
			}
		})
	}
	if b.counts() != at {
		t.Error("it ran")
	}
}

// TestStoreIsFull: the job runs on, and what would help is said.
func TestStoreIsFull(t *testing.T) {
	b := newSavingBed(t)
	b.settings.Checkpoint.Stores.Bytes = 1 << 20
	s := b.launch(b.counter())
	s.ready()
	b.countsOn()
	saved := s.save(&pb.SaveAlloc{Number: 1, Then: freeze})
	if saved.Image != nil || saved.Frozen || !strings.Contains(saved.Error, "not enough space") {
		t.Errorf("told %v", saved)
	}
	t.Log(saved.Error)
	b.countsOn()
	if saved := s.save(&pb.SaveAlloc{Number: 2, Then: freeze, Store: "scratch"}); saved.Image != nil || !strings.Contains(saved.Error, "[[checkpoint.shared]]") {
		t.Errorf("told %v", saved)
	}
	b.countsOn()
	_, err := s.client().End(context.Background(), endOrder(s))
	must(t, err)
	s.wait()
}

// TestVfork: a job that makes processes with vfork all the time is saved, though
// it may be stopped while it waits for one of them.
func TestVfork(t *testing.T) {
	b := newSavingBed(t)
	s := b.launch(b.order("while :; do /bin/true; done")) // dash(1) makes each with vfork
	s.ready()
	for number := range uint32(10) {
		if saved := s.save(&pb.SaveAlloc{Number: number + 1, Then: resume}); saved.Image == nil {
			t.Errorf("not saved: %v", saved)
		}
	}
	_, err := s.client().End(context.Background(), endOrder(s))
	must(t, err)
	s.wait()
}

// TestRestoredDiesWithItsSupervisor, as one that was started does.
func TestRestoredDiesWithItsSupervisor(t *testing.T) {
	b := newSavingBed(t)
	order := b.counter()
	first := b.launch(order)
	first.ready()
	b.countsOn()
	second := first.move(1)
	b.countsOn()
	must(t, unix.Kill(second.pid(), unix.SIGKILL))
	eventually(t, "its processes are gone", func() bool { return len(second.processes()) == 0 })
	eventually(t, "its lock is free", func() bool { return !second.Alive() })
	result, err := second.Recover(context.Background())
	must(t, err)
	wantEnd(t, result, pb.EndCause_END_CAUSE_SUPERVISOR_DIED, 0, 0)
	second.checkNothingLeft()
}
