package control

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
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

func controlUserHold(c *controlRun, words []string) error {
	return c.changeJobs("uhold", pb.ControlVerb_CONTROL_VERB_HOLD_AS_USER, words)
}

func controlRequeue(c *controlRun, words []string) error {
	return c.changeJobs("requeue", pb.ControlVerb_CONTROL_VERB_REQUEUE, words)
}

func controlSuspend(c *controlRun, words []string) error {
	return c.changeJobs("suspend", pb.ControlVerb_CONTROL_VERB_SUSPEND, words)
}

func controlResume(c *controlRun, words []string) error {
	return c.changeJobs("resume", pb.ControlVerb_CONTROL_VERB_RESUME, words)
}

// controlRequeueHold is "requeuehold [Incomplete] [State=SpecialExit] 12,13".
func controlRequeueHold(c *controlRun, words []string) error {
	what := pb.ControlVerb_CONTROL_VERB_REQUEUE_HOLD
	words = slices.DeleteFunc(slices.Clone(words), func(word string) bool {
		special := strings.EqualFold(word, "State=SpecialExit")
		if special {
			what = pb.ControlVerb_CONTROL_VERB_REQUEUE_SPECIAL_EXIT
		}
		return special
	})
	return c.changeJobs("requeuehold", what, words)
}

// controlTop is "top 12,13": one request, since it is the order of all of them.
func controlTop(c *controlRun, words []string) error {
	switch {
	case len(words) == 0:
		return c.tooFew("top")
	case len(words) > 1:
		return c.tooMany("top")
	}
	targets, err := spec.ParseJobTargets(words[0])
	if err != nil {
		return c.inv.Fail("%w", err)
	}
	request := &pb.ControlRequest{RequestId: uuid.NewString(), Verb: pb.ControlVerb_CONTROL_VERB_TOP, Filter: &pb.JobFilter{}}
	for _, target := range targets {
		if target.HasTasks {
			return c.inv.Fail("Invalid job id specified: %s: arrays are moved whole: name it as %d", target, target.Job)
		}
		request.Filter.Ids = append(request.Filter.Ids, &pb.JobId{Job: target.Job})
	}
	answer, err := client.Call(c.inv.Context, c.client, c.client.Control, request)
	switch {
	case err != nil && c.refusedJob(err, "job "+words[0]), err == nil && c.jobErrors(answer.GetResults()):
		return option.Exit(1)
	case err != nil:
		return client.LoadError(c.inv, "slurm_top_job error", err)
	}
	return nil
}

// changeJobs asks for a change of each of the jobs, and says for which it was
// not made.
func (c *controlRun) changeJobs(verb string, what pb.ControlVerb, words []string) error {
	incomplete := false
	if strings.HasPrefix(verb, "requeue") && len(words) > 0 && strings.EqualFold(words[0], "Incomplete") {
		incomplete, words = true, words[1:]
	}
	if len(words) == 0 {
		return c.tooFew(verb)
	}
	requests, err := controlRequests(c.inv, what, words)
	if err != nil {
		return err
	}
	failed := false
	for _, request := range requests {
		request.Incomplete = incomplete
		answer, err := client.Call(c.inv.Context, c.client, c.client.Control, request)
		name := requestName(request.GetFilter(), request.GetTasks())
		if err != nil && !c.refusedJob(err, name) {
			return client.LoadError(c.inv, "slurm_update error", err)
		}
		failed = failed || err != nil || c.jobErrors(answer.GetResults())
	}
	if failed {
		return option.Exit(1)
	}
	return nil
}

// refusedJob says why a request about a job was refused, if that is what an
// error tells.
func (c *controlRun) refusedJob(err error, name string) bool {
	switch status.Code(err) {
	case codes.NotFound:
		c.jobError(client.Plain(err), name)
	case codes.PermissionDenied, codes.FailedPrecondition, codes.InvalidArgument:
		if unknown, ok := strings.CutPrefix(client.Plain(err), "invalid partition specified: "); ok {
			c.jobError("Invalid partition name specified: "+unknown, name)
			return true
		}
		c.jobError(client.Plain(err), name)
	default:
		return false
	}
	return true
}

// jobErrors says for which jobs something was not done, and whether there are
// any. A task that is over is left alone where that was asked for.
func (c *controlRun) jobErrors(results []*pb.JobResult) (any bool) {
	for _, result := range results {
		if result.Error != "" {
			c.jobError(result.Error, "job "+spec.FormatJobID(result.GetId()))
			any = true
		}
	}
	return any
}

// jobError is Slurm's "Invalid job id specified for job 12", and what there is
// to add.
func (c *controlRun) jobError(message, name string) {
	if !strings.Contains(message, " for job ") {
		sentence, more, explained := strings.Cut(message, ": ")
		message = sentence + " for " + name
		if explained {
			message += ": " + more
		}
	}
	fmt.Fprintln(c.inv.Stderr, format.PrintableLines(message))
}

// controlRequests makes a request for each job that is named: so one that
// does not exist is told apart from the others.
func controlRequests(inv *option.Invocation, what pb.ControlVerb, words []string) ([]*pb.ControlRequest, error) {
	var requests []*pb.ControlRequest
	err := eachJob(inv, words, func(filter *pb.JobFilter, tasks []*pb.ArrayTasks) {
		requests = append(requests, &pb.ControlRequest{RequestId: uuid.NewString(), Verb: what, Filter: filter, Tasks: tasks})
	})
	return requests, err
}

// eachJob hands on each job, array or range of tasks that words name, and the
// jobs of a name.
func eachJob(inv *option.Invocation, words []string, add func(*pb.JobFilter, []*pb.ArrayTasks)) error {
	for _, word := range words {
		if key, name, ok := strings.Cut(word, "="); ok {
			switch strings.ToLower(key) {
			case "jobname":
				add(&pb.JobFilter{Names: []string{name}}, nil)
				continue
			case "job", "jobid":
				word = name
			default:
				return inv.Fail("Invalid job id: %s", word)
			}
		}
		targets, err := spec.ParseJobTargets(word)
		if err != nil {
			return inv.Fail("%w", err)
		}
		for _, target := range targets {
			if target.HasTasks {
				add(nil, []*pb.ArrayTasks{{Job: target.Job, Ranges: target.Tasks}})
			} else {
				add(&pb.JobFilter{Ids: []*pb.JobId{{Job: target.Job}}}, nil)
			}
		}
	}
	return nil
}

// requestName is what a request is about, for messages.
func requestName(filter *pb.JobFilter, tasks []*pb.ArrayTasks) string {
	for _, id := range filter.GetIds() {
		return "job " + spec.FormatJobID(id)
	}
	for _, of := range tasks {
		return "job " + spec.JobTarget{Job: of.Job, HasTasks: true, Tasks: of.Ranges}.String()
	}
	for _, name := range filter.GetNames() {
		return "job name " + name
	}
	return "job"
}
