package state

import (
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestUnknownJob: of a number that was given out it is said that jobs are
// forgotten, also of tasks of an array that had them, and of no other.
func TestUnknownJob(t *testing.T) {
	s := New()
	plain := submitJob(t, s, &pb.JobSpec{Script: []byte("#!/bin/sh\n")}, &pb.Identity{Uid: 7})
	array := submitJob(t, s, &pb.JobSpec{Script: []byte("#!/bin/sh\n"), Array: &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 0, Last: 4, Step: 2}}}}, &pb.Identity{Uid: 7})
	two := []ranges.Range{{First: 2, Last: 2, Step: 1}}
	applyCommand(t, s, CancelJobs{Targets: []Target{{Job: plain}, {Job: array, Tasks: two}}, Privileged: true}, RequestID{}, 1)
	later := int64(10_000_000)
	applyCommand(t, s, Barrier{}, RequestID{}, later)
	applyCommand(t, s, PurgeJobs{BeforeMS: later}, RequestID{}, later)
	for name, test := range map[string]struct {
		target    Target
		forgotten bool
	}{
		"over":       {Target{Job: plain}, true},
		"task":       {Target{Job: array, Tasks: two}, true},
		"no task":    {Target{Job: array, Tasks: []ranges.Range{{First: 1, Last: 1, Step: 1}}}, false},
		"never":      {Target{Job: array + 100}, false},
		"never task": {Target{Job: array + 100, Tasks: two}, false},
	} {
		got := applyCommand(t, s, HoldJobs{Targets: []Target{test.target}, Privileged: true}, RequestID{}, later).Jobs[0]
		if got.Code != NotFound || !strings.HasPrefix(got.Message, textUnknownJob) || strings.Contains(got.Message, "forgotten when they are over for more than") != test.forgotten {
			t.Errorf("%s: %d %s", name, got.Code, got.Message)
		}
	}
}
