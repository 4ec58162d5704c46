package sched

import (
	"math"
	"slices"
)

// preemptRules says which jobs may preempt which, and at what cost:
// preempt.html of Slurm, and slurm.conf(5), PreemptType and the following.
type preemptRules struct {
	*Snapshot
	circle []int // by QOS: those of one number preempt each other in a circle
}

func newPreemptRules(s *Snapshot) *preemptRules {
	return &preemptRules{Snapshot: s, circle: circles(s.QOS)}
}

// isPreemptor reports whether a job may preempt anybody from a partition.
func (r *preemptRules) isPreemptor(job *Job, partition int) bool {
	if r.Partitions[partition].isPart() {
		return true
	}
	switch r.Preemption.Type {
	case PreemptByQOS:
		return slices.ContainsFunc(r.preempts(job.QOS), func(other int) bool { return r.outranks(job.QOS, int32(other)) })
	case PreemptByPartition:
		tier := r.Partitions[partition].PriorityTier
		return slices.ContainsFunc(r.Partitions, func(p Partition) bool { return p.PriorityTier < tier })
	}
	return false
}

func (r *preemptRules) preempts(qos int32) []int {
	if qos < 0 || int(qos) >= len(r.QOS) {
		return nil
	}
	return r.QOS[qos].Preempts
}

// outranks reports whether jobs of one QOS may preempt those of another. QOS
// that list each other, or form a longer circle, do not: their jobs would
// preempt each other forever.
func (r *preemptRules) outranks(qos, other int32) bool {
	return other >= 0 && slices.Contains(r.preempts(qos), int(other)) && r.circle[qos] != r.circle[other]
}

// mode is what becomes of a running job that a job preempts from a partition;
// PreemptOff if it may not.
func (r *preemptRules) mode(job *Job, partition int, victim *Running) PreemptMode {
	mode := r.Preemption.Mode
	switch {
	case !r.above(standing{job.QOS, partition, job.Owner}, victim):
		return PreemptOff
	case r.Preemption.Type == PreemptByQOS:
		mode = orElse(r.QOS[victim.QOS].Preempt, mode)
	default:
		mode = orElse(r.Partitions[victim.Partition].Preempt, mode)
	}
	switch {
	case mode == PreemptSuspend && victim.Suspends:
		return PreemptSuspend
	case mode == PreemptCheckpoint && victim.Saves:
		return PreemptCheckpoint
	case (mode == PreemptRequeue || mode == PreemptCheckpoint) && victim.Requeue:
		return PreemptRequeue
	case mode == PreemptRequeue || mode == PreemptCheckpoint || mode == PreemptCancel:
		return PreemptCancel // also what may not be requeued, as in Slurm
	}
	return PreemptOff
}

// standing is what decides which jobs a job may preempt.
type standing struct {
	qos       int32
	partition int
	owner     int32
}

// above reports whether jobs of a standing come before a running one, which they
// may then preempt. Where that is a job of the node's owner, guests do not; nor does a job
// of the same owner but in its own turn: the other one would start again before it.
func (r *preemptRules) above(by standing, victim *Running) bool {
	inOwnTurn := by.partition >= 0 && r.Partitions[by.partition].isPart()
	if len(r.Owners) > 0 && (r.isProtected(victim, by.owner) || !inOwnTurn && r.isAtHome(victim)) {
		return false
	}
	switch r.Preemption.Type {
	case PreemptByQOS:
		return r.outranks(by.qos, victim.QOS)
	case PreemptByPartition:
		return by.partition >= 0 && victim.Partition >= 0 && r.Partitions[victim.Partition].PriorityTier < r.Partitions[by.partition].PriorityTier
	}
	return false
}

// goesBefore reports whether a suspended job does not continue before jobs of a
// standing that wait: those that may preempt it, or park it.
func (r *preemptRules) goesBefore(by standing, suspended *Running) bool {
	if by.partition >= 0 && r.Partitions[by.partition].isPart() && r.isGuest(suspended, by.owner) {
		return true
	}
	return r.above(by, suspended)
}

// goesFirst reports whether one suspended job continues before another.
func (r *preemptRules) goesFirst(first, then *Running) bool {
	return r.isGuest(then, first.Owner) || r.above(first.standing(), then)
}

func orElse(mode, otherwise PreemptMode) PreemptMode {
	if mode == PreemptUnset {
		return otherwise
	}
	return mode
}

// graceS is how long a job may continue between TERM and KILL when it is
// preempted. One that is suspended or parked is told nothing: it continues.
func (r *preemptRules) graceS(victim *Running, mode PreemptMode) uint32 {
	if mode == PreemptSuspend || mode == PreemptPark {
		return 0
	}
	switch {
	case r.Preemption.Type == PreemptByQOS && victim.QOS >= 0:
		return r.QOS[victim.QOS].GraceTimeS
	case r.Preemption.Type != PreemptByQOS && victim.Partition >= 0:
		return r.Partitions[victim.Partition].GraceTimeS
	}
	return 0
}

// leaveMS is how long a job takes to leave when it is preempted, at most.
func (r *preemptRules) leaveMS(victim *Running, mode PreemptMode) int64 {
	return int64(r.graceS(victim, mode))*1000 + victim.saveMS()
}

// PreemptEligibleMS is when a running job may be preempted, as far as
// PreemptExemptTime goes: its QOS's, or else the cluster's.
func (s *Snapshot) PreemptEligibleMS(victim *Running) int64 {
	exempt := int64(s.Preemption.ExemptTimeS)
	if victim.QOS >= 0 && int(victim.QOS) < len(s.QOS) && s.QOS[victim.QOS].PreemptExemptTimeS >= 0 {
		exempt = s.QOS[victim.QOS].PreemptExemptTimeS
	}
	return victim.StartMS + min(exempt, math.MaxInt32)*1000
}

// lost is what a running job loses if it is preempted now, in GPU-milliseconds:
// the time since its run began or since its work was saved, and what it takes
// to resume from there.
func (r *preemptRules) lost(victim *Running, mode PreemptMode) int64 {
	since, paused, restore := victim.StartMS, victim.PausedMS, int64(0)
	if victim.SavedMS > since {
		since, paused, restore = victim.SavedMS, 0, int64(victim.RestoreS)*1000
	}
	if mode == PreemptSuspend {
		return 0
	}
	if mode == PreemptCheckpoint {
		since, paused, restore = r.NowMS, 0, int64(victim.RestoreS)*1000
	}
	return lostTimes(max(r.NowMS-since-paused, 0)+restore, victim.units())
}

// units is the unit of a job's work: its GPUs, or its CPUs if it has none.
func (j *Running) units() int64 {
	gpus, cpus := 0, 0
	for i := range j.Placement.Allocs {
		gpus += len(j.Placement.Allocs[i].Devices)
		cpus += j.Placement.Allocs[i].CPUs.Count()
	}
	if gpus > 0 {
		return int64(gpus)
	}
	return int64(cpus)
}

// lostTimes and plus stop at a number of which thousands can be added up.
func lostTimes(a, b int64) int64 {
	if b > 0 && a > mostLost/b {
		return mostLost
	}
	return a * b
}

func plus(a, b int64) int64 { return min(min(a, mostLost)+min(b, mostLost), mostLost) }

const mostLost = 1 << 50

// circles numbers the QOS so that two have the same number if each leads to
// the other through the lists of what they preempt: Tarjan's strongly connected
// components.
func circles(qos []QOS) []int {
	t := tarjan{qos: qos, order: make([]int, len(qos)), low: make([]int, len(qos)), circle: make([]int, len(qos))}
	for i := range qos {
		if t.order[i] == 0 {
			t.visit(i)
		}
	}
	return t.circle
}

type tarjan struct {
	qos        []QOS
	order, low []int // order: when it was visited, from 1 on; low: the first it leads back to
	circle     []int // 0 while it is open
	open       []int
	visited    int
	found      int
}

func (t *tarjan) visit(i int) {
	t.visited++
	t.order[i], t.low[i] = t.visited, t.visited
	t.open = append(t.open, i)
	for _, next := range t.qos[i].Preempts {
		switch {
		case next < 0 || next >= len(t.qos):
		case t.order[next] == 0:
			t.visit(next)
			t.low[i] = min(t.low[i], t.low[next])
		case t.circle[next] == 0:
			t.low[i] = min(t.low[i], t.order[next])
		}
	}
	if t.low[i] != t.order[i] {
		return
	}
	t.found++
	for last := -1; last != i; {
		last = t.open[len(t.open)-1]
		t.open = t.open[:len(t.open)-1]
		t.circle[last] = t.found
	}
}
