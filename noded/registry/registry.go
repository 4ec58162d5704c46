// Package registry decides what the node daemon does with its allocations: which
// orders of a controller it obeys, refuses or passes on to a supervisor, what it
// reports, and what it repeats until a controller has acknowledged it.
//
// Contract: pure. There is no clock, no lock, no goroutine and no I/O in here. Who
// uses it (noded) says what happened: a message of a controller,
// an event of a supervisor, an end, a new session. Each of these answers what is to be
// done, as a Do. What it promises then: an order may come twice and is obeyed once; an
// allocation that is over is never started again, as far back as the registry
// remembers; a run of a job is refused while a later one is here, and waits for the
// end of an earlier one; every allocation is named in a registration until its end is
// acknowledged; and how a save ended is reported before the end of its allocation,
// both until they are acknowledged. No image is deleted that a job may need. It is not safe for use by several goroutines at
// once.
package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/job"
	"github.com/gleaner-hpc/gleaner/noded/lease"
	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Key names an allocation on its node.
type Key struct{ Job, Epoch uint32 }

// KeyOf is the key in a message.
func KeyOf(id *pb.AllocId) Key { return Key{id.GetJob(), id.GetEpoch()} }

// Message is the key for a message.
func (k Key) Message() *pb.AllocId { return &pb.AllocId{Job: k.Job, Epoch: k.Epoch} }

// String answers JOB.EPOCH, the name of the allocation's directory and group.
func (k Key) String() string { return fmt.Sprintf("%d.%d", k.Job, k.Epoch) }

// Time is what time it is.
type Time struct {
	Boot   time.Duration // CLOCK_BOOTTIME
	WallMS int64         // Unix milliseconds
}

// Alloc is what the daemon knows of one allocation. Others only read it.
type Alloc struct {
	Key   Key
	Order *pb.StartAlloc
	Life  job.Life
	// Lease is as far as the daemon knows. The supervisor keeps its own; this one is to
	// notice that it does not.
	Lease         lease.Lease
	Frozen        bool // at the end of its lease, as its supervisor says, like the next two
	SuspendNumber uint32
	Suspended     bool              // it is frozen by that order
	Parked        bool              // and its devices are the node's owner's
	Freed         *pb.HardwareFreed // what its supervisor has measured of that
	Park          Park              // what controllers ordered about that
	Hold          Hold              // what the owner of the node wants, by a word on the node
	Ready         bool              // its container was seen to be up
	Released      bool              // its script may start
	Release       *pb.ReleaseBatch  // by this order; nil = none came
	NetworkEnd    *pb.NetworkEnd    // where it takes part in its job's network; nil = there is none
	EndOrder      *pb.EndAlloc      // the latest; nil = none came
	Killed        bool              // its supervisor was killed, because it did not end it in time
	LeaseKilled   bool              // or had not frozen its job
	ParkKilled    bool              // or had neither parked nor ended it
	LaunchFailed  *pb.AllocEnded
	Result        *pb.AllocEnded          // nil until nothing but this is left of it
	Saved         *pb.AllocSaved          // how the newest save ended; nil = none did, or a controller knows
	SavedKnown    *pb.AllocSaved          // that it knows
	Checkpoint    *pb.AllocCheckpointable // whether it can be saved; nil = not known yet
}

// Park is what the order to suspend with the highest number says about parking.
type Park struct {
	Number             uint32
	supervise.Deadline // its By is 0: it need not be parked
}

// Hold is what the node's owner said there, without a controller, and what became of it.
type Hold struct {
	Number             uint64 // of the word that was passed on last; 0 = none was
	Held               bool   // the allocation is a guest, and the owner has taken the node
	supervise.Deadline        // of that
	Parked             bool   // as its supervisor says, like the next one
	Freed              *pb.HardwareFreed
}

// Registry holds a node's allocations.
type Registry struct {
	// Most is how many allocations the node holds at once, Remembers how many results
	// it remembers of those that are gone. Fits says why an order does not fit the
	// node; nil = it does.
	Most, Remembers int
	Fits            func(*pb.StartAlloc) error
	// Word is what the owner of the node says about an allocation; nil = nothing.
	Word func(order *pb.StartAlloc, now Time) *pb.HoldAlloc

	allocs  map[Key]*Alloc
	gone    map[Key]*pb.AllocEnded
	order   []Key                    // in which they went
	left    map[uint32]time.Duration // boot time at which the last allocation of a job was forgotten
	fetched map[string]time.Duration // when images of other nodes were fetched, by digest
	lease   *pb.LeaseRenewed         // the latest answer
}

// Do is what is to be done: messages for the controller, in their order, then the rest.
type Do struct {
	Send    []*pb.NodeMessage
	Pass    []Pass
	New     *Alloc // has been ordered: launch it
	Renew   bool   // ask for the lease now
	Done    *Alloc // a controller has its result: delete its files, then Forget
	Refused error  // why an order to start was
	Mistake error  // a move that the table of package job does not have
	// Measured is how long it took to park an allocation: for ParkTimes.
	Measured *ParkMeasured
}

// Pass is an order for the supervisor of an allocation.
type Pass struct {
	Alloc *Alloc
	Order *pb.ControllerMessage
	Hold  *pb.HoldAlloc // in place of Order
}

// Errors of orders.
var (
	ErrOver    = errors.New("the job's allocation on this node has ended")
	ErrOrder   = errors.New("bad start order")
	errNotHere = errors.New("no allocation of the job is on this node")
)

// Adopt lists an allocation: one that an earlier daemon left.
func (r *Registry) Adopt(order *pb.StartAlloc, now Time) *Alloc {
	key := KeyOf(order.GetAlloc())
	p := &Alloc{Key: key, Order: order, Lease: lease.Lease{Fence: order.GetLeaseAction() == lease.Fence, Begun: now.Boot, Runs: true}}
	if r.allocs == nil {
		r.allocs = map[Key]*Alloc{}
	}
	r.allocs[key] = p
	return p
}

// Get answers an allocation, or nil.
func (r *Registry) Get(key Key) *Alloc { return r.allocs[key] }

// Len is how many there are.
func (r *Registry) Len() int { return len(r.allocs) }

// All answers the allocations by job and epoch, so that messages and logs do not depend
// on the order of a map.
func (r *Registry) All() []*Alloc {
	all := make([]*Alloc, 0, len(r.allocs))
	for _, p := range r.allocs {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *Alloc) int {
		return cmp.Or(cmp.Compare(a.Key.Job, b.Key.Job), cmp.Compare(a.Key.Epoch, b.Key.Epoch))
	})
	return all
}

// Earlier answers an earlier run of an allocation's job that is not over, and ends it: a
// job never runs twice at once. nil = there is none, and this one may be launched.
func (r *Registry) Earlier(p *Alloc) (earlier *Alloc, do Do) {
	for _, other := range r.All() {
		if other.Key.Job == p.Key.Job && other.Key.Epoch < p.Key.Epoch && !other.Life.Over() {
			r.End(other, &pb.EndAlloc{Alloc: other.Key.Message()}, &do)
			return other, do
		}
	}
	return nil, do
}

// NeverStarted is the result of an allocation that was told to end before it was
// launched.
func (p *Alloc) NeverStarted(now Time) *pb.AllocEnded {
	return neverStarted(p.Key, EndCause(p.EndOrder), "", now)
}

func neverStarted(key Key, cause pb.EndCause, detail string, now Time) *pb.AllocEnded {
	return &pb.AllocEnded{Alloc: key.Message(), Cause: cause, Detail: Words(detail), EndMs: now.WallMS}
}

// EndCause is the cause of an allocation that was told to end before it started.
func EndCause(end *pb.EndAlloc) pb.EndCause {
	if end.GetBatchEnded() {
		return pb.EndCause_END_CAUSE_EXITED
	}
	return pb.EndCause_END_CAUSE_CANCELLED
}

// End ends an allocation: its supervisor is told, once there is one.
func (r *Registry) End(p *Alloc, order *pb.EndAlloc, do *Do) {
	p.EndOrder = order
	do.move(p, job.Ending)
	do.pass(p, &pb.ControllerMessage{What: &pb.ControllerMessage_EndAlloc{EndAlloc: order}})
}

// Forget drops an allocation of which nothing is left here, and remembers its result:
// an order for it may still be on its way.
func (r *Registry) Forget(p *Alloc, now Time) {
	delete(r.allocs, p.Key)
	r.leaves(p.Key.Job, now)
	if r.gone == nil {
		r.gone = map[Key]*pb.AllocEnded{}
	}
	if _, known := r.gone[p.Key]; !known {
		r.order = append(r.order, p.Key)
	}
	r.gone[p.Key] = p.Result
	for len(r.order) > r.Remembers {
		delete(r.gone, r.order[0])
		r.order = r.order[1:]
	}
}

func (d *Do) send(message *pb.NodeMessage) { d.Send = append(d.Send, message) }

func (d *Do) pass(p *Alloc, order *pb.ControllerMessage) {
	d.Pass = append(d.Pass, Pass{Alloc: p, Order: order})
}

func (d *Do) move(p *Alloc, to job.State) {
	if _, err := p.Life.Move(to); err != nil {
		d.Mistake = fmt.Errorf("allocation %s: %w", p.Key, err)
	}
}

func (d *Do) ended(result *pb.AllocEnded) {
	d.send(&pb.NodeMessage{What: &pb.NodeMessage_AllocEnded{AllocEnded: result}})
}

func (d *Do) saved(saved *pb.AllocSaved) {
	d.send(&pb.NodeMessage{What: &pb.NodeMessage_AllocSaved{AllocSaved: saved}})
}

func (d *Do) ready(p *Alloc) {
	d.send(&pb.NodeMessage{What: &pb.NodeMessage_AllocReady{AllocReady: &pb.AllocReady{Alloc: p.Key.Message(), NetworkEnd: p.NetworkEnd}}})
}

func (d *Do) checkpointable(p *Alloc) {
	d.send(&pb.NodeMessage{What: &pb.NodeMessage_AllocCheckpointable{AllocCheckpointable: p.Checkpoint}})
}

// maxWords bounds what is said in one text of a message.
const maxWords = 4 << 10

// Words is a text that can be sent. Errors name files, and a job may name its
// files by any bytes: a message that cannot be encoded would end this session
// and every later one.
func Words(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxWords)], "?")
}
