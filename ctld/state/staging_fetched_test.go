package state

import (
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestResultsHaveTimeToBeFetched: a short job's results wait longer than its time limit, and
// those that go elsewhere do not.
func TestResultsHaveTimeToBeFetched(t *testing.T) {
	for _, c := range []struct {
		stage  Stage
		target string
		limit  uint32
		want   uint32
	}{
		{StageOut, "submit://login/home/ann/r", 60, fetchLimitS},
		{StageOut, "submit://login/home/ann/r", 1 << 30, 1 << 30},
		{StageOut, "s3://bucket/r", 60, 60},
		{StageIn, "submit://login/home/ann/r", 60, 60},
	} {
		job := &Job{Spec: &Spec{Staging: []Staging{{Source: "http://h/f", Target: "/tmp/f"}, {Source: "/tmp/r", Target: c.target, Out: true}}}, Run: &Run{}, Staged: &Staged{Stage: c.stage, Nodes: []string{"n1"}, Run: &Run{}}}
		order := &pb.StartAlloc{Spec: &pb.JobSpec{}, TimeLimitS: c.limit}
		job.fillStaging(order)
		if order.TimeLimitS != c.want {
			t.Errorf("%+v: %d", c, order.TimeLimitS)
		}
	}
}
