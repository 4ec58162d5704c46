package shim

import (
	"net/netip"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/network"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
)

// prepareOut gives a job with a network of its own a way out, where the node has one.
func (p *alloc) prepareOut(spec *container.Spec) {
	if !spec.PrivateNetwork || p.job.DryRun {
		return
	}
	spec.ResetsOutside = p.order.Spec.GetCheckpoint().GetConnections() == words.ConnectionsClose
	n := &p.settings.Network
	besides, _ := netip.ParsePrefix(p.order.Network6) // invalid = there is none
	p.out = network.New(network.Config{
		Who: string(p.dir), Job: p.order.Alloc.Job, Node: p.settings.Node,
		Number: p.order.Alloc.Job + network.Spread(p.settings.StateDir),
		Policy: policyOf(p.order.Outside), Besides: besides,
		Ranges: n.Ranges, Alone: n.WhyNot != "" || !n.Ranges.V4.IsValid(), Log: p.log,
	})
	spec.Network = p.out
	if !p.out.Alone {
		spec.Resolver = network.Resolver()
	}
}

// beginOut makes what it can of the way out while the container is made.
func (p *alloc) beginOut() {
	if p.out != nil && p.order.Restore == nil {
		p.out.Begin()
	}
}

// policyOf is what the controllers allow. A destination that this version does not know is
// left out: less is allowed then.
func policyOf(o *pb.Outside) network.Policy {
	policy := network.Policy{BytesPerSecond: o.GetBytesPerSecond()}
	if policy.BytesPerSecond == words.UnlimitedRate {
		policy.BytesPerSecond = 0
	}
	allow := o.GetAllow()
	if len(allow) == 0 || allow[0] == words.Everywhere {
		return policy
	}
	policy.Closed = true
	for _, text := range allow {
		if d, err := words.ParseDestination(text); err == nil {
			policy.Allow = append(policy.Allow, d)
		}
	}
	return policy
}

// closeOut removes the way out: nothing of it stays on the node.
func (p *alloc) closeOut() {
	if err := p.out.Close(); err != nil {
		p.log.Error("the job's way out is not removed whole: what is left goes with its processes and this one", "error", err)
	}
}
