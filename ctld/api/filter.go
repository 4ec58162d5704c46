package api

import (
	"iter"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// filter is a JobFilter made ready: conditions of different kinds must all
// hold, values of one kind are alternatives, an empty kind says nothing.
type filter struct {
	ids        []*pb.JobId
	users      map[string]bool
	uids       map[uint32]bool
	partitions map[string]bool
	names      map[string]bool
	accounts   map[string]bool
	nodes      map[string]bool
	states     map[pb.JobState]bool
	all        bool
	completing bool
	configured bool // configuring, as an alternative beside states
}

// newFilter checks and prepares one. nil is the empty filter.
func newFilter(message *pb.JobFilter) (*filter, error) {
	f := &filter{
		ids:   message.GetIds(),
		users: setOf(message.GetUsers()), uids: setOf(message.GetUids()),
		partitions: setOf(message.GetPartitions()), names: setOf(message.GetNames()),
		accounts: setOf(message.GetAccounts()), nodes: setOf(message.GetNodes()),
		states: setOf(message.GetStates()), all: message.GetAllStates(),
		completing: message.GetCompleting(), configured: message.GetConfiguring(),
	}
	if len(f.ids) > spec.MaxJobTargets {
		return nil, invalid("%d job ids in one request: at most %d", len(f.ids), spec.MaxJobTargets)
	}
	for _, id := range f.ids {
		if id.GetJob() == 0 {
			return nil, invalid("Invalid job id specified: job numbers begin at 1")
		}
		if id.HetComponent != nil {
			return nil, invalid("heterogeneous jobs are not supported: leave out the component +%d", id.GetHetComponent())
		}
	}
	for wanted := range f.states {
		if _, known := pb.JobState_name[int32(wanted)]; !known || wanted == pb.JobState_JOB_STATE_UNSPECIFIED {
			return nil, invalid("job state %d is not known", wanted)
		}
	}
	return f, nil
}

func setOf[K comparable](values []K) map[K]bool {
	if len(values) == 0 {
		return nil
	}
	set := make(map[K]bool, len(values))
	for _, value := range values {
		set[value] = true
	}
	return set
}

// byID says that nothing but ids is given.
func (f *filter) byID() bool {
	return len(f.ids) > 0 && f.plain() && !f.givesState()
}

// plain says that no condition but ids and states is given.
func (f *filter) plain() bool {
	return f.users == nil && f.uids == nil && f.partitions == nil && f.names == nil && f.accounts == nil && f.nodes == nil
}

func (f *filter) givesState() bool {
	return len(f.states) > 0 || f.all || f.completing || f.configured
}

// empty says that it selects every active job. All states are no condition.
func (f *filter) empty() bool {
	return len(f.ids) == 0 && f.plain() && len(f.states) == 0 && !f.completing && !f.configured
}

// finished says whether jobs that are over can match.
func (f *filter) finished() bool {
	if f.all {
		return true
	}
	for wanted := range f.states {
		if wanted != pb.JobState_JOB_STATE_PENDING && wanted != pb.JobState_JOB_STATE_RUNNING {
			return true
		}
	}
	return false
}

// matches tests all conditions but the ids.
func (f *filter) matches(job *state.Job) bool {
	return f.matchesState(job) && f.matchesRest(job)
}

func (f *filter) matchesState(job *state.Job) bool {
	switch {
	case f.all:
		return true
	case !f.givesState():
		return job.Phase != state.Finished
	}
	return f.states[job.State()] || f.completing && job.Completing() || f.configured && job.Configuring()
}

func (f *filter) matchesRest(job *state.Job) bool {
	owner, request := job.Owner(), job.Request
	return (f.users == nil || f.users[owner.User]) &&
		(f.uids == nil || f.uids[owner.UID]) &&
		(f.names == nil || f.names[request.Name]) &&
		(f.accounts == nil || f.accounts[request.Account]) &&
		(f.partitions == nil || f.inPartition(job)) &&
		(f.nodes == nil || f.onNode(job))
}

func (f *filter) inPartition(job *state.Job) bool {
	if job.Run != nil {
		return f.partitions[job.Run.Partition]
	}
	return slices.ContainsFunc(job.Request.Partitions, func(name string) bool { return f.partitions[name] })
}

func (f *filter) onNode(job *state.Job) bool {
	return job.Run != nil && slices.ContainsFunc(job.Run.Parts, func(part state.Part) bool { return f.nodes[part.Node] })
}

// selected is a matching record, and which of its tasks were named; nil means
// all of it.
type selected struct {
	job   *state.Job
	tasks []*pb.ArrayRange
}

// choose yields the matching records in the order of their numbers. A single
// id that nobody has is an error; of several, unknown ones are left out.
func (f *filter) choose(view *state.View) (iter.Seq[selected], error) {
	if len(f.ids) == 0 {
		return f.scan(view), nil
	}
	named := make(map[uint32][]*pb.ArrayRange)
	for _, id := range f.ids {
		if !addNamed(view, named, id) && len(f.ids) == 1 {
			return nil, status.Error(codes.NotFound, "Invalid job id specified")
		}
	}
	numbers := make([]uint32, 0, len(named))
	for number := range named {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	return func(yield func(selected) bool) {
		for _, number := range numbers {
			job, known := view.Job(number)
			if known && f.matches(job) && !yield(selected{job, named[number]}) {
				return
			}
		}
	}, nil
}

// addNamed adds the records an id stands for, and answers whether there are
// any: an array's number stands for all its tasks.
func addNamed(view *state.View, named map[uint32][]*pb.ArrayRange, id *pb.JobId) bool {
	if id.ArrayTask == nil {
		found := false
		for member := range view.Members(id.GetJob()) {
			named[member.ID], found = nil, true
		}
		if _, known := view.Job(id.GetJob()); known {
			named[id.GetJob()], found = nil, true
		}
		return found
	}
	job, known := view.JobByTask(id.GetJob(), id.GetArrayTask())
	if !known {
		return false
	}
	before, present := named[job.ID]
	switch {
	case job.HasTask, present && before == nil:
		named[job.ID] = nil
	default:
		task := id.GetArrayTask()
		named[job.ID] = append(before, &pb.ArrayRange{First: task, Last: task, Step: 1})
	}
	return true
}

// scan goes through all jobs that can match.
func (f *filter) scan(view *state.View) iter.Seq[selected] {
	jobs := inOrder(view.WaitingJobs(), view.ActiveJobs())
	if f.finished() {
		jobs = view.Jobs(0)
	}
	return func(yield func(selected) bool) {
		for job := range jobs {
			if f.matches(job) && !yield(selected{job: job}) {
				return
			}
		}
	}
}

// inOrder merges two sequences that ascend by number.
func inOrder(a, b iter.Seq[*state.Job]) iter.Seq[*state.Job] {
	return func(yield func(*state.Job) bool) {
		nextA, stopA := iter.Pull(a)
		defer stopA()
		nextB, stopB := iter.Pull(b)
		defer stopB()
		x, moreA := nextA()
		y, moreB := nextB()
		for moreA || moreB {
			if !moreB || moreA && x.ID < y.ID {
				if !yield(x) {
					return
				}
				x, moreA = nextA()
			} else {
				if !yield(y) {
					return
				}
				y, moreB = nextB()
			}
		}
	}
}
