package leader

import (
	"strings"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// maxEndsNoted bounds the lines that one command may write, because Apply waits
// for them.
const maxEndsNoted = 64

// noteEnds writes the last line of each job that a command ended or requeued.
func (l *Leader) noteEnds(view *state.View, result *state.Result) {
	switch result.Kind {
	case state.KindSubmitJob, state.KindPlaceJobs, state.KindAllocsReady, state.KindPurgeJobs, state.KindHoldJobs, state.KindReleaseJobs, state.KindTopJobs,
		state.KindSuspendJobs, state.KindResumeJobs, state.KindAllocsSuspended, state.KindContinueJobs:
		return
	}
	noted := 0
	for i, id := range result.ChangedJobs {
		job, known := view.Job(id)
		waitsAgain := known && job.Phase == state.Waiting && job.Restarts > 0 && result.Kind != state.KindUpdateJobs
		if !known || job.Phase != state.Finished && !waitsAgain {
			continue
		}
		if noted++; noted > maxEndsNoted {
			l.log.Info("more jobs ended or wait again", "command", result.Kind.String(), "count", len(result.ChangedJobs)-i)
			return
		}
		l.noteEnd(job, result)
	}
}

func (l *Leader) noteEnd(job *state.Job, result *state.Result) {
	about := []any{"job", job.ID, "epoch", job.Epoch}
	if result.RequestID != (state.RequestID{}) {
		about = append(about, "request_id", uuid.UUID(result.RequestID).String())
	}
	if job.Phase == state.Waiting {
		l.log.Info("job waits again", append(about, "restarts", job.Restarts, "detail", job.Detail)...)
		return
	}
	end := job.End
	l.log.Info("job ended", append(about, "state", strings.TrimPrefix(end.State.String(), "JOB_STATE_"),
		"exit_code", end.ExitCode, "exit_signal", end.ExitSignal, "detail", end.Detail)...)
}
