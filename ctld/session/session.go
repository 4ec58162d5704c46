// Package session knows which nodes are connected to this controller, and what
// they have reported since.
//
// Contract: everything here is soft: it is lost with the leader and reported
// again by each node when it connects to the next one. A node has one session,
// the newest. Sending never blocks: the queue to a node is bounded, and a node
// that does not read is cut off and comes back with a clean slate. The registry
// decides nothing; package leader does, and may send any order twice.
package session

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// queueLength bounds the messages waiting for one node: a start order for
// every CPU of the largest machine, and room for signals.
const queueLength = 4096

// readyLength is how many of them are ready to be written. What a session has room for
// it has whether it uses it or not, and there may be thousands of sessions: the others
// wait in a list.
const readyLength = 16

// queueBytes bounds them by size, because a start order carries a script.
const queueBytes = 256 << 20

// maxSignals bounds the signals that wait for their result.
const maxSignals = 65536

// maxAllocs bounds the allocations a node may report: several for every CPU of
// the largest machine.
const maxAllocs = 65536

// Errors of this package.
var (
	// ErrNotConnected is returned when a node has no session here.
	ErrNotConnected = errors.New("node is not connected")
	// ErrReplaced is the cause of a session's end when its node connected again.
	ErrReplaced = errors.New("the node connected again")
	// ErrTooSlow is the cause when the node did not read its orders.
	ErrTooSlow = errors.New("the node does not read what it is sent")
	// ErrClosed is the cause when the controller gives up all sessions.
	ErrClosed = errors.New("this controller does not lead any more")
	// ErrAgain is the cause when a report could not be committed.
	ErrAgain = errors.New("connect again and report again")
	// ErrElsewhere is returned when another daemon speaks for the node.
	ErrElsewhere = errors.New("this node is connected already")
	// ErrTooMany is the cause when a node reports more allocations than it can
	// have.
	ErrTooMany = errors.New("the node reports more allocations of jobs than a node can have")
	// ErrBusy is returned when too many signals wait for their result.
	ErrBusy = errors.New("too many signals under way")
)

// Alloc names one node's share of one run of a job.
type Alloc struct {
	Job, Epoch uint32
}

// AllocOf reads the name of an allocation in a message.
func AllocOf(id *pb.AllocId) Alloc { return Alloc{Job: id.GetJob(), Epoch: id.GetEpoch()} }

// Compare orders allocations by job and epoch.
func (p Alloc) Compare(other Alloc) int {
	return cmp.Or(cmp.Compare(p.Job, other.Job), cmp.Compare(p.Epoch, other.Epoch))
}

// ID is the name of an allocation in a message.
func (p Alloc) ID() *pb.AllocId { return &pb.AllocId{Job: p.Job, Epoch: p.Epoch} }

// Registry holds the sessions of all connected nodes.
type Registry struct {
	mu       sync.Mutex
	sessions map[string]*Session
	seen     map[string]time.Time // when a node was last heard of
	signals  map[string]chan *pb.SignalResult
	tends    map[string]chan *pb.ImagesWord
	entering map[string]bool // nodes whose registration is being committed
	leases   map[string]nodeLease
	changed  func(node string)
	now      func() time.Time
}

// NewRegistry makes an empty one. changed is called, quickly and often, when a
// node came, went or reported something that may need orders.
func NewRegistry(changed func(node string)) *Registry {
	return &Registry{
		sessions: make(map[string]*Session),
		seen:     make(map[string]time.Time),
		signals:  make(map[string]chan *pb.SignalResult),
		tends:    make(map[string]chan *pb.ImagesWord),
		entering: make(map[string]bool),
		leases:   make(map[string]nodeLease),
		changed:  changed,
		now:      time.Now,
	}
}

// SetClock sets another clock for the registry; call it before the first node
// connects.
func (r *Registry) SetClock(now func() time.Time) { r.now = now }

// Now is the time by the registry's clock.
func (r *Registry) Now() time.Time { return r.now() }

// Session is one connection of one node.
type Session struct {
	node     string
	instance string // of the daemon at the other end
	host     string // that it runs on
	registry *Registry
	out      chan *pb.ControllerMessage
	ctx      context.Context
	cut      context.CancelCauseFunc

	mu     sync.Mutex
	clock  nodeClock
	allocs map[Alloc]Reported
	grades map[Alloc]Checkpointable
	frozen []Alloc
	load   *pb.HostLoad
	asked  map[string]*pb.Image // by token: images of questions without an answer
	held   []*pb.Image
	// fetching are the images that the node was told to fetch, by digest.
	fetching map[string]*pb.Image
	bytes    int
	more     []*pb.ControllerMessage // what does not fit into out, oldest first

	// orders, time limits and the numbers of orders to suspend or continue, and those
	// about saves, sent in this session. Only the dispatch loop touches them.
	orders   map[Alloc]Order
	limits   map[Alloc]uint32
	suspends map[Alloc]uint32
	ends     map[Alloc]int64 // by when what was ordered has to be over
	saves    map[Alloc]saveSent
	saving   *pb.Saving
	kept     *pb.KeepImages // sent last
	owner    *pb.OwnerRules // sent last
	holdsOff uint64         // as in DropHolds, sent last
}

// Reported is what a node reports of an allocation it has.
type Reported struct {
	Ready, Ending bool
	// Over: its end was reported and is being committed.
	Over bool
	// Network is where it takes part in the network of its job; nil = there is none.
	Network *pb.NetworkEnd
}

// Order is the set of orders sent for an allocation in this session.
type Order uint8

// Orders.
const (
	Started Order = 1 << iota
	Released
	Ended
	EndedAtOnce
	Warned // ended too, but with time left to it; Ended may follow
)

// Connect begins a session and ends the node's earlier one. It takes what the
// node runs from its registration; answer is the first message to the node,
// before any order.
func (r *Registry) Connect(ctx context.Context, register *pb.Register, answer *pb.Registered) *Session {
	ctx, cut := context.WithCancelCause(ctx)
	s := &Session{
		node: register.GetNode(), instance: register.GetInstance(), host: register.GetInventory().GetHostName(), registry: r, ctx: ctx, cut: cut,
		out:    make(chan *pb.ControllerMessage, readyLength),
		allocs: make(map[Alloc]Reported),
		orders: make(map[Alloc]Order),
		limits: make(map[Alloc]uint32), suspends: make(map[Alloc]uint32), ends: make(map[Alloc]int64), saves: make(map[Alloc]saveSent),
		grades: make(map[Alloc]Checkpointable),
		asked:  make(map[string]*pb.Image), fetching: make(map[string]*pb.Image),
		saving: register.GetInventory().GetSaving(),
		held:   register.GetImages()[:min(len(register.GetImages()), maxAllocs)],
	}
	for _, running := range register.GetRunning() {
		s.allocs[AllocOf(running.GetAlloc())] = Reported{Ready: running.GetReady(), Ending: running.GetEnding(), Network: running.GetNetworkEnd()}
		if running.GetFrozen() {
			s.frozen = append(s.frozen, AllocOf(running.GetAlloc()))
		}
	}
	s.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_Registered{Registered: answer}})
	r.mu.Lock()
	former := r.sessions[s.node]
	r.sessions[s.node] = s
	r.seen[s.node] = r.now()
	r.mu.Unlock()
	if former != nil {
		former.cut(ErrReplaced)
	}
	r.changed(s.node)
	return s
}

// Disconnect ends a session. A newer one of the same node stays.
func (r *Registry) Disconnect(s *Session) {
	s.cut(context.Canceled)
	r.mu.Lock()
	if r.sessions[s.node] == s {
		delete(r.sessions, s.node)
	}
	r.mu.Unlock()
	r.changed(s.node)
}

// CloseAll ends every session, when this controller ceases to lead.
func (r *Registry) CloseAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sessions {
		s.cut(ErrClosed)
	}
	clear(r.sessions)
	clear(r.seen)
	clear(r.leases) // the next to lead waits as long as any of them can last
}

// Get is the session of a node, nil when it has none.
func (r *Registry) Get(node string) *Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions[node]
}

// All are the sessions, by name of their node.
func (r *Registry) All() []*Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	sessions := make([]*Session, 0, len(r.sessions))
	for _, node := range slices.Sorted(maps.Keys(r.sessions)) {
		sessions = append(sessions, r.sessions[node])
	}
	return sessions
}

// LastSeen is when a node was last heard of by this controller; the zero time
// when never.
func (r *Registry) LastSeen(node string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[node]
}

// Node is the name of the session's node.
func (s *Session) Node() string { return s.node }

// Done is closed when the session is over; Cause says why.
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// Cause is why the session ended.
func (s *Session) Cause() error { return context.Cause(s.ctx) }

// Out delivers what is to be written to the node. Each message taken must be
// given to Sent afterwards.
func (s *Session) Out() <-chan *pb.ControllerMessage { return s.out }

// Cut ends the session; its node will connect again.
func (s *Session) Cut() { s.cut(ErrAgain) }

// Send queues a message and reports whether it could. A node whose queue is
// full is cut off.
func (s *Session) Send(message *pb.ControllerMessage) bool {
	if s.ctx.Err() != nil {
		return false
	}
	size := sizeOf(message)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes+size > queueBytes && s.bytes > 0 {
		s.cut(ErrTooSlow)
		return false
	}
	if len(s.out)+len(s.more) >= queueLength {
		s.cut(ErrTooSlow)
		return false
	}
	s.bytes += size
	s.noteAsked(message)
	s.more = append(s.more, message)
	s.refill()
	return true
}

// refill makes ready what there is room for. s.mu is held.
func (s *Session) refill() {
	for len(s.more) > 0 {
		select {
		case s.out <- s.more[0]:
			s.more[0], s.more = nil, s.more[1:]
		default:
			return
		}
	}
	s.more = nil
}

// Waiting is how many messages are queued.
func (s *Session) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.out) + len(s.more)
}

// Sent gives the room of a message free.
func (s *Session) Sent(message *pb.ControllerMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= sizeOf(message)
	s.refill()
}

// sizeOf is the size of what can be large in a message.
func sizeOf(message *pb.ControllerMessage) int {
	size := 256
	if spec := message.GetStartAlloc().GetSpec(); spec != nil {
		size += len(spec.GetScript())
		for _, list := range [][]string{spec.GetEnvironment(), spec.GetArguments()} {
			for _, entry := range list {
				size += len(entry)
			}
		}
	}
	return size
}

// Touch notes that the node was heard of.
func (s *Session) Touch(now time.Time) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	if s.registry.sessions[s.node] == s {
		s.registry.seen[s.node] = now
	}
}

// Report notes what the node says of an allocation.
func (s *Session) Report(alloc Alloc, reported Reported) {
	s.mu.Lock()
	_, known := s.allocs[alloc]
	if known || len(s.allocs) < maxAllocs {
		s.allocs[alloc] = reported
	} else {
		s.cut(ErrTooMany)
	}
	s.mu.Unlock()
	s.registry.changed(s.node)
}

// Forget drops an allocation that is over.
func (s *Session) Forget(alloc Alloc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.allocs, alloc)
}

// Allocs are what the node says it has.
func (s *Session) Allocs() map[Alloc]Reported {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.allocs)
}

// Ordered are the orders sent for an allocation in this session. It, Order and
// KeepOrders are for one goroutine only.
func (s *Session) Ordered(alloc Alloc) Order { return s.orders[alloc] }

// Order sends a message unless the same order was sent in this session.
func (s *Session) Order(alloc Alloc, order Order, message *pb.ControllerMessage) {
	if s.orders[alloc]&order == 0 {
		s.orders[alloc] |= order
		s.Send(message)
	}
}

// SetLimit sends an allocation its time limit in seconds unless that was sent last in
// this session. It is for the goroutine of Order.
func (s *Session) SetLimit(alloc Alloc, seconds uint32) {
	if sent, any := s.limits[alloc]; any && sent == seconds {
		return
	}
	s.limits[alloc] = seconds
	s.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_SetTimeLimit{
		SetTimeLimit: &pb.SetTimeLimit{Alloc: alloc.ID(), TimeLimitS: seconds}}})
}

// OrderBy is Order of something that has to be over by a time: the same order is
// sent again once that is earlier than it was. 0 is no such time.
func (s *Session) OrderBy(alloc Alloc, order Order, byMS int64, message *pb.ControllerMessage) {
	if before, sent := s.ends[alloc]; byMS != 0 && (!sent || byMS < before) {
		s.ends[alloc] = byMS
		s.orders[alloc] &^= order
	}
	s.Order(alloc, order, message)
}

// Suspend sends an allocation an order to stop, to park or to continue, unless the
// last one sent in this session has its number. It is for the goroutine of Order.
func (s *Session) Suspend(alloc Alloc, order *pb.SuspendAlloc) {
	if s.suspends[alloc] == order.GetNumber() {
		return
	}
	s.suspends[alloc] = order.GetNumber()
	s.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_SuspendAlloc{SuspendAlloc: order}})
}

// KeepOrders forgets what was ordered for allocations that keep does not name.
func (s *Session) KeepOrders(keep func(Alloc) bool) {
	maps.DeleteFunc(s.limits, func(alloc Alloc, _ uint32) bool { return !keep(alloc) })
	maps.DeleteFunc(s.suspends, func(alloc Alloc, _ uint32) bool { return !keep(alloc) })
	maps.DeleteFunc(s.ends, func(alloc Alloc, _ int64) bool { return !keep(alloc) })
	maps.DeleteFunc(s.orders, func(alloc Alloc, _ Order) bool { return !keep(alloc) })
	s.keepSaves(keep)
}
