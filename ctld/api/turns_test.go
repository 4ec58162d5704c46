package api

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// slowLog is a ledger that does something first, in parallel.
type slowLog struct {
	*doubtful
	first func()
}

func (l *slowLog) Propose(ctx context.Context, command state.Command, id state.RequestID) (state.Result, error) {
	l.first()
	return l.doubtful.Propose(ctx, command, id)
}

// TestRegistrationsTakeTurns: of many that register at once, only so many are under way. One
// that gives up while it waits is not registered, and keeps nobody out.
func TestRegistrationsTakeTurns(t *testing.T) {
	s, d, _ := guestOn(t)
	var under atomic.Int64
	var most int64
	entered, release := make(chan struct{}, 3*registering), make(chan struct{})
	var mu sync.Mutex
	s.cluster = &slowLog{d, func() {
		mu.Lock()
		most = max(most, under.Add(1))
		mu.Unlock()
		entered <- struct{}{}
		<-release
		under.Add(-1)
	}}
	register := func(ctx context.Context, n int) error {
		_, err := s.register(ctx, &pb.Register{Node: fmt.Sprintf("m%d", n), Instance: "i", SentBoottimeNs: 1,
			Inventory: &pb.Inventory{Cpus: 1, MemoryBytes: 1 << 30, BootId: "b"}})
		return err
	}
	var all sync.WaitGroup
	for n := range registering {
		all.Go(func() {
			if err := register(context.Background(), n); err != nil {
				t.Errorf("node %d: %v", n, err)
			}
		})
	}
	for range registering {
		prototest.Receive(t, "as many register as may at once", entered)
	}
	gone, leave := context.WithCancel(context.Background())
	leave()
	if err := register(gone, registering); status.Code(err) != codes.Canceled {
		t.Errorf("one that gave up: %v", err)
	}
	if _, known := d.View().Node(fmt.Sprintf("m%d", registering)); known {
		t.Error("one that gave up is registered")
	}
	for n := range registering {
		all.Go(func() {
			if err := register(context.Background(), registering+n); err != nil {
				t.Errorf("node %d: %v", registering+n, err)
			}
		})
	}
	close(release)
	all.Wait()
	if most != registering {
		t.Errorf("%d at once, want %d", most, registering)
	}
}
