package noded

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/job"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Bounds of what one node holds at once.
const (
	// maxParts is far above what a node's CPUs can run; beyond it the node
	// refuses, so that a mad controller cannot fill its disk.
	maxParts = 4096
	// maxForgotten is how many finished parts are remembered after their
	// directories are gone, to answer an order that was long under way.
	maxForgotten = 1024
	// launchesPerCPU bounds the containers that are made at once: making one
	// is CPU time, ours and the kernel's.
	launchesPerCPU = 2
)

// Times of the agent's loops. Variables, since tests cannot wait that long.
var (
	resendEvery    = 10 * time.Second // reports of ends that are not acknowledged
	inventoryEvery = 30 * time.Second // looking whether a device has failed
	roomEvery      = 5 * time.Second  // looking whether the disk has room
	sweepEvery     = 30 * time.Second // removing what belongs to no part
	endPatience    = time.Minute      // beyond the grace of an order to end, for clean-up
)

type partKey struct{ job, epoch uint32 }

func keyOf(id *pb.PartId) partKey { return partKey{id.GetJob(), id.GetEpoch()} }

func (k partKey) message() *pb.PartId { return &pb.PartId{Job: k.job, Epoch: k.epoch} }

// String answers JOB.EPOCH, the name of the part's directory and group.
func (k partKey) String() string { return fmt.Sprintf("%d.%d", k.job, k.epoch) }

// agent holds the node's parts and its connection to a controller.
type agent struct {
	machine     *machine
	supervisors supervisors
	instance    string // a UUID for this start of the daemon
	log         *slog.Logger
	launches    *semaphore.Weighted
	tending     sync.WaitGroup
	imaging     *imaging

	mu        sync.Mutex
	parts     map[partKey]*part
	forgotten forgottenParts
	strays    []*pb.LeftOver   // what is on disk beside the parts
	session   *session         // nil while there is none
	lease     *pb.LeaseRenewed // the latest
}

func newAgent(m *machine, s supervisors, instance string, log *slog.Logger) *agent {
	return &agent{
		machine: m, supervisors: s, instance: instance, log: log,
		launches: semaphore.NewWeighted(int64(launchesPerCPU * max(1, len(m.realCPUs)))),
		parts:    map[partKey]*part{}, imaging: newImaging(m),
	}
}

// adopt takes over the parts that an earlier daemon left running or finished.
// Those whose files are damaged are ended: their jobs may run, and a
// controller that were not told of them would start them elsewhere.
func (a *agent) adopt(ctx context.Context) {
	found, err := a.supervisors.List()
	a.mu.Lock()
	if err != nil {
		a.log.Error("files of some parts of jobs cannot be used: these jobs are ended, see whether the disk is sound", "error", err)
	}
	for _, s := range found {
		p := a.newPart(s.Order())
		p.supervisor, p.lease = s, adoptLease(s.Order())
		p.log.Info("found a part of a job", "alive", s.Alive())
		a.tend(ctx, p)
	}
	a.mu.Unlock()
	a.sweep()
}

// serve runs until ctx ends, and then waits for what it started. Supervisors
// go on.
func (a *agent) serve(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { a.connect(ctx) })
	loops.Go(func() { every(ctx, resendEvery, a.resend) })
	loops.Go(func() { every(ctx, inventoryEvery, a.checkInventory) })
	loops.Go(func() { every(ctx, roomEvery, func() { a.checkRoom() }) })
	loops.Go(func() { every(ctx, sweepEvery, a.sweep) })
	loops.Go(func() { every(ctx, guardEvery, a.guard) })
	loops.Go(func() { a.tendImages(ctx) })
	loops.Wait()
	a.tending.Wait()
}

// every calls f at intervals until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f()
		}
	}
}

// send gives a message to the present session. Without one it is dropped:
// what it said is said anew when the next session opens.
func (a *agent) send(m *pb.NodeMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sendLocked(m)
}

func (a *agent) sendLocked(m *pb.NodeMessage) {
	if a.session != nil {
		a.session.post(m)
	}
}

// resend reports the saves and the ends that no controller has acknowledged.
func (a *agent) resend() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.resendLocked()
}

func (a *agent) resendLocked() {
	for _, p := range a.sortedParts() {
		if p.saved != nil { // before its end, by which a controller is done with it
			a.sendLocked(savedMessage(p.saved))
		}
		if p.life.State() == job.Ended {
			a.sendLocked(endedMessage(p.result))
		}
	}
}

// checkInventory opens a new session when what the node offers has changed,
// for a controller learns of it by registration.
func (a *agent) checkInventory() {
	inventory, err := a.machine.inventory()
	if err != nil {
		a.log.Error("cannot look after the GPUs: jobs keep those they have, see whether nvidia-smi works", "error", err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session == nil || proto.Equal(a.session.inventory, inventory) {
		return
	}
	for _, d := range inventory.Devices {
		if d.Health != pb.DeviceHealth_DEVICE_HEALTH_OK {
			a.log.Warn("a GPU is given to no job until this is mended: see its detail", "device", d.Id, "index", d.Index, "detail", d.HealthDetail)
		}
	}
	a.session.end(errInventoryChanged)
}

// register makes the session's first message and installs the session, in one
// step, so that no change falls between the two.
func (a *agent) register(s *session, inventory *pb.Inventory) {
	a.mu.Lock()
	defer a.mu.Unlock()
	message := &pb.Register{
		Node: a.machine.config.Name, Inventory: inventory, Instance: a.instance, LeftOvers: a.leftOversLocked(),
		SentBoottimeNs: int64(s.opened), Images: a.heldImages(), Clients: true,
	}
	for _, p := range a.sortedParts() {
		// A part whose end is not acknowledged is not lost: it is told as
		// ending, and the report of its end follows at once.
		if p.life.State() == job.Acknowledged {
			continue
		}
		message.Running = append(message.Running, &pb.RunningPart{
			Part: p.key.message(), Ready: p.ready, Ending: p.life.State() >= job.Ending, Frozen: p.frozen,
			SuspendNumber: p.suspendNumber, Stands: p.stands,
		})
	}
	s.inventory = inventory
	a.session = s
	s.post(&pb.NodeMessage{What: &pb.NodeMessage_Register{Register: message}})
	for _, p := range a.sortedParts() {
		if p.grade != nil && !p.life.Over() {
			s.post(gradeMessage(p.grade))
		}
	}
	a.resendLocked()
}

// unregister takes the session away, if it is still the present one.
func (a *agent) unregister(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session == s {
		a.session = nil
	}
}

// sortedParts answers the parts by job and epoch, so that messages and logs do
// not depend on the order of a map.
func (a *agent) sortedParts() []*part {
	all := make([]*part, 0, len(a.parts))
	for _, p := range a.parts {
		all = append(all, p)
	}
	slices.SortFunc(all, func(x, y *part) int {
		if x.key.job != y.key.job {
			return int(int64(x.key.job) - int64(y.key.job))
		}
		return int(int64(x.key.epoch) - int64(y.key.epoch))
	})
	return all
}

// forgottenParts remembers the results of the last parts that are gone.
type forgottenParts struct {
	results map[partKey]*pb.PartEnded
	order   []partKey
}

func (f *forgottenParts) add(key partKey, result *pb.PartEnded) {
	if f.results == nil {
		f.results = map[partKey]*pb.PartEnded{}
	}
	if _, ok := f.results[key]; !ok {
		f.order = append(f.order, key)
	}
	f.results[key] = result
	if len(f.order) > maxForgotten {
		delete(f.results, f.order[0])
		f.order = f.order[1:]
	}
}
