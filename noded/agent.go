package noded

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/owner"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Bounds of what one node holds at once.
const (
	// maxAllocs is far above what a node's CPUs can run; beyond it the node
	// refuses, so that a mad controller cannot fill its disk.
	maxAllocs = 4096
	// maxForgotten is how many finished allocations are remembered after their
	// directories are gone, to answer an order that was long under way.
	maxForgotten = 1024
	// launchesPerCPU bounds the containers that are made at once: making one
	// is CPU time, ours and the kernel's.
	launchesPerCPU = 2
)

// Times of the agent's loops. They are variables because tests cannot wait that long.
var (
	resendEvery    = 10 * time.Second // reports of ends that are not acknowledged
	inventoryEvery = 30 * time.Second // looking whether a device has failed
	roomEvery      = 5 * time.Second  // looking whether the disk has room
	sweepEvery     = 30 * time.Second // removing what belongs to no allocation
	endPatience    = time.Minute      // beyond the grace of an order to end, for clean-up
)

// agent holds the node's allocations and its connection to a controller.
type agent struct {
	machine     *machine
	supervisors supervisors
	instance    string // a UUID for this start of the daemon
	socket      string // on which the owner is served
	log         *slog.Logger
	launches    *semaphore.Weighted
	tending     sync.WaitGroup
	imaging     *imaging
	readers     readers
	tends       *tends

	mu       sync.Mutex
	registry registry.Registry       // decides
	allocs   map[registry.Key]*alloc // what carries it out, of each of its allocations
	strays   []*pb.LeftOver          // what is on disk beside the allocations
	session  *session                // nil while there is none
	owned    owned                   // what the owner of the node says on it

	departing departing // whether the machine is about to go

	bounding sync.Mutex        // held while bounds on guests are set
	unbound  map[string]string // why some are not in force
}

func newAgent(m *machine, s supervisors, instance string, log *slog.Logger) *agent {
	a := &agent{
		machine: m, supervisors: s, instance: instance, log: log,
		launches: semaphore.NewWeighted(int64(launchesPerCPU * max(1, len(m.realCPUs)))),
		allocs:   map[registry.Key]*alloc{}, imaging: newImaging(m), tends: newTends(),
	}
	a.registry = registry.Registry{Most: maxAllocs, Remembers: maxForgotten, Fits: a.checkOrder, Word: a.ownersWord}
	a.owned.owner = owner.New(nil, m.bootID, ownerTime())
	return a
}

// timeNow is what time it is, for those who decide.
func timeNow() registry.Time {
	return registry.Time{Boot: boottime.Now(), WallMS: time.Now().UnixMilli()}
}

// adopt takes over the allocations that an earlier daemon left running or finished.
// Those whose files are damaged are ended: their jobs may run, and a
// controller that were not told of them would start them elsewhere.
func (a *agent) adopt(ctx context.Context) {
	found, err := a.supervisors.List()
	a.mu.Lock()
	if err != nil {
		a.log.Error("files of some allocations of jobs cannot be used: these jobs are ended, see whether the disk is sound", "error", err)
	}
	for _, s := range found {
		p := a.newAlloc(a.registry.Adopt(s.Order(), timeNow()))
		p.supervisor, p.Lease = s, adoptLease(p.Lease)
		p.log.Info("found an allocation of a job", "alive", s.Alive())
		a.tend(ctx, p)
	}
	if a.owned.owner.Held() {
		a.takeGuests()
	}
	a.sayLocked()
	a.mu.Unlock()
	a.sweep()
}

// serve runs until ctx ends, and then waits for what it started. Supervisors
// continue.
func (a *agent) serve(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { a.connect(ctx) })
	loops.Go(func() { every(ctx, resendEvery, a.resend) })
	loops.Go(func() { every(ctx, inventoryEvery, a.checkInventory) })
	loops.Go(func() { every(ctx, roomEvery, func() { a.checkRoom() }) })
	loops.Go(func() { every(ctx, sweepEvery, a.sweep) })
	loops.Go(func() { a.tendSelfTest(ctx) })
	loops.Go(func() { every(ctx, guardEvery, a.guard) })
	loops.Go(func() { a.tendImages(ctx) })
	loops.Go(func() { a.tendCertificate(ctx) })
	loops.Go(func() { every(ctx, resendEvery, a.keepLedgerAgain) })
	loops.Go(func() { a.serveOwner(ctx, a.socket) })
	loops.Go(func() { a.serveUsers(ctx) })
	loops.Go(func() { every(ctx, triggersEvery, a.lookForTriggers) })
	loops.Go(func() { every(ctx, boundEvery, a.boundGuests) })
	loops.Go(func() { every(ctx, measureEvery, a.measureGPUs) })
	loops.Go(func() { a.followMachine(ctx) })
	loops.Go(func() { every(ctx, departEvery, func() { a.letGo() }) })
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

// send gives a message to the present session. Without one, the message is dropped:
// the agent says the same again when the next session opens.
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
	for _, m := range a.registry.Unacknowledged() {
		a.sendLocked(m)
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
		SentBoottimeNs: int64(s.opened), Images: a.heldImages(), Holds: a.toldOwned(),
		Leaves: a.departing.departure.Tell(boottime.Now()),
	}
	s.inventory = inventory
	a.session = s
	for _, m := range a.registry.Register(message) {
		s.post(m)
	}
}

// unregister takes the session away, if it is still the present one.
func (a *agent) unregister(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session == s {
		a.session = nil
		a.forgetStaged()
	}
}
