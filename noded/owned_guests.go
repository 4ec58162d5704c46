package noded

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/job"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file follows the guests of a reclaim that was made on the node.

// takeGuests notes the guests that are here and were not told yet. The caller holds a.mu.
func (a *agent) takeGuests() {
	kill := a.owned.owner.Kill()
	for _, decided := range a.registry.All() {
		at := slices.IndexFunc(a.owned.guests, func(g *guest) bool { return g.key == decided.Key })
		switch {
		case decided.Life.Over() || !a.owned.owner.Guest(decided.Order):
		case at < 0:
			p := a.allocs[decided.Key]
			a.owned.guests = append(a.owned.guests, &guest{key: decided.Key, message: guestMessage(p, kill)})
			a.noteGuest(p)
		case kill && a.owned.guests[at].message.Fate == pb.GuestFate_GUEST_FATE_PARK:
			a.owned.guests[at].message.Fate = endingFate(decided.Order)
		}
	}
}

func guestMessage(p *alloc, kill bool) *pb.ReclaimedGuest {
	order := p.Order
	message := &pb.ReclaimedGuest{
		Id: order.GetId(), Job: p.Key.Job, Epoch: p.Key.Epoch, Name: order.GetSpec().GetName(), User: order.GetOwner().GetUser(),
		Account: cmp.Or(order.GetAccount(), order.GetSpec().GetAccount()), Fate: pb.GuestFate_GUEST_FATE_PARK,
	}
	for _, share := range order.GetAllocation() {
		if share.GetNode() == order.GetNode() {
			message.Cpus, message.Gpus, message.MemoryBytes = uint32(len(share.GetCpuIds())), uint32(len(share.GetDevices())), share.GetMemoryBytes()
		}
	}
	switch {
	case p.Life.State() >= job.Ending:
		message.Fate = pb.GuestFate_GUEST_FATE_ENDING
	case kill:
		message.Fate = endingFate(order)
	}
	return message
}

// endingFate is what becomes of a guest that ends for the owner.
func endingFate(order *pb.StartAlloc) pb.GuestFate {
	if order.GetSpec().GetRequeue() {
		return pb.GuestFate_GUEST_FATE_REQUEUE
	}
	return pb.GuestFate_GUEST_FATE_CANCEL
}

// noteGuest notes whether the hardware of a guest is free, and what became of it. The
// caller holds a.mu.
func (a *agent) noteGuest(p *alloc) {
	at := slices.IndexFunc(a.owned.guests, func(g *guest) bool { return g.key == p.Key })
	if at < 0 {
		return
	}
	g := a.owned.guests[at]
	switch free := p.Free(); {
	case free && g.freed == 0:
		g.freed = boottime.Now()
	case !free:
		g.freed = 0
	}
	switch {
	case p.Life.Over() && p.Result.GetCause() == pb.EndCause_END_CAUSE_RECLAIMED:
		g.message.Fate = endingFate(p.Order)
		g.freedBy(p.Result.GetFreed(), "it was killed: "+p.Result.GetDetail())
	case p.Life.Over():
		g.message.Fate, g.message.Detail = pb.GuestFate_GUEST_FATE_ENDING, "its run is over"
	case p.Hold.Parked:
		g.freedBy(p.Hold.Freed, "")
	}
}

// freedBy notes what was measured of freeing its hardware.
func (g *guest) freedBy(freed *pb.HardwareFreed, detail string) {
	g.message.NodeTookMs, g.message.NodeLateMs = freed.GetTookMs(), freed.GetLateMs()
	if text := spec.FormatFreed(freed); text != "" && detail != "" {
		detail += "; " + text
	} else if text != "" {
		detail = text
	}
	g.message.Detail = detail
}

// ownNode is this node with the reclaim that was made on it. The caller holds a.mu.
func (a *agent) ownNode(reclaim *pb.Reclaim) *pb.Node {
	node := &pb.Node{Name: a.machine.config.Name, OwnerAccount: a.owned.owner.Ledger().GetRules().GetOwner(), Reclaim: reclaim}
	if reclaim == nil {
		return node
	}
	for _, g := range a.owned.guests {
		message := proto.CloneOf(g.message)
		if g.freed != 0 {
			message.FreedMs = max(a.owned.owner.WallMS(g.freed), reclaim.AtMs)
		}
		reclaim.Guests = append(reclaim.Guests, message)
	}
	return node
}
