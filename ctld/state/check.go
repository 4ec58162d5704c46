package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tidwall/btree"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Check says which invariant does not hold; nil when all do. It counts from the
// records alone and compares the result with the indices.
func (t *tables) Check() error {
	want := newCensus()
	var err error
	check := func(past bool) func(uint32, *Job) bool {
		return func(id uint32, job *Job) bool {
			if job.ID != id || id == 0 || id >= t.nextJob || past != (job.Phase == Finished) {
				err = fmt.Errorf("job %d is stored under %d (past: %t), the next number is %d", job.ID, id, past, t.nextJob)
			} else if job.Association >= t.nextAssociation {
				err = fmt.Errorf("job %d has association %d, the next is %d", id, job.Association, t.nextAssociation)
			} else if err = checkJob(job); err == nil {
				err = want.count(job)
			}
			return err == nil
		}
	}
	t.live.Scan(check(false))
	if err == nil {
		t.past.Scan(check(true))
	}
	return errors.Join(err, t.checkIndices(want), t.checkNodes(want), t.checkAccounting(), t.checkWaits(), t.checkImaged(), t.checkOwnerDays(), t.checkReservations())
}

// checkJob says what is wrong with one record by itself.
func checkJob(job *Job) error {
	wrong := func(what string) error { return fmt.Errorf("job %d: %s", job.ID, what) }
	switch {
	case job.Array == 0 && (job.HasTask || len(job.Tasks) > 0):
		return wrong("has tasks and no array")
	case job.Array != 0 && job.HasTask == (len(job.Tasks) > 0):
		return wrong("must have either one task or some")
	case job.Phase < Waiting || job.Phase > Finished:
		return wrong("is in no phase")
	case job.Phase == Waiting && (job.Run != nil || job.End != nil):
		return wrong("waits and has a run or an end")
	case job.Phase == Running && (job.Run == nil || job.End != nil):
		return wrong("runs without a run, or with an end")
	case job.Phase == Ending && (job.Run == nil || job.End == nil):
		return wrong("ends without a run or an end")
	case job.Phase == Finished && (job.End == nil || job.End.Requeue):
		return wrong("is over without an end")
	case job.Run != nil && (job.Epoch == 0 || len(job.Run.Allocs) == 0):
		return wrong("has a run without an epoch or allocations")
	case job.Array != 0 && !job.HasTask && job.Run != nil:
		return wrong("runs as several tasks")
	}
	for i, r := range job.Tasks {
		if r.Step == 0 || r.First > r.Last || i > 0 && job.Tasks[i-1].Last >= r.First {
			return wrong("its tasks are not in normal form")
		}
	}
	return errors.Join(checkSaved(job), checkAllocs(job), checkMove(job), checkStaged(job))
}

func checkAllocs(job *Job) error {
	if job.Run == nil {
		return nil
	}
	held := 0
	if job.Run.Suspension != nil && (job.Run.TurnMS == 0 || job.Run.SuspendNumber == 0) {
		return fmt.Errorf("job %d: is suspended since never", job.ID)
	}
	for i := range job.Run.Allocs {
		if job.Run.Allocs[i].Frozen && job.Run.Suspension == nil {
			return fmt.Errorf("job %d: is stopped and is not suspended", job.ID)
		}
		if alloc := &job.Run.Allocs[i]; alloc.ParkByMS != 0 && job.Run.Suspension == nil || alloc.Parked && (!alloc.Frozen || alloc.ParkByMS == 0) {
			return fmt.Errorf("job %d: is parked on node %s and should not be, or is not stopped there", job.ID, alloc.Node)
		}
		if i > 0 && job.Run.Allocs[i-1].Node >= job.Run.Allocs[i].Node {
			return fmt.Errorf("job %d: its nodes are not ascending", job.ID)
		}
		if !job.Run.Allocs[i].Released {
			held++
		}
	}
	switch {
	case job.Phase == Running && job.IsGang() && job.HasNetwork() != (job.networkNow() == pb.Network_NETWORK_PRIVATE):
		return fmt.Errorf("job %d: has addresses between its nodes (%t), and its network is %s", job.ID, job.HasNetwork(), job.networkNow())
	case job.Phase == Running && held != len(job.Run.Allocs):
		return fmt.Errorf("job %d: runs with a released allocation", job.ID)
	case job.Phase == Ending && held == 0 && len(job.Run.Beside) == 0:
		return fmt.Errorf("job %d: ends with nothing left to release", job.ID)
	case job.Phase == Finished && held+len(job.Run.Beside) > 0:
		return fmt.Errorf("job %d: is over and holds %d nodes", job.ID, held)
	}
	return nil
}

// census is what the indices should hold, counted from the records.
type census struct {
	active               uint32
	finished             map[uint64]bool
	members, pastMembers map[uint64]bool
	groups               map[uint64]bool
	byTask               map[uint64]uint32
	arrayRunning         map[uint32]uint32
	users                map[uint32]UserCounts
	submitted            uint64
	held                 map[heldBlob]bool
	uses                 map[string]*nodeUse

	dependents, activeNames, waitingNames, singletons, late map[uint64]bool
}

func newCensus() *census {
	return &census{
		finished: map[uint64]bool{}, members: map[uint64]bool{}, pastMembers: map[uint64]bool{},
		groups: map[uint64]bool{}, byTask: map[uint64]uint32{},
		arrayRunning: map[uint32]uint32{}, users: map[uint32]UserCounts{}, held: map[heldBlob]bool{}, uses: map[string]*nodeUse{},
		dependents: map[uint64]bool{}, activeNames: map[uint64]bool{}, waitingNames: map[uint64]bool{},
		singletons: map[uint64]bool{}, late: map[uint64]bool{},
	}
}

func (c *census) count(job *Job) error {
	user := c.users[job.Owner().UID]
	user.Bytes += uint64(len(job.own))
	for _, blob := range []*Blob{job.Script, job.Environment} {
		if blob != nil && !c.held[heldBlob{job.Owner().UID, blob.Digest}] {
			c.held[heldBlob{job.Owner().UID, blob.Digest}] = true
			user.Bytes += uint64(len(blob.Bytes))
		}
	}
	if job.Phase != Finished {
		user.Submitted += job.TaskCount()
		c.submitted += uint64(job.TaskCount())
	}
	switch job.Phase {
	case Waiting:
		user.Waiting++
	case Running, Ending:
		c.active++
		user.Active++
		if job.Array != 0 {
			c.arrayRunning[job.Array]++
		}
	case Finished:
		c.finished[finishedKey(job)] = true
		user.Finished++
	}
	c.users[job.Owner().UID] = user
	c.countWaits(job)
	if job.Array != 0 {
		members := c.members
		if job.Phase == Finished {
			members = c.pastMembers
		}
		members[pair(job.Array, job.ID)] = true
		if !job.HasTask {
			c.groups[pair(job.Array, job.ID)] = true
		} else if other, twice := c.byTask[pair(job.Array, job.Task)]; twice {
			return fmt.Errorf("task %d of array %d is both job %d and %d", job.Task, job.Array, other, job.ID)
		} else {
			c.byTask[pair(job.Array, job.Task)] = job.ID
		}
	}
	return c.book(job)
}

// book adds what a job holds, and refuses a CPU that somebody else holds.
func (c *census) book(job *Job) error {
	for _, held := range heldAllocs(job) {
		if !held.held() {
			continue
		}
		job, alloc := held.job, held.alloc
		use := c.uses[alloc.Node]
		if use == nil {
			use = &nodeUse{}
			c.uses[alloc.Node] = use
		}
		for _, cpu := range alloc.CPUs {
			if use.cpus.Contains(cpu) && alloc.holdsCPUs() {
				return fmt.Errorf("CPU %d of node %s is given twice, the second time to job %d", cpu, alloc.Node, job.ID)
			}
		}
		if !alloc.Parked && (use.exclusive != 0 || job.alone() && use.shared() > 0) {
			return fmt.Errorf("node %s is shared by job %d though a job has it alone", alloc.Node, job.ID)
		}
		use.add(job, alloc)
	}
	return nil
}

func (t *tables) checkIndices(want *census) error {
	var err error
	if t.active != want.active {
		err = fmt.Errorf("%d jobs hold nodes, %d are counted", want.active, t.active)
	}
	if t.submitted != want.submitted {
		err = errors.Join(err, fmt.Errorf("%d jobs and tasks are not over, %d are counted", want.submitted, t.submitted))
	}
	return errors.Join(
		err,
		sameKeys("finished", want.finished, t.finished),
		sameKeys("members", want.members, t.members),
		sameKeys("past members", want.pastMembers, t.pastMembers),
		sameKeys("groups", want.groups, t.groups),
		sameValues("by task", want.byTask, t.byTask),
		sameValues("array running", want.arrayRunning, t.arrayRunning),
		sameValues("users", want.users, t.users),
		sameKeys("dependents", want.dependents, t.dependents),
		sameKeys("names of active jobs", want.activeNames, t.activeNames),
		sameKeys("names of waiting jobs", want.waitingNames, t.waitingNames),
		sameKeys("singletons", want.singletons, t.singletons),
		sameKeys("late", want.late, t.late),
		t.checkTasks(),
	)
}

// checkTasks checks that no task of an array is in two records.
func (t *tables) checkTasks() error {
	var err error
	t.groups.Scan(func(key uint64, _ struct{}) bool {
		array, id := uint32(key>>32), uint32(key)
		job, _ := t.Job(id)
		for _, other := range t.memberIDs(array) {
			member, _ := t.Job(other)
			if other != id && len(member.tasksWithin(job.Tasks)) > 0 {
				err = fmt.Errorf("jobs %d and %d of array %d share tasks", id, other, array)
				return false
			}
		}
		return true
	})
	return err
}

func sameKeys[K ~uint32 | ~uint64, V any](name string, want map[K]bool, have *btree.Map[K, V]) error {
	keys := slices.Sorted(maps.Keys(want))
	if !slices.Equal(keys, have.Keys()) {
		return fmt.Errorf("index %s has %d entries that differ from the %d it should have", name, have.Len(), len(keys))
	}
	return nil
}

func sameValues[K ~uint32 | ~uint64 | ~string, V comparable](name string, want map[K]V, have *btree.Map[K, V]) error {
	if have.Len() != len(want) {
		return fmt.Errorf("index %s has %d entries, and should have %d", name, have.Len(), len(want))
	}
	var err error
	have.Scan(func(key K, value V) bool {
		if want[key] != value {
			err = fmt.Errorf("index %s has %v under %v, and should have %v", name, value, key, want[key])
		}
		return err == nil
	})
	return err
}
