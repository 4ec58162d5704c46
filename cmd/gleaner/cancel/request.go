package cancel

import (
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

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
		return nil, option.Fail(1, "No job identification provided\nName jobs by number, or choose them with --me, --user, --name, --partition, --state, --account, --qos or --nodelist")
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
			filter.Ids = append(filter.Ids, client.TaskIDs(target)...)
		}
	}
	return request, nil
}

// stepSuffix is the number of a step after that of a job: 12.0, 12_3.batch.
var stepSuffix = regexp.MustCompile(`^[0-9]+(_[0-9]+)?\.([0-9]+|batch)$`)

func cancelTargets(operands []string) ([]spec.JobTarget, error) {
	var targets []spec.JobTarget
	for _, operand := range operands {
		if stepSuffix.MatchString(operand) {
			job, _, _ := strings.Cut(operand, ".")
			return nil, option.Fail(1, "Cancelling one step (%s) is not supported: end the whole job with gcancel %s, or signal its steps with gcancel --signal=TERM %s", operand, job, job)
		}
		named, err := spec.ParseJobTargets(operand)
		if err != nil {
			// scancel has no colon where the other commands have one.
			return nil, option.Fail(1, "%s", strings.Replace(err.Error(), "Invalid job id: ", "Invalid job id ", 1))
		}
		targets = append(targets, named...)
	}
	return targets, nil
}

func cancelFilter(inv *option.Invocation) (*pb.JobFilter, error) {
	filter := &pb.JobFilter{
		Partitions: inv.List("partition"), Names: inv.List("name"), Accounts: inv.List("account"), Qos: inv.List("qos"), Reservations: inv.List("reservation"),
	}
	for _, long := range []string{"user", "partition", "name", "account", "qos", "reservation", "nodelist", "state"} {
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
		choice, err := spec.ParseState(word)
		switch choice.State {
		case pb.JobState_JOB_STATE_PENDING, pb.JobState_JOB_STATE_RUNNING, pb.JobState_JOB_STATE_SUSPENDED:
		default:
			err = spec.Sentence("Invalid job state specified: " + word + ": type PENDING, RUNNING or SUSPENDED")
		}
		if err != nil {
			return nil, option.Fail(1, "%w", err)
		}
		filter.States = append(filter.States, choice.State)
	}
	return filter, nil
}

// userName is a variable so that tests need no users.
var userName = console.UserName

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
			if _, err := userName(word); err != nil {
				return option.Fail(1, "Invalid user name: %.64s", word)
			}
			filter.Users = append(filter.Users, word)
			continue
		}
		name, err := userName(word)
		switch {
		case err == nil:
			filter.Users = append(filter.Users, name)
		case len(words) == 1 && !inv.Given("me"):
			filter.Uids = []uint32{uint32(number)}
		default:
			return option.Fail(1, "Invalid user name: %.64s", word)
		}
	}
	return nil
}

// emptyFilter reports whether a filter selects nothing in particular. An option
// given with nothing in it ("-u ”") would otherwise select every job.
func emptyFilter(filter *pb.JobFilter) bool {
	return len(filter.Users)+len(filter.Uids)+len(filter.Partitions)+len(filter.Names)+len(filter.Accounts)+len(filter.Qos)+len(filter.Reservations)+
		len(filter.States)+len(filter.Nodes) == 0
}
