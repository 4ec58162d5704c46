package state

import (
	"fmt"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// TestPlansFit: a plan made from the present state is carried out whole, so
// that what Apply checks and what the scheduler sees are the same thing.
func TestPlansFit(t *testing.T) {
	for seed := range int64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			planAlong(t, seed)
		})
	}
}

func planAlong(t *testing.T, seed int64) {
	w, s := newWalker(seed), New()
	now, started := int64(1_000_000), 0
	var memo sched.Memo
	index := uint64(0)
	apply := func(command Command) Result {
		now += 100
		index++
		entry, err := Encode(command, RequestID{}, now)
		if err != nil {
			t.Fatal(err)
		}
		result := mustApply(t, s, index, entry)
		if err := s.Check(); err != nil {
			t.Fatalf("entry %d: %v", index, err)
		}
		return result
	}
	for range 500 {
		apply(w.next(s.View()))
		if w.chance(40) {
			job, node := w.activeJob(s.View())
			apply(AllocsEnded{Reports: []AllocReport{{Job: job.ID, Epoch: job.Epoch, Node: node, Cause: pb.EndCause_END_CAUSE_EXITED}}})
		}
		snapshot := s.View().SchedSnapshot(now)
		var plan sched.Plan
		plan, memo = sched.Schedule(snapshot, memo)
		if len(plan.Starts) == 0 {
			continue
		}
		for _, start := range apply(PlanToCommand(&snapshot, &plan)).Starts {
			if start.Dropped != "" {
				t.Errorf("entry %d: job %d dropped: %s", index, start.Asked, start.Dropped)
			}
			started++
		}
	}
	if started < 10 {
		t.Errorf("only %d starts: the walk goes nowhere", started)
	}
}
