package state

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file says why a node is reclaimed, and for how long.

// Hold is one reason for which a node is reclaimed. A node has at most one for each
// trigger, and its reclaim lasts until none is left: two triggers are one reclaim, with
// one number and one promise.
type Hold struct {
	Trigger pb.ReclaimTrigger `cbor:"1,keyasint"`
	By      string            `cbor:"2,keyasint,omitempty"` // "" = nobody asked
	SinceMS int64             `cbor:"3,keyasint"`
	UntilMS int64             `cbor:"4,keyasint,omitempty"` // 0 = it does not end by itself
	Detail  string            `cbor:"5,keyasint,omitempty"`
	// Devices are all that it takes back: see Reclaim.
	Devices []string `cbor:"40,keyasint,omitempty"`
}

// maxHoldDetailBytes bounds what is said of a hold.
const maxHoldDetailBytes = 256

func (c *ReclaimNodes) trigger() pb.ReclaimTrigger {
	return cmp.Or(c.Trigger, pb.ReclaimTrigger_RECLAIM_TRIGGER_COMMAND)
}

// hold adds a hold, or renews the one of the same trigger. The slice of a stored
// reclaim stays as it is.
func (r *Reclaim) hold(hold Hold) {
	at, found := slices.BinarySearchFunc(r.Holds, hold.Trigger, func(h Hold, t pb.ReclaimTrigger) int { return cmp.Compare(h.Trigger, t) })
	r.Holds = slices.Clone(r.Holds)
	if found {
		hold.SinceMS = r.Holds[at].SinceMS
		hold.Devices = bothDevices(r.Holds[at].Devices, hold.Devices)
		r.Holds[at] = hold
	} else {
		r.Holds = slices.Insert(r.Holds, at, hold)
	}
	r.summed()
}

// summed sets what follows from the holds.
func (r *Reclaim) summed() {
	r.By, r.UntilMS, r.Devices = r.Holds[0].By, 0, r.Holds[0].Devices
	for i := range r.Holds {
		r.Devices = bothDevices(r.Devices, r.Holds[i].Devices)
	}
	for i := range r.Holds {
		until := r.Holds[i].UntilMS
		if until == 0 {
			r.UntilMS = 0
			return
		}
		r.UntilMS = max(r.UntilMS, until)
	}
}

// Held is the hold of a trigger; nil = there is none.
func (r *Reclaim) Held(trigger pb.ReclaimTrigger) *Hold {
	if r == nil {
		return nil
	}
	for i := range r.Holds {
		if r.Holds[i].Trigger == trigger {
			return &r.Holds[i]
		}
	}
	return nil
}

// noteHoursOff notes that somebody ends the calendar's hold of a node: it does not
// come back before its end.
func (s *State) noteHoursOff(name string, trigger pb.ReclaimTrigger) {
	old, _ := s.nodes.Get(name)
	hours := old.Reclaim.Held(pb.ReclaimTrigger_RECLAIM_TRIGGER_HOURS)
	if hours == nil || trigger != 0 {
		return
	}
	node := *old
	node.HoursOffMS = untilOrEver(hours.UntilMS)
	s.putNode(&node)
}

// HoursOff reports whether somebody has ended the calendar's hold of a node that would
// last until then (0 = for ever): ReclaimNodes leaves that node as it is.
func (n *Node) HoursOff(untilMS int64) bool { return untilOrEver(untilMS) <= n.HoursOffMS }

func untilOrEver(untilMS int64) int64 { return cmp.Or(untilMS, math.MaxInt64) }

func (t *tables) isOff(c *ReclaimNodes, name string) bool {
	node, _ := t.nodes.Get(name)
	return c.Trigger == pb.ReclaimTrigger_RECLAIM_TRIGGER_HOURS && node.HoursOff(c.UntilMS)
}

// by is who has reclaimed a node: "bob", "the calendar and bob, on the node itself".
func (r *Reclaim) by() string {
	var texts []string
	for i := range r.Holds {
		texts = append(texts, r.Holds[i].byText())
	}
	if last := len(texts) - 1; last > 0 {
		return strings.Join(texts[:last], ", ") + " and " + texts[last]
	}
	return strings.Join(texts, "")
}

func (h *Hold) byText() string {
	switch who := cmp.Or(h.By, "the owner"); h.Trigger {
	case pb.ReclaimTrigger_RECLAIM_TRIGGER_LOCAL:
		return who + " on the node itself"
	case pb.ReclaimTrigger_RECLAIM_TRIGGER_HOURS:
		return "the calendar of its owner"
	case pb.ReclaimTrigger_RECLAIM_TRIGGER_GPU_PROCESS:
		return "a process of its owner on a GPU"
	case pb.ReclaimTrigger_RECLAIM_TRIGGER_LOGIN:
		return "a login of " + who
	default:
		return who
	}
}

// checkHolds says what is wrong with the holds of a reclaim.
func (r *Reclaim) checkHolds() error {
	want := *r
	if len(r.Holds) == 0 {
		return fmt.Errorf("it has no hold")
	}
	if want.summed(); want.By != r.By || want.UntilMS != r.UntilMS || !slices.Equal(want.Devices, r.Devices) {
		return fmt.Errorf("it is by %q until %d of %q, and its holds by %q until %d of %q", r.By, r.UntilMS, r.Devices, want.By, want.UntilMS, want.Devices)
	}
	if !slices.IsSorted(r.Devices) || len(r.Devices) > maxReclaimedDevices {
		return fmt.Errorf("its devices are not in order, or too many: %q", r.Devices)
	}
	for i := range r.Holds {
		if h := &r.Holds[i]; h.Trigger == 0 || i > 0 && h.Trigger <= r.Holds[i-1].Trigger {
			return fmt.Errorf("its holds are not in order: %+v", r.Holds)
		}
	}
	return nil
}
