package noded

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestRegister(t *testing.T) {
	_, s, _, _ := setUp(t)
	r := s.register
	if r.Node != "n1" || r.Instance != "instance" || len(r.Running) != 0 {
		t.Errorf("registered as %v", r)
	}
	i := r.Inventory
	if i.Cpus != 4 || i.RealCpus != 4 || i.MemoryBytes != 1<<30 || i.RealMemoryBytes != 2<<30 ||
		i.BootId != "boot" || i.CgroupVersion != "v1" || i.Address != "n1" || len(i.Devices) != 2 {
		t.Errorf("inventory %v", i)
	}
	if d := i.Devices[1]; d.Id != "g1" || d.Index != 1 || d.Shares != 1 || d.Health != pb.DeviceHealth_DEVICE_HEALTH_OK {
		t.Errorf("device %v", d)
	}
}

func TestLifeOfAAlloc(t *testing.T) {
	setTimes(t, 20*time.Millisecond, time.Hour)
	_, s, shims, n := setUp(t)
	order := startOrder(12, 1)
	s.start(order)
	shim := shims.get(12, 1)
	shim.ready()
	if got := s.ready(); registry.KeyOf(got.Alloc) != (registry.Key{Job: 12, Epoch: 1}) {
		t.Errorf("ready: %v", got)
	}
	shim.exit(3)
	// Reported until it is acknowledged.
	for range 3 {
		if got := s.ended(); registry.KeyOf(got.Alloc) != (registry.Key{Job: 12, Epoch: 1}) || got.ExitCode != 3 ||
			got.Cause != pb.EndCause_END_CAUSE_EXITED {
			t.Errorf("ended: %v", got)
		}
	}
	if !shims.onDisk(12, 1) {
		t.Error("forgotten before it was acknowledged")
	}
	s.acknowledge(order.Alloc)
	eventually(t, "the allocation is forgotten", func() bool {
		n.agent.mu.Lock()
		defer n.agent.mu.Unlock()
		return !shims.onDisk(12, 1) && len(n.agent.allocs) == 0
	})
	// An order that was long under way does not start it again.
	s.start(order)
	if got := s.ended(); got.ExitCode != 3 {
		t.Errorf("a late order was answered with %v", got)
	}
	if got := shims.launchCount(); got != 1 {
		t.Errorf("launched %d times", got)
	}
}

func TestDuplicateOrdersAreAnswered(t *testing.T) {
	setTimes(t, time.Hour, time.Hour)
	_, s, shims, _ := setUp(t)
	order := startOrder(12, 1)
	s.start(order)
	s.start(order)
	shim := shims.get(12, 1)
	shim.ready()
	s.ready()
	s.start(order)
	s.ready()
	shim.exit(0)
	s.ended()
	s.start(order)
	s.ended()
	s.end(order.Alloc)
	s.ended()
	if got := shims.launchCount(); got != 1 {
		t.Errorf("launched %d times", got)
	}
}

func TestEndOfUnknownAlloc(t *testing.T) {
	_, s, _, _ := setUp(t)
	s.end(&pb.AllocId{Job: 99, Epoch: 7})
	got := s.ended()
	if registry.KeyOf(got.Alloc) != (registry.Key{Job: 99, Epoch: 7}) || got.Cause != pb.EndCause_END_CAUSE_UNKNOWN_ALLOC {
		t.Errorf("answered with %v", got)
	}
}

func TestEnd(t *testing.T) {
	_, s, shims, _ := setUp(t)
	order := startOrder(12, 1)
	s.start(order)
	shims.get(12, 1).ready()
	s.ready()
	s.end(order.Alloc)
	if got := s.ended(); got.Cause != pb.EndCause_END_CAUSE_CANCELLED {
		t.Errorf("ended: %v", got)
	}
}

// A supervisor that does not end its allocation, because it is stopped or waits for
// ever itself, is killed.
func TestEndOfAHangingSupervisor(t *testing.T) {
	before := endPatience
	endPatience = 50 * time.Millisecond
	t.Cleanup(func() { endPatience = before })
	_, s, shims, _ := setUp(t)
	order := startOrder(12, 1)
	s.start(order)
	shim := shims.get(12, 1)
	shim.ready()
	s.ready()
	shim.deaf = true
	s.end(order.Alloc)
	if got := s.ended(); got.Cause != pb.EndCause_END_CAUSE_CANCELLED || !strings.Contains(got.Detail, "killed") {
		t.Errorf("ended: %v", got)
	}
}

func TestEndBeforeLaunch(t *testing.T) {
	_, s, shims, n := setUp(t)
	hold := make(chan struct{})
	shims.mu.Lock()
	shims.hold = hold
	shims.mu.Unlock()
	most := launchesPerCPU * len(n.agent.machine.realCPUs)
	for job := range uint32(most + 1) {
		s.start(startOrder(job+1, 1))
	}
	eventually(t, "all launches that may be made at once", func() bool { return shims.launchCount() == most })
	n.agent.mu.Lock()
	var waiting *pb.AllocId
	for key, p := range n.agent.allocs {
		if p.supervisor == nil {
			waiting = key.Message()
		}
	}
	n.agent.mu.Unlock()
	for job := range uint32(most + 1) {
		s.end(&pb.AllocId{Job: job + 1, Epoch: 1})
	}
	if waiting == nil {
		t.Fatal("no allocation waits")
	}
	s.end(&pb.AllocId{Job: 1000, Epoch: 1}) // its answer shows that all orders were taken in
	s.ended()
	close(hold)
	cancelled := 0
	for range most + 1 {
		if got := s.ended(); got.Cause == pb.EndCause_END_CAUSE_CANCELLED {
			cancelled++
		}
	}
	if cancelled != most+1 || shims.launchCount() != most {
		t.Errorf("%d cancelled, %d launched; want %d and %d", cancelled, shims.launchCount(), most+1, most)
	}
}

// TestLaunchesAreBounded: an allocation has its turn until its container is up.
func TestLaunchesAreBounded(t *testing.T) {
	_, s, shims, n := setUp(t)
	var starting, most atomic.Int64
	shims.mu.Lock()
	shims.prepare = func(s *fakeShim) {
		most.Store(max(most.Load(), starting.Add(1))) // under shims.mu
		time.AfterFunc(3*time.Millisecond, func() { starting.Add(-1); s.ready() })
	}
	shims.mu.Unlock()
	const jobs = 60
	for job := range uint32(jobs) {
		s.start(startOrder(job+1, 1))
	}
	for range jobs {
		s.ready()
	}
	bound := int64(launchesPerCPU * len(n.agent.machine.realCPUs))
	if most.Load() > bound || most.Load() < 2 {
		t.Errorf("%d containers were made at once, want at most %d", most.Load(), bound)
	}
}

func TestGangIsReleased(t *testing.T) {
	for _, early := range []bool{false, true} {
		t.Run(fmt.Sprintf("before ready %v", early), func(t *testing.T) {
			_, s, shims, _ := setUp(t)
			order := startOrder(12, 1)
			order.Gang = true
			s.start(order)
			shim := shims.get(12, 1)
			if early {
				s.release(order.Alloc)
				s.end(&pb.AllocId{Job: 1, Epoch: 1}) // answered after the release was taken in
				s.ended()
			}
			shim.ready()
			s.ready()
			if !early {
				if shim.count("start") != 0 {
					t.Error("started before it was released")
				}
				s.release(order.Alloc)
			}
			eventually(t, "the script is started", func() bool { return shim.count("start") == 1 })
			s.release(order.Alloc) // a repeated order is passed on: shims know
			eventually(t, "passed on again", func() bool { return shim.count("start") == 2 })
		})
	}
}

func TestSupervisorDies(t *testing.T) {
	_, s, shims, _ := setUp(t)
	shims.mu.Lock()
	shims.prepare = func(s *fakeShim) { s.recoverErrs = 2 }
	shims.mu.Unlock()
	order := startOrder(12, 1)
	s.start(order)
	shim := shims.get(12, 1)
	shim.ready()
	s.ready()
	shim.kill()
	left := expect(s, "LeftOvers", (*pb.NodeMessage).GetLeftOvers)
	if len(left.LeftOvers) != 1 || !strings.Contains(left.LeftOvers[0].Error, "4711") || left.LeftOvers[0].SinceMs == 0 {
		t.Errorf("left over: %v", left)
	}
	if left := expect(s, "LeftOvers", (*pb.NodeMessage).GetLeftOvers); len(left.LeftOvers) != 0 {
		t.Errorf("still left over: %v", left)
	}
	if got := s.ended(); got.Cause != pb.EndCause_END_CAUSE_SUPERVISOR_DIED {
		t.Errorf("ended: %v", got)
	}
}

func TestLeftOversAreReportedAndRetried(t *testing.T) {
	_, s, shims, n := setUp(t)
	shims.mu.Lock()
	shims.prepare = func(s *fakeShim) { s.forgetErrs = quietFailures + 2 }
	shims.mu.Unlock()
	order := startOrder(12, 1)
	s.start(order)
	shims.get(12, 1).exit(0)
	s.ended()
	s.acknowledge(order.Alloc)
	left := expect(s, "LeftOvers", (*pb.NodeMessage).GetLeftOvers)
	if len(left.LeftOvers) != 1 || !strings.Contains(left.LeftOvers[0].What, "12.1") {
		t.Errorf("left over: %v", left)
	}
	if left := expect(s, "LeftOvers", (*pb.NodeMessage).GetLeftOvers); len(left.LeftOvers) != 0 {
		t.Errorf("still left over: %v", left)
	}
	eventually(t, "the allocation is forgotten", func() bool {
		n.agent.mu.Lock()
		defer n.agent.mu.Unlock()
		return len(n.agent.allocs) == 0
	})
}

func TestLaunchFails(t *testing.T) {
	_, s, shims, _ := setUp(t)
	shims.mu.Lock()
	shims.launchErr = errors.New("no space left on device")
	shims.mu.Unlock()
	s.start(startOrder(12, 1))
	got := s.ended()
	if got.Cause != pb.EndCause_END_CAUSE_NODE_FAULT || !strings.Contains(got.Detail, "no space left") {
		t.Errorf("ended: %v", got)
	}
	// One that started nevertheless is ended, and its own report counts.
	shims.mu.Lock()
	shims.leaveDir = true
	shims.mu.Unlock()
	s.start(startOrder(13, 1))
	if got := s.ended(); registry.KeyOf(got.Alloc) != (registry.Key{Job: 13, Epoch: 1}) || got.Cause != pb.EndCause_END_CAUSE_CANCELLED {
		t.Errorf("ended: %v", got)
	}
	// One that died is cleaned up, and the cause is the node's.
	shims.mu.Lock()
	shims.prepare = func(s *fakeShim) { s.alive = false }
	shims.mu.Unlock()
	s.start(startOrder(14, 1))
	if got := s.ended(); registry.KeyOf(got.Alloc) != (registry.Key{Job: 14, Epoch: 1}) || got.Cause != pb.EndCause_END_CAUSE_NODE_FAULT {
		t.Errorf("ended: %v", got)
	}
}

func TestOrdersThatDoNotFit(t *testing.T) {
	source := newFakeSource()
	source.devices[1].Health, source.devices[1].HealthDetail = gpu.Failed, "Xid 79"
	_, s, shims, _ := setUp(t, func(m *machine) { m.source = source })
	job := uint32(20)
	for name, c := range map[string]struct {
		change func(*pb.StartAlloc)
		detail string
	}{
		"other node":     {func(o *pb.StartAlloc) { o.Node = "n2" }, `for node "n2"`},
		"no spec":        {func(o *pb.StartAlloc) { o.Spec = nil }, "no specification"},
		"no allocation":  {func(o *pb.StartAlloc) { o.Allocation = o.Allocation[:1] }, "allocates nothing"},
		"too many CPUs":  {func(o *pb.StartAlloc) { o.Allocation[1].CpuIds = []uint32{4} }, "CPU 4 of 4"},
		"unknown device": {func(o *pb.StartAlloc) { o.Allocation[1].Devices = devices("g7") }, `no device "g7"`},
		"failed device":  {func(o *pb.StartAlloc) { o.Allocation[1].Devices = devices("g0", "g1") }, "Xid 79"},
	} {
		job++
		order := startOrder(job, 1)
		c.change(order)
		s.start(order)
		got := s.ended()
		if got.Cause != pb.EndCause_END_CAUSE_NODE_FAULT || !strings.Contains(got.Detail, c.detail) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if shims.launchCount() != 0 {
		t.Error("something was launched")
	}
}

func devices(ids ...string) []*pb.AllocatedDevice {
	var all []*pb.AllocatedDevice
	for _, id := range ids {
		all = append(all, &pb.AllocatedDevice{Node: "n1", DeviceId: id})
	}
	return all
}

func TestResources(t *testing.T) {
	order := startOrder(12, 1)
	order.Allocation[1].Devices = devices("g1")
	m := testMachine("")
	got, err := m.resources(order)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.cpus, []int{2, 6}) {
		t.Errorf("real CPUs %v, want those at places 1 and 3", got.cpus)
	}
	var paths []string
	for _, f := range got.files {
		paths = append(paths, f.Path)
	}
	if diff := cmp.Diff([]string{"/dev/g1", "/dev/nvidiactl"}, paths); diff != "" {
		t.Error(diff)
	}
	m.config.CPUs = 64
	order.Allocation[1].CpuIds = []uint32{63}
	if got, err := m.resources(order); err != nil || len(got.cpus) != 0 {
		t.Errorf("a pretending node pins to %v, %v", got.cpus, err)
	}
	order.Allocation[1].Devices = nil
	if got, err := m.resources(order); err != nil || len(got.files) != 0 {
		t.Errorf("an allocation without GPUs gets %v, %v", got.files, err)
	}
}

func TestEarlierRunIsEndedFirst(t *testing.T) {
	_, s, shims, _ := setUp(t)
	s.start(startOrder(12, 1))
	earlier := shims.get(12, 1)
	earlier.ready()
	s.ready()
	s.start(startOrder(12, 2))
	if got := s.ended(); registry.KeyOf(got.Alloc) != (registry.Key{Job: 12, Epoch: 1}) {
		t.Errorf("ended: %v", got)
	}
	shims.get(12, 2)
	if earlier.Alive() {
		t.Error("two runs of a job at once")
	}
	s.start(startOrder(12, 1)) // known
	if got := s.ended(); got.Cause != pb.EndCause_END_CAUSE_CANCELLED {
		t.Errorf("ended: %v", got)
	}
}

// setTimes makes the agent's loops faster, or stops them, for one test.
func setTimes(t *testing.T, resend, inventory time.Duration) {
	oldResend, oldInventory := resendEvery, inventoryEvery
	resendEvery, inventoryEvery = resend, inventory
	t.Cleanup(func() { resendEvery, inventoryEvery = oldResend, oldInventory })
}
