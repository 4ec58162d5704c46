package shim

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/lease"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// Devices of the kernel that need no hardware: what opens the first keeps it open, the second

// is refused by its driver or not there.
const (
	fuseMajor, fuseMinor     = 10, 229
	screenMajor, screenMinor = 7, 23
)

// giveDevice gives the next allocations a device that is no NVIDIA GPU.
func (b *bed) giveDevice(t testing.TB, major, minor uint32) (inside string) {
	path := filepath.Join(b.dir, fmt.Sprintf("accel%d", minor))
	device(t, path, major, minor)
	inside = "/dev/accel0"
	b.settings.DeviceFiles = []bundle.DeviceFile{{Path: path, ContainerPath: inside, Type: 'c', Major: int64(major), Minor: int64(minor), Access: "rw"}}
	return inside
}

// park orders that the job is parked within a time; 0 = without bound.
func (s *started) park(number uint32, within time.Duration) {
	s.b.t.Helper()
	_, err := s.client().Suspend(context.Background(), &pb.SuspendAlloc{
		Alloc: s.order.Alloc, Number: number, Suspended: true, Park: true, WithinMs: uint32(within.Milliseconds())})
	must(s.b.t, err)
}

// saysParked waits until a new watcher is told, and answers how long it took.
func (s *started) saysParked(number uint32, parked bool) time.Duration {
	s.b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), prototest.Patience)
	defer cancel()
	stream, err := s.client().Watch(ctx, &pb.ShimWatchRequest{})
	must(s.b.t, err)
	for {
		event, err := stream.Recv()
		must(s.b.t, err)
		if said := event.GetSuspended(); said != nil && said.Number == number && said.Parked == parked && (said.Frozen || !parked) {
			return time.Duration(said.Freed.GetTookMs()) * time.Millisecond
		}
	}
}

// cancel ends the allocation, and answers how it ended.
func (s *started) cancel() *pb.AllocEnded {
	s.b.t.Helper()
	_, err := s.client().End(context.Background(), endOrder(s))
	must(s.b.t, err)
	return s.wait()
}

// refuses says whether the kernel refuses the allocation's group its device: a process of

// the host's enters it and tries.
func (s *started) refuses(path string) bool {
	t := s.b.t
	t.Helper()
	script := exec.Command("/bin/sh", "-c", `LC_ALL=C; export LC_ALL; read go; ( : < "$0" ) 2>&1; :`, path)
	gate, err := script.StdinPipe()
	must(t, err)
	var said strings.Builder
	script.Stdout = &said
	must(t, script.Start())
	group := groupOf(s)
	if info, err := cgroup.Detect(); err != nil || info.Version == cgroup.V1 {
		// The freezer's is another hierarchy there.
		must(t, err)
		must(t, os.WriteFile(filepath.Join("/sys/fs/cgroup/devices", parent, s.dir.ID(), "cgroup.procs"), []byte(strconv.Itoa(script.Process.Pid)), 0))
	} else {
		frozen, err := group.Frozen()
		must(t, err)
		must(t, group.Thaw(context.Background()))
		must(t, group.Add(script.Process.Pid))
		if frozen {
			defer func() { must(t, group.Freeze(context.Background())) }()
		}
	}
	_, err = fmt.Fprintln(gate, "go")
	must(t, err)
	must(t, script.Wait())
	return strings.Contains(said.String(), "Operation not permitted")
}

// TestParkTakesDevices: a job tries its device all the time. Once it is parked it does nothing,

// and whatever enters its group is refused the device; when it is lent again it has it.
func TestParkTakesDevices(t *testing.T) {
	b := newBed(t)
	inside := b.giveDevice(t, screenMajor, screenMinor)
	outside := b.settings.DeviceFiles[0].Path
	s := b.launch(b.order(`LC_ALL=C; export LC_ALL; while :; do ( : < ` + inside + ` ) 2>&1; echo x; sleep 0.01; done`))
	eventually(t, "the job runs", func() bool { return strings.Contains(b.output(), "x") })
	if s.refuses(outside) {
		t.Fatal("it is refused its own device")
	}
	s.park(1, time.Minute)
	took := s.saysParked(1, true)
	t.Logf("parked in %v", took)
	s.frozen()
	if !s.refuses(outside) {
		t.Error("it is parked, and may open the device")
	}
	if s.refuses("/dev/null") {
		t.Error("it is refused /dev/null, which is nobody's")
	}
	s.park(1, time.Minute)
	s.park(2, time.Minute) // another trigger, of the same
	if again := s.saysParked(2, true); again != took {
		t.Errorf("it took %v, and now %v", took, again)
	}
	s.suspend(3, false)
	s.saysParked(3, false)
	s.writes()
	if s.refuses(outside) {
		t.Error("it runs again, and is refused its device")
	}
	if info, _ := cgroup.Detect(); info.Version == cgroup.V1 && strings.Contains(b.output(), "not permitted") {
		t.Error("it ran without its device")
	}
	s.cancel()
}

// TestParkOfSuspended: a job that is frozen already is parked, and what only suspends it gives the

// device back, and it stays frozen.
func TestParkOfSuspended(t *testing.T) {
	b := newBed(t)
	b.giveDevice(t, screenMajor, screenMinor)
	outside := b.settings.DeviceFiles[0].Path
	s := b.launch(b.counting())
	eventually(t, "the job runs", func() bool { return strings.Contains(b.output(), "x") })
	s.suspend(1, true)
	s.says(1, true)
	s.park(2, time.Minute)
	s.saysParked(2, true)
	if !s.refuses(outside) {
		t.Error("it is parked, and may open the device")
	}
	s.frozen()
	s.suspend(3, true)
	s.saysParked(3, false)
	eventually(t, "it has its device", func() bool { return !s.refuses(outside) })
	s.frozen()
	s.suspend(4, false)
	s.says(4, false)
	s.writes()
	s.cancel()
}

// TestParkedEnds: a job that is parked does not run again for its end: its CPUs are the
// owner's.
func TestParkedEnds(t *testing.T) {
	b := newBed(t)
	b.giveDevice(t, screenMajor, screenMinor)
	s := b.launch(b.counting())
	eventually(t, "the job runs", func() bool { return strings.Contains(b.output(), "x") })
	s.park(1, time.Minute)
	s.saysParked(1, true)
	_, err := s.client().End(context.Background(), &pb.EndAlloc{GraceS: 20})
	must(t, err)
	wantEnd(t, s.wait(), pb.EndCause_END_CAUSE_CANCELLED, 0, 9)
	if strings.Contains(b.output(), "term") {
		t.Error("it ran when it was ended")
	}
}

// TestNeverParked: a job that keeps a device open that is no GPU of CUDA's has what it has

// there. It ends long before its deadline, with its time for that, and its end says why.
func TestNeverParked(t *testing.T) {
	b := newBed(t)
	if !hostOpens("/dev/fuse") {
		t.Skip("needs /dev/fuse, a device that programs can keep open")
	}
	inside := b.giveDevice(t, fuseMajor, fuseMinor)
	order := b.order(`exec 7<>` + inside + ` || exit 9; trap 'echo term; exit 3' TERM; while :; do echo x; sleep 0.01; done`)
	order.KillWaitS = 20
	s := b.launch(order)
	eventually(t, "the job runs", func() bool { return strings.Contains(b.output(), "x") })
	s.park(1, 10*time.Minute)
	result := s.wait()
	if result.Cause != pb.EndCause_END_CAUSE_RECLAIMED || !strings.Contains(result.Detail, inside) || !strings.Contains(b.output(), "term") {
		t.Errorf("ended %v, wrote %q", result, b.output())
	}
	t.Log(result.Detail)
}

// TestClosesItsDevice: one that has it open for a moment, again and again, is parked.
func TestClosesItsDevice(t *testing.T) {
	b := newBed(t)
	if !hostOpens("/dev/fuse") {
		t.Skip("needs /dev/fuse, a device that programs can keep open")
	}
	inside := b.giveDevice(t, fuseMajor, fuseMinor)
	s := b.launch(b.order(`while :; do ( exec 7<>` + inside + `; echo x; sleep 0.02 ); sleep 0.02; done`))
	for number := uint32(1); number < 20; number += 2 {
		s.writes()
		s.park(number, time.Minute)
		s.saysParked(number, true)
		s.suspend(number+1, false)
		s.saysParked(number+1, false)
	}
	s.writes()
	s.cancel()
}

// TestStubbornPark: a job whose processes cannot be taken their GPUs, since the driver hangs, runs

// TestParkTakesGPUMemory: what a job has on its GPUs is in host memory while it is parked, the

// TestParkCalledOff: the node is lent again while the driver works: the job has its GPU and

// TestParkDuringSave: an order to park in each moment of a save, which makes no difference to

// TestParkedAndFenced: a job that is parked stays so when its lease ends and comes back, and

// ends when it is no longer the node's.
func TestParkedAndFenced(t *testing.T) {
	b := newBed(t)
	b.giveDevice(t, screenMajor, screenMinor)
	outside := b.settings.DeviceFiles[0].Path
	s := b.launch(b.ticking())
	s.goesOn(time.Minute)
	s.park(1, time.Minute)
	s.saysParked(1, true)
	s.grant(time.Millisecond, true)
	time.Sleep(100 * time.Millisecond)
	s.grant(time.Minute, true)
	s.frozen()
	if !s.refuses(outside) {
		t.Error("its lease came back, and it may open its device")
	}
	s.suspend(2, false)
	s.writes()
	s.park(3, time.Minute)
	s.saysParked(3, true)
	s.grant(time.Minute, false)
	if result := s.wait(); result.Cause != pb.EndCause_END_CAUSE_LEASE_ENDED || strings.Contains(b.output(), "term") {
		t.Errorf("ended %v", result)
	}
}

// TestFrozenIsParked: a job without a lease is frozen, and its device is taken all the same.
func TestFrozenIsParked(t *testing.T) {
	b := newBed(t)
	b.giveDevice(t, screenMajor, screenMinor)
	order := b.ticking()
	order.LeaseAction = lease.Fence
	s := b.launch(order)
	s.goesOn(300 * time.Millisecond)
	s.freezes()
	s.park(1, time.Minute)
	s.saysParked(1, true)
	if !s.refuses(b.settings.DeviceFiles[0].Path) {
		t.Error("it is parked, and may open the device")
	}
	s.frozen()
	s.cancel()
}

// TestNoDeviceIsParked: a job without devices is frozen.
func TestNoDeviceIsParked(t *testing.T) {
	b := newBed(t)
	s := b.launch(b.counting())
	eventually(t, "the job runs", func() bool { return strings.Contains(b.output(), "x") })
	s.park(1, time.Minute)
	s.saysParked(1, true)
	s.frozen()
	s.suspend(2, false)
	s.writes()
	s.cancel()
}

// TestParkedOutlivesTheDaemon: a daemon that starts later hears all of it again, and a

// supervisor that is killed while its job is parked leaves nothing.
func TestParkedOutlivesTheDaemon(t *testing.T) {
	b := newBed(t)
	b.giveDevice(t, screenMajor, screenMinor)
	s := b.launch(b.counting())
	eventually(t, "the job runs", func() bool { return strings.Contains(b.output(), "x") })
	s.park(1, time.Minute)
	took := s.saysParked(1, true)
	handles, _, err := client.List(b.state, parent)
	must(t, err)
	if len(handles) != 1 {
		t.Fatalf("%d allocations are found", len(handles))
	}
	next := b.follow(handles[0])
	if again := next.saysParked(1, true); again != took {
		t.Errorf("it took %v, and the next daemon hears %v", took, again)
	}
	next.frozen()
	must(t, next.Kill())
	eventually(t, "it is dead", func() bool { return !s.Alive() })
	_, err = next.Recover(context.Background())
	must(t, err)
	next.checkNothingLeft()
}

// TestRestoredGangIsParked: an allocation that is restored and waits for others loses its
// device, does not run while it is lent and not given back, and has it when it runs.
func TestRestoredGangIsParked(t *testing.T) {
	b := newSavingBed(t)
	b.giveDevice(t, screenMajor, screenMinor)
	outside := b.settings.DeviceFiles[0].Path
	order := b.counter()
	order.Gang = true
	first := b.launch(order)
	first.ready()
	first.release()
	b.countsOn()
	saved := first.saveAndEnd(1)
	at := b.counts()
	second := b.launch(restored(order, saved.Image))
	second.ready()
	second.park(1, time.Minute)
	second.saysParked(1, true)
	if !second.refuses(outside) {
		t.Error("it is parked, and may open the device")
	}
	second.release()
	time.Sleep(100 * time.Millisecond)
	if now := b.counts(); now != at {
		t.Fatalf("it ran though it is parked: %d, %d", at, now)
	}
	second.suspend(2, false)
	b.countsOn()
	if second.refuses(outside) {
		t.Error("it runs, and is refused its device")
	}
	second.cancel()
}

// TestParkForkStorm: a job that makes processes without end is parked, or dead by the
// deadline.
func TestParkForkStorm(t *testing.T) {
	b := newBed(t)
	order := b.order(`trap '' TERM; echo x; f() { :; }; while :; do ( f & f & f & ); done`)
	s := b.launch(order)
	eventually(t, "the job runs", func() bool { return strings.Contains(b.output(), "x") })
	const within, late = 2 * time.Second, 3 * time.Second
	for number := uint32(1); number < 20; number += 2 {
		asked := time.Now()
		s.park(number, within)
		eventually(t, "it is parked, or gone", func() bool {
			frozen, err := groupOf(s).Frozen()
			return err != nil || frozen
		})
		if took := time.Since(asked); took > within+late {
			t.Errorf("it took %v", took)
		}
		if !groupExists(s) {
			break
		}
		s.saysParked(number, true)
		s.suspend(number+1, false)
	}
	if groupExists(s) {
		s.cancel()
	} else if result := s.wait(); result.Cause != pb.EndCause_END_CAUSE_RECLAIMED {
		t.Errorf("ended %v", result)
	}
}
