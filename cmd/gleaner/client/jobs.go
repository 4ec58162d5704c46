package client

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// TaskIDs are the tasks of a target, one by one.
func TaskIDs(target spec.JobTarget) []*pb.JobId {
	var ids []*pb.JobId
	for _, tasks := range target.Tasks {
		for index := tasks.GetFirst(); index <= tasks.GetLast(); index += max(tasks.GetStep(), 1) {
			ids = append(ids, &pb.JobId{Job: target.Job, ArrayTask: &index})
		}
	}
	return ids
}

// OneJob reads the number of a job, or of one task of an array.
func OneJob(text string) (*pb.JobId, error) {
	targets, err := spec.ParseJobTargets(text)
	if err != nil {
		return nil, option.Fail(1, "%w", err)
	}
	if len(targets) == 1 && !targets[0].HasTasks {
		return &pb.JobId{Job: targets[0].Job}, nil
	}
	if len(targets) == 1 && spec.CountTasks(targets[0].Tasks) == 1 {
		return TaskIDs(targets[0])[0], nil
	}
	return nil, option.Fail(1, "%s names several jobs: name one", text)
}
