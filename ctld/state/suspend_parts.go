package state

import "math"

// PartsSuspended records what nodes say of orders to stand still or to go on.
// From when a part stands by the order that is in force, its CPUs are free.
type PartsSuspended struct {
	Reports []SuspendReport `cbor:"1,keyasint"`
}

// SuspendReport is what a node says of one part: see PartSuspended in
// link.proto.
type SuspendReport struct {
	Job    uint32 `cbor:"1,keyasint"`
	Epoch  uint32 `cbor:"2,keyasint"`
	Node   string `cbor:"3,keyasint"`
	Number uint32 `cbor:"4,keyasint"`
	Stands bool   `cbor:"5,keyasint,omitempty"`
}

func (PartsSuspended) kind() Kind   { return KindPartsSuspended }
func (PartsSuspended) level() Level { return LevelFrozen }

func (c PartsSuspended) apply(s *State, result *Result) {
	if len(c.Reports) > MaxReports {
		result.Refused = refuse(Exhausted, "%d parts in one entry are too many: at most %d", len(c.Reports), MaxReports)
		return
	}
	for i := range c.Reports {
		s.partSuspended(&c.Reports[i])
	}
}

func (s *State) partSuspended(report *SuspendReport) {
	if !s.TellsSuspension(report) {
		return
	}
	job, _ := s.Job(report.Job)
	next, part := job.withPart(report.Node)
	if report.Number > job.Run.SuspendNumber {
		next.Run.SuspendNumber = report.Number + 1
	} else {
		part.Stands = true
	}
	s.putJob(next)
}

// TellsSuspension says whether a report changes anything. One of a higher number
// than was given is from a time that a restore has undone: what is wanted stays
// so, under a number higher still, which the node then obeys.
func (t *tables) TellsSuspension(report *SuspendReport) bool {
	job, part := t.LivePart(PartRef{report.Job, report.Epoch, report.Node})
	switch {
	case part == nil || job.Phase != Running || report.Number >= math.MaxUint32-1:
		return false
	case report.Number > job.Run.SuspendNumber:
		return true
	}
	return report.Stands && report.Number == job.Run.SuspendNumber && job.Suspended() && !part.Stands
}
