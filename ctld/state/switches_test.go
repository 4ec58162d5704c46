package state

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// TestAJobWaitsForItsSwitches: a job that wants its nodes on one leaf switch
// waits as long as it said, is planned for again at that time, and then takes
// nodes on two.
func TestAJobWaitsForItsSwitches(t *testing.T) {
	const start = 1_000_000
	s := New()
	for _, name := range []string{"n1", "n2"} {
		applyCommand(t, s, gpuNode(name, 1), RequestID{}, start)
	}
	site := *policy.Default()
	site.Switches = []policy.Switch{{Name: "leaf1", Nodes: "n1"}, {Name: "leaf2", Nodes: "n2"}, {Name: "top", Switches: []string{"leaf1", "leaf2"}}}
	wanted, err := policy.Normalize(&site)
	if err != nil {
		t.Fatal(err)
	}
	applyCommand(t, s, ApplyPolicy{Policy: *wanted}, RequestID{}, start)
	submitJob(t, s, &pb.JobSpec{Script: []byte("#!/bin/sh\n"), MemoryPerCpuBytes: 1, MinNodes: 2, Switches: 1, SwitchesWaitS: 60}, &pb.Identity{Uid: 7})
	for _, test := range []struct {
		waitedMS, nextMS int64
		starts           int
	}{{0, start + 60_000, 0}, {59_999, start + 60_000, 0}, {60_000, 0, 1}} {
		snapshot := s.View().SchedSnapshot(start + test.waitedMS)
		plan, _ := sched.Schedule(snapshot, sched.Memo{})
		if len(plan.Starts) != test.starts || plan.NextMS != test.nextMS {
			t.Errorf("after %d ms: %d starts, next pass at %d; want %d and %d", test.waitedMS, len(plan.Starts), plan.NextMS, test.starts, test.nextMS)
		}
	}
}
