package state

import (
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// addCheckpoint reads "submit by=1000 signal=B:USR1@90 checkpoint=app".
func addCheckpoint(job *pb.JobSpec, a arguments) {
	job.Signal = a.values["signal"]
	if mode, given := a.values["checkpoint"]; given {
		job.Checkpoint = &pb.CheckpointPolicy{Mode: mode, IntervalS: a.number("interval"), Directory: strings.ReplaceAll(a.values["directory"], " ", "_")}
	}
}
