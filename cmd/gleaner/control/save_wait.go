package control

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// saveWatch looks at jobs until it is known what became of their images.
type saveWatch struct {
	c      *controlRun
	move   bool
	jobs   []*savedJob
	over   []*savedJSON // that were refused
	failed bool

	progress *console.Progress
}

// savedJob is one of them.
type savedJob struct {
	savedJSON
	id      *pb.JobId
	settled bool
	image   *pb.SavedImage // once it is there
	since   time.Time      // when that was seen
	tried   string         // why it waits again after that
}

// lookEvery is how often a controller is asked for the progress.
const lookEvery = 250 * time.Millisecond

func newSaveWatch(c *controlRun, move bool) *saveWatch {
	return &saveWatch{c: c, move: move, progress: console.NewProgress(c.inv)}
}

// wait returns when each job is settled.
func (w *saveWatch) wait() error {
	ctx := w.c.inv.Context
	defer w.progress.Clear()
	for {
		open := slices.DeleteFunc(slices.Clone(w.jobs), func(job *savedJob) bool { return job.settled })
		if len(open) == 0 {
			return nil
		}
		found, err := w.look(open)
		if err != nil {
			return client.LoadError(w.c.inv, client.LoadJobs, err)
		}
		for _, job := range open {
			w.take(job, found[job.Job])
		}
		select {
		case <-ctx.Done():
			return option.Fail(130, "no longer waiting; what was ordered continues")
		case <-time.After(lookEvery):
		}
	}
}

// look asks for the state of some jobs, by their names.
func (w *saveWatch) look(jobs []*savedJob) (map[string]*pb.Job, error) {
	filter := &pb.JobFilter{AllStates: true}
	for _, job := range jobs {
		filter.Ids = append(filter.Ids, job.id)
	}
	found := make(map[string]*pb.Job)
	restart := func() bool { clear(found); return true }
	err := client.List(w.c.inv.Context, w.c.client, w.c.client.ListJobs, &pb.ListJobsRequest{Filter: filter}, restart, func(answer *pb.ListJobsResponse) error {
		for _, job := range answer.Jobs {
			id := &pb.JobId{Job: job.GetId().GetJob(), ArrayTask: job.GetId().ArrayTask}
			if id.ArrayTask != nil {
				id.Job = job.GetArrayJobId()
			}
			found[spec.FormatJobID(id)] = job
		}
		return nil
	})
	var unreachable *client.UnreachableError
	if status.Code(err) == codes.NotFound && !errors.As(err, &unreachable) {
		return found, nil // they are forgotten
	}
	return found, err
}

// take looks at one job.
func (w *saveWatch) take(job *savedJob, now *pb.Job) {
	saved := now.GetSaved()
	if under := saved.GetSaving(); under != nil && under.Number > job.Image { // one that is worth more took its place
		job.Image = under.Number
	}
	for _, image := range saved.GetImages() {
		if image.Number == job.Image && job.image == nil {
			job.image, job.since = image, time.Now()
			job.SavedOn, job.Store, job.Bytes, job.WrittenBytes = image.Node, image.Store, image.Bytes, image.WrittenBytes
			job.StandingMs, job.PackMs = uint64(image.StandingMs), image.PackMs
		}
	}
	switch {
	case job.image != nil && !w.move:
		w.settle(job, "saved as image %d on node %s: %s; it was frozen for %s, and the image was durable after %s",
			job.Image, job.SavedOn, imageText(job.image), show.SecondsOf(job.StandingMs), show.SecondsOf(uint64(job.PackMs)))
	case saved.GetFailedNumber() == job.Image:
		w.give(job, saved.GetFailed())
	case w.move && saved.GetMoveFailed().GetNumber() == job.Image:
		w.stay(job, now)
	case now == nil || show.Ended(now):
		w.give(job, "it ended before that")
	case job.image == nil && saved.GetSaving().GetNumber() != job.Image && saved.GetNumber() >= job.Image && !now.GetCompleting():
		again := "it waits again: " + now.GetReasonDetail()
		if now.GetState() != pb.JobState_JOB_STATE_PENDING {
			again = "it runs again on node " + now.GetNodeList()
		}
		w.give(job, "its run ended before that, and "+again)
	case job.image == nil:
		w.progress.Show("job %s is being saved", job.Job)
	default:
		w.moved(job, now)
	}
}

// moved looks at a job that was saved to resume elsewhere.
func (w *saveWatch) moved(job *savedJob, now *pb.Job) {
	running := now.GetState() == pb.JobState_JOB_STATE_RUNNING && !now.GetCompleting() && now.GetEpoch() > job.image.Epoch
	switch {
	case running && now.GetConfiguring():
		w.progress.Show("job %s is being restored on node %s", job.Job, now.GetNodeList())
	case running && now.GetSaved().GetRestoredFrom().GetNumber() == job.Image && now.GetSaved().GetLeaves() != "" && time.Since(job.since) < leavePatience:
		w.progress.Show("job %s resumes on node %s; what it leaves on node %s is ended", job.Job, now.GetNodeList(), now.GetSaved().GetLeaves())
	case running && now.GetSaved().GetRestoredFrom().GetNumber() == job.Image:
		job.StandingMs = uint64(job.PackMs) + uint64(time.Since(job.since).Milliseconds())
		job.GoesOnOn = now.GetNodeList()
		w.settle(job, "resumes on node %s from image %d, made on node %s: %s; it was frozen for about %s",
			job.GoesOnOn, job.Image, job.SavedOn, imageText(job.image), show.SecondsOf(job.StandingMs))
	case running:
		job.GoesOnOn = now.GetNodeList()
		why := ""
		if job.tried != "" {
			why = ": " + job.tried
		}
		w.give(job, fmt.Sprintf("it runs on node %s, and not from image %d%s", job.GoesOnOn, job.Image, why))
	case now.GetSaved().GetMoving() != nil:
		w.progress.Show("job %s is frozen, saved as image %d (%s), and is being restored on node %s", job.Job, job.Image, show.SizeText(job.Bytes), now.GetSaved().GetMoving().GetTo())
	default:
		if now.GetEpoch() > job.image.Epoch { // it was tried, and waits again
			job.tried = now.GetReasonDetail()
		}
		w.progress.Show("job %s is saved as image %d (%s) and waits: %s", job.Job, job.Image, show.SizeText(job.Bytes), now.GetReasonDetail())
	}
}

// leavePatience is for how long what a job leaves behind is waited for: until its
// node has cleaned up the job cannot move back there.
const leavePatience = 30 * time.Second

// stay says why a job did not move, of each node that was tried.
func (w *saveWatch) stay(job *savedJob, now *pb.Job) {
	w.progress.Clear()
	failed := now.GetSaved().GetMoveFailed()
	job.settled, job.Error, w.failed = true, failed.GetReason(), true
	where := ""
	if now.GetState() == pb.JobState_JOB_STATE_RUNNING || now.GetState() == pb.JobState_JOB_STATE_SUSPENDED {
		job.StaysOn = now.GetNodeList()
		where = fmt.Sprintf(", and continues on node %s with nothing lost", job.StaysOn)
	}
	fmt.Fprintf(w.c.inv.Stderr, "job %s did not move%s: %s\n", job.Job, where, format.Printable(failed.GetReason()))
	for _, try := range failed.GetTries() {
		job.Tries = append(job.Tries, show.MoveTryJSON{Nodes: try.Nodes, Node: try.Node, Reason: try.Reason})
		fmt.Fprintf(w.c.inv.Stderr, "  node %s: %s\n", try.Node, format.Printable(try.Reason))
	}
}

func (w *saveWatch) settle(job *savedJob, words string, arguments ...any) {
	w.progress.Clear()
	job.settled, job.Done = true, true
	w.say(job, words, arguments...)
}

// give gives a job up, and says why.
func (w *saveWatch) give(job *savedJob, why string) {
	w.progress.Clear()
	job.settled, job.Error, w.failed = true, why, true
	what := "was not saved"
	if job.image != nil {
		what = "was saved, and did not resume"
	}
	fmt.Fprintf(w.c.inv.Stderr, "job %s %s: %s\n", job.Job, what, format.Printable(why))
}
