package leader

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// book is a Cluster without a log: commands are applied at once.
type book struct {
	mu      sync.Mutex
	state   *state.State
	index   uint64
	changed func(*state.View, []*state.Result)
	broken  bool
	kinds   []state.Kind
	skew    time.Duration // of its clock
}

func (b *book) View() *state.View {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state.View()
}

func (b *book) Propose(_ context.Context, command state.Command, id state.RequestID) (state.Result, error) {
	b.mu.Lock()
	if b.broken {
		b.mu.Unlock()
		return state.Result{}, errors.New("disk full")
	}
	entry, err := state.Encode(command, id, time.Now().Add(b.skew).UnixMilli())
	if err != nil {
		b.mu.Unlock()
		return state.Result{}, err
	}
	b.index++
	result, err := b.state.Apply(b.index, entry)
	b.kinds = append(b.kinds, result.Kind)
	view := b.state.View()
	b.mu.Unlock()
	b.changed(view, []*state.Result{&result})
	return result, err
}

// begin makes a leader that leads, with its loops under the test's control.
func begin(t *testing.T) (*Leader, *book) {
	t.Helper()
	b := &book{state: state.New()}
	l := New(b, nil, slog.New(slog.DiscardHandler))
	b.changed = l.Changed
	l.leading.Store(true)
	return l, b
}

func (b *book) must(t *testing.T, command state.Command) state.Result {
	t.Helper()
	result, err := b.Propose(context.Background(), command, state.RequestID{})
	if err != nil || result.Refused != nil {
		t.Fatalf("%T: %v, %v", command, err, result.Refused)
	}
	return result
}

func connect(t *testing.T, l *Leader, b *book, node string, running ...*pb.RunningAlloc) *session.Session {
	t.Helper()
	register := &pb.Register{Node: node, Running: running, Inventory: &pb.Inventory{Cpus: 8, MemoryBytes: 8 << 30, BootId: "b"}}
	b.must(t, state.RegisterFromMessage(register))
	return l.sessions.Connect(context.Background(), register, &pb.Registered{})
}

func submit(t *testing.T, b *book) uint32 {
	t.Helper()
	command, err := state.SubmitFromSpec(&pb.JobSpec{Name: "j", Script: []byte("#!/bin/sh\n"), WorkDirectory: "/", MemoryPerNodeBytes: 1 << 20}, &pb.Identity{Uid: 1000, Gid: 1000, User: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	return b.must(t, command).JobID
}

// orders takes what is queued for a node, but Registered.
func orders(s *session.Session) []*pb.ControllerMessage {
	return slices.DeleteFunc(messages(s), func(m *pb.ControllerMessage) bool { return m.GetOwnerRules() != nil })
}

// messages are all that a node is told, also of its owner.
func messages(s *session.Session) []*pb.ControllerMessage {
	var taken []*pb.ControllerMessage
	for {
		select {
		case message := <-s.Out():
			s.Sent(message)
			if message.GetRegistered() == nil {
				taken = append(taken, message)
			}
		default:
			return taken
		}
	}
}

func plan(t *testing.T, l *Leader) {
	t.Helper()
	l.Plan(context.Background(), time.Now(), new(Memo))
}

func dispatch(l *Leader) { l.Dispatch() }

func TestOrdersFollowTheState(t *testing.T) {
	l, b := begin(t)
	s := connect(t, l, b, "n1")
	id := submit(t, b)
	plan(t, l)
	dispatch(l)
	got := orders(s)
	if len(got) != 1 || got[0].GetStartAlloc().GetAlloc().GetJob() != id || len(got[0].GetStartAlloc().GetSpec().GetScript()) == 0 {
		t.Fatalf("orders: %v", got)
	}
	l.NodeReported("n1")
	dispatch(l)
	if again := orders(s); len(again) != 0 {
		t.Fatalf("the same order twice in a session: %v", again)
	}
	// A new session is told again, unless the node says that it has the allocation.
	s = connect(t, l, b, "n1")
	dispatch(l)
	if again := orders(s); len(again) != 1 || again[0].GetStartAlloc() == nil {
		t.Fatalf("after a reconnection: %v", again)
	}
	s = connect(t, l, b, "n1", &pb.RunningAlloc{Alloc: &pb.AllocId{Job: id, Epoch: 1}, Ready: true})
	dispatch(l)
	if again := orders(s); len(again) != 0 {
		t.Fatalf("a node that has the allocation was ordered: %v", again)
	}
	b.must(t, state.CancelJobs{Targets: []state.Target{{Job: id}}, Privileged: true})
	dispatch(l)
	if end := orders(s); len(end) != 1 || end[0].GetEndAlloc().GetGraceS() != 30 {
		t.Fatalf("after a cancel: %v", end)
	}
}

func TestForeignAllocIsEndedAtOnce(t *testing.T) {
	l, b := begin(t)
	s := connect(t, l, b, "n1", &pb.RunningAlloc{Alloc: &pb.AllocId{Job: 77, Epoch: 3}})
	dispatch(l)
	got := orders(s)
	if len(got) != 1 || got[0].GetEndAlloc().GetAlloc().GetJob() != 77 || got[0].GetEndAlloc().GetGraceS() != 0 {
		t.Fatalf("orders: %v", got)
	}
}

// TestEndedAllocIsNeverStartedAgain goes through each moment between the report
// of an end and its acknowledgement.
func TestEndedAllocIsNeverStartedAgain(t *testing.T) {
	l, b := begin(t)
	s := connect(t, l, b, "n1")
	id := submit(t, b)
	plan(t, l)
	dispatch(l)
	orders(s)
	alloc := &pb.AllocId{Job: id, Epoch: 1}
	ctx := context.Background()
	if err := errors.Join(l.Ready(ctx, s, &pb.AllocReady{Alloc: alloc}), l.Ended(ctx, s, &pb.AllocEnded{Alloc: alloc, Cause: pb.EndCause_END_CAUSE_EXITED})); err != nil {
		t.Fatal(err)
	}
	dispatch(l)
	if got := orders(s); len(got) != 0 {
		t.Fatalf("reported, not committed: %v", got)
	}
	// What the dispatcher saw before the commit and acts on after it.
	allocs, view := s.Allocs(), b.View()
	l.commitBatch(ctx, l.gather(<-l.reports))
	if got := orders(s); len(got) != 1 || got[0].GetEndedAcknowledged() == nil {
		t.Fatalf("committed: %v", got)
	}
	l.dispatchTo(view, s, allocs)
	l.NodeReported("n1")
	dispatch(l)
	if got := orders(s); len(got) != 0 {
		t.Fatalf("acknowledged: %v", got)
	}
	if s.Ordered(session.Alloc{Job: id, Epoch: 1}) != 0 {
		t.Fatal("what was ordered for an ended allocation is kept for ever")
	}
}

func TestReportThatCanNotBeCommittedIsNotAcknowledged(t *testing.T) {
	l, b := begin(t)
	s := connect(t, l, b, "n1")
	id := submit(t, b)
	plan(t, l)
	b.mu.Lock()
	b.broken = true
	b.mu.Unlock()
	if err := l.Ended(context.Background(), s, &pb.AllocEnded{Alloc: &pb.AllocId{Job: id, Epoch: 1}}); err != nil {
		t.Fatal(err)
	}
	l.commitBatch(context.Background(), l.gather(<-l.reports))
	if got := orders(s); len(got) != 0 {
		t.Fatalf("answered: %v", got)
	}
	select {
	case <-s.Done():
	default:
		t.Fatal("the node is not asked to connect and report again")
	}
}

// TestLoops runs everything and stops it.
func TestLoops(t *testing.T) {
	l, b := begin(t)
	ctx, cancel := context.WithCancel(context.Background())
	began, done := make(chan struct{}), make(chan struct{})
	go func() {
		l.Lead(ctx, 1, func() { close(began) })
		close(done)
	}()
	<-began
	s := connect(t, l, b, "n1")
	id := submit(t, b)
	message := prototest.Receive(t, "an order", s.Out())
	for message.GetStartAlloc() == nil {
		message = prototest.Receive(t, "an order", s.Out())
	}
	if message.GetStartAlloc().GetAlloc().GetJob() != id {
		t.Fatalf("order: %v", message)
	}
	cancel()
	<-done
	<-s.Done()
	if l.Leading() || !errors.Is(s.Cause(), session.ErrClosed) {
		t.Fatalf("after the end: leading %v, session %v", l.Leading(), s.Cause())
	}
}
