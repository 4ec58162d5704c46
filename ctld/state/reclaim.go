package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file has the record of a node that its owner has taken back, and of the
// guests there. See DESIGN.md, "Reclaimed nodes".

// Reclaim says that the owner has taken a node back: guests get nothing there,
// and those that ran must leave its CPUs and devices by the deadline. A stored
// one is never changed.
type Reclaim struct {
	Number uint32 `cbor:"1,keyasint"`           // of the cluster's reclaims, from 1 on; one command is one reclaim
	By     string `cbor:"2,keyasint,omitempty"` // of the first of Holds
	AtMS   int64  `cbor:"3,keyasint"`
	// DeadlineMS is the promise: by then no guest has CPUs or devices there.
	DeadlineMS int64 `cbor:"4,keyasint"`
	// UntilMS is when the last of Holds ends by itself; 0 = with ReleaseNodes.
	UntilMS int64 `cbor:"5,keyasint,omitempty"`
	// Kill: guests are not parked.
	Kill   bool             `cbor:"6,keyasint,omitempty"`
	Guests []ReclaimedGuest `cbor:"7,keyasint,omitempty"` // in the order in which they were told
	// Holds are why it lasts: at most one for each trigger, ascending by that, and
	// never none.
	Holds []Hold `cbor:"30,keyasint,omitempty"`
	// Devices are all that is taken back, ascending by id: guests have the rest of the
	// node. None = all of the node is.
	Devices []string `cbor:"40,keyasint,omitempty"`
}

// ReclaimedGuest is a run that was on the node. It is kept for the owner to see,
// also once its job is gone.
type ReclaimedGuest struct {
	Job         uint32       `cbor:"1,keyasint"`
	Epoch       uint32       `cbor:"2,keyasint"`
	HasTask     bool         `cbor:"3,keyasint,omitempty"`
	Task        uint32       `cbor:"4,keyasint,omitempty"`
	Name        string       `cbor:"5,keyasint,omitempty"`
	User        string       `cbor:"6,keyasint,omitempty"`
	Account     string       `cbor:"7,keyasint,omitempty"`
	CPUs        uint32       `cbor:"8,keyasint,omitempty"`
	GPUs        uint32       `cbor:"9,keyasint,omitempty"`
	MemoryBytes uint64       `cbor:"10,keyasint,omitempty"`
	Fate        pb.GuestFate `cbor:"11,keyasint"`
	FreedMS     int64        `cbor:"12,keyasint,omitempty"` // when its CPUs and devices were free; 0 = they are not
	Detail      string       `cbor:"13,keyasint,omitempty"`
	Array       uint32       `cbor:"14,keyasint,omitempty"` // the number of its array, of a task
	// BoundMS is how long its node said that parking it takes at most; 0 = nobody could say,
	// and Unbounded is why.
	BoundMS   uint32 `cbor:"40,keyasint,omitempty"`
	Unbounded string `cbor:"41,keyasint,omitempty"`
	// What its node has measured: see HardwareFreed in link.proto.
	NodeTookMS uint32 `cbor:"600,keyasint,omitempty"`
	NodeLateMS uint32 `cbor:"601,keyasint,omitempty"`
}

// OwnersJob reports whether a job is the owner's on a node: what it is charged to
// is the account that the node belongs to, or lies below it. A job that is
// charged to nobody is a guest everywhere: its account is only what its user
// wrote.
func (t *tables) OwnersJob(job *Job, node string) bool {
	owner := t.policy.OwnerOf(node)
	association, known := t.Association(job.Association)
	return owner != "" && known && t.IsBelow(association.Account, owner)
}

// keptFrom reports whether a node is reclaimed and the job a guest there; where only
// devices are, whether it has one of them.
func (t *tables) keptFrom(job *Job, node *Node) bool {
	return node.Reclaim != nil && !t.OwnersJob(job, node.Name) && node.Reclaim.keeps(job.Alloc(node.Name))
}

// MayReclaim reports whether somebody may reclaim and release a node: the
// coordinators of its owner, and administrators and operators. A node without an
// owner is the site's.
func (t *tables) MayReclaim(coordinator string, privileged bool, node string) bool {
	return privileged || t.coordinatesAccount(coordinator, t.policy.OwnerOf(node))
}

// NodesOwnedBy are the nodes of the accounts that somebody coordinates, ascending
// by name.
func (t *tables) NodesOwnedBy(coordinator string) []string {
	may := map[string]bool{"": false}
	var names []string
	for node := range t.Nodes() {
		owner := t.policy.OwnerOf(node.Name)
		if _, asked := may[owner]; !asked {
			may[owner] = t.coordinatesAccount(coordinator, owner)
		}
		if may[owner] {
			names = append(names, node.Name)
		}
	}
	return names
}

// guest finds a run among the guests; -1 when it is none of them.
func (r *Reclaim) guest(job, epoch uint32) int {
	return slices.IndexFunc(r.Guests, func(g ReclaimedGuest) bool { return g.Job == job && g.Epoch == epoch })
}

// Free reports whether no guest has CPUs or devices of the node any longer.
func (r *Reclaim) Free() bool {
	return !slices.ContainsFunc(r.Guests, func(g ReclaimedGuest) bool { return g.FreedMS == 0 })
}

// noteTaken notes that a guest has the CPUs and devices of a node after all.
func (s *State) noteTaken(job, epoch uint32, name string) {
	s.changeGuest(job, epoch, name, func(guest *ReclaimedGuest) {
		guest.FreedMS, guest.Detail, guest.NodeTookMS, guest.NodeLateMS = 0, "", 0, 0
	})
}

// noteFreed notes that a guest no longer has CPUs and devices of a node, and what its node
// has measured of that.
func (s *State) noteFreed(job, epoch uint32, name string, freed *Freed) {
	s.changeGuest(job, epoch, name, func(guest *ReclaimedGuest) {
		if guest.FreedMS == 0 {
			guest.FreedMS = max(s.timeMS, 1)
		}
		guest.measured(freed)
	})
}

// measured notes what a guest's node has measured.
func (g *ReclaimedGuest) measured(freed *Freed) {
	if freed != nil {
		g.NodeTookMS, g.NodeLateMS = freed.TookMS, freed.LateMS
	}
	g.Detail = bounds.Clip(joinSentences(g.Detail, freed.text()), bounds.MaxTextBytes)
}

func (s *State) changeGuest(job, epoch uint32, name string, change func(*ReclaimedGuest)) {
	old, known := s.nodes.Get(name)
	if !known || old.Reclaim == nil {
		return
	}
	at := old.Reclaim.guest(job, epoch)
	if at < 0 {
		return
	}
	node, reclaim := *old, *old.Reclaim
	reclaim.Guests = slices.Clone(reclaim.Guests)
	change(&reclaim.Guests[at])
	node.Reclaim = &reclaim
	s.putNode(&node)
}

// notGuest drops a run from the guests: it continues, because the node's owner has
// changed, and it is the owner's now.
func (s *State) notGuest(job, epoch uint32, name string) {
	old, _ := s.nodes.Get(name)
	if old.Reclaim == nil || old.Reclaim.guest(job, epoch) < 0 {
		return
	}
	node, reclaim := *old, *old.Reclaim
	at := reclaim.guest(job, epoch)
	reclaim.Guests = slices.Delete(slices.Clone(reclaim.Guests), at, at+1)
	node.Reclaim = &reclaim
	s.putNode(&node)
}
