package leader

import (
	"context"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// guest starts a job on n1, a node without an owner, where everybody is a guest.
func guest(t *testing.T, l *Leader, b *book) (*session.Session, session.Alloc, func() []*pb.ControllerMessage) {
	t.Helper()
	s := connect(t, l, b, "n1")
	alloc := session.Alloc{Job: submit(t, b), Epoch: 1}
	plan(t, l)
	dispatch(l)
	if err := l.Ready(context.Background(), s, &pb.AllocReady{Alloc: alloc.ID()}); err != nil {
		t.Fatal(err)
	}
	l.CommitReports(context.Background())
	dispatch(l)
	orders(s)
	return s, alloc, func() []*pb.ControllerMessage {
		dispatch(l)
		return orders(s)
	}
}

func reclaim(t *testing.T, b *book, within time.Duration, until time.Time) {
	t.Helper()
	c := state.ReclaimNodes{Names: []string{"n1"}, WithinMS: within.Milliseconds(), Privileged: true}
	if !until.IsZero() {
		c.UntilMS = until.UnixMilli()
	}
	b.must(t, c)
}

// TestParkOrders: an order to park says how much time is left when it is sent: once in
// a session, again if that has become less, and in each session; what is left is never
// nothing, which would be no bound. An order to continue has none.
func TestParkOrders(t *testing.T) {
	l, b := begin(t)
	_, alloc, sent := guest(t, l, b)
	skew := time.Duration(0)
	l.clock = func() time.Time { return time.Now().Add(skew) }
	reclaim(t, b, time.Minute, time.Time{})
	park := sent()
	if len(park) != 1 || !park[0].GetSuspendAlloc().GetPark() || !park[0].GetSuspendAlloc().GetSuspended() {
		t.Fatalf("orders: %v", park)
	}
	first := park[0].GetSuspendAlloc()
	if within := first.GetWithinMs(); within > 60_000 || within < 50_000 {
		t.Errorf("of a minute are left %d ms", within)
	}
	if again := sent(); len(again) != 0 {
		t.Errorf("told twice: %v", again)
	}
	reclaim(t, b, 5*time.Second, time.Time{})
	if sooner := sent(); len(sooner) != 1 || sooner[0].GetSuspendAlloc().GetNumber() <= first.GetNumber() || sooner[0].GetSuspendAlloc().GetWithinMs() > 5000 {
		t.Errorf("orders after the deadline came nearer: %v", sooner)
	}
	skew = time.Hour
	s := connect(t, l, b, "n1", &pb.RunningAlloc{Alloc: alloc.ID(), Ready: true})
	orders(s)
	dispatch(l)
	if late := orders(s); len(late) != 1 || late[0].GetSuspendAlloc().GetWithinMs() != 1 {
		t.Errorf("orders in a new session after the deadline: %v", late)
	}
	said := &pb.AllocSuspended{Alloc: alloc.ID(), Number: 2, Frozen: true, Parked: true, Freed: &pb.HardwareFreed{TookMs: 210}}
	if err := l.Suspended(context.Background(), s, said); err != nil {
		t.Fatal(err)
	}
	l.CommitReports(context.Background())
	if job, _ := b.View().Job(alloc.Job); !job.Run.Allocs[0].Parked {
		t.Errorf("its node said that it is parked: %+v", job.Run)
	}
	b.must(t, state.ReleaseNodes{Names: []string{"n1"}, Privileged: true})
	plan(t, l)
	dispatch(l)
	if last := orders(s); len(last) != 1 || last[0].GetSuspendAlloc().GetSuspended() || last[0].GetSuspendAlloc().GetPark() || last[0].GetSuspendAlloc().GetWithinMs() != 0 {
		t.Errorf("orders after the release: %v", last)
	}
}

// TestEndOrdersOfGuests: a guest that ends has its grace time, and no more than is left
// until the deadline. One that was told is told again when that has become less.
func TestEndOrdersOfGuests(t *testing.T) {
	l, b := begin(t)
	_, alloc, sent := guest(t, l, b)
	b.must(t, state.CancelJobs{Targets: []state.Target{{Job: alloc.Job}}, Privileged: true})
	if end := sent(); len(end) != 1 || end[0].GetEndAlloc().GetGraceS() != 30 {
		t.Fatalf("orders: %v", end)
	}
	reclaim(t, b, time.Hour, time.Time{})
	if end := sent(); len(end) != 1 || end[0].GetEndAlloc().GetGraceS() != 30 {
		t.Errorf("orders with an hour left: %v", end)
	}
	reclaim(t, b, 10*time.Second, time.Time{})
	if end := sent(); len(end) != 1 || end[0].GetEndAlloc().GetGraceS() != 9 {
		t.Errorf("orders with 10 s left, in whole seconds: %v", end)
	}
	reclaim(t, b, 15*time.Second, time.Time{})
	if end := sent(); len(end) != 0 {
		t.Errorf("told again, and the deadline stayed: %v", end)
	}
	reclaim(t, b, time.Second, time.Time{})
	if end := sent(); len(end) != 1 || end[0].GetEndAlloc().GetGraceS() != 0 {
		t.Errorf("orders with a second left: %v", end)
	}
}

// TestGraceOfGuests: with less time than its grace time and that between TERM and
// KILL, a guest gets the second TERM as long before the KILL as any job.
func TestGraceOfGuests(t *testing.T) {
	l, b := begin(t)
	site := policy.Message(b.View().Policy())
	site.Partitions[0].GraceTimeS = 300
	b.must(t, state.ApplyPolicy{Policy: *policy.FromMessage(site)})
	_, _, sent := guest(t, l, b)
	b.must(t, state.ReclaimNodes{Names: []string{"n1"}, WithinMS: 61_000, Kill: true, Privileged: true})
	end := sent()
	if len(end) != 1 || end[0].GetEndAlloc().GetGraceS() != 60 || end[0].GetEndAlloc().GetTermAgainS() != 30 {
		t.Errorf("orders: %v", end)
	}
}

// TestReclaimsEnd: a reclaim with an end is over once that has come, by the log's time;
// the schedule loop wakes for it though no job waits.
func TestReclaimsEnd(t *testing.T) {
	l, b := begin(t)
	connect(t, l, b, "n1")
	until := time.Now().Add(time.Hour)
	reclaim(t, b, time.Second, until)
	plan(t, l)
	if due := l.NextPass(); due.Before(until.Truncate(time.Millisecond)) || due.Sub(until) > time.Second {
		t.Errorf("the next pass is at %v, the end at %v", due, until)
	}
	if node, _ := b.View().Node("n1"); node.Reclaim == nil {
		t.Fatal("it is over too early")
	}
	b.skew = time.Hour + time.Second
	if !l.Plan(context.Background(), time.Now().Add(b.skew), new(Memo)) {
		t.Error("the pass had no effect")
	}
	if node, _ := b.View().Node("n1"); node.Reclaim != nil || !l.NextPass().IsZero() {
		t.Errorf("after its end: %+v, the next pass at %v", node.Reclaim, l.NextPass())
	}
	reclaim(t, b, time.Second, time.Now().Add(2*time.Hour))
	b.broken = true
	if l.Plan(context.Background(), time.Now().Add(3*time.Hour), new(Memo)) {
		t.Error("a pass that could not end a reclaim is repeated without a pause")
	}
}
