// Package steps is what runs inside running jobs, as squeue -s and scontrol show step show
// it. The nodes of each job are asked; only the user of a job, and root, are answered.
package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/session"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

const (
	// maxJobs bounds the jobs whose nodes are asked.
	maxJobs = 1000
	// jobsAtOnce are asked side by side.
	jobsAtOnce = 8
	// askTime is how long the nodes of one job have to answer.
	askTime = 10 * time.Second
)

// Row is one step that runs.
type Row struct {
	Job  *pb.Job
	Step *past.Step
	view *show.View
}

// ID is the step as users name it: 12.0, 12_3.batch.
func (r *Row) ID() string { return r.view.JobName(r.Job) + "." + r.Step.ID() }

// IsBatch reports whether it is the job's batch script.
func (r *Row) IsBatch() bool { return r.Step.ID() == past.Batch }

// Targets are the steps that were asked for; empty = all.
type Targets []target

type target struct {
	job  spec.JobTarget
	step string // "" = all of the job
}

// Parse reads "12.0,13_1.batch,14".
func Parse(text string) (Targets, error) {
	var targets Targets
	for word := range strings.SplitSeq(text, ",") {
		name, number, one := strings.Cut(strings.TrimSpace(word), ".")
		jobs, err := spec.ParseJobTargets(name)
		if err == nil && one && number != past.Batch {
			_, err = strconv.ParseUint(number, 10, 32)
		}
		if err != nil || len(jobs) != 1 {
			return nil, option.Fail(1, "Invalid job_step id: %.40s.??: type JOB.STEP, as in 12.0", format.Printable(word))
		}
		targets = append(targets, target{jobs[0], number})
	}
	return targets, nil
}

// Jobs are the ids of the jobs that the targets name.
func (t Targets) Jobs() []*pb.JobId {
	var jobs show.JobTargets
	for _, one := range t {
		jobs = append(jobs, one.job)
	}
	return jobs.Ids()
}

// match reports whether a step of a job was asked for.
func (t Targets) match(job *pb.Job, step *past.Step) bool {
	return len(t) == 0 || slices.ContainsFunc(t, func(one target) bool {
		_, meant := show.JobTargets{one.job}.Match(job)
		return meant && (one.step == "" || one.step == step.ID())
	})
}

// Own narrows a filter that names nobody to the caller's own jobs, unless that is root: the
// steps of others are not told.
func Own(filter *pb.JobFilter) {
	if console.UID() != 0 && len(filter.GetUids()) == 0 && len(filter.GetUsers()) == 0 && len(filter.GetIds()) == 0 {
		filter.Uids = []uint32{uint32(console.UID())}
	}
}

// Ask lists the steps of jobs, by partition, job and step. tell hears which jobs do not say.
func Ask(ctx context.Context, c *client.Client, jobs []*pb.Job, targets Targets, view *show.View, tell func(text string)) ([]*Row, error) {
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(job *pb.Job) bool { return job.GetState() != pb.JobState_JOB_STATE_RUNNING })
	if len(jobs) > maxJobs {
		return nil, fmt.Errorf("%d jobs run, and the steps of at most %d can be shown: choose some", len(jobs), maxJobs)
	}
	found := make([][]*Row, len(jobs))
	why := make([]error, len(jobs))
	var group errgroup.Group
	group.SetLimit(jobsAtOnce)
	for i, job := range jobs {
		group.Go(func() error {
			found[i], why[i] = ofJob(ctx, c, job, targets, view)
			return nil
		})
	}
	_ = group.Wait() // none fails
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var rows []*Row
	for i, job := range jobs {
		rows = append(rows, found[i]...)
		if code := status.Code(why[i]); why[i] != nil && code != codes.FailedPrecondition && code != codes.NotFound { // it is over
			tell(fmt.Sprintf("the steps of job %s are not shown: %s", view.JobName(job), client.Describe(why[i])))
		}
	}
	slices.SortStableFunc(rows, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(a.Job.GetPartition(), b.Job.GetPartition()), cmp.Compare(a.Job.GetId().GetJob(), b.Job.GetId().GetJob()))
	})
	return rows, nil
}

func ofJob(ctx context.Context, c *client.Client, job *pb.Job, targets Targets, view *show.View) ([]*Row, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, client.Silence(askTime))
	defer cancel()
	answers, err := session.Steps(ctx, c, job)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.DeadlineExceeded) {
			err = cause
		}
		return nil, err
	}
	return rowsOf(job, answers, targets, view), nil
}

// rowsOf are the steps that run and were asked for, of what the nodes of a job said.
func rowsOf(job *pb.Job, answers []*pb.NodeSteps, targets Targets, view *show.View) []*Row {
	steps, _ := past.Steps(&pb.PastRun{Job: job, Steps: answers})
	var rows []*Row
	for _, step := range steps {
		if step.EndMS == 0 && targets.match(job, step) {
			rows = append(rows, &Row{Job: job, Step: step, view: view})
		}
	}
	return rows
}
