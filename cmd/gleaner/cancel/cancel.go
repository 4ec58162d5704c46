// Package cancel is gcancel, Slurm's scancel: it turns operands and conditions
// into one request, and reports what became of each job.
//
// A command line that chooses no job is refused: nothing is cancelled by an empty
// condition.
package cancel

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// Command is the table of gcancel.
func Command() *option.Command {
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
			{Long: "qos", Short: 'q', Argument: "qos[,...]", Environment: from("QOS"), Help: "jobs of these QOS"},
			{Long: "nodelist", Short: 'w', Argument: "nodes", Help: "jobs on any of these nodes, as in n[1-3]"},
			{Long: "reservation", Short: 'R', Argument: "name[,...]", Help: "jobs that name these reservations"},
			{Long: "signal", Short: 's', Argument: "signal", Help: "deliver this signal, by name or number, and do not end the job"},
			{Long: "batch", Short: 'b', Environment: from("BATCH"), Help: "signal the batch script only"},
			{Long: "full", Short: 'f', Environment: from("FULL"), Help: "signal the batch script and all steps"},
			{Long: "quiet", Short: 'Q', Help: "no error for jobs that are over already"},
			{Long: "verbose", Short: 'v', Environment: from("VERBOSE"), Help: "say what is done, and what could not be"},
			{Long: "ctld", Environment: from("CTLD"), Help: "accepted and without effect: signals always go through the controller"},
			{Long: "interactive", Short: 'i', Environment: from("INTERACTIVE"), Later: "look with gqueue, then name the jobs"},
			{Long: "hurry", Short: 'H', Environment: from("HURRY"), Later: option.LeaveOut + "; nothing is staged out"},
			{Long: "wckey", Argument: "key", Environment: from("WCKEY"), Later: "choose by --partition, --account, --qos or --name"},
			client.ClusterOption("SLURM_CLUSTERS"),
			{Long: "sibling", Argument: "cluster", Later: option.LeaveOut},
		},
		Examples: []option.Example{
			{Text: "end a job, some tasks of an array, and all of another", Command: "gcancel 12 '13_[0-4]' 14"},
			{Text: "end all your jobs that still wait", Command: "gcancel --me --state=PENDING"},
			{Text: "tell a batch script to save its work", Command: "gcancel --signal=USR1 --batch 12"},
		},
		ExitStatus: []option.ExitStatus{
			{Status: "0", Help: "done; also for jobs that are unknown or over"},
			{Status: "1", Help: "a job could not be ended or signalled, or the request could not be read"},
			{Status: "210", Help: "a job is somebody else's"},
		},
		SeeAlso: []string{"gsubmit", "gqueue"},
		Run:     cancelJobs,
	}
}

// errorNoJob and errorDone are Slurm's sentences for what is no failure, and
// errorDenied for what is.
const (
	errorNoJob  = "Invalid job id specified"
	errorDone   = "Job/step already completing or completed"
	errorDenied = "Access/permission denied"
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
	controller, err := client.Connect(inv)
	if err != nil {
		return err
	}
	defer controller.Close()
	if _, err := controller.Cluster(inv.Context, inv.Values); err != nil {
		return err
	}
	if inv.Given("verbose") {
		announceCancel(inv, request)
	}
	answer, err := client.Call(inv.Context, controller, controller.Cancel, request)
	if ids := request.GetFilter().GetIds(); status.Code(err) == codes.NotFound && len(ids) > 0 {
		answer, err = &pb.CancelResponse{Results: []*pb.JobResult{{Id: ids[0], Error: client.Plain(err)}}}, nil
	}
	if err != nil {
		return option.Fail(1, "Kill job error: %s", client.Describe(err))
	}
	ended := 0
	for _, result := range answer.GetResults() {
		if reportCancel(inv, request, result) {
			ended = max(ended, failureStatus(result))
		}
	}
	return option.Exit(ended)
}

// statusDenied is what scancel ends with where a job is somebody else's.
const statusDenied = 210

func failureStatus(result *pb.JobResult) int {
	if strings.HasPrefix(result.GetError(), errorDenied) {
		return statusDenied
	}
	return 1
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
	if strings.HasSuffix(message, step.NobodyToSignal) && !request.GetBatch() && !request.GetFull() {
		// As in Slurm, the steps of a job without steps have had the signal.
		if !inv.Given("quiet") {
			fmt.Fprintf(inv.Stderr, "%s: job %s runs no steps, and only those were to have the signal: --batch sends it to the script, --full to both\n",
				inv.Command.Program(), spec.FormatJobID(result.GetId()))
		}
		return false
	}
	harmless := strings.HasPrefix(message, errorNoJob) || result.GetAlreadyDone()
	failure := !harmless || request.GetSignal() != 0 && !inv.Given("quiet")
	if failure || inv.Given("verbose") {
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
