package state

import (
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched"
)

// TestPullsInSnapshots: a job that waits for its container image, and the nodes to which that
// does not come, are in each snapshot as they are told then, though its record stays.
func TestPullsInSnapshots(t *testing.T) {
	s := New()
	for i, c := range []Command{
		RegisterNode{Name: "n1", Inventory: Inventory{CPUs: 4, MemoryBytes: 1 << 30, BootID: "b"}},
		RegisterNode{Name: "n2", Inventory: Inventory{CPUs: 4, MemoryBytes: 1 << 30, BootID: "b"}},
		SubmitJob{Spec: Spec{Partitions: []string{"main"}, MinNodes: 2, Container: &Container{Image: "docker://h/n@sha256:0"}}, Owner: Owner{UID: 1000, GID: 1000, User: "ann"}},
		SubmitJob{Spec: Spec{Partitions: []string{"main"}, MaxNodes: 1, Container: &Container{Image: "docker://h/n@sha256:0"}}, Owner: Owner{UID: 1000, GID: 1000, User: "ann"}},
	} {
		entry, err := Encode(c, RequestID{}, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if result, err := s.Apply(uint64(i+1), entry); err != nil || result.Refused != nil {
			t.Fatal(err, result.Refused)
		}
	}
	var memo SnapshotMemo
	for _, waits := range []bool{true, false, true} {
		var snapshot sched.Snapshot
		snapshot, memo = s.View().SchedSnapshotAfter(memo, 2000, NodeReports{Pulls: func(*Job) (bool, []string) {
			if waits {
				return true, []string{"n2"}
			}
			return false, nil
		}})
		gang, one := &snapshot.Waiting[0], &snapshot.Waiting[1]
		if excluded := snapshot.Shapes[gang.Shape].Request.ExcludedNodes; gang.Pulls != waits || slices.Contains(excluded, "n2") != waits {
			t.Fatalf("waits %t: %t, without %v", waits, gang.Pulls, excluded)
		}
		if one.Pulls || len(snapshot.Shapes[one.Shape].Request.ExcludedNodes) > 0 {
			t.Fatal("a job on one node does not wait: its node pulls when it has the job")
		}
	}
}
