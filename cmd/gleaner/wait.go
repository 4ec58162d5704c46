package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// lostTime is how long --wait keeps looking for a controller that answers: it
// outlasts a night's repair, and is an end all the same.
var lostTime = 12 * time.Hour

// waitForJob waits for the end of a job, or of all tasks of an array, and
// returns its exit status: the highest one, 1 for what a signal ended. It
// follows the controller's events and lists anew whenever that breaks off.
func waitForJob(ctx context.Context, c *client, number uint32) error {
	watch := &jobWatch{number: number, live: map[uint32]bool{}, patience: answerTime}
	pace := retryPace()
	lost := time.Time{}
	for {
		err := watch.follow(ctx, c)
		switch {
		case err == nil:
			return option.Exit(watch.status)
		case ctx.Err() != nil:
			return option.Fail(130, "no longer waiting for job %d, which goes on; gcancel %d ends it", number, number)
		case errors.Is(err, errForgotten):
			return option.Fail(1, "job %d is no longer known to the controller; its exit status was not seen", number)
		}
		switch status.Code(err) {
		case codes.OutOfRange: // too slow for the stream: list anew at once
			continue
		case codes.Unavailable, codes.Aborted, codes.Canceled, codes.Internal, codes.Unknown:
		default:
			return option.Fail(1, "job %d was submitted, but cannot be followed: %s", number, plain(err))
		}
		if watch.heard || lost.IsZero() {
			watch.heard = false
			lost = time.Now()
			pace = retryPace()
			fmt.Fprintf(c.notices, "%s: the connection to the controller broke; looking for one that answers\n", c.program)
		}
		if time.Since(lost) > lostTime {
			return option.Fail(1, "job %d was submitted, but %w", number, (&unreachableError{targets: c.targets, cause: err}))
		}
		sleep(ctx, pace)
	}
}

func sleep(ctx context.Context, pace backoff.BackOff) {
	select {
	case <-ctx.Done():
	case <-time.After(pace.NextBackOff()):
	}
}

// errForgotten is returned when the controller no longer remembers the job.
var errForgotten = errors.New("the controller no longer knows the job")

// jobWatch is what is known about a job and the tasks of its array.
type jobWatch struct {
	number uint32
	live   map[uint32]bool // records that are not over
	seen   bool
	status int
	heard  bool // a controller has answered since the last break
	// How long a controller has for the first event, and whether it came.
	patience time.Duration
	answered bool
}

// follow lists the job and then takes its events until it is over.
func (w *jobWatch) follow(ctx context.Context, c *client) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.answered = false
	quiet := time.AfterFunc(w.patience, func() { cancel(silence(w.patience)) })
	defer quiet.Stop()
	err := w.events(ctx, c, quiet)
	if err != nil && !w.answered && isSilence(cutOff(ctx, err)) {
		c.controllers.Leave()
		w.patience = min(2*w.patience, silenceTime)
		return status.Error(codes.Unavailable, context.Cause(ctx).Error())
	}
	return err
}

// events asks for the job's events and takes them. The first of them stops the
// timer.
func (w *jobWatch) events(ctx context.Context, c *client, quiet *time.Timer) error {
	filter := &pb.JobFilter{Ids: []*pb.JobId{{Job: w.number}}, AllStates: true}
	events, err := c.Follow(ctx, &pb.FollowRequest{Filter: filter})
	if err != nil {
		return err
	}
	for {
		event, err := events.Recv()
		if errors.Is(err, io.EOF) {
			return status.Error(codes.Unavailable, "the controller ended the stream")
		}
		if err != nil {
			return err
		}
		w.heard, w.answered = true, true
		quiet.Stop()
		switch what := event.GetWhat().(type) {
		case *pb.Event_Synced:
			if err := w.list(ctx, c, filter); err != nil {
				return err
			}
		case *pb.Event_Job:
			w.take(what.Job)
		case *pb.Event_Purged:
			delete(w.live, what.Purged.GetJobId())
		}
		if w.over() {
			return nil
		}
	}
}

// list replaces what is known to be live. What ended and was forgotten while
// nobody was listening is simply absent.
func (w *jobWatch) list(ctx context.Context, c *client, filter *pb.JobFilter) error {
	stream, err := c.ListJobs(ctx, &pb.ListJobsRequest{Filter: filter})
	if err != nil {
		return err
	}
	w.live = map[uint32]bool{}
	found := false
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) || status.Code(err) == codes.NotFound {
			break
		}
		if err != nil {
			return err
		}
		for _, job := range answer.GetJobs() {
			found = true
			w.take(job)
		}
	}
	if !found && !w.seen {
		return errForgotten
	}
	return nil
}

func (w *jobWatch) take(job *pb.Job) {
	if job.GetId().GetJob() != w.number && job.GetArrayJobId() != w.number {
		return
	}
	w.seen = true
	if !finished(job) {
		w.live[job.GetId().GetJob()] = true
		return
	}
	delete(w.live, job.GetId().GetJob())
	w.status = max(w.status, exitStatus(job))
}

func (w *jobWatch) over() bool { return w.seen && len(w.live) == 0 }

// finished says whether a job is over and its nodes have cleaned up, so that
// its output is complete.
func finished(job *pb.Job) bool {
	switch job.GetState() {
	case pb.JobState_JOB_STATE_UNSPECIFIED, pb.JobState_JOB_STATE_PENDING, pb.JobState_JOB_STATE_RUNNING, pb.JobState_JOB_STATE_SUSPENDED:
		return false
	}
	return !job.GetCompleting()
}

// exitStatus is what --wait ends with for one job.
func exitStatus(job *pb.Job) int {
	switch {
	case job.GetExitSignal() != 0:
		return 1
	case job.GetExitCode() != 0:
		return int(min(job.GetExitCode(), 255))
	case job.GetState() != pb.JobState_JOB_STATE_COMPLETED:
		return 1 // cancelled or failed before the script could say anything
	}
	return 0
}
