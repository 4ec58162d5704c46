package shim

import (
	"context"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/gpumem"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// firstCheckpointable says whether the allocation can be saved, as far as that is known
// before the first attempt.
func (p *alloc) firstCheckpointable() *pb.AllocCheckpointable {
	checkpointable := &pb.AllocCheckpointable{Alloc: p.order.Alloc, Checkpointable: pb.Checkpointable_CHECKPOINTABLE_NO}
	c := p.settings.Checkpoint
	switch mode := p.order.Spec.GetCheckpoint().GetMode(); {
	case mode == "none":
		checkpointable.Reason = "it was submitted with --checkpoint=none"
	case mode == "app":
		checkpointable.Reason = "it saves itself (--checkpoint=app): the system does not"
	case c.Engine == nil:
		checkpointable.Reason = bundle.Clip(c.WhyNot)
	case p.gpus != nil:
		checkpointable.Checkpointable, checkpointable.Reason = pb.Checkpointable_CHECKPOINTABLE_NOT_NOW, askingDriver
	default:
		checkpointable.Checkpointable = pb.Checkpointable_CHECKPOINTABLE_LIKELY
	}
	return checkpointable
}

// checkpointableNow also considers what is open at this moment. The caller holds p.mu.
func (p *alloc) checkpointableNow() *pb.AllocCheckpointable {
	switch checkpointable := p.core.Checkpointable; checkpointable.GetCheckpointable() {
	case pb.Checkpointable_CHECKPOINTABLE_LIKELY, pb.Checkpointable_CHECKPOINTABLE_YES:
		if why := p.relay.OpenStreams(); why != nil {
			return &pb.AllocCheckpointable{Alloc: p.order.Alloc, Checkpointable: pb.Checkpointable_CHECKPOINTABLE_NOT_NOW, Reason: why.Error()}
		}
		if p.inside != "" {
			return &pb.AllocCheckpointable{Alloc: p.order.Alloc, Checkpointable: pb.Checkpointable_CHECKPOINTABLE_NOT_NOW, Reason: p.inside}
		}
		return checkpointable
	default:
		return checkpointable
	}
}

// askingDriver is the reason of a job with GPUs until their driver has answered.
const askingDriver = "the driver of its GPUs is being asked whether their memory can be saved: look again in a moment"

// checkpointableGPUs finds out whether the memory of the allocation's GPUs can be
// saved.
func (p *alloc) checkpointableGPUs() {
	ctx, cancel := context.WithTimeout(p.startContext, driverPatience)
	defer cancel()
	err := p.gpus.Ask(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.core.Checkpointable.GetReason() != askingDriver && (err == nil || !gpumem.Lasts(err)) {
		return // something better is known by now
	}
	p.core.Checkpointable = &pb.AllocCheckpointable{Alloc: p.order.Alloc, Checkpointable: pb.Checkpointable_CHECKPOINTABLE_LIKELY}
	if err != nil {
		p.log.Info("what the job has on its GPUs cannot be saved", "error", err)
		p.core.Checkpointable.Checkpointable, p.core.Checkpointable.Reason = pb.Checkpointable_CHECKPOINTABLE_NOT_NOW, bundle.Clip("what it has on its GPUs cannot be saved: "+err.Error())
	}
	if gpumem.Lasts(err) {
		p.core.Checkpointable.Checkpointable = pb.Checkpointable_CHECKPOINTABLE_NO
	}
	p.notify()
}
