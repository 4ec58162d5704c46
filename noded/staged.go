package noded

import (
	"time"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
)

// stagedAge is how old a job's disk is at least that is deleted because no later run of the
// job needs it. Controllers look every few seconds whether they have to say something else,
// and what one has said counts no longer than its session: so they have heard of the run that
// left the disk.
// A variable for tests.
var stagedAge = time.Minute

// needStaged notes the jobs whose disks are kept between two runs.
func (a *agent) needStaged(jobs []uint32) {
	needed := make(map[uint32]bool, len(jobs))
	for _, job := range jobs {
		needed[job] = true
	}
	a.imaging.staged.Store(&needed)
	a.lookAtImages()
}

// forgetStaged: the session is over in which that was said.
func (a *agent) forgetStaged() { a.imaging.staged.Store(nil) }

// tidyStaged deletes the disks of jobs that no later run needs.
func (a *agent) tidyStaged() {
	needed := a.imaging.staged.Load()
	if needed == nil {
		return
	}
	deleted, err := bundle.TidyKept(a.machine.config.StateDir, func(job uint32) bool { return (*needed)[job] }, stagedAge)
	if err != nil {
		a.log.Warn("what is left of jobs whose files were staged cannot be deleted: see whether the disk is sound", "error", err)
	}
	if deleted > 0 {
		a.log.Info("deleted disks of jobs whose files were staged, and that need them no longer", "count", deleted)
	}
}
