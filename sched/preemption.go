package sched

import "github.com/gleaner-hpc/gleaner/sched/place"

// PreemptMode is what happens to a job that makes room (slurm.conf(5),
// PreemptMode).
type PreemptMode uint8

// Preempt modes. Checkpoint is Gleaner's own: the job's processes are saved
// and continue later from where they were.
const (
	PreemptUnset PreemptMode = iota // what the next wider setting says
	PreemptOff
	PreemptCancel
	PreemptRequeue
	PreemptSuspend
	PreemptCheckpoint
	// PreemptPark is no mode of a policy: what the jobs of a node's owner do to
	// guests there. See owners.go.
	PreemptPark
)

// PreemptType says which jobs may preempt which.
type PreemptType uint8

// Preempt types (slurm.conf(5), PreemptType).
const (
	PreemptNone        PreemptType = iota
	PreemptByPartition             // partitions of a higher tier
	PreemptByQOS                   // as the QOS list it
)

// PreemptionPolicy is the cluster's.
type PreemptionPolicy struct {
	Type        PreemptType
	Mode        PreemptMode
	ExemptTimeS uint32 // a job runs at least this long before it may be preempted
	// GuestExemptTimeS is how long a guest runs at least without being disturbed by
	// jobs of its node's owner.
	GuestExemptTimeS uint32
}

// Preemption is one job that should make room for another.
type Preemption struct {
	Victim JobID
	For    JobID
	Mode   PreemptMode // cancel, requeue, suspend, checkpoint or park
	// Own: For is a job of the owner of the nodes, on which the victim is a guest.
	Own    bool
	GraceS uint32
	// Fills: the victim fills a hole, which is needed. For may be none. GoneByMS is when it
	// should be gone.
	Fills    bool
	GoneByMS int64
	// LostGPUMS is what it loses, in GPU-milliseconds (CPU-milliseconds for a
	// job without GPUs).
	LostGPUMS int64
	// Choice is what was chosen for the job, one for all its victims.
	Choice *Choice
}

// Choice says what a set of victims costs, and what the next best would have
// cost. The cost is what they lose, and what they have lost to preemptions
// before, so that the same job is not hit again and again.
type Choice struct {
	For        JobID
	Nodes      []place.NodeIndex // where the job will fit
	CostGPUMS  int64             // of all victims
	NextBest   []JobID           // ascending; nil = no other was found
	NextCostMS int64
}
