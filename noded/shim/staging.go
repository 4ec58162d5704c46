package shim

import (
	"time"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
)

// stagingEvery is how often what is said of the copying of files is told.
const stagingEvery = time.Second

// tellStaging tells what the job's program says of the files that it copies, until the
// answer is called.
func (p *alloc) tellStaging() (stop func()) {
	if !p.order.GetStages() {
		return func() {}
	}
	over, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(stagingEvery)
		defer tick.Stop()
		for said := ""; ; {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			if text := bundle.ReadStaging(p.dir.Path(bundle.RunDir)); text != said {
				said = text
				p.sayPreparing(text)
			}
		}
	}()
	return func() { close(over); <-stopped }
}
