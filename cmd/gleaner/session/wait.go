package session

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// sayAfter is how long a connection may be away before that is said: a save that
// does not move the job is over by then. A variable for tests.
var sayAfter = 2 * time.Second

// moveTime is how long a move may take before it is said what it waits for.
const moveTime = 20 * time.Second

// wait says why there is no connection, and ends the command if there will be
// none: a client that was never attached does not look for a controller
// forever, and a job that is over has no sessions.
func (s *Client) wait(ctx context.Context, err error) error {
	if !s.attached {
		if time.Since(s.lostAt) < client.ContactTime {
			return nil
		}
		if refused := (*refusedError)(nil); errors.As(err, &refused) {
			return s.cannot(refused.Error())
		}
		return &client.UnreachableError{Targets: s.client.Targets, Cause: err}
	}
	job, known, lookErr := s.look(ctx)
	switch {
	case lookErr != nil:
		s.sayOnce(sayAfter, saidLost, "the connection to job %s is lost; trying again", s.jobName)
	case !known:
		return option.Fail(1, "job %s is over, and the session with it", s.jobName)
	case show.Finished(job):
		return option.Fail(1, "job %s is over (%s), and the session with it", s.jobName, show.StateName(job))
	case job.GetSaved().GetSaving().GetPurpose() == purposeMove:
		to := ""
		if node := job.GetSaved().GetSaving().GetTo(); node != "" {
			to = " to " + format.Printable(node)
		}
		s.sayOnce(0, saidMoves, "job %s moves%s", s.jobName, to)
	case job.GetState() == pb.JobState_JOB_STATE_PENDING && len(job.GetSaved().GetImages()) > 0:
		s.sayOnce(0, "waits", "job %s waits to resume from its image (%s)", s.jobName, format.Printable(job.GetReason()))
	case job.GetState() == pb.JobState_JOB_STATE_PENDING:
		s.sayOnce(0, "requeued", "job %s was requeued (%s)", s.jobName, format.Printable(job.GetReason()))
	case job.GetState() == pb.JobState_JOB_STATE_SUSPENDED && job.GetReason() == reasonReclaimed:
		s.sayOnce(0, "parked", "job %s is parked, because the owner of its node has taken that back: the session goes on with it, here or elsewhere", s.jobName)
	case job.GetState() == pb.JobState_JOB_STATE_SUSPENDED:
		s.sayOnce(0, "suspended", "job %s is suspended", s.jobName)
	case job.GetSaved().GetSaving() != nil:
		s.sayOnce(sayAfter, "saved", "job %s is being saved", s.jobName)
	default:
		if refused := (*refusedError)(nil); errors.As(err, &refused) {
			err = refused
		}
		s.sayOnce(sayAfter, saidLost, "the connection to job %s is lost (%s); trying again", s.jobName, client.Plain(err))
	}
	return nil
}

// purposeMove is the purpose of a save that moves its job, and reasonReclaimed why a job
// is parked.
const (
	purposeMove     = "move"
	reasonReclaimed = "Reclaimed"
)

// What was said last.
const (
	saidLost  = "lost"
	saidMoves = "moves"
)

// sayOnce says a thing when the connection has been away for so long. After it
// was said that the job moves, everything else belongs to that for a while.
func (s *Client) sayOnce(after time.Duration, what, text string, arguments ...any) {
	if s.said == saidMoves {
		after = max(after, moveTime)
	}
	if s.said != what && time.Since(s.lostAt) >= after {
		s.said = what
		s.say(text, arguments...)
	}
}

// look asks how the job is, once.
func (s *Client) look(ctx context.Context) (job *pb.Job, known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, client.AnswerTime)
	defer cancel()
	stream, err := s.client.ListJobs(ctx, &pb.ListJobsRequest{Filter: &pb.JobFilter{Ids: []*pb.JobId{s.job}, AllStates: true}})
	if err != nil {
		return nil, false, err
	}
	answer, err := stream.Recv()
	switch {
	case status.Code(err) == codes.NotFound:
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case len(answer.GetJobs()) == 0:
		return nil, false, nil
	}
	return answer.Jobs[0], true, nil
}
