package state

import (
	"github.com/tidwall/btree"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// tables is what Views see: the records, which are persisted, and the indices
// over them, which only the put functions in this package change and which a
// restore rebuilds through the same functions. All maps are copy-on-write, so
// that a copy costs the same however much they hold.
type tables struct {
	index   uint64 // of the last entry applied
	timeMS  int64  // log time
	nextJob uint32

	term          uint64 // of the last leader that opened one: see Barrier
	longestLeaseS uint32 // of this policy and former ones, as long as it may matter
	level         Level  // the feature level in force
	// epochFloor is below every epoch given out from now on: see Restored. 0 in
	// a state that was never restored.
	epochFloor uint32
	// resetFromMS is since when the policy's period has not reset usage; 0 as
	// long as it had none.
	resetFromMS int64

	policy *policy.Policy
	accounting
	nodes *btree.Map[string, *Node]
	// The records of jobs: live ones wait or hold nodes, past ones are over.
	live *btree.Map[uint32, *Job]
	past *btree.Map[uint32, *Job]

	// remembered are the latest requests, oldest first. Only the State adds at
	// the end and removes from the front: the elements that a View sees stay as
	// they are.
	remembered []remembered

	// endedRuns are the runs that are over, in the order of their ends. Only the State
	// adds at the end and removes from the front, as with remembered.
	endedRuns []EndedRun
	// outbox are the runs for the databases of history.
	outbox outbox[HistoryRun]
	// mails are the events for the mails about jobs, and arrayMails what is known of
	// arrays of which one mail tells.
	mails      outbox[*MailEvent]
	arrayMails *btree.Map[uint32, *ArrayMail]

	// Indices over jobs.
	active       uint32                       // how many of the live ones hold nodes
	submitted    uint64                       // the live ones, an array each of its tasks
	finished     *btree.Map[uint64, struct{}] // end in seconds << 32 | job
	members      *btree.Map[uint64, struct{}] // array << 32 | job, of live jobs
	pastMembers  *btree.Map[uint64, struct{}] // array << 32 | job, of past jobs
	byTask       *btree.Map[uint64, uint32]   // array << 32 | task -> job, for jobs with HasTask
	groups       *btree.Map[uint64, struct{}] // array << 32 | job, for members with several tasks
	arrayRunning *btree.Map[uint32, uint32]   // array -> members that hold nodes
	users        *btree.Map[uint32, UserCounts]
	shapeSlots   uint32 // every shape's slot is below

	dependents   uint64Set // job or array << 32 | job that waits for it to start or end
	activeNames  uint64Set // hash of user and name << 32 | job that holds nodes
	waitingNames uint64Set // likewise, jobs that wait
	singletons   uint64Set // likewise, those that wait as singletons
	late         uint64Set // second until which it has to start << 32 | job that waits

	imaged *btree.Map[uint32, struct{}] // live jobs with images
	staged *btree.Map[uint32, struct{}] // live jobs with files to stage

	certificates *btree.Map[string, *Certificate] // by serial number

	awaited uint32 // how many nodes a restore waits for
	// reclaims is the number of the last reclaim, and reclaimed are the nodes that
	// are reclaimed.
	reclaims  uint32
	reclaimed *btree.Map[string, struct{}]
	lending   *btree.Map[string, struct{}] // the nodes with terms of lending
	crossed   *btree.Map[string, struct{}] // the nodes with routes into the policy's GangRange
	habits    *btree.Map[string, struct{}] // the nodes of whose owners something is known
	ownerDays *btree.Map[string, *OwnerDay]

	reservations *btree.Map[string, *Reservation]
}

// UserCounts counts what one user has: records of jobs, jobs that are not over
// with each task of an array, and the bytes that are kept for all of them apart
// from the records (see content.go).
type UserCounts struct {
	Waiting, Active, Finished uint32
	Submitted                 uint32
	Bytes                     uint64
}

// uint64Set is an ordered set of numbers, most of them made by pair.
type uint64Set = *btree.Map[uint64, struct{}]

func emptyTables() tables {
	return tables{
		nextJob:      1,
		level:        LevelFirst,
		accounting:   emptyAccounting(),
		nodes:        new(btree.Map[string, *Node]),
		live:         new(btree.Map[uint32, *Job]),
		past:         new(btree.Map[uint32, *Job]),
		finished:     new(btree.Map[uint64, struct{}]),
		members:      new(btree.Map[uint64, struct{}]),
		pastMembers:  new(btree.Map[uint64, struct{}]),
		byTask:       new(btree.Map[uint64, uint32]),
		groups:       new(btree.Map[uint64, struct{}]),
		arrayRunning: new(btree.Map[uint32, uint32]),
		users:        new(btree.Map[uint32, UserCounts]),
		dependents:   new(btree.Map[uint64, struct{}]),
		activeNames:  new(btree.Map[uint64, struct{}]),
		waitingNames: new(btree.Map[uint64, struct{}]),
		singletons:   new(btree.Map[uint64, struct{}]),
		late:         new(btree.Map[uint64, struct{}]),
		imaged:       new(btree.Map[uint32, struct{}]),
		staged:       new(btree.Map[uint32, struct{}]),
		certificates: new(btree.Map[string, *Certificate]),
		reclaimed:    new(btree.Map[string, struct{}]),
		lending:      new(btree.Map[string, struct{}]),
		crossed:      new(btree.Map[string, struct{}]),
		habits:       new(btree.Map[string, struct{}]),
		ownerDays:    new(btree.Map[string, *OwnerDay]),
		reservations: new(btree.Map[string, *Reservation]),
		arrayMails:   new(btree.Map[uint32, *ArrayMail]),
	}
}

func (t *tables) copy() tables {
	c := *t
	c.accounting = t.accounting.copy()
	c.nodes = t.nodes.Copy()
	c.live = t.live.Copy()
	c.past = t.past.Copy()
	c.finished = t.finished.Copy()
	c.members = t.members.Copy()
	c.pastMembers = t.pastMembers.Copy()
	c.byTask = t.byTask.Copy()
	c.groups = t.groups.Copy()
	c.arrayRunning = t.arrayRunning.Copy()
	c.users = t.users.Copy()
	c.dependents = t.dependents.Copy()
	c.activeNames = t.activeNames.Copy()
	c.waitingNames = t.waitingNames.Copy()
	c.singletons = t.singletons.Copy()
	c.late = t.late.Copy()
	c.imaged = t.imaged.Copy()
	c.staged = t.staged.Copy()
	c.certificates = t.certificates.Copy()
	c.reclaimed = t.reclaimed.Copy()
	c.lending = t.lending.Copy()
	c.crossed = t.crossed.Copy()
	c.habits = t.habits.Copy()
	c.ownerDays = t.ownerDays.Copy()
	c.reservations = t.reservations.Copy()
	c.arrayMails = t.arrayMails.Copy()
	return c
}

// pair makes one ordered key of two numbers.
func pair(high, low uint32) uint64 { return uint64(high)<<32 | uint64(low) }
