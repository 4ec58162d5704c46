package api

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// checkCheckpoint refuses options about warnings and saves that make no sense.
func checkCheckpoint(job *pb.JobSpec) error {
	if job.GetSignal() != "" {
		if _, err := spec.ParseEndSignal(job.GetSignal()); err != nil {
			return invalid("--signal: %v", err)
		}
	}
	if err := spec.CheckCheckpoint(job.GetCheckpoint()); err != nil {
		return invalid("%v", err)
	}
	return nil
}
