package api

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// filter is a prepared JobFilter: conditions of different kinds must all hold,
// values of one kind are alternatives, an empty kind says nothing.
type filter struct {
	ids        []*pb.JobId
	named      map[uint32]map[uint32]bool // ids by number; nil = all of it, else those tasks
	tasks      []*pb.ArrayTasks           // names tasks, as an alternative to ids
	users      map[string]bool
	uids       map[uint32]bool
	partitions map[string]bool
	jobNames   map[string]bool
	accounts   map[string]bool
	qos        map[string]bool
	reserved   map[string]bool // by the names of reservations
	nodes      map[string]bool
	states     map[pb.JobState]bool
	all        bool
	completing bool
	configured bool // configuring, as an alternative to states
}

// newFilter checks and prepares a filter. nil is the empty filter.
func newFilter(message *pb.JobFilter) (*filter, error) {
	if most := valuesOf(message); most > spec.MaxJobTargets {
		return nil, invalid("%d values to choose jobs by in one request: at most %d", most, spec.MaxJobTargets)
	}
	f := &filter{
		ids:   message.GetIds(),
		users: setOf(message.GetUsers()), uids: setOf(message.GetUids()),
		partitions: setOf(message.GetPartitions()), jobNames: setOf(message.GetNames()),
		accounts: setOf(message.GetAccounts()), qos: setOf(message.GetQos()), nodes: setOf(message.GetNodes()), reserved: setOf(message.GetReservations()),
		states: setOf(message.GetStates()), all: message.GetAllStates(),
		completing: message.GetCompleting(), configured: message.GetConfiguring(),
	}
	if len(message.ProtoReflect().GetUnknown()) > 0 {
		// Without this check far more jobs would be chosen than were meant.
		return nil, invalid("the request chooses jobs by something that this controller does not know yet: upgrade it, or leave the newest option out")
	}
	for _, id := range f.ids {
		if id.GetJob() == 0 {
			return nil, invalid("Invalid job id specified: job numbers begin at 1")
		}
		if id.GetArrayTask() > spec.MaxArrayIndex {
			return nil, invalid("Invalid job id specified: there is no task above %d", spec.MaxArrayIndex)
		}
		if id.HetComponent != nil {
			return nil, invalid("heterogeneous jobs are not supported: leave out the component +%d", id.GetHetComponent())
		}
	}
	f.named = nameIDs(f.ids)
	for wanted := range f.states {
		if _, known := pb.JobState_name[int32(wanted)]; !known || wanted == pb.JobState_JOB_STATE_UNSPECIFIED {
			return nil, invalid("job state %d is not known", wanted)
		}
	}
	return f, nil
}

// valuesOf counts what a filter chooses by, of all kinds.
func valuesOf(message *pb.JobFilter) int {
	return len(message.GetIds()) + len(message.GetUsers()) + len(message.GetUids()) + len(message.GetPartitions()) + len(message.GetNames()) +
		len(message.GetAccounts()) + len(message.GetStates()) + len(message.GetNodes()) + len(message.GetQos()) + len(message.GetReservations())
}

// nameIDs sorts ids by number, so that a job need not be compared with each.
func nameIDs(ids []*pb.JobId) map[uint32]map[uint32]bool {
	named := make(map[uint32]map[uint32]bool, len(ids))
	for _, id := range ids {
		switch tasks, known := named[id.GetJob()]; {
		case id.ArrayTask == nil:
			named[id.GetJob()] = nil
		case !known:
			named[id.GetJob()] = map[uint32]bool{id.GetArrayTask(): true}
		case tasks != nil:
			tasks[id.GetArrayTask()] = true
		}
	}
	return named
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

// names says that jobs or tasks are given by their numbers.
func (f *filter) names() bool { return len(f.ids) > 0 || len(f.tasks) > 0 }

// conditional says that something other than numbers selects. All states are no
// condition.
func (f *filter) conditional() bool {
	return !f.plain() || len(f.states) > 0 || f.completing || f.configured
}

// plain says that no condition but ids and states is given.
func (f *filter) plain() bool {
	return f.users == nil && f.uids == nil && f.partitions == nil && f.jobNames == nil && f.accounts == nil && f.qos == nil && f.reserved == nil && f.nodes == nil
}

func (f *filter) givesState() bool {
	return len(f.states) > 0 || f.all || f.completing || f.configured
}

// empty says that it selects every active job.
func (f *filter) empty() bool { return !f.names() && !f.conditional() }

// finished reports whether jobs that are over can match.
func (f *filter) finished() bool {
	if f.all {
		return true
	}
	for wanted := range f.states {
		switch wanted {
		case pb.JobState_JOB_STATE_PENDING, pb.JobState_JOB_STATE_RUNNING, pb.JobState_JOB_STATE_SUSPENDED, pb.JobState_JOB_STATE_STAGE_OUT:
		default:
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
	owner := job.Owner()
	return (f.users == nil || f.users[owner.User]) &&
		(f.uids == nil || f.uids[owner.UID]) &&
		(f.jobNames == nil || f.jobNames[job.Name()]) &&
		(f.accounts == nil || f.accounts[job.Spec.Account]) &&
		(f.qos == nil || f.qos[cmp.Or(job.Spec.QOS, state.NormalQOS)]) &&
		(f.reserved == nil || slices.ContainsFunc(job.Spec.Reservations, func(name string) bool { return f.reserved[name] })) &&
		(f.partitions == nil || f.inPartition(job)) &&
		(f.nodes == nil || f.onNode(job))
}

func (f *filter) inPartition(job *state.Job) bool {
	if job.Run != nil {
		return f.partitions[job.Run.Partition]
	}
	return slices.ContainsFunc(job.Spec.Partitions, func(name string) bool { return f.partitions[name] })
}

func (f *filter) onNode(job *state.Job) bool {
	return job.Run != nil && slices.ContainsFunc(job.Run.Allocs, func(alloc state.Alloc) bool { return f.nodes[alloc.Node] })
}

// selected is a matching record, and which of its tasks were named; nil means
// all of it.
type selected struct {
	job   *state.Job
	tasks []*pb.ArrayRange
}

// choose yields the matching records that exist for the caller, in the order of
// their numbers. A single id that nobody has is an error; of several, unknown
// ones are left out.
func (f *filter) choose(may *sight) (iter.Seq[selected], error) {
	if !f.names() {
		return f.scan(may), nil
	}
	view := may.view
	named := make(naming)
	// Each array once, however often it is named: all its members are looked
	// through for it.
	for _, target := range merge(append(state.TargetsFromTasks(f.tasks), idTargets(f.ids)...)) {
		named.add(view, target, f.finished())
	}
	maps.DeleteFunc(named, func(id uint32, _ []*pb.ArrayRange) bool { return !may.seesNumber(id) })
	if len(named) == 0 && len(f.ids) == 1 && len(f.tasks) == 0 && !f.namesNoTaskOf(may) {
		return nil, status.Error(codes.NotFound, may.unknown(f.ids[0]))
	}
	return func(yield func(selected) bool) {
		for _, number := range slices.Sorted(maps.Keys(named)) {
			job, known := view.Job(number)
			if known && f.matches(job) && !yield(selected{job, named[number]}) {
				return
			}
		}
	}, nil
}

// namesNoTaskOf reports whether the one id is a task that an array does not have:
// there is nothing to show of it, and the job is known all the same.
func (f *filter) namesNoTaskOf(may *sight) bool {
	named := make(naming)
	if f.ids[0].ArrayTask != nil {
		named.add(may.view, state.Target{Job: f.ids[0].GetJob()}, true)
	}
	for number := range named {
		if may.seesNumber(number) {
			return true
		}
	}
	return false
}

// naming is the records that numbers mean, and which of their tasks; nil means
// all of them.
type naming map[uint32][]*pb.ArrayRange

// add adds the records that a target means: an array's number means all its
// tasks. Tasks that are over are left out unless past ones are wanted or
// nothing else is left of the array: there may be very many.
func (n naming) add(view *state.View, target state.Target, past bool) {
	if len(target.Tasks) > 0 {
		for job, mine := range view.MembersWith(target.Job, target.Tasks) {
			n.addTo(job, pbRanges(mine)...)
		}
		return
	}
	_, known := view.Job(target.Job)
	if known {
		n[target.Job] = nil
	}
	for member := range view.LiveMembers(target.Job) {
		n[member.ID] = nil
		known = true
	}
	if past || !known {
		for member := range view.Members(target.Job) {
			n[member.ID] = nil
		}
	}
}

// addTo adds some tasks of one record; for a record of one task, that task.
func (n naming) addTo(job *state.Job, tasks ...*pb.ArrayRange) {
	before, present := n[job.ID]
	if job.HasTask || present && before == nil {
		n[job.ID] = nil
		return
	}
	n[job.ID] = append(before, tasks...)
}

// scan goes through all jobs that can match.
func (f *filter) scan(may *sight) iter.Seq[selected] {
	view := may.view
	jobs := view.LiveJobs()
	if f.finished() {
		jobs = view.Jobs(0)
	}
	return func(yield func(selected) bool) {
		for job := range jobs {
			if f.matches(job) && may.sees(job) && !yield(selected{job: job}) {
				return
			}
		}
	}
}
