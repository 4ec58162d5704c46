package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/explain"
	"github.com/gleaner-hpc/gleaner/sched/why"
)

// ExplainWait says all that a waiting job waits for, when it will start, and which changes
// would have it start sooner.
func (s *Controller) ExplainWait(ctx context.Context, request *pb.ExplainWaitRequest) (*pb.ExplainWaitResponse, error) {
	from, err := s.reader(ctx)
	if err != nil {
		return nil, err
	}
	if request.GetId().GetJob() == 0 || request.GetId().GetArrayTask() > spec.MaxArrayIndex {
		return nil, invalid("Invalid job id specified: name a job, or a task of an array up to %d", spec.MaxArrayIndex)
	}
	view := s.cluster.View()
	may := s.sightOf(from, view)
	job := waitingOf(may, request.GetId())
	if job == nil {
		return nil, status.Error(codes.NotFound, may.unknown(request.GetId()))
	}
	answer := &pb.ExplainWaitResponse{Job: s.jobMessage(may, selected{job: job}, state.JobDetail{})}
	if job.Phase != state.Waiting || len(view.Awaited()) > 0 {
		return answer, nil
	}
	done, err := s.plans.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	now := time.Now()
	w := &wait{Controller: s, from: from, may: may, view: view, job: job, now: now, snapshot: s.loops.Snapshot(view, now)}
	w.explain(answer, paced(ctx))
	return answer, nil
}

// waitingOf is the job that an id means: of an array the first record that waits. nil =
// the caller sees none.
func waitingOf(may *sight, id *pb.JobId) *state.Job {
	target := state.Target{Job: id.GetJob()}
	if id != nil && id.ArrayTask != nil {
		job, known := may.view.JobByTask(id.GetJob(), id.GetArrayTask())
		if !known || !may.sees(job) {
			return nil
		}
		return job
	}
	var first *state.Job
	for _, found := range may.seen(target) {
		if found.job != nil && (first == nil || first.Phase != state.Waiting && found.job.Phase == state.Waiting) {
			first = found.job
		}
	}
	return first
}

// wait is one waiting job that is asked about.
type wait struct {
	*Controller
	from     *caller
	may      *sight
	view     *state.View
	job      *state.Job
	now      time.Time
	snapshot sched.Snapshot
}

// explain fills in all but the job.
func (w *wait) explain(answer *pb.ExplainWaitResponse, more func() bool) {
	standing, waits := sched.StandingOf(w.snapshot, sched.JobID(w.job.ID))
	if !waits {
		return // it has started meanwhile
	}
	changeable := w.from.isUser && (w.isAdministrator(w.from) || w.may.owns(w.job) || w.coordinates(w.from, w.job))
	question := why.Job{ID: sched.JobID(w.job.ID)}
	if changeable {
		question = w.question()
	}
	found := why.Ask(w.snapshot, question, w.changed, more)
	answer.Start = w.may.plannedStart(&found.Start, &w.snapshot)
	answer.Because = w.because(&standing, &found.Start, answer.Job.GetReasonDetail())
	answer.Asked, answer.Whole = changeable, found.Whole
	for i := range found.Advice {
		advice := &found.Advice[i]
		answer.Advice = append(answer.Advice, &pb.WaitAdvice{
			Change: changeMessage(w.job.Spec, advice.Change), Start: w.may.plannedStart(&advice.Start, &w.snapshot),
		})
	}
}

// Bounds of what is named in the sentences.
const (
	maxAheadTold   = 5
	maxHoldersTold = 3
)

// because are sentences about what is in the way of the job, besides the one that is told
// already. They leave out what the caller may not see.
func (w *wait) because(standing *sched.Standing, start *why.Start, told string) []string {
	var sentences []string
	add := func(sentence string) {
		if sentence != "" && !strings.Contains(told, sentence) {
			sentences = append(sentences, sentence)
		}
	}
	if w.job.DeadlineMS != 0 {
		add(w.deadline(start))
	}
	if standing.Kept != sched.ReasonNone {
		return sentences
	}
	for _, short := range standing.Short {
		add(w.shortage(short))
	}
	add(w.ahead(standing.Ahead))
	add(w.holders(standing.Holders))
	return sentences
}

// shortage says why the job does not fit in one of its partitions.
func (w *wait) shortage(short sched.Reason) string {
	partition := w.snapshot.Partitions[short.Partition].Name
	if short.Code == sched.ReasonNone {
		return fmt.Sprintf("would fit into what is free in partition %s, where other jobs come first", partition)
	}
	sentence := explain.Sentence(short, w.snapshot)
	if strings.Contains(sentence, "partition "+partition) {
		return sentence
	}
	return fmt.Sprintf("in partition %s: %s", partition, sentence)
}

// ahead names the jobs that come first.
func (w *wait) ahead(ids []sched.JobID) string {
	var seen []string
	for _, id := range ids {
		if job, known := w.view.Job(uint32(id)); known && w.may.sees(job) {
			seen = append(seen, fmt.Sprintf("job %d of %s", id, job.Owner().User))
		}
	}
	told := listed(seen, maxAheadTold)
	switch hidden := len(seen) < len(ids); {
	case len(ids) == 0:
		return ""
	case len(seen) == 0:
		return "other jobs come before it"
	case hidden:
		return "these come before it, and other jobs: " + told
	case len(seen) == 1:
		return told + " comes before it"
	}
	return fmt.Sprintf("%d jobs come before it: %s", len(seen), told)
}

// holders names the jobs that have nodes which this one could use.
func (w *wait) holders(holders []sched.Holder) string {
	var seen []string
	for _, holder := range holders {
		job, known := w.view.Job(uint32(holder.Job))
		if !known || !w.may.sees(job) {
			continue
		}
		text := fmt.Sprintf("job %d of %s", holder.Job, job.Owner().User)
		if !w.may.hides("nodes") {
			names := make([]string, len(holder.Nodes))
			for i, node := range holder.Nodes {
				names[i] = w.snapshot.Nodes[node].Name
			}
			text += " on " + spec.FormatHostList(names)
		}
		if holder.EndMS > w.snapshot.NowMS {
			text += " for at most " + duration(holder.EndMS-w.snapshot.NowMS)
		}
		seen = append(seen, text)
	}
	if len(seen) == 0 {
		return ""
	}
	return "on nodes that it could use runs " + listed(seen, maxHoldersTold)
}

// deadline says until when the job has to start, and whether it will.
func (w *wait) deadline(start *why.Start) string {
	latest := w.job.LatestStartMS()
	if latest <= w.snapshot.NowMS {
		return "" // and is told so
	}
	sentence := fmt.Sprintf("has to start within %s to end before its deadline", duration(latest-w.snapshot.NowMS))
	if start.AtMS > latest {
		sentence += fmt.Sprintf(", and is planned to start in %s: unless that changes it is removed", duration(start.AtMS-w.snapshot.NowMS))
	}
	return sentence
}

// duration is a span in words, whole minutes from an hour on.
func duration(ms int64) string {
	seconds := (ms + 999) / 1000
	if seconds >= 3600 {
		seconds = (seconds + 59) / 60 * 60
	}
	return spec.FormatDuration(uint32(min(seconds, int64(sched.Unlimited)-1)))
}

// listed joins texts, at most so many of them.
func listed(texts []string, most int) string {
	if len(texts) > most {
		texts = append(slices.Clone(texts[:most]), fmt.Sprintf("and %d more", len(texts)-most))
	}
	return strings.Join(texts, ", ")
}
