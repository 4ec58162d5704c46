package submit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// waitForJob waits for the end of a job, or of all tasks of an array, and
// returns its exit status: the highest one, 1 for what a signal ended. It
// follows the controller's events and lists again whenever that breaks off.
func waitForJob(ctx context.Context, c *client.Client, number uint32) error {
	watch := &jobWatch{number: number, live: map[uint32]bool{}, patience: client.AnswerTime}
	pace := client.RetryPace()
	lost := time.Time{}
	for {
		err := watch.follow(ctx, c)
		switch {
		case err == nil:
			return option.Exit(watch.status)
		case ctx.Err() != nil:
			return option.Fail(130, "no longer waiting for job %d, which continues; gcancel %d ends it", number, number)
		case errors.Is(err, errForgotten):
			return option.Fail(1, "job %d is no longer known to the controller; its exit status was not seen", number)
		}
		switch status.Code(err) {
		case codes.OutOfRange: // too slow for the stream: list again at once
			continue
		case codes.Unavailable, codes.Aborted, codes.Canceled, codes.Internal, codes.Unknown:
		case codes.ResourceExhausted:
			if delay, told := client.ToldToWait(err); told {
				client.Pause(ctx, max(delay, pace.NextBackOff()))
				continue
			}
			fallthrough
		default:
			return option.Fail(1, "job %d was submitted, but cannot be followed: %s", number, client.Plain(err))
		}
		if watch.heard || lost.IsZero() {
			watch.heard = false
			lost = time.Now()
			pace = client.RetryPace()
			fmt.Fprintf(c.Notices, "%s: the connection to the controller broke; looking for one that answers\n", c.Program)
		}
		if time.Since(lost) > client.LostTime {
			return option.Fail(1, "job %d was submitted, but %w", number, (&client.UnreachableError{Targets: c.Targets, Cause: err}))
		}
		client.Sleep(ctx, pace)
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
func (w *jobWatch) follow(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.answered = false
	quiet := time.AfterFunc(w.patience, func() { cancel(client.Silence(w.patience)) })
	defer quiet.Stop()
	err := w.events(ctx, c, quiet)
	if err != nil && !w.answered && client.IsSilence(client.CutOff(ctx, err)) {
		c.Controllers.Leave()
		w.patience = min(2*w.patience, client.SilenceTime)
		return status.Error(codes.Unavailable, context.Cause(ctx).Error())
	}
	return err
}

// events asks for the job's events and takes them. The first of them stops the
// timer.
func (w *jobWatch) events(ctx context.Context, c *client.Client, quiet *time.Timer) error {
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
func (w *jobWatch) list(ctx context.Context, c *client.Client, filter *pb.JobFilter) error {
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
	if !show.Finished(job) {
		w.live[job.GetId().GetJob()] = true
		return
	}
	delete(w.live, job.GetId().GetJob())
	w.status = max(w.status, exitStatus(job))
}

func (w *jobWatch) over() bool { return w.seen && len(w.live) == 0 }

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
