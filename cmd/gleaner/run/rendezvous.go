package run

import (
	"strconv"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// Variables by which torch.distributed, and what learned from it, finds the other tasks.
// ourPort tells a port that an outer step was given from one that the user chose.
const (
	masterAddr = "MASTER_ADDR"
	masterPort = "MASTER_PORT"
	ourPort    = "GLEANER_MASTER_PORT"
)

// findPort asks the first node of the step for a port at which its tasks may meet. A
// step without one runs as well.
func (r *stepRunner) findPort() error {
	if r.userMeets() {
		return nil
	}
	first := r.clients[0]
	_ = within(startTime, first, func() (err error) { // one that is lost is found at the launch
		r.port, err = first.Port()
		return err
	})
	return nil
}

// userMeets reports whether the user has said where the tasks meet.
func (r *stepRunner) userMeets() bool {
	port := r.inv.Getenv(masterPort)
	return port != "" && port != r.inv.Getenv(ourPort)
}

// meeting sets what tells tasks where they meet.
func (r *stepRunner) meeting(all *jobspec.Environment) {
	all.Set("WORLD_SIZE=" + strconv.Itoa(r.tasks()))
	if r.port == 0 {
		return
	}
	port := strconv.FormatUint(uint64(r.port), 10)
	all.Set(masterAddr + "=" + r.plan[0].node)
	all.Set(masterPort + "=" + port)
	all.Set(ourPort + "=" + port)
}

// ranksOf tells a task which of all it is.
func ranksOf(rank uint32, local, here int) step.Strings {
	return step.Strings{
		"RANK=" + strconv.FormatUint(uint64(rank), 10), "LOCAL_RANK=" + strconv.Itoa(local), "LOCAL_WORLD_SIZE=" + strconv.Itoa(here),
	}
}
