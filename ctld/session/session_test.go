package session

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

func connect(r *Registry, node string, running ...Alloc) *Session {
	register := &pb.Register{Node: node}
	for _, alloc := range running {
		register.Running = append(register.Running, &pb.RunningAlloc{Alloc: alloc.ID(), Ready: true})
	}
	return r.Connect(context.Background(), register, &pb.Registered{ClusterName: "test"})
}

// next reads one message, as the connection's writer does.
func next(t *testing.T, s *Session) *pb.ControllerMessage {
	t.Helper()
	message := prototest.Receive(t, "a message", s.Out())
	s.Sent(message)
	return message
}

func quiet(string) {}

func TestNewestSessionWins(t *testing.T) {
	r := NewRegistry(quiet)
	first := connect(r, "n1")
	second := connect(r, "n1")
	<-first.Done()
	if !errors.Is(first.Cause(), ErrReplaced) || r.Get("n1") != second {
		t.Fatalf("first ended with %v", first.Cause())
	}
	r.Disconnect(first)
	if r.Get("n1") != second {
		t.Fatal("the end of the old session took the new one with it")
	}
	if first.Send(&pb.ControllerMessage{}) {
		t.Fatal("an ended session takes messages")
	}
	before := r.LastSeen("n1")
	first.Touch(before.Add(time.Hour))
	if !r.LastSeen("n1").Equal(before) {
		t.Fatal("an ended session renews the lease")
	}
}

// TestOneDaemonPerNode: a second gnoded under the same name would make the
// first one's jobs look lost.
func TestOneDaemonPerNode(t *testing.T) {
	r := NewRegistry(quiet)
	by := func(instance string) *pb.Register { return &pb.Register{Node: "n1", Instance: instance} }
	done, err := r.Admit(by("a"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Admit(by("a"), time.Hour); !errors.Is(err, ErrElsewhere) {
		t.Fatalf("two registrations at once: %v", err)
	}
	s := r.Connect(context.Background(), by("a"), &pb.Registered{})
	done()
	if _, err := r.Admit(by("b"), time.Hour); !errors.Is(err, ErrElsewhere) || !strings.Contains(err.Error(), "name of its own") {
		t.Fatalf("another daemon while the first is there: %v", err)
	}
	for name, admitted := range map[string]func() (func(), error){
		"the same again":              func() (func(), error) { return r.Admit(by("a"), time.Hour) },
		"another after a lease":       func() (func(), error) { return r.Admit(by("b"), 0) },
		"another when the first left": func() (func(), error) { r.Disconnect(s); return r.Admit(by("b"), time.Hour) },
	} {
		done, err := admitted()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		done()
	}
}

func TestAllocsAreBounded(t *testing.T) {
	s := connect(NewRegistry(quiet), "n1")
	for job := range uint32(maxAllocs + 1) {
		s.Report(Alloc{Job: job + 1, Epoch: 1}, Reported{Ready: true})
	}
	if !errors.Is(s.Cause(), ErrTooMany) || len(s.Allocs()) != maxAllocs {
		t.Fatalf("%d allocations, ended by %v", len(s.Allocs()), s.Cause())
	}
}

func TestRegisteredComesFirst(t *testing.T) {
	r := NewRegistry(quiet)
	s := connect(r, "n1", Alloc{1, 1})
	s.Order(Alloc{2, 1}, Started, &pb.ControllerMessage{What: &pb.ControllerMessage_StartAlloc{}})
	if next(t, s).GetRegistered().GetClusterName() != "test" {
		t.Fatal("the first message is not Registered")
	}
	if reported := s.Allocs(); !reported[Alloc{1, 1}].Ready || len(reported) != 1 {
		t.Fatalf("allocations: %v", reported)
	}
}

func TestNodeThatDoesNotReadIsCutOff(t *testing.T) {
	for name, message := range map[string]*pb.ControllerMessage{
		"many": {},
		"large": {What: &pb.ControllerMessage_StartAlloc{StartAlloc: &pb.StartAlloc{Spec: &pb.JobSpec{
			Script: make([]byte, 4<<20), Environment: []string{strings.Repeat("x", 1<<20)}}}}},
	} {
		s := connect(NewRegistry(quiet), "n1")
		sent := 0
		for s.Send(message) {
			if sent++; sent > queueLength {
				t.Fatalf("%s: %d messages were queued", name, sent)
			}
		}
		if !errors.Is(s.Cause(), ErrTooSlow) {
			t.Fatalf("%s: cut off by %v", name, s.Cause())
		}
		if name == "large" && sent > queueBytes/(5<<20)+1 {
			t.Fatalf("%d large messages were queued", sent)
		}
	}
}

func TestOrdersAreSentOncePerSession(t *testing.T) {
	r := NewRegistry(quiet)
	s := connect(r, "n1")
	next(t, s)
	alloc := Alloc{7, 1}
	order := &pb.ControllerMessage{What: &pb.ControllerMessage_EndAlloc{}}
	s.Order(alloc, Ended, order)
	s.Order(alloc, Ended, order)
	s.Order(alloc, EndedAtOnce, order)
	if len(s.Out()) != 2 {
		t.Fatalf("%d orders are queued", len(s.Out()))
	}
	s.KeepOrders(func(Alloc) bool { return true })
	if s.Ordered(alloc) != Ended|EndedAtOnce {
		t.Fatalf("ordered: %b", s.Ordered(alloc))
	}
	s.KeepOrders(func(Alloc) bool { return false })
	if s.Ordered(alloc) != 0 {
		t.Fatal("forgotten orders are remembered")
	}
}

func TestSignal(t *testing.T) {
	r := NewRegistry(quiet)
	if err := r.Signal(context.Background(), "n1", &pb.SignalAlloc{}); !errors.Is(err, ErrNotConnected) {
		t.Fatalf("no session: %v", err)
	}
	s := connect(r, "n1")
	next(t, s)
	answers := make(chan error, 1)
	send := func(ctx context.Context) { answers <- r.Signal(ctx, "n1", &pb.SignalAlloc{Signal: 10}) }

	go send(context.Background())
	token := next(t, s).GetSignalAlloc().GetToken()
	r.Answer(&pb.SignalResult{Token: "another"})
	r.Answer(&pb.SignalResult{Token: token, Error: "no such process"})
	r.Answer(&pb.SignalResult{Token: token})
	if err := <-answers; err == nil || !strings.Contains(err.Error(), "no such process") {
		t.Fatalf("a complaint: %v", err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	go send(ctx)
	next(t, s)
	cancel()
	if err := <-answers; !errors.Is(err, context.Canceled) {
		t.Fatalf("no answer: %v", err)
	}

	go send(context.Background())
	next(t, s)
	r.Disconnect(s)
	if err := <-answers; !errors.Is(err, ErrNotConnected) {
		t.Fatalf("the node went: %v", err)
	}
	if len(r.signals) != 0 {
		t.Fatalf("%d signals still wait", len(r.signals))
	}
}

func TestCloseAll(t *testing.T) {
	r := NewRegistry(quiet)
	s := connect(r, "n1")
	r.CloseAll()
	<-s.Done()
	if !errors.Is(s.Cause(), ErrClosed) || len(r.All()) != 0 || !r.LastSeen("n1").IsZero() {
		t.Fatalf("after CloseAll: %v, %d sessions", s.Cause(), len(r.All()))
	}
}
