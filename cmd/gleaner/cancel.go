package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func cancelCommand() *option.Command {
	from := func(suffix string) []string { return []string{"GCANCEL_" + suffix, "SCANCEL_" + suffix} }
	return &option.Command{
		Name:    "cancel",
		Alias:   "scancel",
		Summary: "end jobs, or send them a signal",
		Description: []string{
			"gcancel ends the jobs, arrays and array tasks that are named, and those that match all of the conditions given. A running job gets SIGTERM and, if it does not end, SIGKILL after the grace time of the cluster.",
			"With --signal it only delivers that signal and changes nothing else: to the steps of the job, with --batch to the batch script alone, with --full to both.",
			"A job that is unknown or over already is no error, unless a signal was to be delivered; --verbose says so.",
		},
		Usage: "[options] [job[_task]...]",
		Operands: []option.Variable{
			{Name: "job", Help: "number of a job or of an array: 12; several as 12 13 or 12,13"},
			{Name: "job_task", Help: "tasks of an array: 12_3, 12_[1-5,9]"},
		},
		Options: []option.Option{
			{Long: "user", Short: 'u', Argument: "user[,...]", Environment: from("USER"), Help: "jobs of these users"},
			{Long: "me", Help: "jobs of your own"},
			{Long: "partition", Short: 'p', Argument: "partition[,...]", Environment: from("PARTITION"), Help: "jobs in these partitions"},
			{Long: "name", Short: 'n', Aliases: []string{"jobname"}, Argument: "name[,...]", Environment: from("NAME"), Help: "jobs with these names"},
			{Long: "state", Short: 't', Argument: "state[,...]", Environment: from("STATE"), Help: "jobs in these states: PENDING, RUNNING or SUSPENDED"},
			{Long: "account", Short: 'A', Argument: "account[,...]", Environment: from("ACCOUNT"), Help: "jobs of these accounts"},
			{Long: "nodelist", Short: 'w', Argument: "nodes", Help: "jobs on any of these nodes, as in n[1-3]"},
			{Long: "signal", Short: 's', Argument: "signal", Help: "deliver this signal, by name or number, and do not end the job"},
			{Long: "batch", Short: 'b', Environment: from("BATCH"), Help: "signal the batch script only"},
			{Long: "full", Short: 'f', Environment: from("FULL"), Help: "signal the batch script and all steps"},
			{Long: optQuiet, Short: 'Q', Help: "no error for jobs that are over already"},
			{Long: optVerbose, Short: 'v', Environment: from("VERBOSE"), Help: "say what is done, and what could not be"},
			{Long: "ctld", Environment: from("CTLD"), Help: "accepted and without effect: signals always go through the controller"},
			{Long: "interactive", Short: 'i', Environment: from("INTERACTIVE"), Later: "look with gqueue, then name the jobs"},
			{Long: "hurry", Short: 'H', Environment: from("HURRY"), Later: leaveOut + "; nothing is staged out"},
			{Long: "qos", Short: 'q', Argument: "qos", Environment: from("QOS"), Later: "choose by --partition, --account or --name"},
			{Long: "wckey", Argument: "key", Environment: from("WCKEY"), Later: "choose by --partition, --account or --name"},
			{Long: "reservation", Short: 'R', Argument: "name", Later: "choose by --nodelist"},
			{Long: "clusters", Short: 'M', Argument: "names", Later: "name the controller of the other cluster with --controller"},
			{Long: "sibling", Argument: "cluster", Later: leaveOut},
		},
		Examples: []option.Example{
			{Text: "end a job, some tasks of an array, and all of another", Command: "gcancel 12 '13_[0-4]' 14"},
			{Text: "end all your jobs that still wait", Command: "gcancel --me --state=PENDING"},
			{Text: "tell a batch script to save its work", Command: "gcancel --signal=USR1 --batch 12"},
		},
		ExitStatus: []option.ExitStatus{
			{Status: "0", Help: "done; also for jobs that are unknown or over"},
			{Status: "1", Help: "a job could not be ended or signalled, or the request could not be read"},
		},
		SeeAlso: []string{"gsubmit", "gqueue"},
		Run:     cancelJobs,
	}
}

// errorNoJob and errorDone are Slurm's sentences for what is no failure.
const (
	errorNoJob = "Invalid job id specified"
	errorDone  = "Job/step already completing or completed"
)

// cancelJobs is gcancel.
func cancelJobs(inv *option.Invocation) error {
	inEnvironment, err := inv.Command.FromEnvironment(inv.Lookup)
	if err != nil {
		return err
	}
	inv.Values = inv.Over(inEnvironment)
	request, err := cancelRequest(inv)
	if err != nil {
		return err
	}
	controller, err := connect(inv)
	if err != nil {
		return err
	}
	defer controller.Close()
	if inv.Given(optVerbose) {
		announceCancel(inv, request)
	}
	answer, err := call(inv.Context, controller, controller.Cancel, request)
	if ids := request.GetFilter().GetIds(); status.Code(err) == codes.NotFound && len(ids) > 0 {
		answer, err = &pb.CancelResponse{Results: []*pb.JobResult{{Id: ids[0], Error: errorNoJob}}}, nil
	}
	if err != nil {
		return option.Fail(1, "Kill job error: %s", describe(err))
	}
	failed := false
	for _, result := range answer.GetResults() {
		failed = reportCancel(inv, request, result) || failed
	}
	if failed {
		return option.Exit(1)
	}
	return nil
}

// describe is what a failed call says to the user.
func describe(err error) string {
	if unreachable := (*unreachableError)(nil); errors.As(err, &unreachable) {
		return unreachable.Error()
	}
	return plain(err)
}

// reportCancel says what a result is worth saying, and whether it is a failure.
func reportCancel(inv *option.Invocation, request *pb.CancelRequest, result *pb.JobResult) bool {
	message := result.GetError()
	if message == "" && !result.GetAlreadyDone() {
		return false
	}
	if message == "" {
		message = errorDone
	}
	harmless := message == errorNoJob || result.GetAlreadyDone()
	failure := !harmless || request.GetSignal() != 0 && !inv.Given(optQuiet)
	if failure || inv.Given(optVerbose) {
		fmt.Fprintf(inv.Stderr, "%s: error: Kill job error on job id %s: %s\n", inv.Command.Program(),
			spec.FormatJobID(result.GetId()), format.Printable(message))
	}
	return failure
}

func announceCancel(inv *option.Invocation, request *pb.CancelRequest) {
	var names []string
	for _, id := range request.GetFilter().GetIds() {
		names = append(names, "job "+spec.FormatJobID(id))
	}
	for _, tasks := range request.GetTasks() {
		names = append(names, "job "+spec.JobTarget{Job: tasks.GetJob(), HasTasks: true, Tasks: tasks.GetRanges()}.String())
	}
	if len(names) == 0 {
		names = []string{"all jobs that match"}
	}
	for _, name := range names {
		if request.GetSignal() == 0 {
			fmt.Fprintf(inv.Stderr, "%s: Terminating %s\n", inv.Command.Program(), name)
		} else {
			fmt.Fprintf(inv.Stderr, "%s: Signal %d to %s\n", inv.Command.Program(), request.GetSignal(), name)
		}
	}
}

// maxNamedTasks bounds the array tasks that are named one by one.
const maxNamedTasks = spec.MaxJobTargets

// cancelRequest is what the command line asks for. Tasks of arrays are sent as
// ranges, unless conditions must hold for them too: then each is named in the
// filter, whose conditions apply to the ids in it.
func cancelRequest(inv *option.Invocation) (*pb.CancelRequest, error) {
	filter, err := cancelFilter(inv)
	if err != nil {
		return nil, err
	}
	request := &pb.CancelRequest{
		RequestId: uuid.NewString(), Filter: filter, Batch: inv.Given("batch") && !inv.Given("full"), Full: inv.Given("full"),
	}
	if inv.Given("signal") {
		if request.Signal, err = spec.ParseSignal(inv.Text("signal")); err != nil {
			return nil, option.Fail(1, "Unknown job signal: %w", err)
		}
	}
	targets, err := cancelTargets(inv.Operands)
	if err != nil {
		return nil, err
	}
	conditions := !emptyFilter(filter)
	if len(targets) == 0 && !conditions {
		return nil, option.Fail(1, "No job identification provided\nName jobs by number, or choose them with --me, --user, --name, --partition, --state, --account or --nodelist")
	}
	for _, target := range targets {
		switch {
		case !target.HasTasks:
			filter.Ids = append(filter.Ids, &pb.JobId{Job: target.Job})
		case !conditions:
			request.Tasks = append(request.Tasks, &pb.ArrayTasks{Job: target.Job, Ranges: target.Tasks})
		case int(spec.CountTasks(target.Tasks))+len(filter.Ids) > maxNamedTasks:
			return nil, option.Fail(1, "%s with further conditions names more than %d tasks: leave the conditions out", target, maxNamedTasks)
		default:
			filter.Ids = append(filter.Ids, taskIDs(target)...)
		}
	}
	return request, nil
}

func taskIDs(target spec.JobTarget) []*pb.JobId {
	var ids []*pb.JobId
	for _, tasks := range target.Tasks {
		for index := tasks.GetFirst(); index <= tasks.GetLast(); index += max(tasks.GetStep(), 1) {
			ids = append(ids, &pb.JobId{Job: target.Job, ArrayTask: &index})
		}
	}
	return ids
}

// stepSuffix is the number of a step behind that of a job: 12.0, 12_3.batch.
var stepSuffix = regexp.MustCompile(`^[0-9]+(_[0-9]+)?\.([0-9]+|batch)$`)

func cancelTargets(operands []string) ([]spec.JobTarget, error) {
	var targets []spec.JobTarget
	for _, operand := range operands {
		if stepSuffix.MatchString(operand) {
			job, _, _ := strings.Cut(operand, ".")
			return nil, option.Fail(1, "Cancelling one step (%s) is not carried out yet: end the whole job with gcancel %s, or signal its steps with gcancel --signal=TERM %s", operand, job, job)
		}
		named, err := spec.ParseJobTargets(operand)
		if err != nil {
			return nil, option.Fail(1, "%w", err)
		}
		targets = append(targets, named...)
	}
	return targets, nil
}

func cancelFilter(inv *option.Invocation) (*pb.JobFilter, error) {
	filter := &pb.JobFilter{
		Partitions: inv.List("partition"), Names: inv.List("name"), Accounts: inv.List("account"),
	}
	for _, long := range []string{"user", "partition", "name", "account", "nodelist", "state"} {
		// As with -u "$OWNER" where OWNER is not set: taken for no condition
		// at all, it would choose far more jobs than was meant.
		if inv.Given(long) && len(inv.List(long)) == 0 {
			return nil, option.Fail(1, "Invalid --%s specification: it is empty", long)
		}
	}
	if err := cancelUsers(inv, filter); err != nil {
		return nil, err
	}
	for _, text := range inv.All("nodelist") {
		nodes, err := spec.ParseHostList(text)
		if err != nil {
			return nil, option.Fail(1, "Invalid --nodelist specification: %w", err)
		}
		filter.Nodes = append(filter.Nodes, nodes...)
	}
	for _, word := range inv.List("state") {
		state, _, _, err := spec.ParseState(word)
		switch state {
		case pb.JobState_JOB_STATE_PENDING, pb.JobState_JOB_STATE_RUNNING, pb.JobState_JOB_STATE_SUSPENDED:
		default:
			err = spec.Sentence("Invalid job state specified: " + word + ": type PENDING, RUNNING or SUSPENDED")
		}
		if err != nil {
			return nil, option.Fail(1, "%w", err)
		}
		filter.States = append(filter.States, state)
	}
	return filter, nil
}

// lookupUser is a variable so that tests need no users.
var lookupUser = user.Lookup

// cancelUsers takes names and numbers of users that this machine knows. A number
// is looked for by its name, which is what tells users apart; one without a
// name can be looked for alone.
func cancelUsers(inv *option.Invocation, filter *pb.JobFilter) error {
	if inv.Given("me") {
		filter.Uids = []uint32{uint32(os.Getuid())}
	}
	words := inv.List("user")
	for _, word := range words {
		number, notNumber := strconv.ParseUint(word, 10, 32)
		if notNumber != nil {
			if _, err := lookupUser(word); err != nil {
				return option.Fail(1, "Invalid user name: %.64s", word)
			}
			filter.Users = append(filter.Users, word)
			continue
		}
		known, err := user.LookupId(word)
		switch {
		case err == nil:
			filter.Users = append(filter.Users, known.Username)
		case len(words) == 1 && !inv.Given("me"):
			filter.Uids = []uint32{uint32(number)}
		default:
			return option.Fail(1, "Invalid user name: %.64s", word)
		}
	}
	return nil
}

// emptyFilter says whether a filter selects nothing in particular. An option
// given with nothing in it ("-u ”") would otherwise select every job.
func emptyFilter(filter *pb.JobFilter) bool {
	return len(filter.Users)+len(filter.Uids)+len(filter.Partitions)+len(filter.Names)+len(filter.Accounts)+
		len(filter.States)+len(filter.Nodes) == 0
}
