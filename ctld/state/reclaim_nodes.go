package state

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/proto/spec"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// ReclaimNodes takes nodes back for their owner: guests get nothing there any
// longer, and those that run are parked, or ended. All nodes are reclaimed, or
// none. Each adds a hold to a node, or renews the one that its trigger has there: see
// Hold. A node that is reclaimed already keeps its number and tells nobody twice: the
// deadline can only come nearer. It may be applied twice without harm.
type ReclaimNodes struct {
	Names    []string `cbor:"1,keyasint"`
	WithinMS int64    `cbor:"2,keyasint"`           // until the deadline, from log time; 0 = each owner's notice
	UntilMS  int64    `cbor:"3,keyasint,omitempty"` // Unix milliseconds; 0 = it does not end by itself
	// Kill: guests are requeued or cancelled at once, and not parked.
	Kill bool   `cbor:"4,keyasint,omitempty"`
	User string `cbor:"5,keyasint,omitempty"` // who does it, as others see it
	// Coordinator is the caller, if they coordinate accounts: see Coordinates.
	Coordinator string `cbor:"6,keyasint,omitempty"`
	// Privileged: an administrator or operator does it.
	Privileged bool `cbor:"7,keyasint,omitempty"`
	// Trigger is why, and Detail says it more exactly, in a few words. 0 = COMMAND.
	Trigger pb.ReclaimTrigger `cbor:"30,keyasint,omitempty"`
	Detail  string            `cbor:"31,keyasint,omitempty"`
	// GPUs: so many GPUs of the nodes are taken back, and nothing else; 0 = all of the
	// nodes. Model is that of the GPUs; "" = any, each may have another.
	GPUs  uint32 `cbor:"40,keyasint,omitempty"`
	Model string `cbor:"41,keyasint,omitempty"`
}

// The bounds of WithinMS: nodes count in milliseconds, and their answers travel;
// a day is longer than any guest takes to leave.
const (
	MinReclaimMS = 1_000
	MaxReclaimMS = 24 * 3600 * 1000
)

func (ReclaimNodes) kind() Kind { return KindReclaimNodes }
func (c ReclaimNodes) apply(s *State, result *Result) {
	names := nodesNamed(c.Names)
	if result.Refused = s.checkReclaim(&c, names, s.timeMS); result.Refused != nil {
		return
	}
	names = slices.DeleteFunc(names, func(name string) bool { return s.isOff(&c, name) })
	names, taken, refused := s.taken(&c, names, s.timeMS)
	if result.Refused = refused; refused != nil {
		return
	}
	s.reclaim(&c, names, taken)
	result.Nodes = names
}

// reclaim does what a command says, which was checked. taken are the GPUs of each node
// that it takes; nil = all of the nodes.
func (s *State) reclaim(c *ReclaimNodes, names []string, taken map[string][]string) {
	number := s.reclaims + 1
	there := map[uint32]bool{} // the jobs on them
	for _, name := range names {
		old, _ := s.nodes.Get(name)
		node := *old
		node.Reclaim = s.reclaimOf(old, c, taken[name], number, s.timeMS)
		if old.Reclaim != nil && old.Reclaim.Number != node.Reclaim.Number {
			s.notePromise(old, old.Reclaim)
		}
		s.reclaims = max(s.reclaims, node.Reclaim.Number)
		if node.keepsWhole() && !old.keepsWhole() {
			s.noteTook(&node)
		}
		for _, id := range old.use.jobs {
			there[id] = true
		}
		s.putNode(&node)
	}
	for _, id := range slices.Sorted(maps.Keys(there)) {
		s.tellGuest(id, names)
	}
}

// TryReclaim says what applying a command at a time would refuse, and how the
// nodes would be after it.
func (v *View) TryReclaim(c ReclaimNodes, nowMS int64) ([]*pb.Node, *Refusal) {
	names, nowMS := nodesNamed(c.Names), max(nowMS, v.timeMS)
	if refused := v.checkReclaim(&c, names, nowMS); refused != nil {
		return nil, refused
	}
	names, taken, refused := v.taken(&c, names, nowMS)
	if refused != nil {
		return nil, refused
	}
	var messages []*pb.Node
	for _, name := range names {
		old, _ := v.nodes.Get(name)
		node := *old
		node.Reclaim = v.reclaimOf(old, &c, taken[name], v.reclaims+1, nowMS)
		messages = append(messages, v.NodeMessage(&node))
	}
	return messages, nil
}

func (t *tables) checkReclaim(c *ReclaimNodes, names []string, nowMS int64) *Refusal {
	switch {
	case c.WithinMS != 0 && (c.WithinMS < MinReclaimMS || c.WithinMS > MaxReclaimMS):
		return refuse(Invalid, "guests have between 1 second and 24 hours to leave: use --within=60s, or --kill to end them at once")
	case c.GPUs > MaxReclaimGPUs:
		return refuse(Exhausted, "%d GPUs in one command are too many: at most %d, or name whole nodes", c.GPUs, MaxReclaimGPUs)
	case c.GPUs == 0 && c.Model != "":
		return refuse(Invalid, "a model is named and no number of GPUs: use --gpus=%s:1", bounds.Clip(c.Model, bounds.MaxNameBytes))
	case len(c.Model) > bounds.MaxNameBytes:
		return refuse(Invalid, "the name of the model is longer than %d bytes", bounds.MaxNameBytes)
	case len(c.User) > bounds.MaxNameBytes:
		return refuse(Invalid, "the name of the user is longer than %d bytes", bounds.MaxNameBytes)
	case c.trigger() < pb.ReclaimTrigger_RECLAIM_TRIGGER_COMMAND || c.trigger() > pb.ReclaimTrigger_RECLAIM_TRIGGER_LOGIN || len(c.Detail) > maxHoldDetailBytes:
		return refuse(Invalid, "a reclaim has one of the known triggers, and says at most %d bytes about it", maxHoldDetailBytes)
	}
	if refused := t.checkOwned(names, c.Coordinator, c.Privileged, "reclaim"); refused != nil {
		return refused
	}
	for _, name := range names {
		if node, _ := t.nodes.Get(name); c.UntilMS != 0 && c.UntilMS <= nowMS+c.withinMS(node) {
			return refuse(Invalid, "the reclaim would be over before its guests have to be gone: use a later --until or a longer --for")
		}
	}
	return nil
}

// withinMS is how long the guests of a node have.
func (c *ReclaimNodes) withinMS(node *Node) int64 {
	return cmp.Or(c.WithinMS, int64(node.Lending.Terms().NoticeMS))
}

// checkOwned refuses nodes that are unknown, or not the caller's.
func (t *tables) checkOwned(names []string, coordinator string, privileged bool, verb string) *Refusal {
	switch {
	case len(names) == 0:
		return refuse(Invalid, "no node is named")
	case len(names) > bounds.MaxNodesPerCommand:
		return refuse(Exhausted, "%d nodes in one request are too many: at most %d", len(names), bounds.MaxNodesPerCommand)
	}
	foreign := map[string][]string{}
	for _, name := range names {
		if _, known := t.nodes.Get(name); !known {
			return refuse(NotFound, "Node %s not found", bounds.Clip(name, bounds.MaxNameBytes))
		}
		if !t.MayReclaim(coordinator, privileged, name) {
			foreign[t.policy.OwnerOf(name)] = append(foreign[t.policy.OwnerOf(name)], name)
		}
	}
	if theirs := foreign[""]; len(theirs) > 0 {
		return refuse(Denied, "node %s has no owner: only administrators and operators %s it; leave it out, or have an [[owner]] named for it in cluster.toml", spec.FormatHostList(theirs), verb)
	}
	for _, name := range names {
		if owner := t.policy.OwnerOf(name); len(foreign[owner]) > 0 {
			return refuse(Denied, "node %s belongs to account %s: only its coordinators, administrators and operators %s it; leave it out, or ask one of them (gacctmgr show account %s withcoord)", spec.FormatHostList(foreign[owner]), owner, verb, owner)
		}
	}
	return nil
}

// reclaimOf is a node's reclaim after a command that takes some devices there, or with
// none of them all of it, with its guests and what is to become of each. Those that were
// told before are not told again, unless all are to end now.
func (t *tables) reclaimOf(node *Node, c *ReclaimNodes, taken []string, number uint32, nowMS int64) *Reclaim {
	reclaim := Reclaim{Number: number, AtMS: nowMS, DeadlineMS: nowMS + c.withinMS(node)}
	if node.Reclaim != nil {
		deadlineMS := min(node.Reclaim.DeadlineMS, reclaim.DeadlineMS)
		renewed := t.renewed(node, taken, nowMS)
		reclaim = *node.Reclaim
		if renewed {
			reclaim.Number, reclaim.AtMS, deadlineMS = number, nowMS, nowMS+c.withinMS(node)
		}
		reclaim.DeadlineMS = deadlineMS
		reclaim.Guests = slices.Clone(reclaim.Guests)
	}
	reclaim.Kill = reclaim.Kill || c.Kill
	reclaim.hold(Hold{Trigger: c.trigger(), By: c.User, SinceMS: nowMS, UntilMS: c.UntilMS, Detail: c.Detail, Devices: taken})
	beyond := t.beyondParked(node, &reclaim, nowMS)
	for _, id := range node.use.jobs {
		job := t.jobOn(id, node.Name)
		if t.OwnersJob(job, node.Name) || t.isSuccessor(job) && job.Run.Restore == nil || !reclaim.keeps(job.Alloc(node.Name)) {
			continue // or it is a run of which the node has not heard
		}
		reclaim.take(t.guestOf(job, node.Name, reclaim.Kill, beyond[id], nowMS))
	}
	return &reclaim
}

// take adds a guest, or changes what is to become of one that is there.
func (r *Reclaim) take(guest ReclaimedGuest) {
	at := r.guest(guest.Job, guest.Epoch)
	switch {
	case at < 0:
		r.Guests = append(r.Guests, guest)
	case r.Guests[at].Fate == pb.GuestFate_GUEST_FATE_PARK && guest.Fate != pb.GuestFate_GUEST_FATE_PARK:
		guest.FreedMS = r.Guests[at].FreedMS
		r.Guests[at] = guest
	}
	if len(r.Guests) > maxReclaimedGuests {
		r.Guests = slices.Delete(r.Guests, 0, len(r.Guests)-maxReclaimedGuests)
	}
}

// maxReclaimedGuests bounds the guests that are remembered of one reclaim: more
// than a node has CPUs, and so more than it can have at once.
const maxReclaimedGuests = 2 * bounds.MaxCPUsPerNode

// nodesNamed are names ascending, each once.
func nodesNamed(names []string) []string {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}
