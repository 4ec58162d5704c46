package state

import (
	"maps"
	"slices"

	"github.com/gleaner-hpc/gleaner/proto/spec"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// ReclaimNodes takes nodes back for their owner: guests get nothing there any
// longer, and those that run are parked, or ended. All nodes are reclaimed, or
// none. A node that is reclaimed already keeps its number and tells nobody twice:
// the deadline can only come nearer, and what the last one said counts for the
// end. It may be applied twice without harm.
type ReclaimNodes struct {
	Names    []string `cbor:"1,keyasint"`
	WithinMS int64    `cbor:"2,keyasint"`           // until the deadline, from log time
	UntilMS  int64    `cbor:"3,keyasint,omitempty"` // Unix milliseconds; 0 = it does not end by itself
	// Kill: guests are requeued or cancelled at once, and not parked.
	Kill bool   `cbor:"4,keyasint,omitempty"`
	User string `cbor:"5,keyasint,omitempty"` // who does it, as others see it
	// Coordinator is the caller, if they coordinate accounts: see Coordinates.
	Coordinator string `cbor:"6,keyasint,omitempty"`
	// Privileged: an administrator or operator does it.
	Privileged bool `cbor:"7,keyasint,omitempty"`
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
	number := s.reclaims + 1
	there := map[uint32]bool{} // the jobs on them
	for _, name := range names {
		old, _ := s.nodes.Get(name)
		node := *old
		node.Reclaim = s.reclaimOf(old, &c, number, s.timeMS)
		s.reclaims = max(s.reclaims, node.Reclaim.Number)
		for _, id := range old.use.jobs {
			there[id] = true
		}
		s.putNode(&node)
	}
	for _, id := range slices.Sorted(maps.Keys(there)) {
		s.tellGuest(id, names)
	}
	result.Nodes = names
}

// TryReclaim says what applying a command at a time would refuse, and how the
// nodes would be after it.
func (v *View) TryReclaim(c ReclaimNodes, nowMS int64) ([]*pb.Node, *Refusal) {
	names, nowMS := nodesNamed(c.Names), max(nowMS, v.timeMS)
	if refused := v.checkReclaim(&c, names, nowMS); refused != nil {
		return nil, refused
	}
	var messages []*pb.Node
	for _, name := range names {
		old, _ := v.nodes.Get(name)
		node := *old
		node.Reclaim = v.reclaimOf(old, &c, v.reclaims+1, nowMS)
		messages = append(messages, v.NodeMessage(&node))
	}
	return messages, nil
}

func (t *tables) checkReclaim(c *ReclaimNodes, names []string, nowMS int64) *Refusal {
	switch {
	case c.WithinMS < MinReclaimMS || c.WithinMS > MaxReclaimMS:
		return refuse(Invalid, "guests have between 1 second and 24 hours to leave: use --within=60s, or --kill to end them at once")
	case c.UntilMS != 0 && c.UntilMS <= nowMS+c.WithinMS:
		return refuse(Invalid, "the reclaim would be over before its guests have to be gone: use a later --until or a longer --for")
	case len(c.User) > MaxNameBytes:
		return refuse(Invalid, "the name of the user is longer than %d bytes", MaxNameBytes)
	}
	return t.checkOwned(names, c.Coordinator, c.Privileged, "reclaim")
}

// checkOwned refuses nodes that are unknown, or not the caller's.
func (t *tables) checkOwned(names []string, coordinator string, privileged bool, verb string) *Refusal {
	switch {
	case len(names) == 0:
		return refuse(Invalid, "no node is named")
	case len(names) > MaxNodesPerCommand:
		return refuse(Exhausted, "%d nodes in one request are too many: at most %d", len(names), MaxNodesPerCommand)
	}
	foreign := map[string][]string{}
	for _, name := range names {
		if _, known := t.nodes.Get(name); !known {
			return refuse(NotFound, "Node %s not found", clip(name, MaxNameBytes))
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

// reclaimOf is a node's reclaim after a command, with its guests and what is to
// become of each. Those that were told before are not told again, unless all are
// to end now.
func (t *tables) reclaimOf(node *Node, c *ReclaimNodes, number uint32, nowMS int64) *Reclaim {
	reclaim := Reclaim{Number: number, AtMS: nowMS, DeadlineMS: nowMS + c.WithinMS, By: c.User}
	if node.Reclaim != nil {
		deadlineMS := min(node.Reclaim.DeadlineMS, reclaim.DeadlineMS)
		reclaim = *node.Reclaim
		reclaim.DeadlineMS = deadlineMS
		reclaim.Guests = slices.Clone(reclaim.Guests)
	}
	reclaim.Kill = reclaim.Kill || c.Kill
	reclaim.UntilMS = c.UntilMS
	for _, id := range node.use.jobs {
		job := t.jobOn(id, node.Name)
		if t.OwnersJob(job, node.Name) || t.isSuccessor(job) && job.Run.Restore == nil {
			continue // or it is a run of which the node has not heard
		}
		reclaim.take(t.guestOf(job, node.Name, reclaim.Kill, nowMS))
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
const maxReclaimedGuests = 2 * MaxCPUsPerNode

// nodesNamed are names ascending, each once.
func nodesNamed(names []string) []string {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}
