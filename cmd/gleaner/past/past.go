// Package past asks the controllers for the runs of jobs, those that are long over too, and
// for events of nodes, and says of a run, or of one of its steps, what Slurm's accounting says of it. The
// commands that show history use it: gacct, geff, greport.
package past

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// load is what sacct was doing when it failed.
const load = "slurmdb_jobs_get"

// Ask calls use with each run, when the view has the name of their cluster. If the answer
// breaks off before its first run was used, it is asked for again.
func Ask(inv *option.Invocation, controllers *client.Client, view *show.View, request *pb.ListRunsRequest, use func(*pb.PastRun) error) error {
	return Sums(inv, controllers, view, request, use, func(*pb.RunSum) {})
}

// Sums is Ask for what runs used: where the controller has added up runs, add is called
// with the sums instead.
func Sums(inv *option.Invocation, controllers *client.Client, view *show.View, request *pb.ListRunsRequest, use func(*pb.PastRun) error, add func(*pb.RunSum)) error {
	used := false
	restart := func() bool { return !used }
	notice := ""
	err := client.List(inv.Context, controllers, controllers.ListRuns, request, restart, func(answer *pb.ListRunsResponse) error {
		if text := answer.GetNotice(); text != "" {
			notice = text
		}
		view.Cluster = cmp.Or(answer.GetCluster(), view.Cluster)
		for _, sum := range answer.GetSums() {
			used = true
			add(sum)
		}
		for _, run := range answer.GetRuns() {
			if used = true; run.GetJob() == nil {
				continue // a controller never says so
			}
			if err := use(run); err != nil {
				return err
			}
		}
		return nil
	})
	warn(inv, notice)
	return err
}

// Events are the events of nodes that are asked for.
func Events(inv *option.Invocation, controllers *client.Client, request *pb.ListNodeEventsRequest) (events []*pb.NodeEvent, err error) {
	notice := ""
	restart := func() bool { events = nil; return true }
	err = client.List(inv.Context, controllers, controllers.ListNodeEvents, request, restart, func(answer *pb.ListNodeEventsResponse) error {
		notice, events = cmp.Or(answer.GetNotice(), notice), append(events, answer.GetEvents()...)
		return nil
	})
	if err == nil {
		warn(inv, notice)
	}
	return events, err
}

// warn passes on what an answer says that may lack something.
func warn(inv *option.Invocation, notice string) {
	if notice != "" {
		fmt.Fprintf(inv.Stderr, "%s: warning: %s\n", inv.Command.Program(), format.Printable(notice))
	}
}

// Failed is the error of Ask for the user.
func Failed(inv *option.Invocation, err error) error { return client.LoadError(inv, load, err) }

// Connect is the way to the controllers.
func Connect(inv *option.Invocation) (*client.Client, error) { return client.Connect(inv) }

// All is every run of one job, for commands about one; with steps, what those of ended runs
// did too.
func All(ctx context.Context, inv *option.Invocation, controllers *client.Client, view *show.View, target spec.JobTarget, steps bool) (runs []*pb.PastRun, err error) {
	id := &pb.JobId{Job: target.Job}
	if first, one := spec.FirstTask(target.Tasks); one && spec.CountTasks(target.Tasks) == 1 {
		id.ArrayTask = &first
	}
	request := &pb.ListRunsRequest{Filter: &pb.JobFilter{Ids: []*pb.JobId{id}}, Live: true, Steps: steps}
	err = Ask(inv, controllers, view, request, func(run *pb.PastRun) error {
		runs = append(runs, run)
		return nil
	})
	return runs, err
}

// Step of a Row: the whole job, its batch script, or else the number of a step.
const (
	Whole = ""
	Batch = "batch"
)

// Row is one line about a run: the job, or one of its steps.
type Row struct {
	Run  *pb.PastRun
	Step string
	Of   *Step // with a number; else nil
}

// Rows are the lines of a run: the job, its batch script if that has started, and its
// steps.
func Rows(run *pb.PastRun) []Row {
	rows := []Row{{Run: run}}
	if run.GetJob().GetStartMs() != 0 && run.GetJob().GetState() != pb.JobState_JOB_STATE_PENDING {
		rows = append(rows, Row{Run: run, Step: Batch})
	}
	steps, _ := Steps(run)
	for _, s := range steps {
		if s.Number == step.BatchStep {
			continue // has the line of the job's own use
		}
		rows = append(rows, Row{Run: run, Step: s.ID(), Of: s})
	}
	return rows
}

// Job is the job of the run.
func (r Row) Job() *pb.Job { return r.Run.GetJob() }

// State is the word in which the run, or the step, ended or is; by says who cancelled it.
func (r Row) State() (word, by string) {
	job := r.Job()
	switch {
	case r.Of != nil:
		return r.Of.state(r.Run.GetLive()), ""
	case r.Step == Batch && !r.Run.GetLive():
		return r.batchState(), ""
	case r.Run.GetRequeued() && job.GetState() == pb.JobState_JOB_STATE_RUNNING:
		return "REQUEUED", ""
	case job.GetState() == pb.JobState_JOB_STATE_CANCELLED && job.CancelledByUid != nil:
		return "CANCELLED", fmt.Sprint(job.GetCancelledByUid())
	}
	return spec.StateName(job.GetState()), ""
}

// batchState is that of the batch script: what was killed was cancelled, in Slurm's words.
func (r Row) batchState() string {
	job := r.Job()
	switch job.GetState() {
	case pb.JobState_JOB_STATE_COMPLETED, pb.JobState_JOB_STATE_OUT_OF_MEMORY:
		return spec.StateName(job.GetState())
	case pb.JobState_JOB_STATE_FAILED:
		if job.GetExitSignal() == 0 {
			return spec.StateName(job.GetState())
		}
	}
	return spec.StateName(pb.JobState_JOB_STATE_CANCELLED)
}

// ended by SIGTERM, where nobody reported a signal.
const terminated = 15

// Exit is the exit status and the signal. That a job was ended is said by its state, and
// the signal is that of its script, as in Slurm.
func (r Row) Exit() (code, signal uint32) {
	if r.Of != nil {
		return r.Of.exit(r.Run.GetLive())
	}
	job := r.Job()
	code, signal = job.GetExitCode(), job.GetExitSignal()
	if r.Step == Batch && !r.Run.GetLive() && code == 0 && signal == 0 && r.batchState() == "CANCELLED" {
		signal = terminated
	}
	if r.Step == Whole && signal == terminated && job.GetState() != pb.JobState_JOB_STATE_FAILED {
		code, signal = 0, 0
	}
	return code, signal
}

// ElapsedS is how long the run has taken, without the times for which it was suspended.
func (r Row) ElapsedS() uint32 {
	if r.Of != nil {
		end := r.EndMS()
		if r.Run.GetLive() && r.Of.EndMS == 0 {
			end = r.Job().GetStartMs() + r.Run.GetRanMs() // now
		}
		return uint32(min(max(end-r.Of.StartMS, 0)/1000, int64(spec.Unlimited)-1))
	}
	return uint32(min(max(r.Run.GetRanMs(), 0)/1000, int64(spec.Unlimited)-1))
}

// EndMS is when the run, or the step, ended; a step that had not was ended with its job.
func (r Row) EndMS() int64 {
	if r.Of != nil && r.Of.EndMS != 0 {
		return r.Of.EndMS
	}
	return r.Job().GetEndMs()
}

// StartMS is when the run, or the step, started.
func (r Row) StartMS() int64 {
	if r.Of != nil {
		return r.Of.StartMS
	}
	return r.Job().GetStartMs()
}

// SuspendedS is for how long it was suspended.
func (r Row) SuspendedS() uint32 {
	job := r.Job()
	if r.Of != nil || job.GetStartMs() == 0 || job.GetEndMs() == 0 {
		return 0
	}
	return uint32(max(job.GetEndMs()-job.GetStartMs()-r.Run.GetRanMs(), 0) / 1000)
}

// WaitedS is for how long the job waited for its start, since it could have started; ok
// is false while it waits.
func (r Row) WaitedS() (seconds uint32, ok bool) {
	job := r.Job()
	if job.GetStartMs() == 0 {
		return 0, false
	}
	from := job.GetEligibleMs()
	if from == 0 || from > job.GetStartMs() {
		from = job.GetSubmitMs()
	}
	return uint32(max(job.GetStartMs()-from, 0) / 1000), true
}

// CPUs are those that the run has or had; 0 before it started.
func (r Row) CPUs() uint32 {
	switch {
	case r.Of != nil:
		return r.Of.CPUs
	case r.Job().GetStartMs() == 0:
		return 0
	}
	return r.Job().GetCpus()
}

// Borrowed is what the run had on nodes of others: "lab1:gres/gpu=2,cpu=8".
func (r Row) Borrowed() string {
	var parts []string
	for _, b := range r.Run.GetBorrowed() {
		text := fmt.Sprintf("%s:cpu=%d", b.GetOwner(), b.GetCpus())
		if b.GetGpus() > 0 {
			text += fmt.Sprintf(",gres/gpu:%s=%d", b.GetModel(), b.GetGpus())
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ";")
}
