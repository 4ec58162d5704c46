package shim

import (
	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/network"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
)

// prepareOut gives a job with a network of its own a way out, where the node has one.
func (p *alloc) prepareOut(spec *container.Spec) {
	if !spec.PrivateNetwork || p.job.DryRun {
		return
	}
	spec.ResetsOutside = p.order.Spec.GetCheckpoint().GetConnections() == words.ConnectionsClose
	n := &p.settings.Network
	p.out = network.New(network.Config{
		Who: string(p.dir), Job: p.order.Alloc.Job, Node: p.settings.Node,
		Ranges: n.Ranges, Alone: n.WhyNot != "" || !n.Ranges.V4.IsValid(), Log: p.log,
	})
	spec.Network = p.out
	if !p.out.Alone {
		spec.Resolver = network.Resolver()
	}
}

// closeOut removes the way out: nothing of it stays on the node.
func (p *alloc) closeOut() {
	if err := p.out.Close(); err != nil {
		p.log.Error("the job's way out is not removed whole: what is left goes with its processes and this one", "error", err)
	}
}
