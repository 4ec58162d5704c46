// Package allocation gets nodes for a command that wants them now: a job that holds
// them, and that ends with the session of its one client.
//
// The job's script waits inside the job for that session (package hold), and ends as
// it does; so the job is over when its client is lost for long, whatever became of
// the client's host. Obtain returns when the job runs; Release ends it if nothing else
// has.
package allocation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// Allocation is a job that holds nodes for a client.
type Allocation struct {
	Job     *pb.Job
	Session string // the name of the session that it lives as long as
	results bool   // some are staged out when it is over
	inv     *option.Invocation
	client  *client.Client
}

// Name is the job's number, for messages.
func (a *Allocation) Name() string { return show.Digits(a.Job.GetId().GetJob()) }

// ID is what the controllers call the job.
func (a *Allocation) ID() *pb.JobId { return a.Job.GetId() }

const (
	optInactive  = "inactive-limit"
	optImmediate = "immediate"
)

// defaultInactiveS is how long an allocation outlives its client.
const defaultInactiveS = 120

// Options are those of whoever obtains an allocation.
func Options() []option.Option {
	return []option.Option{
		{Long: optImmediate, Short: 'I', Argument: "seconds", OptionalArgument: true, Help: "give up if the allocation is not there within so many seconds, 5 if no number is attached"},
		client.ClusterOption("SLURM_CLUSTERS"),
		{Long: optInactive, Argument: "seconds", Default: strconv.Itoa(defaultInactiveS), Help: "how long an allocation of its own outlives a client that is lost"},
	}
}

// How often it is asked whether the job has started, at first and later, and after
// what time it is said that it waits.
const (
	firstLook = 50 * time.Millisecond
	lastLook  = 2 * time.Second
	saidAfter = 2 * time.Second
)

// releaseTime is how long a job has to end by itself before it is cancelled, and a
// controller to hear of that.
const releaseTime = 5 * time.Second

// Obtain submits a job of what the values ask for, and waits until it runs. It tells
// the user how that goes if it takes a while. Of an interrupt the job ends.
func Obtain(inv *option.Invocation, values option.Values, name string) (*Allocation, error) {
	inactive, patience, err := waits(inv)
	if err != nil {
		return nil, err
	}
	a := &Allocation{inv: inv, Session: uuid.NewString()}
	return a.obtain(values, name, script(a.Session, inactive), patience)
}

// ObtainWithoutClient is Obtain for an allocation that nobody stands for: it ends when
// its time is over or somebody cancels it.
func ObtainWithoutClient(inv *option.Invocation, values option.Values, name string) (*Allocation, error) {
	_, patience, err := waits(inv)
	if err != nil {
		return nil, err
	}
	a := &Allocation{inv: inv}
	return a.obtain(values, name, scriptWithoutClient, patience)
}

func (a *Allocation) obtain(values option.Values, name, script string, patience time.Duration) (*Allocation, error) {
	inv := a.inv
	asked, err := jobspec.NewAllocation(inv, values, name, script)
	if err != nil {
		return nil, err
	}
	for _, warning := range asked.Warnings {
		a.say("warning: %s", warning)
	}
	if err := jobspec.Pin(asked.Request.Spec); err != nil {
		return nil, err
	}
	if a.client, err = client.Connect(inv); err != nil {
		return nil, err
	}
	if _, err := a.client.Cluster(inv.Context, values); err != nil {
		a.client.Close()
		return nil, err
	}
	answer, err := client.Call(inv.Context, a.client, a.client.Submit, asked.Request)
	if err != nil {
		a.client.Close()
		return nil, refused(inv, err)
	}
	a.Job = &pb.Job{Id: &pb.JobId{Job: answer.GetJobId()}}
	a.results = slices.ContainsFunc(asked.Request.GetSpec().GetStaging(), (*pb.Staging).GetOut)
	for _, warning := range answer.GetWarnings() {
		a.say("warning: %s", warning)
	}
	if err := a.await(patience); err != nil {
		_ = a.Release() // it has not run
		return nil, err
	}
	return a, nil
}

// refused is Slurm's sentence about what the controller answered.
func refused(inv *option.Invocation, err error) error {
	text := client.Describe(err)
	if strings.HasPrefix(text, "invalid partition specified: ") {
		failed := "Unable to allocate resources"
		if inv.Command.Name == "alloc" {
			failed = "Job submit/allocate failed"
		}
		return option.Fail(1, "%s\n%s: Invalid partition name specified", text, failed)
	}
	return option.Fail(1, "Unable to allocate resources: %s", text)
}

// The commands are linked in /usr/local/bin of every job, whatever PATH says, or in an
// image in /run/gleaner/bin.
const holder = "PATH=/usr/local/bin:$PATH:/run/gleaner/bin\nexec gleaner hold"

// script is what the job runs: it waits for its client's session.
func script(session string, inactiveS uint32) string {
	return fmt.Sprintf("#!/bin/sh\n# This script holds the nodes for the one who asked for them.\n%s %s %d\n", holder, session, inactiveS)
}

// scriptWithoutClient waits for nobody.
const scriptWithoutClient = "#!/bin/sh\n# This script holds the nodes until the job's time is over, or it is cancelled.\n" + holder + "\n"

// waits reads --inactive-limit and --immediate; patience 0 = for ever.
func waits(inv *option.Invocation) (inactiveS uint32, patience time.Duration, err error) {
	inactiveS = defaultInactiveS
	if text := inv.Text(optInactive); text != "" {
		number, err := strconv.ParseUint(text, 10, 32)
		if err != nil || number < 1 || number > step.MaxHoldS {
			return 0, 0, inv.Fail("Invalid --%s specification: %q: type a number of seconds, at most %d", optInactive, text, step.MaxHoldS)
		}
		inactiveS = uint32(number)
	}
	if inv.Given(optImmediate) {
		patience = 5 * time.Second
		if text := inv.Text(optImmediate); text != "" {
			number, err := strconv.ParseUint(text, 10, 31)
			if err != nil || number < 1 {
				return 0, 0, inv.Fail("Invalid --%s specification: %q: type a number of seconds", optImmediate, text)
			}
			patience = time.Duration(number) * time.Second
		}
	}
	return inactiveS, patience, nil
}

// await waits until the job runs.
func (a *Allocation) await(patience time.Duration) error {
	begun, said, pause := time.Now(), false, firstLook
	for {
		job, err := a.look(a.inv.Context)
		switch {
		case a.inv.Context.Err() != nil:
			a.say("Job allocation %s has been revoked.", a.Name())
			return option.Exit(console.Interrupted)
		case err != nil:
			return option.Fail(1, "Unable to allocate resources: %s", client.Describe(err))
		case show.Finished(job):
			return option.Fail(1, "Unable to allocate resources: job %s is over (%s) %s", a.Name(), show.StateName(job), format.Printable(job.GetReasonDetail()))
		case job.GetState() == pb.JobState_JOB_STATE_RUNNING && !job.GetConfiguring():
			a.Job = job
			if said {
				a.say("job %s has been allocated resources", a.Name())
			}
			return nil
		case patience > 0 && time.Since(begun) > patience:
			return option.Fail(1, "Unable to allocate resources: Requested nodes are busy")
		case !said && time.Since(begun) > saidAfter:
			said = true
			a.say("job %s queued and waiting for resources", a.Name())
		}
		client.Pause(a.inv.Context, pause)
		pause = min(pause*3/2, lastLook)
	}
}

// look asks how the job is.
func (a *Allocation) look(ctx context.Context) (*pb.Job, error) {
	var found *pb.Job
	restart := func() bool { found = nil; return true }
	request := &pb.ListJobsRequest{Filter: &pb.JobFilter{Ids: []*pb.JobId{a.ID()}, AllStates: true}}
	err := client.List(ctx, a.client, a.client.ListJobs, request, restart, func(answer *pb.ListJobsResponse) error {
		for _, job := range answer.GetJobs() {
			found = job
		}
		return nil
	})
	if err == nil && found == nil {
		err = errors.New("the job is not known any more")
	}
	return found, err
}

// Release sees that the job ends: by itself, when its session is over, or because it
// is cancelled. It waits until the job's results are staged out; if they do not go, it
// says why, and returns an exit status.
func (a *Allocation) Release() error {
	defer a.client.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.inv.Context), 2*releaseTime)
	defer cancel()
	for begun := time.Now(); time.Since(begun) < releaseTime; client.Pause(ctx, 2*firstLook) {
		job, err := a.look(ctx)
		if err != nil || job.GetState() == pb.JobState_JOB_STATE_PENDING {
			break
		}
		if show.Finished(job) || job.GetState() == pb.JobState_JOB_STATE_STAGE_OUT {
			return a.awaitResults()
		}
	}
	request := &pb.CancelRequest{RequestId: uuid.NewString(), Filter: &pb.JobFilter{Ids: []*pb.JobId{a.ID()}}}
	if _, err := client.Call(ctx, a.client, a.client.Cancel, request); err != nil {
		a.say("error: job %s could not be ended: %s; it ends by itself when it has had no client for a while", a.Name(), client.Describe(err))
	}
	return nil
}

// awaitResults waits until the results of a job that has run are staged out.
func (a *Allocation) awaitResults() error {
	if !a.results {
		return nil
	}
	for pause := firstLook; ; pause = min(pause*3/2, lastLook) {
		job, err := a.look(a.inv.Context)
		switch {
		case a.inv.Context.Err() != nil:
			a.say("no longer waiting for the results of job %s, which are staged out; gcancel %s gives them up", a.Name(), a.Name())
			return option.Exit(console.Interrupted)
		case err != nil:
			a.say("error: whether the results of job %s are staged out is not known: %s: see gcontrol show job %s", a.Name(), client.Describe(err), a.Name())
			return option.Exit(1)
		case !show.Finished(job):
			client.Pause(a.inv.Context, pause)
			continue
		}
		if why := job.GetReasonDetail(); strings.Contains(why, "stage-out failed: ") {
			a.say("error: job %s: %s", a.Name(), format.Printable(why))
			return option.Exit(1)
		}
		return nil
	}
}

// Leave lets the job go on without this command.
func (a *Allocation) Leave() { a.client.Close() }

func (a *Allocation) say(text string, arguments ...any) {
	if !a.inv.Given("quiet") {
		_, _ = io.WriteString(a.inv.Stderr, a.inv.Command.Program()+": "+fmt.Sprintf(text, arguments...)+"\n")
	}
}
