package state

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
)

// AbandonSaves gives up saves that are under way: their node has not said in
// time how they ended. The job keeps running, unless it has to make room; its
// node is told, if it can be reached.
type AbandonSaves struct {
	Saves []SaveRef `cbor:"1,keyasint"`
}

// SaveRef names a save, and says why it is given up.
type SaveRef struct {
	Job    uint32 `cbor:"1,keyasint"`
	Epoch  uint32 `cbor:"2,keyasint"`
	Number uint32 `cbor:"3,keyasint"`
	Reason string `cbor:"4,keyasint,omitempty"`
}

func (AbandonSaves) kind() Kind { return KindAbandonSaves }
func (c AbandonSaves) apply(s *State, result *Result) {
	if len(c.Saves) > bounds.MaxTargets {
		result.Refused = refuse(Exhausted, "%d saves in one entry are too many: at most %d", len(c.Saves), bounds.MaxTargets)
		return
	}
	for _, ref := range c.Saves {
		job, known := s.Job(ref.Job)
		if !known || job.Epoch != ref.Epoch || job.Saving() == nil || job.Saving().Number != ref.Number {
			continue
		}
		s.saveFailed(job, ref.Reason, true)
	}
}

// LateSaves are saves of which the nodes should have said by now how they
// ended, nowMS being the leader's clock. Some allocations of a job on several
// nodes may be frozen and wait for the others: a silent node of such a job is
// not waited for.
func (v *View) LateSaves(nowMS int64) []SaveRef {
	var late []SaveRef
	for job := range v.LiveJobs() {
		saving := job.Saving()
		if saving == nil || len(late) == bounds.MaxTargets {
			continue
		}
		ref := SaveRef{Job: job.ID, Epoch: job.Epoch, Number: saving.Number}
		switch silent := v.silentNode(job); {
		case job.IsGang() && silent != "":
			ref.Reason = fmt.Sprintf("node %s does not respond", silent)
		case saving.DeadlineMS > nowMS:
			continue
		default:
			ref.Reason = fmt.Sprintf("node %s did not say in time how it ended", words.FormatHostList(saving.unheard(job)))
		}
		late = append(late, ref)
	}
	return late
}

// unheard are the nodes that have not said that their allocation is saved.
func (s *Saving) unheard(job *Job) []string {
	var names []string
	for i := range job.Run.Allocs {
		if node := job.Run.Allocs[i].Node; !s.has(node) {
			names = append(names, node)
		}
	}
	return names
}
