package state

import (
	"fmt"
	"iter"
	"math"
)

// This file keeps a compact record of runs that are over, long after their jobs were
// purged, so that another policy can be tried on what really ran (gcontrol apply
// --replay, gleaner simulate). One takes 32 bytes, and its kind is shared with others
// that differ from it only in their times; persisted, it takes about 25. A history
// database may replace it: whoever reads the record reads EndedRuns.
//
// A run counts however it ended: a job that was requeued three times has four, each
// since it was last eligible. One that never began is left out.

// EndedRun is a run that is over. Times are Unix seconds. A stored one is never changed.
type EndedRun struct {
	Job       uint32
	EligibleS uint32 // since when it could have started
	StartS    uint32
	EndS      uint32
	RanS      uint32 // without the time for which it was suspended
	kind      *countedRunKind
}

// Kind is what the run has in common with others.
func (r *EndedRun) Kind() *RunKind { return &r.kind.RunKind }

// RunKind is whose a run was and what it had.
type RunKind struct {
	_           struct{} `cbor:",toarray"`
	User        string
	Account     string
	Partition   string
	Model       string // of its GPUs; "" = it has none
	LimitS      uint32 // its time limit
	Nodes       uint32
	CPUs        uint32 // on all nodes
	GPUs        uint32 // on all nodes
	MemoryBytes uint64 // on its first node
}

// countedRunKind counts the runs of its kind. The number belongs to the State alone.
type countedRunKind struct {
	RunKind
	references uint32
}

// EndedRuns are the runs that are known, in the order of their ends.
func (t *tables) EndedRuns() iter.Seq[*EndedRun] {
	return func(yield func(*EndedRun) bool) {
		for i := range t.endedRuns {
			if !yield(&t.endedRuns[i]) {
				return
			}
		}
	}
}

// EndedRunsAfter are the runs that ended after one, which is the last that the caller knows.
// all: it is not there any more, or not yet, and these are all.
func (t *tables) EndedRunsAfter(last *EndedRun) (runs []EndedRun, all bool) {
	for at := len(t.endedRuns) - 1; at >= 0; at-- {
		if t.endedRuns[at] == *last {
			return t.endedRuns[at+1:], false
		}
	}
	return t.endedRuns, true
}

// noteEndedRun adds the run of a job that has released all its nodes.
func (s *State) noteEndedRun(job *Job) {
	if !job.Run.began() || s.policy.Scheduler.KeptRuns() == 0 {
		return
	}
	eligibleMS := job.SubmitMS
	if job.EligibleMS != 0 {
		eligibleMS = max(eligibleMS, job.EligibleMS)
	}
	s.addEndedRun(EndedRun{
		Job: job.ID, EligibleS: unixSeconds(min(eligibleMS, job.Run.StartMS)), StartS: unixSeconds(job.Run.StartMS), EndS: unixSeconds(s.timeMS),
		RanS: unixSeconds(job.Run.ranMS(s.timeMS)),
	}, job.RunKind())
	s.boundEndedRuns()
}

// began reports whether the container of some allocation has been up.
func (r *Run) began() bool {
	for i := range r.Allocs {
		if r.Allocs[i].Ready {
			return true
		}
	}
	return false
}

// RunKind is that of a job that has a run.
func (j *Job) RunKind() RunKind {
	run := j.Run
	kind := RunKind{
		User: j.Owner().User, Account: j.Spec.Account, Partition: run.Partition, LimitS: j.TimeLimitS(),
		Nodes: uint32(len(run.Allocs)), MemoryBytes: run.Allocs[0].MemoryBytes,
	}
	for i := range run.Allocs {
		kind.CPUs += uint32(len(run.Allocs[i].CPUs))
		kind.GPUs += uint32(len(run.Allocs[i].Devices))
		if len(run.Allocs[i].Devices) > 0 {
			kind.Model = run.Allocs[i].Devices[0].Model
		}
	}
	return kind
}

// WantedKind is that of a job that waits: the least that it would get.
func (j *Job) WantedKind() RunKind {
	request := &j.Spec.shape.Request
	least := request.Least()
	return RunKind{
		User: j.Owner().User, Account: j.Spec.Account, Partition: j.Spec.Partitions[0], Model: request.Model, LimitS: j.TimeLimitS(),
		Nodes: uint32(min(least.Nodes, math.MaxUint32)), CPUs: uint32(min(least.CPUs, math.MaxUint32)), GPUs: uint32(min(least.GPUs, math.MaxUint32)),
		MemoryBytes: least.NodeMemoryBytes,
	}
}

// RanAtMS is how long a run has run at a time, without the times for which it was
// suspended.
func (r *Run) RanAtMS(atMS int64) int64 { return r.ranMS(atMS) }

func unixSeconds(ms int64) uint32 { return uint32(min(max(ms/1000, 0), math.MaxUint32)) }

func (s *State) addEndedRun(run EndedRun, kind RunKind) {
	counted, known := s.runKinds[kind]
	if !known {
		counted = &countedRunKind{RunKind: kind}
		s.runKinds[kind] = counted
	}
	counted.references++
	run.kind = counted
	s.endedRuns = append(s.endedRuns, run)
}

// boundEndedRuns forgets the oldest runs that are too many or too old.
func (s *State) boundEndedRuns() {
	most, oldestS := int(s.policy.Scheduler.KeptRuns()), uint32(0)
	if nowS, ageS := unixSeconds(s.timeMS), s.policy.Scheduler.KeptRunsAgeS(); nowS > ageS {
		oldestS = nowS - ageS
	}
	gone := max(len(s.endedRuns)-most, 0)
	for gone < len(s.endedRuns) && s.endedRuns[gone].EndS < oldestS {
		gone++
	}
	for i := range s.endedRuns[:gone] {
		kind := s.endedRuns[i].kind
		if kind.references--; kind.references == 0 {
			delete(s.runKinds, kind.RunKind)
		}
	}
	s.endedRuns = s.endedRuns[gone:]
}

// endedRunsRecord is some runs in a row, as they are persisted.
type endedRunsRecord struct {
	Kinds []RunKind     `cbor:"1,keyasint"`
	Runs  []endedRunRow `cbor:"2,keyasint"`
}

type endedRunRow struct {
	_         struct{} `cbor:",toarray"`
	Job       uint32
	EligibleS uint32
	WaitedS   uint32 // until its start
	TookS     uint32 // from there to its end
	RanS      uint32
	Kind      uint32 // Position in Kinds
}

// endedRunsPerFrame is how many runs are persisted together.
const endedRunsPerFrame = 4096

// persistEndedRuns calls write with all runs.
func (t *tables) persistEndedRuns(write func(*endedRunsRecord)) {
	for rest := t.endedRuns; len(rest) > 0; {
		part := rest[:min(len(rest), endedRunsPerFrame)]
		rest = rest[len(part):]
		record := endedRunsRecord{Runs: make([]endedRunRow, len(part))}
		positions := map[*countedRunKind]uint32{}
		for i := range part {
			run := &part[i]
			at, known := positions[run.kind]
			if !known {
				at = uint32(len(record.Kinds))
				positions[run.kind] = at
				record.Kinds = append(record.Kinds, run.kind.RunKind)
			}
			record.Runs[i] = endedRunRow{Job: run.Job, EligibleS: run.EligibleS, WaitedS: run.StartS - run.EligibleS, TookS: run.EndS - run.StartS, RanS: run.RanS, Kind: at}
		}
		write(&record)
	}
}

func (s *State) restoreEndedRuns(record *endedRunsRecord) error {
	for i := range record.Runs {
		row := &record.Runs[i]
		if int(row.Kind) >= len(record.Kinds) {
			return fmt.Errorf("run %d has no kind", i)
		}
		start := row.EligibleS + row.WaitedS
		run := EndedRun{Job: row.Job, EligibleS: row.EligibleS, StartS: start, EndS: start + row.TookS, RanS: row.RanS}
		if start < row.EligibleS || run.EndS < start || len(s.endedRuns) > 0 && s.endedRuns[len(s.endedRuns)-1].EndS > run.EndS {
			return fmt.Errorf("run %d has impossible times", i)
		}
		s.addEndedRun(run, record.Kinds[row.Kind])
	}
	return nil
}

// checkEndedRuns says what is wrong with the record. It looks at all runs, which are kept
// long: after each entry of a simulated day that would take longer than the day.
func (s *State) checkEndedRuns() error {
	if s.index%64 != 0 && len(s.endedRuns) > 64 {
		return nil
	}
	counts, lastS := map[*countedRunKind]uint32{}, uint32(0)
	for run := range s.EndedRuns() {
		if run.EligibleS > run.StartS || run.StartS > run.EndS || run.EndS < lastS || s.runKinds[run.kind.RunKind] != run.kind {
			return fmt.Errorf("the ended run of job %d is %+v", run.Job, run)
		}
		lastS = run.EndS
		counts[run.kind]++
	}
	if len(s.endedRuns) > int(s.policy.Scheduler.KeptRuns()) || len(counts) != len(s.runKinds) {
		return fmt.Errorf("there are %d ended runs of %d kinds, and %d kinds are kept", len(s.endedRuns), len(counts), len(s.runKinds))
	}
	for kind, count := range counts {
		if kind.references != count {
			return fmt.Errorf("kind %+v has %d runs and counts %d", kind.RunKind, count, kind.references)
		}
	}
	return nil
}
