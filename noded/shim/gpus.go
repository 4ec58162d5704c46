package shim

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/gpumem"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// newGPUs is nil for an allocation without GPUs that have a memory of their own.
func (p *alloc) newGPUs() *gpumem.Memory {
	return gpumem.New(gpumem.Config{Settings: p.settings, Own: p.own, Group: p.group, Runs: p.runs, Log: p.log})
}

// driverPatience bounds the question whether a job's GPUs can be parked.
const driverPatience = 2 * time.Minute

// runs says whether the job runs at this moment: neither its lease, nor a
// suspension, nor a save has it frozen.
func (p *alloc) runs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.Runs()
}

// comeBack makes the allocation ready: at once, or when its processes have their GPU
// memory back, which takes as long as copying it. Until then only these processes run,
// because the driver works in them; the others are stopped. If they do not get their
// memory back, the allocation ends. comeBack answers a function that returns when all
// this is over.
func (p *alloc) comeBack(running *container.Container) (wait func()) {
	if !p.gpus.IsParked() {
		p.setReady(running)
		return func() {}
	}
	ctx, cancel := context.WithTimeout(p.startContext, p.settings.Checkpoint.Timeout())
	over := make(chan struct{})
	go func() {
		defer close(over)
		err := p.gpus.Restore(ctx)
		switch {
		case p.endAsked():
		case err != nil:
			p.log.Warn("the job cannot resume here: the controllers try another node, or its image before", "error", err)
			p.end(pb.EndCause_END_CAUSE_RESTORE_FAILED, 0, bundle.Clip(err.Error()))
		default:
			p.setReady(running)
		}
	}()
	return func() { cancel(); <-over }
}
