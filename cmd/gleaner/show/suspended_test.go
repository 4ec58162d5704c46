package show

import (
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestSuspendedTime: the time for which a job was suspended is not used, and its
// limit is reached as much later.
func TestSuspendedTime(t *testing.T) {
	const s = 1000
	v := &View{NowMS: 1000 * s}
	for _, row := range []struct {
		name        string
		job         *pb.Job
		used, limit int64 // seconds
	}{
		{"never suspended", &pb.Job{State: pb.JobState_JOB_STATE_RUNNING, StartMs: 100 * s, TimeLimitS: 3600}, 900, 3700},
		{"suspended at 300", &pb.Job{State: pb.JobState_JOB_STATE_SUSPENDED, StartMs: 100 * s, SuspendMs: 300 * s, PreSuspendMs: 200 * s, TimeLimitS: 3600}, 200, 4400},
		{"continued at 700", &pb.Job{State: pb.JobState_JOB_STATE_RUNNING, StartMs: 100 * s, SuspendMs: 700 * s, PreSuspendMs: 200 * s, TimeLimitS: 3600}, 500, 4100},
		{"and ended", &pb.Job{State: pb.JobState_JOB_STATE_COMPLETED, StartMs: 100 * s, SuspendMs: 700 * s, PreSuspendMs: 200 * s, EndMs: 800 * s, TimeLimitS: 3600}, 300, 4100},
		{"ended while it was suspended", &pb.Job{State: pb.JobState_JOB_STATE_CANCELLED, StartMs: 100 * s, SuspendMs: 300 * s, PreSuspendMs: 200 * s, EndMs: 800 * s, EndedSuspended: true, TimeLimitS: 3600}, 200, 3700},
		{"waits again", &pb.Job{State: pb.JobState_JOB_STATE_PENDING, EstimatedStartMs: 2000 * s, TimeLimitS: 3600}, 0, 5600},
	} {
		if used, limit := v.usedSeconds(row.job), v.limitMS(row.job)/s; used != row.used || limit != row.limit {
			t.Errorf("%s: %d s used, limit at %d, want %d and %d", row.name, used, limit, row.used, row.limit)
		}
	}
}
