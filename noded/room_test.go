package noded

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// A node without room says so before it gives the job back, and takes jobs
// again when there is room.
func TestNodeWithoutRoom(t *testing.T) {
	before := roomEvery
	roomEvery = 10 * time.Millisecond
	t.Cleanup(func() { roomEvery = before })
	controller, s, shims, n := setUp(t)
	room := n.agent.machine.room
	setMinFree := func(bytes uint64) {
		room.mu.Lock()
		defer room.mu.Unlock()
		room.minFree = bytes
	}
	if s.register.Inventory.Trouble != "" {
		t.Errorf("trouble from the start: %s", s.register.Inventory.Trouble)
	}
	setMinFree(1 << 60)
	s = controller.next()
	if got := s.register.Inventory.Trouble; !strings.HasPrefix(got, "No space left on device: state_dir / has less than 1024P free") {
		t.Errorf("registered with trouble %q", got)
	}
	s.start(startOrder(12, 1))
	if got := s.ended(); got.Cause != pb.EndCause_END_CAUSE_NODE_FULL || got.Detail != s.register.Inventory.Trouble {
		t.Errorf("ended: %v", got)
	}
	if shims.launchCount() != 0 {
		t.Error("it was launched")
	}
	setMinFree(0)
	s = controller.next()
	if got := s.register.Inventory.Trouble; got != "" {
		t.Errorf("registered with trouble %q", got)
	}
	s.start(startOrder(13, 1))
	shims.get(13, 1)
}

// The disk fills between two looks: the node registers again before it reports
// the allocation, or it would be sent the job again at once.
func TestTroubleComesBeforeTheReport(t *testing.T) {
	before := roomEvery
	roomEvery = time.Hour
	t.Cleanup(func() { roomEvery = before })
	controller, s, _, n := setUp(t)
	n.agent.machine.room.mu.Lock()
	n.agent.machine.room.minFree = 1 << 60
	n.agent.machine.room.mu.Unlock()
	s.start(startOrder(12, 1))
	again := controller.next()
	if again.register.Inventory.Trouble == "" {
		t.Error("registered without trouble")
	}
	for m := range s.received {
		if m.GetAllocEnded() != nil {
			t.Errorf("the session before was told %v", m)
		}
	}
	if got := again.ended(); got.Cause != pb.EndCause_END_CAUSE_NODE_FULL {
		t.Errorf("ended: %v", got)
	}
}

// What a supervisor says of a process that does not end is told, and taken
// back.
func TestStuckIsTold(t *testing.T) {
	_, s, shims, _ := setUp(t)
	s.start(startOrder(12, 1))
	supervisor := shims.get(12, 1)
	supervisor.ready()
	s.ready()
	stuck := func(text string) {
		supervisor.event(&pb.ShimEvent{What: &pb.ShimEvent_Stuck{Stuck: &pb.LeftOver{What: "cgroup /x/12.1", Error: text}}})
	}
	next := func() []*pb.LeftOver {
		return expect(s, "LeftOvers", (*pb.NodeMessage).GetLeftOvers).LeftOvers
	}
	stuck("process 4711 (state D)")
	first := next()
	if len(first) != 1 || first[0].What != "cgroup /x/12.1" || first[0].Error != "process 4711 (state D)" || first[0].SinceMs == 0 {
		t.Fatalf("left over: %v", first)
	}
	stuck("process 4712 (state D)")
	if second := next(); len(second) != 1 || second[0].SinceMs != first[0].SinceMs {
		t.Errorf("left over: %v, and before %v", second, first)
	}
	stuck("")
	if last := next(); len(last) != 0 {
		t.Errorf("left over: %v", last)
	}
	stuck("process 4713 (state D)")
	next()
	supervisor.exit(0)
	if last := next(); len(last) != 0 {
		t.Errorf("left over after the end: %v", last)
	}
}

// What lies beside the allocations is told once, keeps its time, and goes.
func TestStraysAreTold(t *testing.T) {
	before := sweepEvery
	sweepEvery = 5 * time.Millisecond
	t.Cleanup(func() { sweepEvery = before })
	_, s, shims, _ := setUp(t)
	set := func(left ...*remove.LeftOver) {
		shims.mu.Lock()
		defer shims.mu.Unlock()
		shims.strays = left
	}
	next := func() []*pb.LeftOver {
		return expect(s, "LeftOvers", (*pb.NodeMessage).GetLeftOvers).LeftOvers
	}
	set(&remove.LeftOver{Path: "/jobs/README", Err: errors.New("remove it")})
	first := next()
	if len(first) != 1 || first[0].What != "/jobs/README" || first[0].Error != "remove it" || first[0].SinceMs == 0 {
		t.Fatalf("left over: %v", first)
	}
	set(&remove.LeftOver{Path: "/jobs/README", Err: errors.New("remove it")}, &remove.LeftOver{Path: "/jobs/x", Err: errors.New("remove it")})
	if second := next(); len(second) != 2 || second[0].SinceMs != first[0].SinceMs {
		t.Errorf("left over: %v, and before %v", second, first)
	}
	set()
	if last := next(); len(last) != 0 {
		t.Errorf("left over: %v", last)
	}
}
