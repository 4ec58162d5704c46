package noded

import (
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// TestSpread: nodes come back over the time that the controller says, and never so late that
// a lease is lost.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		within, lease uint32
		most          time.Duration
	}{{0, 90_000, 1}, {1000, 90_000, time.Second}, {4_000_000_000, 90_000, 15 * time.Second}, {5000, 3000, 1500 * time.Millisecond}} {
		said := &pb.Registered{ReconnectWithinMs: c.within, LeaseMs: c.lease}
		var longest time.Duration
		for range 1000 {
			longest = max(longest, spread(said))
		}
		if longest >= c.most || longest < c.most/2 {
			t.Errorf("%d ms of a lease of %d: up to %v, want almost %v", c.within, c.lease, longest, c.most)
		}
	}
	if d := spread(nil); d != 0 {
		t.Errorf("%v without a registration", d)
	}
}

// TestConnectionStays: a controller that ends a session, because another one leads now, and
// is still there has the node back on the connection that it had; one that is gone has it
// on another.
func TestConnectionStays(t *testing.T) {
	directory := t.TempDir()
	sockets := []string{filepath.Join(directory, "c1.sock"), filepath.Join(directory, "c2.sock")}
	controllers := []*fakeController{startController(t, sockets[0]), startController(t, sockets[1])}
	startNode(t, sockets[0], newFakeShims(t), func(m *machine) {
		m.config.Controllers = append(m.config.Controllers, "unix://"+sockets[1])
	})
	var at int
	var s *fakeSession
	select {
	case s = <-controllers[0].sessions:
	case s = <-controllers[1].sessions:
		at = 1
	case <-time.After(prototest.Patience):
		t.Fatal("no session")
	}
	s.send(registered(s.register))
	first := transportOf(s)
	s.leave(codes.Unavailable)
	again := controllers[at].next()
	if transportOf(again) != first {
		t.Error("another connection to a controller that is still there")
	}
	controllers[at].server.Stop()
	controllers[1-at].next()
}

// transportOf tells connections apart.
func transportOf(s *fakeSession) any {
	remote, _ := peer.FromContext(s.stream.Context())
	return remote.Addr
}
