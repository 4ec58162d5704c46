package sched

import (
	"reflect"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// narrow has some jobs of a world resume from images, each on some nodes of its own.
func (w *world) narrow() map[JobID][]string {
	among := make(map[JobID][]string)
	for i := range w.snapshot.Waiting {
		job := &w.snapshot.Waiting[i]
		if job.Tasks == 0 || w.random.IntN(3) > 0 {
			continue
		}
		job.Tasks, job.Throttled = 1, false
		nodes := []string{}
		for n := range w.snapshot.Nodes {
			if w.random.IntN(2) == 0 {
				nodes = append(nodes, w.snapshot.Nodes[n].Name)
			}
		}
		shape := w.snapshot.Shapes[job.Shape]
		shape.Request.MinNodes, shape.Request.MaxNodes, shape.Request.AmongNodes = 1, 1, nodes
		job.Shape = len(w.snapshot.Shapes)
		job.Image, job.NowhereToResume = 1, len(nodes) == 0
		w.snapshot.Shapes = append(w.snapshot.Shapes, shape)
		among[job.ID] = nodes
	}
	return among
}

// TestImagesResumeWhereTheyCan: what resumes from an image is placed on one of the
// nodes that can, or waits; and while it waits for one of them nobody behind it
// takes what is free there.
func TestImagesResumeWhereTheyCan(t *testing.T) {
	placed, waits, kept := 0, 0, 0
	for seed := range uint64(4000) {
		w := newWorld(seed, 1+int(seed%4), 1+int(seed%12))
		among := w.narrow()
		plan, memo := Schedule(w.snapshot, Memo{})
		checkPlan(t, &w.snapshot, plan)
		if again, _ := Schedule(w.snapshot, memo); !reflect.DeepEqual(again, plan) {
			t.Fatalf("seed %d: with a memo the plan is another", seed)
		}
		for _, start := range plan.Starts {
			nodes, narrowed := among[start.Job]
			if !narrowed {
				continue
			}
			placed++
			name := w.snapshot.Nodes[start.Placement.Allocs[0].Node].Name
			if len(start.Placement.Allocs) != 1 || !slices.Contains(nodes, name) {
				t.Fatalf("seed %d: job %d resumes on %s, and can on %v", seed, start.Job, name, nodes)
			}
		}
		for _, r := range plan.Reasons {
			nodes, narrowed := among[r.Job]
			if nowhere := r.Code == ReasonImage; nowhere && (!narrowed || len(nodes) > 0) {
				t.Fatalf("seed %d: job %d has nowhere to continue: %v", seed, r.Job, nodes)
			} else if nowhere {
				waits++
			}
			if narrowed && r.Code == ReasonResources {
				kept += keptFree(t, seed, &w.snapshot, plan, r, nodes)
			}
		}
	}
	t.Logf("%d continue, %d nowhere, %d times were nodes kept for one", placed, waits, kept)
	if placed < 200 || waits < 50 || kept < 20 {
		t.Error("the walk goes nowhere")
	}
}

// keptFree checks that nobody who comes after a job in its one partition starts on
// the nodes that are kept for it.
func keptFree(t *testing.T, seed uint64, s *Snapshot, plan Plan, r Reason, nodes []string) int {
	t.Helper()
	job := s.Waiting[slices.IndexFunc(s.Waiting, func(j Job) bool { return j.ID == r.Job })]
	if len(s.Shapes[job.Shape].Partitions) != 1 || len(s.Partitions) != 1 {
		return 0
	}
	for _, start := range plan.Starts {
		other := s.Waiting[slices.IndexFunc(s.Waiting, func(j Job) bool { return j.ID == start.Job })]
		later := other.FixedPriority < job.FixedPriority || other.FixedPriority == job.FixedPriority && other.ID > job.ID
		if later && slices.ContainsFunc(start.Placement.Allocs, func(p place.Alloc) bool { return slices.Contains(nodes, s.Nodes[p.Node].Name) }) {
			t.Fatalf("seed %d: job %d starts on a node that is kept for job %d", seed, other.ID, job.ID)
		}
	}
	return 1
}
