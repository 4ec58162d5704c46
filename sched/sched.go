// Package sched decides which waiting jobs start where.
//
// Contract: Schedule is a pure function of its arguments. It reads no clock,
// does no I/O, logs nothing, starts no goroutine, uses no randomness and never
// depends on the order of a map; the same Snapshot gives the same Plan on any
// machine. Time is a field of the Snapshot. The Memo carries only speed: a
// plan made with a memo equals the plan made with none.
//
// Policy: order of priority in each partition, strict as with Slurm's sched/builtin, or
// with starts planned ahead as with sched/backfill; see README.md for the stages.
//
// Cost of a pass over J waiting jobs of S distinct shapes on N nodes in U kinds
// that look alike to requests, of which K tasks start: the jobs are put in order
// and each costs a look-up, J; a shape is tried once per partition after it stopped
// fitting, and each start is one search of the kinds that have as much as it wants,
// (S + K) U. What does not fit even on idle nodes is judged once and remembered in
// the Memo until a node or partition changes. Where it matters how nodes lie, which
// they are by name or whose jobs they have, a search looks at each node and not at
// each kind. README.md has the measured curve. Limits cost a step for
// each running job and each association above it, and for each waiting job a
// look-up and a step for each limit that is set for it: about half as much
// again with 1,000 accounts. Choosing victims on as many nodes costs some ten
// milliseconds for a job of one node and a hundred for a large gang, and is
// bounded for the pass (passSteps).
//
// The package knows nothing of the controller, and imports only the standard
// library and its own sub-packages.
package sched

import "github.com/gleaner-hpc/gleaner/sched/place"

// JobID is a job's own number. 0 is none.
type JobID uint32

// Unlimited is the TimeLimit of a job without one.
const Unlimited uint32 = 1<<32 - 1

// Snapshot is everything a decision depends on. The caller does not change it
// afterwards, and Schedule does not change it at all.
type Snapshot struct {
	NowMS      int64        // Unix milliseconds
	Partitions []Partition  // ascending by name
	Nodes      []place.Node // ascending by name; a place.NodeIndex points in here
	Shapes     []Shape      // what waiting jobs ask for, each distinct request once
	Waiting    []Job        // in any order; Schedule orders them
	Running    []Running    // ascending by ID

	// TRES names the kinds of resource that limits, weights and usage count,
	// ascending; an Amounts has one number for each. See tres.go.
	TRES []string
	// Associations is the tree of accounts and users. The first is the root;
	// each other one comes after its parent. Empty on a cluster without
	// accounts.
	Associations []Association
	QOS          []QOS     // ascending by name
	Licenses     []License // ascending by name
	Accounting   AccountingPolicy
	Priority     PriorityPolicy
	Preemption   PreemptionPolicy
	Switches     []place.Switch // leaves before the switches above them
	// Owners are sets of nodes, each ascending: those of one account and of the
	// accounts above it. Jobs go before all others on nodes that they own.
	Owners [][]place.NodeIndex

	Backfill BackfillPolicy
	// Promises are those of the plan before this one. The jobs start by then. Those of
	// jobs that do not wait any more, and those that cannot be kept, do not count.
	Promises Promises
}

// Partition is a set of nodes with rules.
type Partition struct {
	Name         string
	Up           bool
	Nodes        []place.NodeIndex // ascending
	MaxTimeS     uint32
	PriorityTier uint32
	RootAllowed  bool
	PrivateOnly  bool // jobs have a network of their own
	// PriorityJobFactor is the partition's own weight among the partitions.
	PriorityJobFactor uint32
	// BillingWeights are per unit of each TRES, in millionths; nil = CPUs count
	// 1. The unit of memory is a GiB here.
	BillingWeights []int64
	QOS            int // index of the QOS whose limits hold in it; -1 = none
	Preempt        PreemptMode
	GraceTimeS     uint32
	Exclusive      bool // jobs get whole nodes
	ExclusiveUser  bool // a node is one user's at a time
	// FillsHoles: jobs that can be saved may start in holes that are shorter than their
	// time limits. See fill.go.
	FillsHoles bool
	part       part
}

// Shape is what a job requests, apart from its user: jobs of one shape fit or
// do not fit together, so each shape is tried once per partition and pass.
type Shape struct {
	Partitions []int // indices into Snapshot.Partitions, in order of preference; with none its jobs wait
	TimeLimitS uint32
	// TimeMinS is the least limit with which its jobs may start, if they start sooner by
	// that; 0 = TimeLimitS. See timemin.go.
	TimeMinS uint32
	// PlannedS is how long its jobs are planned for, if not for TimeLimitS; 0 = for
	// that. It is not less than what they are expected to run.
	PlannedS uint32
	Root     bool // runs as root, which only some partitions allow
	Request  place.Request
	// PrivateNetwork: it has a network of its own, which some partitions demand.
	PrivateNetwork bool
	// SwitchesWaitS is how long a job waits for Request.Switches; after that it
	// takes any. 0 = forever.
	SwitchesWaitS uint32
	// Closed are the times in which its jobs may not have some nodes, ascending by node
	// and by when they begin. Nodes that they may never have are its ExcludedNodes.
	Closed []Closed
}

// Job is a waiting job, or the waiting tasks of an array. There may be a million, so its
// fields are in an order in which it is small.
type Job struct {
	ID JobID
	// Tasks is 1 for a plain job. For an array it is the number of tasks
	// that may start now, the throttle already taken off.
	Tasks      uint32
	Shape      int            // index into Snapshot.Shapes
	AgeMS      int64          // how long it has waited eligible, at NowMS
	BeginMS    int64          // not before, nor before what it depends on counts; 0 = at once
	DeadlineMS int64          // its end, at the latest; 0 = none
	Licenses   []LicenseCount // positions in Snapshot.Licenses, ascending

	Association int32  // index into Snapshot.Associations; -1 = none
	QOS         int32  // index into Snapshot.QOS; -1 = none
	UID         uint32 // the user that limits per user count it for
	Nice        int32
	// FixedPriority was set by an administrator in place of the computed one;
	// 0 = none.
	FixedPriority uint32
	SiteFactor    int32
	// Image: it resumes from one, of that number, and not with its script; 0 = none.
	// Its shape is narrowed to the nodes that can (Request.AmongNodes).
	// NowhereToResume: there are none, as far as is known.
	Image uint32
	// SaveS is how long it takes at most until it is saved and has left its nodes; 0 = it
	// cannot be saved, or not for others. RestoreS is what it takes to resume.
	SaveS, RestoreS uint32
	// Owner is 1 + the index into Snapshot.Owners of the nodes that its account
	// owns; 0 = none.
	Owner int32

	NowhereToResume bool
	// Pulls: its container image comes to nodes, and it waits for that without them.
	Pulls bool
	// Throttled says that the array has more tasks than Tasks.
	Throttled  bool
	Held       Hold
	Dependency Dependency
	// Reservation is why its reservation does not let it start now; ReasonNone = nothing
	// does.
	Reservation ReasonCode
}

// Dependency is whether a job waits for others.
type Dependency uint8

// Dependencies, as Slurm tells them apart.
const (
	NoDependency             Dependency = iota
	DependencyUnfulfilled               // Dependency
	DependencyNeverSatisfied            // DependencyNeverSatisfied
)

// LicenseCount is a number of one license.
type LicenseCount struct {
	License int
	Count   uint32
}

// Hold says who keeps a job from starting.
type Hold uint8

// Holds, as Slurm tells them apart.
const (
	NotHeld        Hold = iota
	HeldByUser          // JobHeldUser
	HeldByAdmin         // JobHeldAdmin
	LaunchFailed        // "launch failed requeued held"
	HeldMaxRequeue      // JobHoldMaxRequeue: failed and was requeued too often
)

// Running is a job that holds an allocation. What it holds is already taken
// off in Snapshot.Nodes.
type Running struct {
	ID         JobID
	StartMS    int64
	TimeLimitS uint32
	// PlannedEndMS is until when it is planned for, if not to its time limit; 0 = to
	// that.
	PlannedEndMS int64
	Placement    place.Placement

	Partition   int    // index into Snapshot.Partitions; -1 = not there any more
	Association int32  // as in Job
	QOS         int32  // as in Job
	UID         uint32 // as in Job
	Exclusive   bool
	Licenses    []LicenseCount
	// TRES is what it holds, by Snapshot.TRES, with licenses and billing; nil =
	// what its Placement has.
	TRES Amounts
	// Ending: its end is decided, and what it holds comes free by itself.
	// LeavesByMS is until when it should, because after that something is in
	// its way that may stay; 0 = nobody knows.
	Ending     bool
	LeavesByMS int64
	// Requeue: it may be started again from its beginning.
	Requeue bool
	// Saves: its processes can be saved when it makes room, so that it loses
	// only the time to restore them.
	Saves bool
	// SavedMS is when its work was saved last, by a checkpoint; 0 = never in
	// this run. RestoreS is what it takes to resume from there.
	SavedMS  int64
	RestoreS uint32
	// Fills: it began in a hole, and makes room for what is planned on its nodes. SaveS is
	// how long that takes at most. GoneByMS is until when it should be gone, once it was
	// told to; 0 = it was not.
	Fills    bool
	SaveS    uint32
	GoneByMS int64
	// LostGPUMS is what former preemptions have already cost it, in
	// GPU-milliseconds (CPU-milliseconds for a job without GPUs).
	LostGPUMS int64

	// Suspends: it can be suspended now, to make room.
	Suspends bool
	// Suspended: it is stopped, or soon will be. It keeps all but its CPUs, and
	// where it is parked all but these and its devices: in its Placement are
	// those that are not free yet, and in Back those that are, which it gets back
	// when it continues. Continues: it does so as soon as it can.
	Suspended, Continues bool
	Back                 []place.Alloc // CPUs and devices only, ascending by node
	// Parked are the nodes on which it is parked, ascending: others share them as
	// if it were not there.
	Parked []place.NodeIndex
	// Parking are the nodes on which it is to be parked and is not yet, ascending.
	Parking []place.NodeIndex
	// Owner is as in Job. Parks: as far as is known it can be parked, and loses
	// nothing by it. ParkBeyond: it needs more memory than the owner of a node of it
	// leaves parked guests. OverBorrowed: its account borrows more than it may, so its
	// guests go first. ContinuedMS is when it last continued; 0 = it was never
	// stopped.
	Owner        int32
	Parks        bool
	ParkBeyond   bool
	OverBorrowed bool
	ContinuedMS  int64
	// PausedMS is how long it has been suspended in all. ChargedMS is until when
	// what it used is in the usage of its associations; 0 = its start.
	PausedMS, ChargedMS int64
}

// Plan is the answer: what starts, and why the rest waits.
type Plan struct {
	Starts []Start // in the order decided; an array appears once per task
	// Preemptions are the jobs that should make room, each for the job that it
	// makes room for; that one starts in a later pass, when they are gone.
	Preemptions []Preemption
	// Promises are the starts that are planned for jobs that wait. They belong into the
	// Snapshot of the next pass.
	Promises Promises
	// Continues are the suspended jobs that continue, in the order decided.
	Continues []JobID
	// Priorities are those of the waiting jobs, by position in Waiting, in the
	// partition that each prefers; 0 for one that is held.
	Priorities []uint32
	// NextMS is when a job becomes able to start by time alone (its begin
	// time): another pass is due then. 0 = no such job.
	NextMS int64
	// Reasons, ascending by Job, has every waiting job that is not wholly in
	// Starts: an array of which some tasks start is in both.
	Reasons []Reason
}

// Start places one job, or one task of an array, whole.
type Start struct {
	Job       JobID
	Partition int // index into Snapshot.Partitions
	Placement place.Placement
	Priority  uint32 // that it had in this partition
	Fills     bool   // as in Running
	// LimitS is its time limit, if it is less than that of its shape; 0 = it is not.
	LimitS uint32
}

// Reason is why one job waits, as data: Display and Sentence make words of it.
//
// There are as many as waiting jobs, so it is small.
type Reason struct {
	Job JobID
	// Blocker is the job that goes first, for ReasonPriority; 0 otherwise.
	Blocker JobID
	// Partition is the one that the reason is about; -1 if it is about none.
	Partition int32
	Code      ReasonCode
	// Lack is what is missing or too little; nil for reasons that are not about
	// that. Reasons share it.
	Lack *Lack
}

// Lack is what is missing, or too little, for a job.
type Lack struct {
	// Unavailable lists the nodes that are missing, for ReasonReqNodeNotAvail.
	Unavailable []place.NodeIndex
	// Short says what was too little, for ReasonResources,
	// ReasonPartitionConfig and ReasonBadConstraints. For
	// ReasonPartitionTimeLimit it has seconds.
	Short place.Shortage
	// Limit is the one that was reached, for ReasonLimit and ReasonLicenses.
	Limit *LimitReached
	// Leaving are the jobs that make room, ascending, for ReasonResources: the
	// job starts when they are gone.
	Leaving []JobID
}
