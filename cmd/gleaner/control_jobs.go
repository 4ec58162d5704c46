package main

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func controlHold(c *controlRun, words []string) error {
	return c.changeJobs("hold", pb.ControlVerb_CONTROL_VERB_HOLD, words)
}

func controlRelease(c *controlRun, words []string) error {
	return c.changeJobs("release", pb.ControlVerb_CONTROL_VERB_RELEASE, words)
}

func controlRequeue(c *controlRun, words []string) error {
	if len(words) > 0 && strings.EqualFold(words[0], "incomplete") {
		return &option.LaterError{Name: "requeue Incomplete", Remedy: "name the jobs that run"}
	}
	return c.changeJobs("requeue", pb.ControlVerb_CONTROL_VERB_REQUEUE, words)
}

// changeJobs asks for a change of each of the jobs, and says for which it was
// not made.
func (c *controlRun) changeJobs(verb string, what pb.ControlVerb, words []string) error {
	if len(words) == 0 {
		return c.tooFew(verb)
	}
	requests, err := controlRequests(c.inv, what, words)
	if err != nil {
		return err
	}
	failed := false
	for _, request := range requests {
		answer, err := call(c.inv.Context, c.client, c.client.Control, request)
		name := requestName(request)
		switch code := status.Code(err); {
		case code == codes.NotFound:
			c.jobError(errorNoJob, name)
			failed = true
			continue
		case err != nil && (code == codes.PermissionDenied || code == codes.FailedPrecondition || code == codes.InvalidArgument):
			c.jobError(plain(err), name)
			failed = true
			continue
		case err != nil:
			return loadError(c.inv, "slurm_update error", err)
		}
		for _, result := range answer.GetResults() {
			if result.Error != "" {
				c.jobError(result.Error, "job "+spec.FormatJobID(result.GetId()))
				failed = true
			}
		}
	}
	if failed {
		return option.Exit(1)
	}
	return nil
}

// jobError is Slurm's "Invalid job id specified for job 12".
func (c *controlRun) jobError(message, name string) {
	if !strings.Contains(message, " for job ") {
		message += " for " + name
	}
	fmt.Fprintln(c.inv.Stderr, format.Printable(message))
}

// controlRequests makes a request for each job that is named: so one that
// does not exist is told apart from the others.
func controlRequests(inv *option.Invocation, what pb.ControlVerb, words []string) ([]*pb.ControlRequest, error) {
	var requests []*pb.ControlRequest
	add := func(filter *pb.JobFilter, tasks []*pb.ArrayTasks) {
		requests = append(requests, &pb.ControlRequest{RequestId: uuid.NewString(), Verb: what, Filter: filter, Tasks: tasks})
	}
	for _, word := range words {
		if key, name, ok := strings.Cut(word, "="); ok {
			switch strings.ToLower(key) {
			case "jobname":
				add(&pb.JobFilter{Names: []string{name}}, nil)
				continue
			case "job", "jobid":
				word = name
			default:
				return nil, inv.Fail("Invalid job id: %s", word)
			}
		}
		targets, err := spec.ParseJobTargets(word)
		if err != nil {
			return nil, inv.Fail("%w", err)
		}
		for _, target := range targets {
			if target.HasTasks {
				add(nil, []*pb.ArrayTasks{{Job: target.Job, Ranges: target.Tasks}})
			} else {
				add(&pb.JobFilter{Ids: []*pb.JobId{{Job: target.Job}}}, nil)
			}
		}
	}
	return requests, nil
}

// requestName is what a request is about, for messages.
func requestName(request *pb.ControlRequest) string {
	for _, id := range request.GetFilter().GetIds() {
		return "job " + spec.FormatJobID(id)
	}
	for _, tasks := range request.Tasks {
		return "job " + spec.JobTarget{Job: tasks.Job, HasTasks: true, Tasks: tasks.Ranges}.String()
	}
	for _, name := range request.GetFilter().GetNames() {
		return "job name " + name
	}
	return "job"
}
