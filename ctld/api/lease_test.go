package api

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// doubtful is a ledger whose majority, and whose log when the term is opened,
// answer as the test says.
type doubtful struct {
	*ledger
	confirm, open func() error
}

func (d *doubtful) Confirm(context.Context) error  { return d.confirm() }
func (d *doubtful) OpenTerm(context.Context) error { return d.open() }

// guestOn makes a cluster with a job under fence on n1, which is silent.
func guestOn(t *testing.T) (*NodeLink, *doubtful, *session.Session) {
	t.Helper()
	l := &ledger{t: t, state: state.New(), sessions: session.NewRegistry(func(string) {})}
	d := &doubtful{ledger: l, confirm: func() error { return nil }, open: func() error { return nil }}
	must := func(command state.Command) {
		t.Helper()
		if result, err := l.Propose(context.Background(), command, state.RequestID{}); err != nil || result.Refused != nil {
			t.Fatalf("%T: %v, %v", command, err, result.Refused)
		}
	}
	must(state.ApplyPolicy{Policy: *policy.FromMessage(&pb.Policy{Partitions: []*pb.Partition{
		{Name: "guests", Nodes: "ALL", Up: true, IsDefault: true, LeaseAction: policy.LeaseFence}}})})
	must(state.Barrier{Term: 1})
	register := &pb.Register{Node: "n1", Instance: "i", SentBoottimeNs: 5, Inventory: &pb.Inventory{Cpus: 8, MemoryBytes: 8 << 30, BootId: "b"}}
	must(state.RegisterFromMessage(register))
	command, err := state.SubmitFromSpec(&pb.JobSpec{Name: "j", Script: []byte("#!/bin/sh\n"), WorkDirectory: "/", MemoryPerNodeBytes: 1 << 20, Requeue: true},
		&pb.Identity{Uid: 1000, Gid: 1000, User: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	must(command)
	l.plan()
	must(state.NodesLost{Names: []string{"n1"}})
	s := NewServer(d, d, Options{Logger: slog.New(slog.DiscardHandler)}).nodes
	return s, d, l.sessions.Connect(context.Background(), register, &pb.Registered{})
}

func TestGrantNamesTheNodesAllocs(t *testing.T) {
	s, _, _ := guestOn(t)
	arrived := time.Now()
	granted, err := s.grant(context.Background(), "n1", arrived)
	if err != nil || len(granted.Allocs) != 1 || granted.LeaseMs != 30000 || granted.LeaseMarginMs != 10000 {
		t.Fatalf("granted %v, %v", granted, err)
	}
	if until := s.loops.Sessions().LeaseUntil("n1"); !until.Equal(arrived.Add(30 * time.Second)) {
		t.Errorf("noted until %v, it arrived at %v", until, arrived)
	}
}

// TestGrantLooksLast: what the node loses while a majority is asked, or the
// term is opened, it is not granted.
func TestGrantLooksLast(t *testing.T) {
	for name, when := range map[string]func(*doubtful) *func() error{
		"while a majority is asked": func(d *doubtful) *func() error { return &d.confirm },
		"while the term is opened":  func(d *doubtful) *func() error { return &d.open },
	} {
		s, d, _ := guestOn(t)
		*when(d) = func() error {
			_, err := d.Propose(context.Background(), state.LeasesEnded{Term: 1, Node: "n1"}, state.RequestID{})
			return err
		}
		granted, err := s.grant(context.Background(), "n1", time.Now())
		if err != nil || len(granted.Allocs) != 0 {
			t.Errorf("%s: granted %v, %v", name, granted, err)
		}
	}
}

// TestUnconfirmedLeaderGrantsNothing: it answers nothing, notes nothing, and
// ends the session, for the node to find another.
func TestUnconfirmedLeaderGrantsNothing(t *testing.T) {
	for name, doubt := range map[string]func(*doubtful){
		"no majority": func(d *doubtful) { d.confirm = func() error { return errors.New("nobody answers") } },
		"not open":    func(d *doubtful) { d.open = func() error { return errors.New("nobody answers") } },
		"ending":      func(d *doubtful) { d.sessions.EndLeases("n1", time.Now()) },
	} {
		s, d, link := guestOn(t)
		doubt(d)
		if _, err := s.grant(context.Background(), "n1", time.Now()); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
		if until := d.sessions.LeaseUntil("n1"); !until.IsZero() {
			t.Errorf("%s: a lease until %v is noted", name, until)
		}
		waiting := make(renewals, 1)
		waiting.put(asked{&pb.RenewLease{SentBoottimeNs: 1}, time.Now()})
		ctx, cancel := context.WithTimeout(context.Background(), prototest.Patience)
		s.renew(ctx, link, waiting)
		cancel()
		if link.Cause() == nil {
			t.Errorf("%s: the session continues", name)
		}
		for len(link.Out()) > 0 {
			if message := <-link.Out(); message.GetLeaseRenewed() != nil {
				t.Errorf("%s: sent %v", name, message)
			}
		}
	}
}

// TestNewestRenewalCounts: an older request that waits is not answered.
func TestNewestRenewalCounts(t *testing.T) {
	s, d, link := guestOn(t)
	waiting := make(renewals, 1)
	for sent := range int64(3) {
		waiting.put(asked{&pb.RenewLease{SentBoottimeNs: sent}, time.Now()})
	}
	confirmed := 0
	d.confirm = func() error { confirmed++; return nil }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.renew(ctx, link, waiting) }()
	for renewed := (*pb.LeaseRenewed)(nil); renewed == nil; {
		select {
		case message := <-link.Out():
			if renewed = message.GetLeaseRenewed(); renewed != nil && renewed.SentBoottimeNs != 2 {
				t.Errorf("answered the request of %d", renewed.SentBoottimeNs)
			}
		case <-time.After(prototest.Patience):
			t.Fatal("no answer")
		}
	}
	cancel()
	<-done
	if confirmed != 1 {
		t.Errorf("asked %d majorities", confirmed)
	}
}
