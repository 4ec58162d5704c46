package shim

import (
	"time"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
)

// insideEvery is how often a job that may make containers of its own is asked for one:
// whether the job can be saved is then known before somebody tries.
const insideEvery = 3 * time.Second

// watchInside looks for containers inside the job's, until the answer is called.
func (p *alloc) watchInside(running *container.Container) (stop func()) {
	if !p.order.GetNestedContainers() {
		return func() {}
	}
	over, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(insideEvery)
		defer tick.Stop()
		for {
			p.lookInside(running)
			select {
			case <-over:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(over); <-stopped }
}

func (p *alloc) lookInside(running *container.Container) {
	found, is, err := running.Nested()
	if err != nil {
		return // it is about to end, or the next look says more
	}
	said := ""
	if is {
		said = bundle.Clip(found.String())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inside != said {
		p.inside = said
		p.notify()
	}
}
