package noded

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

func TestLeaseIsPassedOn(t *testing.T) {
	_, s, shims, _ := setUp(t)
	s.start(startOrder(12, 1))
	shim := shims.get(12, 1)
	asked := expect(s, "RenewLease", (*pb.NodeMessage).GetRenewLease)
	if now := int64(boottime.Now()); asked.SentBoottimeNs <= 0 || asked.SentBoottimeNs > now || now-asked.SentBoottimeNs > int64(patience) {
		t.Errorf("asked at %d, now is %d", asked.SentBoottimeNs, now)
	}
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_LeaseRenewed{
		LeaseRenewed: &pb.LeaseRenewed{SentBoottimeNs: asked.SentBoottimeNs, LeaseMs: 300_000},
	}})
	eventually(t, "the lease is passed on", func() bool { return shim.count("renew") > 0 })
	// An allocation that starts later gets the lease too.
	s.start(startOrder(13, 1))
	later := shims.get(13, 1)
	eventually(t, "the lease is passed on", func() bool { return later.count("renew") > 0 })
	for _, shim := range []*fakeShim{shim, later} {
		eventually(t, "that answer is passed on", func() bool { return shim.lastRenewal().LeaseMs == 300_000 })
		if got := shim.lastRenewal(); got.SentBoottimeNs != asked.SentBoottimeNs || got.LeaseMs != 300_000 {
			t.Errorf("passed on %v", got)
		}
	}
}

func TestSilentControllerIsLeft(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "c.sock")
	controller := startController(t, socket)
	startNode(t, socket, newFakeShims(t))
	first := <-controller.sessions
	first.send(&pb.ControllerMessage{What: &pb.ControllerMessage_Registered{
		Registered: &pb.Registered{LeaseMs: 100, RenewEveryMs: 50},
	}})
	first.waitClosed()
	controller.next()
}

// A controller that can be reached and takes nothing, one that takes the
// registration and does not answer, and one without a leader do not keep the
// node from the next.
func TestControllerThatHangs(t *testing.T) {
	connect, register := connectDeadline, registerDeadline
	connectDeadline, registerDeadline = time.Second, time.Second
	t.Cleanup(func() { connectDeadline, registerDeadline = connect, register })
	directory := t.TempDir()
	stopped, err := net.Listen("unix", filepath.Join(directory, "c1.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stopped.Close() })
	silent := startController(t, filepath.Join(directory, "c2.sock"))
	sound := startController(t, filepath.Join(directory, "c3.sock"))
	startNode(t, filepath.Join(directory, "c1.sock"), newFakeShims(t), func(m *machine) {
		for _, name := range []string{"c2.sock", "c3.sock"} {
			m.config.Controllers = append(m.config.Controllers, "unix://"+filepath.Join(directory, name))
		}
	})
	// The open session is not left for one that was tried in vain. Where
	// all is slow the sound one may be tried more than once.
	for asked := false; !asked; {
		s := prototest.Receive(t, "a session", sound.sessions)
		_ = s.stream.Send(registered(s.register))
		for m := range s.received {
			if asked = m.GetRenewLease() != nil; asked {
				break
			}
		}
	}
	for len(silent.sessions) > 0 { // it may have been the first to be tried
		(<-silent.sessions).waitClosed()
	}
}

func TestPatienceIsShorterThanTheLease(t *testing.T) {
	for lease := 100 * time.Millisecond; lease < time.Hour; lease *= 2 {
		renewal := lease / 3 // as the controllers ask for
		if left := lease - renewal - patienceOf(lease); left < lease/8 {
			t.Errorf("of a lease of %v there is %v left to renew it elsewhere", lease, left)
		}
	}
}

func TestNextController(t *testing.T) {
	directory := t.TempDir()
	controller := startController(t, filepath.Join(directory, "c2.sock"))
	startNode(t, filepath.Join(directory, "c1.sock"), newFakeShims(t), func(m *machine) {
		m.config.Controllers = append(m.config.Controllers, "unix://"+filepath.Join(directory, "c2.sock"))
	})
	controller.next()
}

func TestControllerRestarts(t *testing.T) {
	setTimes(t, time.Hour, time.Hour)
	controller, s, shims, n := setUp(t)
	s.start(startOrder(12, 1))
	s.start(startOrder(13, 1))
	running, finished := shims.get(12, 1), shims.get(13, 1)
	running.ready()
	s.ready()
	controller.server.Stop()
	finished.exit(5) // while nobody listens
	s = startController(t, n.socket).next()
	states := map[uint32]*pb.RunningAlloc{}
	for _, p := range s.register.Running {
		states[p.Alloc.Job] = p
	}
	if len(states) != 2 || !states[12].Ready || states[12].Ending {
		t.Errorf("registered with %v", s.register.Running)
	}
	if got := s.ended(); registry.KeyOf(got.Alloc) != (registry.Key{Job: 13, Epoch: 1}) || got.ExitCode != 5 {
		t.Errorf("ended: %v", got)
	}
	running.exit(6)
	if got := s.ended(); registry.KeyOf(got.Alloc) != (registry.Key{Job: 12, Epoch: 1}) || got.ExitCode != 6 {
		t.Errorf("ended: %v", got)
	}
}

// TestDaemonRestarts: allocations continue while no daemon is there, and each end is
// reported with its own exit code.
func TestDaemonRestarts(t *testing.T) {
	controller, s, shims, n := setUp(t)
	shims.mu.Lock()
	shims.prepare = func(s *fakeShim) { time.AfterFunc(0, s.ready) }
	shims.mu.Unlock()
	const jobs = 20
	for job := range uint32(jobs) {
		s.start(startOrder(job+1, 1))
	}
	for range jobs {
		s.ready()
	}
	n.stop()
	for job := range uint32(jobs / 4) {
		shims.get(job+1, 1).exit(job + 1)
	}
	shims.get(jobs, 1).kill()
	startNode(t, n.socket, shims)
	s = controller.next()
	if len(s.register.Running) != jobs {
		t.Errorf("registered with %d allocations, want %d", len(s.register.Running), jobs)
	}
	for job := uint32(jobs / 4); job < jobs-1; job++ {
		shims.get(job+1, 1).exit(job + 1)
	}
	codes := map[uint32]*pb.AllocEnded{}
	for len(codes) < jobs {
		got := s.ended()
		codes[got.Alloc.Job] = got
	}
	for job, got := range codes {
		switch {
		case job == jobs && got.Cause != pb.EndCause_END_CAUSE_SUPERVISOR_DIED,
			job < jobs && (got.ExitCode != job || got.Cause != pb.EndCause_END_CAUSE_EXITED):
			t.Errorf("job %d: %v", job, got)
		}
	}
	if got := shims.launchCount(); got != jobs {
		t.Errorf("launched %d times", got)
	}
}

func TestFailedDeviceIsTold(t *testing.T) {
	setTimes(t, time.Hour, 10*time.Millisecond)
	source := newFakeSource()
	controller, s, _, _ := setUp(t, func(m *machine) { m.source = source })
	source.mu.Lock()
	source.devices[0].Health, source.devices[0].HealthDetail = gpu.Failed, "Xid 79"
	source.mu.Unlock()
	s.waitClosed()
	s = controller.next()
	if d := s.register.Inventory.Devices[0]; d.Health != pb.DeviceHealth_DEVICE_HEALTH_FAILED || d.HealthDetail != "Xid 79" {
		t.Errorf("device %v", d)
	}
	// A source that cannot be asked is not a node without GPUs.
	source.mu.Lock()
	source.err = errors.New("driver is gone")
	source.mu.Unlock()
	m := controllerlessMachine(source)
	source.mu.Lock()
	source.err = nil
	source.mu.Unlock()
	if _, err := m.inventory(); err != nil {
		t.Fatal(err)
	}
	source.mu.Lock()
	source.err = errors.New("driver is gone")
	source.mu.Unlock()
	inventory, err := m.inventory()
	if err == nil || len(inventory.Devices) != 2 || inventory.Devices[1].Health != pb.DeviceHealth_DEVICE_HEALTH_FAILED {
		t.Errorf("inventory %v, %v", inventory.Devices, err)
	}
}

func controllerlessMachine(source gpu.Source) *machine {
	m := testMachine("")
	m.source = source
	return m
}
