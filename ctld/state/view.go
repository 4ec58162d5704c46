package state

import (
	"iter"
	"math"

	"github.com/tidwall/btree"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
)

// View is the state at one moment. It is immutable, costs the same to take
// however large the state is, and many goroutines may read it at once. Its
// records are shared: nobody may change them.
type View struct {
	tables
}

// Counts are the numbers of records.
type Counts struct {
	Jobs, Waiting, Active, Finished int
	Nodes, Remembered               int
}

// Index is that of the last log entry applied.
func (t *tables) Index() uint64 { return t.index }

// TimeMS is log time in Unix milliseconds.
func (t *tables) TimeMS() int64 { return t.timeMS }

// Policy is the one in force.
func (t *tables) Policy() *policy.Policy { return t.policy }

// Counts are the numbers of records.
func (t *tables) Counts() Counts {
	return Counts{
		Jobs:    t.live.Len() + t.past.Len(),
		Waiting: t.live.Len() - int(t.active), Active: int(t.active), Finished: t.past.Len(),
		Nodes: t.nodes.Len(), Remembered: len(t.remembered),
	}
}

// Wants reports whether a plan may do anything: whether any job waits, or is suspended. Where
// none does, and thousands of nodes register, nobody needs to look at all of them again and
// again.
func (v *View) Wants() bool {
	if v.live.Len() > int(v.active) {
		return true
	}
	for job := range v.LiveJobs() {
		if job.Suspended() {
			return true
		}
	}
	return false
}

// UserCounts are the numbers of job records of one user.
func (t *tables) UserCounts(uid uint32) UserCounts {
	counts, _ := t.users.Get(uid)
	return counts
}

// Job finds a record by its own number.
func (t *tables) Job(id uint32) (*Job, bool) {
	if job, found := t.live.Get(id); found {
		return job, true
	}
	return t.past.Get(id)
}

// JobByTask finds the record that holds a task of an array.
func (t *tables) JobByTask(array, task uint32) (*Job, bool) {
	if id, found := t.byTask.Get(pair(array, task)); found {
		return t.Job(id)
	}
	for _, id := range idsUnder(t.groups, array, math.MaxInt) {
		if job, _ := t.Job(id); job.containsTask(task) {
			return job, true
		}
	}
	return nil, false
}

// Members are the records of an array, ascending by number.
func (t *tables) Members(array uint32) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for _, id := range t.memberIDs(array) {
			if job, _ := t.Job(id); !yield(job) {
				return
			}
		}
	}
}

// LiveMembers are those of the Members that wait or hold nodes.
func (t *tables) LiveMembers(array uint32) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for _, id := range idsUnder(t.members, array, math.MaxInt) {
			if job, _ := t.live.Get(id); !yield(job) {
				return
			}
		}
	}
}

// MembersWith are the records of an array that hold some of the tasks, each
// with those it holds, ascending by number. The ranges are normal.
func (t *tables) MembersWith(array uint32, tasks []ranges.Range) iter.Seq2[*Job, []ranges.Range] {
	return func(yield func(*Job, []ranges.Range) bool) {
		for _, id := range t.membersOf(array, tasks) {
			job, _ := t.Job(id)
			if mine := job.tasksWithin(tasks); len(mine) > 0 && !yield(job, mine) {
				return
			}
		}
	}
}

// Jobs are all records from a number on, ascending.
func (t *tables) Jobs(from uint32) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		live, past := t.live.Iter(), t.past.Iter()
		moreLive, morePast := live.Seek(from), past.Seek(from)
		for moreLive || morePast {
			if !morePast || moreLive && live.Key() < past.Key() {
				if !yield(live.Value()) {
					return
				}
				moreLive = live.Next()
			} else {
				if !yield(past.Value()) {
					return
				}
				morePast = past.Next()
			}
		}
	}
}

// LiveJobs are those that wait or hold nodes, ascending by number.
func (t *tables) LiveJobs() iter.Seq[*Job] { return values(t.live) }

// JobsOn are the jobs with an allocation on a node that is not released,
// ascending, each with the run that the allocation belongs to.
func (t *tables) JobsOn(node string) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		record, known := t.nodes.Get(node)
		if !known {
			return
		}
		for _, id := range record.use.jobs {
			if !yield(t.jobOn(id, node)) {
				return
			}
		}
	}
}

// jobOn is a job as one of its nodes has it: with its present run, or with the
// other one that holds something there.
func (t *tables) jobOn(id uint32, node string) *Job {
	job, _ := t.Job(id)
	return job.on(node)
}

// FinishedBefore are at most limit finished jobs that ended before a time in
// Unix milliseconds, oldest first.
func (t *tables) FinishedBefore(ms int64, limit int) []uint32 {
	var ids []uint32
	t.finished.Scan(func(key uint64, _ struct{}) bool {
		if len(ids) == limit || int64(key>>32)*1000 >= ms {
			return false
		}
		job, _ := t.Job(uint32(key))
		if job.End.EndMS < ms {
			ids = append(ids, job.ID)
		}
		return true
	})
	return ids
}

// Node finds a node by its name.
func (t *tables) Node(name string) (*Node, bool) { return t.nodes.Get(name) }

// Nodes are all nodes, ascending by name, also those only named in the policy.
func (t *tables) Nodes() iter.Seq[*Node] { return values(t.nodes) }

// NodeCount is how many nodes there are.
func (t *tables) NodeCount() int { return t.nodes.Len() }

func values[K ~uint32 | ~string, V any](table *btree.Map[K, V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		table.Scan(func(_ K, value V) bool { return yield(value) })
	}
}

// idsUnder are the low halves of the keys whose high half is given, ascending,
// at most limit of them.
func idsUnder(table *btree.Map[uint64, struct{}], high uint32, limit int) []uint32 {
	var ids []uint32
	table.Ascend(pair(high, 0), func(key uint64, _ struct{}) bool {
		if uint32(key>>32) != high || len(ids) == limit {
			return false
		}
		ids = append(ids, uint32(key))
		return true
	})
	return ids
}

// HasLiveTasks reports whether a task of an array is not over.
func (t *tables) HasLiveTasks(array uint32) bool { return len(idsUnder(t.members, array, 1)) > 0 }
