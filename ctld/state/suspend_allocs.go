package state

import (
	"math"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// AllocsSuspended records what nodes say of orders to stop or to continue. Once
// an allocation is stopped by the order that is in force, its CPUs are free; once
// it is parked, its devices are free too.
type AllocsSuspended struct {
	Reports []SuspendReport `cbor:"1,keyasint"`
}

// SuspendReport is what a node says of one allocation: see AllocSuspended in
// link.proto.
type SuspendReport struct {
	Job    uint32 `cbor:"1,keyasint"`
	Epoch  uint32 `cbor:"2,keyasint"`
	Node   string `cbor:"3,keyasint"`
	Number uint32 `cbor:"4,keyasint"`
	Frozen bool   `cbor:"5,keyasint,omitempty"`
	Parked bool   `cbor:"6,keyasint,omitempty"` // its devices are free too
	Freed  *Freed `cbor:"600,keyasint,omitempty"`
}

// Freed is what a node has measured of a guest that left its hardware to the owner: see
// HardwareFreed in link.proto.
type Freed struct {
	TookMS    uint32 `cbor:"1,keyasint"`
	LateMS    uint32 `cbor:"2,keyasint,omitempty"`
	Slowest   string `cbor:"3,keyasint,omitempty"`
	SlowestMS uint32 `cbor:"4,keyasint,omitempty"`
}

// freedFromMessage makes the record of what a node has measured; nil when it says nothing.
func freedFromMessage(message *pb.HardwareFreed) *Freed {
	if message.GetTookMs() == 0 {
		return nil
	}
	return &Freed{message.GetTookMs(), message.GetLateMs(), bounds.Clip(strings.ToValidUTF8(message.GetSlowest(), "?"), bounds.MaxNameBytes), message.GetSlowestMs()}
}

func (f *Freed) text() string {
	if f == nil {
		return ""
	}
	return spec.FormatFreed(&pb.HardwareFreed{TookMs: f.TookMS, LateMs: f.LateMS, Slowest: f.Slowest, SlowestMs: f.SlowestMS})
}

func (AllocsSuspended) kind() Kind { return KindAllocsSuspended }
func (c AllocsSuspended) apply(s *State, result *Result) {
	if len(c.Reports) > bounds.MaxReports {
		result.Refused = refuse(Exhausted, "%d allocations in one entry are too many: at most %d", len(c.Reports), bounds.MaxReports)
		return
	}
	for i := range c.Reports {
		s.allocSuspended(&c.Reports[i])
	}
}

func (s *State) allocSuspended(report *SuspendReport) {
	if !s.TellsSuspension(report) {
		return
	}
	job, _ := s.Job(report.Job)
	next, alloc := job.withAlloc(report.Node)
	if report.Number > job.Run.SuspendNumber {
		next.Run.SuspendNumber = report.Number + 1
		s.parkAgain(next, alloc, report.Parked)
		return
	}
	first := !alloc.Parked && report.parks(alloc)
	alloc.Frozen = true
	alloc.Parked = alloc.Parked || report.parks(alloc)
	s.putJob(next)
	if first {
		s.noteLeft(report.Node, false)
	}
	if alloc.Parked {
		s.noteFreed(report.Job, report.Epoch, report.Node, report.Freed)
	}
}

// parks reports whether a report says that an allocation is parked that should be.
func (r *SuspendReport) parks(alloc *Alloc) bool { return r.Frozen && r.Parked && alloc.ParkByMS != 0 }

// TellsSuspension reports whether a report changes anything. A higher number
// than was given out is from a time that a restore has undone: the order stays,
// under a still higher number, which the node then obeys.
func (t *tables) TellsSuspension(report *SuspendReport) bool {
	job, alloc := t.presentAlloc(AllocRef{report.Job, report.Epoch, report.Node})
	switch {
	case alloc == nil || job.Phase != Running || report.Number >= math.MaxUint32-1:
		return false
	case report.Number > job.Run.SuspendNumber:
		return true
	}
	return report.Frozen && report.Number == job.Run.SuspendNumber && job.Suspended() && (!alloc.Frozen || !alloc.Parked && report.parks(alloc))
}
