package noded

import (
	"context"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// suspendPart passes on to the supervisor that a part shall stand still, or go
// on. The supervisor knows which of the orders counts.
func (a *agent) suspendPart(order *pb.SuspendPart) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.parts[keyOf(order.GetPart())]
	if !ok || p.life.Over() {
		return
	}
	p.put(call{name: "suspend", until: true, do: func(ctx context.Context, client pb.ShimClient) error {
		_, err := client.Suspend(ctx, order)
		return err
	}})
}

// setSuspended notes what a supervisor says of its part, and reports it. A
// controller that did not hear it does in the next registration.
func (a *agent) setSuspended(p *part, said *pb.PartSuspended) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.suspendNumber == said.GetNumber() && p.stands == said.GetStands() {
		return
	}
	p.suspendNumber, p.stands = said.GetNumber(), said.GetStands()
	a.sendLocked(&pb.NodeMessage{What: &pb.NodeMessage_PartSuspended{PartSuspended: &pb.PartSuspended{
		Part: p.key.message(), Number: p.suspendNumber, Stands: p.stands,
	}}})
}
