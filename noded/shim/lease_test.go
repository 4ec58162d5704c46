package shim

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/lease"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// ticking is a job under "fence" that writes for ever, and says when a TERM
// reaches it.
func (b *bed) ticking() *pb.StartAlloc {
	order := b.order("trap 'echo term; exit 3' TERM; while :; do echo x; sleep 0.01; done")
	order.LeaseAction = lease.Fence
	return order
}

// grant answers a request sent now.
func (s *started) grant(length time.Duration, named bool) {
	s.b.t.Helper()
	_, err := s.client().Renew(context.Background(), s.renewal(length, named))
	must(s.b.t, err)
}

func (s *started) renewal(length time.Duration, named bool) *pb.LeaseRenewed {
	renewed := &pb.LeaseRenewed{SentBoottimeNs: int64(boottime.Now()), LeaseMs: uint32(length.Milliseconds()), LeaseMarginMs: 60_000}
	if named {
		renewed.Allocs = []*pb.AllocId{s.order.Alloc}
	}
	return renewed
}

// goesOn gives leases until the job has written: longer and longer ones, since
// on a slow machine a short one has ended before the job runs.
func (s *started) goesOn(length time.Duration) {
	s.b.t.Helper()
	size := len(s.b.output())
	if strings.Contains(s.b.output(), "no such file") {
		size = 0
	}
	for end := time.Now().Add(prototest.Patience); time.Now().Before(end); length *= 2 {
		s.grant(length, true)
		for given := time.Now(); time.Since(given) < length; time.Sleep(5 * time.Millisecond) {
			if strings.Contains(s.b.output(), "x") && len(s.b.output()) != size {
				return
			}
		}
	}
	s.b.t.Fatal("the job does not run")
}

func (s *started) freezes() {
	s.b.t.Helper()
	eventually(s.b.t, "the supervisor says that the job is frozen", func() bool { return s.saysFrozen() })
	size := len(s.b.output())
	time.Sleep(200 * time.Millisecond)
	if len(s.b.output()) != size {
		s.b.t.Error("a frozen job wrote")
	}
}

// saysFrozen is the first word to a new watcher.
func (s *started) saysFrozen() bool {
	s.b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), prototest.Patience)
	defer cancel()
	stream, err := s.client().Watch(ctx, &pb.ShimWatchRequest{})
	must(s.b.t, err)
	event, err := stream.Recv()
	must(s.b.t, err)
	if event.GetLease() == nil {
		s.b.t.Fatalf("the first event is %v", event)
	}
	return event.GetLease().Frozen
}

func TestFenceStandsStillAfterItsLease(t *testing.T) {
	t.Parallel() // it waits more than it works
	b := newBed(t)
	s := b.launch(b.ticking())
	time.Sleep(300 * time.Millisecond)
	if out := b.output(); strings.Contains(out, "x") {
		t.Fatal("the job started without a lease")
	}
	s.goesOn(300 * time.Millisecond)
	s.freezes()
	s.goesOn(300 * time.Millisecond)
	s.freezes()
	// With its lease again it gets its grace.
	s.goesOn(time.Minute)
	_, err := s.client().End(context.Background(), &pb.EndAlloc{GraceS: 600})
	must(t, err)
	wantEnd(t, s.wait(), pb.EndCause_END_CAUSE_CANCELLED, 3, 0)
	if !strings.HasSuffix(b.output(), "term\n") {
		t.Error("the job had no TERM")
	}
}

// TestFrozenAllocEndsWithoutRunning: whoever ends a frozen allocation, its programs
// do not run for it: they may run elsewhere.
func TestFrozenAllocEndsWithoutRunning(t *testing.T) {
	for name, end := range map[string]struct {
		do    func(*started)
		cause pb.EndCause
	}{
		"an order, with a grace": {func(s *started) {
			_, err := s.client().End(context.Background(), &pb.EndAlloc{GraceS: 600})
			must(t, err)
		}, pb.EndCause_END_CAUSE_CANCELLED},
		"an answer that leaves it out": {func(s *started) { s.grant(time.Minute, false) }, pb.EndCause_END_CAUSE_LEASE_ENDED},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			s := b.launch(b.ticking())
			s.goesOn(300 * time.Millisecond)
			s.freezes()
			before := b.output()
			end.do(s)
			if result := s.wait(); result.Cause != end.cause {
				t.Errorf("ended %v", result)
			}
			if b.output() != before {
				t.Errorf("wrote meanwhile: %q", strings.TrimPrefix(b.output(), before))
			}
		})
	}
}

func TestFenceNeverStartsWhenLeftOut(t *testing.T) {
	b := newBed(t)
	s := b.launch(b.ticking())
	s.grant(time.Minute, false)
	// Too late: the supervisor refuses it, or is gone already.
	_, _ = s.client().Renew(context.Background(), s.renewal(time.Minute, true))
	if result := s.wait(); result.Cause != pb.EndCause_END_CAUSE_LEASE_ENDED || strings.Contains(b.output(), "x") {
		t.Errorf("ended %v, wrote %q", result, b.output())
	}
}

// TestGraceEndsWithTheLease: a job that takes long to end is killed at the end
// of its lease.
func TestGraceEndsWithTheLease(t *testing.T) {
	t.Parallel() // it waits more than it works
	b := newBed(t)
	order := b.order("trap 'echo term' TERM; while :; do echo x; sleep 0.01; done")
	order.LeaseAction = lease.Fence
	s := b.launch(order)
	s.goesOn(time.Second)
	_, err := s.client().End(context.Background(), &pb.EndAlloc{GraceS: 1000})
	must(t, err)
	if result := s.wait(); result.Cause != pb.EndCause_END_CAUSE_CANCELLED {
		t.Errorf("ended %v", result)
	}
}

func TestRunOnNeedsNoLease(t *testing.T) {
	b := newBed(t)
	s := b.launch(b.order("while :; do echo x; sleep 0.01; done"))
	s.ready()
	s.grant(time.Millisecond, true)
	s.grant(time.Minute, false)
	time.Sleep(100 * time.Millisecond)
	size := len(b.output())
	eventually(t, "the job runs again", func() bool { return len(b.output()) > size })
	_, err := s.client().End(context.Background(), &pb.EndAlloc{})
	must(t, err)
	s.wait()
}

// TestFrozenTimeIsNotCounted against the time limit.
func TestFrozenTimeIsNotCounted(t *testing.T) {
	t.Parallel() // it waits more than it works
	b := newBed(t)
	order := b.ticking()
	order.TimeLimitS = 6
	s := b.launch(order)
	s.goesOn(200 * time.Millisecond)
	s.freezes()
	time.Sleep(6500 * time.Millisecond)
	s.freezes() // and did not end
	s.goesOn(time.Minute)
	if result := s.wait(); result.Cause != pb.EndCause_END_CAUSE_TIME_LIMIT {
		t.Errorf("ended %v", result)
	}
}

func TestLimit(t *testing.T) {
	l := newLimit(time.Hour)
	l.run()
	l.pause()
	if l.ran <= 0 || l.ran > time.Minute || l.timer.Stop() {
		t.Errorf("ran %v", l.ran)
	}
	l.set(time.Millisecond)
	if l.timer.Stop() {
		t.Error("it runs though it is frozen")
	}
	l.run()
	prototest.Receive(t, "a shorter limit is met", l.timer.C)
	l.set(0)
	endless := newLimit(0)
	endless.run()
	endless.pause()
	if endless.length != 0 || endless.timer.Stop() || l.timer.Stop() {
		t.Error("a job without a limit got one")
	}
	endless.run()
	endless.set(time.Hour)
	if !endless.timer.Stop() {
		t.Error("a limit given while it runs does not run")
	}
}

// TestWaitingCostsNothing: a supervisor whose job runs, or is frozen, sleeps.
func TestWaitingCostsNothing(t *testing.T) {
	b := newBed(t)
	free := b.order("exec sleep 1000")
	fenced := b.order("exec sleep 1000")
	fenced.LeaseAction = lease.Fence
	runs, frozen := b.launch(free), b.launch(fenced)
	// One that was frozen before it was ready says so only once it is.
	eventually(t, "it ran and is frozen", func() bool {
		frozen.grant(100*time.Millisecond, true)
		time.Sleep(200 * time.Millisecond)
		return groupExists(frozen) && frozen.saysFrozen()
	})
	runs.ready()
	for _, s := range []*started{runs, frozen} {
		before := s.processorTime()
		time.Sleep(time.Second)
		if used := s.processorTime() - before; used > 200*time.Millisecond {
			t.Errorf("allocation %s: its supervisor used %v of a second", s.dir.ID(), used)
		}
		_, err := s.client().End(context.Background(), &pb.EndAlloc{})
		must(t, err)
		s.wait()
	}
}

func groupExists(s *started) bool {
	pids, err := groupOf(s).Procs()
	return err == nil && len(pids) > 0
}

// processorTime is what the supervisor has used so far.
func (s *started) processorTime() time.Duration {
	s.b.t.Helper()
	pid, err := os.ReadFile(s.dir.Path(bundle.LockFile))
	must(s.b.t, err)
	stat, err := os.ReadFile("/proc/" + strings.Fields(string(pid))[0] + "/stat")
	must(s.b.t, err)
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	var ticks int64
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(field, 10, 64)
		must(s.b.t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
