package state

import (
	"github.com/tidwall/btree"
)

// tables is everything the state holds: the records, which are persisted, and
// the indices over them, which only the put functions in this package change
// and which a restore rebuilds through the same functions. All maps are
// copy-on-write, so that a copy costs the same however much they hold.
type tables struct {
	index   uint64 // of the last entry applied
	timeMS  int64  // log time
	nextJob uint32

	policy   *Policy
	jobs     *btree.Map[uint32, *Job]
	nodes    *btree.Map[string, *Node]
	blobs    *btree.Map[string, counted[[]byte]]   // by digest
	owners   *btree.Map[string, counted[*Owner]]   // by digest
	requests *btree.Map[string, counted[*Request]] // by digest

	remembered    *btree.Map[string, *remembered] // by request id
	rememberOrder *btree.Map[uint64, string]      // request ids, by log index
	resultCount   int                             // of all remembered

	// Indices over jobs.
	waiting      *btree.Map[uint32, *Job]
	active       *btree.Map[uint32, *Job]     // holds nodes
	finished     *btree.Map[uint64, struct{}] // end in seconds << 32 | job
	members      *btree.Map[uint64, struct{}] // array << 32 | job
	byTask       *btree.Map[uint64, uint32]   // array << 32 | task -> job, for jobs with HasTask
	groups       *btree.Map[uint64, struct{}] // array << 32 | job, for members with several tasks
	arrayRunning *btree.Map[uint32, uint32]   // array -> members that hold nodes
	users        *btree.Map[uint32, UserCounts]
	shapes       *btree.Map[string, shapeCount] // by digest of the shape
}

// counted is a value with the number of records that refer to it.
type counted[V any] struct {
	value      V
	references uint32
}

// UserCounts counts the job records of one user.
type UserCounts struct {
	Waiting, Active, Finished uint32
}

func emptyTables() tables {
	return tables{
		nextJob:       1,
		jobs:          new(btree.Map[uint32, *Job]),
		nodes:         new(btree.Map[string, *Node]),
		blobs:         new(btree.Map[string, counted[[]byte]]),
		owners:        new(btree.Map[string, counted[*Owner]]),
		requests:      new(btree.Map[string, counted[*Request]]),
		remembered:    new(btree.Map[string, *remembered]),
		rememberOrder: new(btree.Map[uint64, string]),
		waiting:       new(btree.Map[uint32, *Job]),
		active:        new(btree.Map[uint32, *Job]),
		finished:      new(btree.Map[uint64, struct{}]),
		members:       new(btree.Map[uint64, struct{}]),
		byTask:        new(btree.Map[uint64, uint32]),
		groups:        new(btree.Map[uint64, struct{}]),
		arrayRunning:  new(btree.Map[uint32, uint32]),
		users:         new(btree.Map[uint32, UserCounts]),
		shapes:        new(btree.Map[string, shapeCount]),
	}
}

func (t *tables) copy() tables {
	c := *t
	c.jobs = t.jobs.Copy()
	c.nodes = t.nodes.Copy()
	c.blobs = t.blobs.Copy()
	c.owners = t.owners.Copy()
	c.requests = t.requests.Copy()
	c.remembered = t.remembered.Copy()
	c.rememberOrder = t.rememberOrder.Copy()
	c.waiting = t.waiting.Copy()
	c.active = t.active.Copy()
	c.finished = t.finished.Copy()
	c.members = t.members.Copy()
	c.byTask = t.byTask.Copy()
	c.groups = t.groups.Copy()
	c.arrayRunning = t.arrayRunning.Copy()
	c.users = t.users.Copy()
	c.shapes = t.shapes.Copy()
	return c
}

// pair makes one ordered key of two numbers.
func pair(high, low uint32) uint64 { return uint64(high)<<32 | uint64(low) }
