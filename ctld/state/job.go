package state

import (
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// Phase is how far a job is in its life. See DESIGN.md for the picture.
type Phase uint8

// Phases. Numbers are persisted: append only.
const (
	Waiting  Phase = 1 // holds nothing
	Running  Phase = 2 // holds an allocation
	Ending   Phase = 3 // its end is decided, some node is still cleaning up
	Finished Phase = 4 // holds nothing any more, remembered for a while
)

// legalNext lists where a job may go from each phase; 0 is "no record".
var legalNext = map[Phase][]Phase{
	0:        {Waiting, Running, Finished}, // submitted, or split off its array
	Waiting:  {Running, Finished},          // placed, cancelled
	Running:  {Ending, Finished, Waiting},  // end decided, over, over and requeued
	Ending:   {Finished, Waiting},          // over, over and requeued
	Finished: {Waiting, 0},                 // requeued, purged
}

// Job is a job, or the tasks of an array that have not been split off. A stored
// Job is never changed: a change stores another one. Its fields are in an order
// in which it takes 240 bytes; the allocator has 240, and then 256.
type Job struct {
	ID      uint32     `cbor:"1,keyasint"`
	Array   uint32     `cbor:"2,keyasint,omitempty"` // number of its array; 0 = a plain job
	Task    uint32     `cbor:"4,keyasint,omitempty"`
	HasTask bool       `cbor:"3,keyasint,omitempty"` // it is the one task Task of Array
	Phase   Phase      `cbor:"7,keyasint"`
	Held    sched.Hold `cbor:"8,keyasint,omitempty"`
	// TasksFailed: some task of its array failed, and its record is forgotten.
	TasksFailed bool           `cbor:"45,keyasint,omitempty"`
	Tasks       []ranges.Range `cbor:"5,keyasint,omitempty"` // in an array and not HasTask: the tasks still in this record

	// What was requested: shared with other jobs, except for own.
	Spec        *Spec `cbor:"-"`
	Script      *Blob `cbor:"-"` // nil = empty
	Environment *Blob `cbor:"-"`
	own         packed

	Epoch    uint32 `cbor:"9,keyasint,omitempty"`  // counts the starts
	Restarts uint32 `cbor:"10,keyasint,omitempty"` // counts the requeues
	// Failures counts the requeues that followed a failure, since it was last
	// released.
	Failures uint8 `cbor:"16,keyasint,omitempty"`
	// SpecialExit: it was requeued held in that state (SPECIAL_EXIT), until it is
	// released.
	SpecialExit bool `cbor:"46,keyasint,omitempty"`
	// SavedEarly counts the short runs that saved themselves, since the last
	// run that was not short: see runsAgain. It stays at its greatest number.
	SavedEarly uint8 `cbor:"60,keyasint,omitempty"`
	// Network is what was decided for a job with NETWORK_AUTO at its last start from its
	// script.
	Network DecidedNetwork `cbor:"62,keyasint,omitempty"`
	// Association is the number of the association it is charged to; 0 = none.
	Association uint32 `cbor:"30,keyasint,omitempty"`

	SubmitMS   int64  `cbor:"11,keyasint,omitempty"`
	EligibleMS int64  `cbor:"12,keyasint,omitempty"` // since when it was so last, or will be
	Run        *Run   `cbor:"13,keyasint,omitempty"` // present or last run; nil while it waits
	End        *End   `cbor:"14,keyasint,omitempty"` // nil while nothing decided its end
	Detail     string `cbor:"15,keyasint,omitempty"` // why it was requeued last; "" once it starts

	Dependencies Dependencies `cbor:"31,keyasint,omitzero"`  // what it waits for; empty = nothing
	BeginMS      int64        `cbor:"32,keyasint,omitempty"` // not before; 0 = at once
	DeadlineMS   int64        `cbor:"33,keyasint,omitempty"` // its end, at the latest; 0 = none
	// AgedMS is how long it had waited eligible before EligibleMS, since when it
	// does so again; see AgeMS.
	AgedMS int64 `cbor:"35,keyasint,omitempty"`
	// Before has what preemptions have cost it; nil = it had none.
	Before *PreemptedBefore `cbor:"37,keyasint,omitempty"`
	// FixedPriority is set by an administrator; 0 = computed.
	FixedPriority uint32 `cbor:"34,keyasint,omitempty"`

	// Saved has its saves and images; nil = none was ever requested.
	Saved *Saved `cbor:"50,keyasint,omitempty"`
	// Avoided are the nodes on which it could not be started; nil = there are none.
	Avoided *Avoided `cbor:"61,keyasint,omitempty"`
	// Staged is how far the copying of its files is; nil = it has none, or is over.
	Staged *Staged `cbor:"602,keyasint,omitempty"`
}

// PreemptedBefore is what preemptions have cost a job so far.
type PreemptedBefore struct {
	Count     uint32 `cbor:"1,keyasint"`
	LostGPUMS int64  `cbor:"2,keyasint,omitempty"` // see sched.Running
}

// LostBefore is what preemptions have cost the job; the zero value if it had none.
func (j *Job) LostBefore() PreemptedBefore {
	if j.Before == nil {
		return PreemptedBefore{}
	}
	return *j.Before
}

// Run is one run of a job: what it holds, and where.
type Run struct {
	Partition string  `cbor:"1,keyasint"`
	StartMS   int64   `cbor:"2,keyasint"`
	Allocs    []Alloc `cbor:"3,keyasint"` // ascending by node; the first is the batch host
	// Fence: it must not run without a lease, and is requeued when one of its
	// nodes has lost it. Decided at the start, and kept whatever the policy
	// says later. A job that may not be requeued never has it.
	Fence bool `cbor:"4,keyasint,omitempty"`
	// Relimited: its time limit was changed since it started, and its nodes
	// must be told.
	Relimited bool `cbor:"8,keyasint,omitempty"`
	// LimitS is the time limit of the job in this run, if it was started with less than it
	// asks for; 0 = it was not. See time_min.go.
	LimitS uint32 `cbor:"11,keyasint,omitempty"`
	// Sharing: the partition's setting at the start, kept likewise.
	Sharing policy.ExclusiveKind `cbor:"10,keyasint,omitempty"`
	// Billing is what it is billed a second, in millionths, by the weights that
	// its partition had at its start.
	Billing int64 `cbor:"20,keyasint,omitempty"`
	// Priority is its priority at the start; 0 = the basic one.
	Priority uint32 `cbor:"21,keyasint,omitempty"`

	// Suspension is nil while it runs, and stays when it ends meanwhile. TurnMS
	// is when it was last suspended or continued, 0 = never, and RanMS how long
	// it had run until then.
	Suspension *Suspension `cbor:"30,keyasint,omitempty"`
	TurnMS     int64       `cbor:"31,keyasint,omitempty"`
	RanMS      int64       `cbor:"32,keyasint,omitempty"`
	// SuspendNumber is that of the last order to stop or to continue.
	SuspendNumber uint32 `cbor:"33,keyasint,omitempty"`
	// ForgottenMS is the time until which its usage was charged and then reset
	// (see ResetUsage); 0 = it was not.
	ForgottenMS int64 `cbor:"34,keyasint,omitempty"`
	// Saving is the save that is under way; Abandoned the number of a save that
	// was taken back, for which the allocation may still be frozen; and Restore
	// the image that it resumes from, nil = it began with its script.
	Saving    *Saving `cbor:"40,keyasint,omitempty"`
	Abandoned uint32  `cbor:"41,keyasint,omitempty"`
	Restore   *Image  `cbor:"42,keyasint,omitempty"`
	// Numbered is the number of the last image that was requested before it:
	// those of this run have higher ones.
	Numbered uint32 `cbor:"43,keyasint,omitempty"`
	// Move is a move that is under way. Beside are the other runs of the job
	// that hold something, and LastEpoch the highest epoch that any of them was
	// given. Moved: the run took the place of another one, and runs once it is
	// told to.
	Move      *Move    `cbor:"50,keyasint,omitempty"`
	Beside    []Beside `cbor:"51,keyasint,omitempty"`
	LastEpoch uint32   `cbor:"52,keyasint,omitempty"`
	Moved     bool     `cbor:"53,keyasint,omitempty"`
	// Away: it is frozen by an image to leave its node, and ends once that is
	// elsewhere; nil = it is not.
	Away *Away `cbor:"85,keyasint,omitempty"`
	// Fills: it began in a hole, and makes room for what is planned on its nodes. See
	// fill.go.
	Fills bool `cbor:"560,keyasint,omitempty"`
	// Between are the addresses of the network between its nodes; nil = it has none, or those
	// of the image that it resumes from: see Job.between.
	Between *policy.GangRange `cbor:"720,keyasint,omitempty"`
	// LimitTold are the parts of its time limit that are over and were noted: bits of
	// spec.MailTypes. See mail_limits.go.
	LimitTold uint32 `cbor:"700,keyasint,omitempty"`
}

// BatchHost is the node that runs the script.
func (r *Run) BatchHost() string { return r.Allocs[0].Node }

// Alloc is one node's share of a run.
type Alloc struct {
	Node        string       `cbor:"1,keyasint"`
	CPUs        []uint32     `cbor:"2,keyasint,omitempty"` // ids, ascending
	MemoryBytes uint64       `cbor:"3,keyasint,omitempty"`
	Devices     []HeldDevice `cbor:"4,keyasint,omitempty"` // ascending by index
	Tasks       uint32       `cbor:"5,keyasint,omitempty"`
	Ready       bool         `cbor:"6,keyasint,omitempty"` // its container has been up
	Released    bool         `cbor:"7,keyasint,omitempty"` // its node reported the end; everything is free
	BootID      string       `cbor:"8,keyasint,omitempty"` // of the node when it was placed
	// Frozen: its run is suspended, and its node has said that it is stopped.
	// Its CPUs are free.
	Frozen bool `cbor:"20,keyasint,omitempty"`
	// TmpBytes is what it may write to the node's disk; 0 = no limit.
	TmpBytes uint64 `cbor:"21,keyasint,omitempty"`
	// ParkByMS: the owner has reclaimed its node, or a job of the owner needs it, and
	// it must be parked by then, in log time; 0 = it need not be. Parked: its node has said that it is; its
	// devices are free too. Both stay until the job continues.
	ParkByMS int64 `cbor:"22,keyasint,omitempty"`
	Parked   bool  `cbor:"23,keyasint,omitempty"`
	// Steps is what its node has told of its steps, until history has it: see steps.go.
	Steps []byte `cbor:"180,keyasint,omitempty"`
}

// HeldDevice is one device, or shares of one, that an allocation holds.
type HeldDevice struct {
	ID     string `cbor:"1,keyasint"`
	Index  uint32 `cbor:"2,keyasint,omitempty"`
	Shares uint32 `cbor:"3,keyasint"`
	Parent string `cbor:"4,keyasint,omitempty"`
	Model  string `cbor:"5,keyasint,omitempty"`
}

// End is how a run ends, once decided, and what its nodes reported about it.
// The first decision in the log counts; only a cancel overrides a requeue.
type End struct {
	State           pb.JobState `cbor:"1,keyasint"` // final, unless Requeue
	Requeue         bool        `cbor:"2,keyasint,omitempty"`
	Held            sched.Hold  `cbor:"3,keyasint,omitempty"` // with Requeue: held like this afterwards
	Reason          Reason      `cbor:"4,keyasint,omitempty"`
	Detail          string      `cbor:"5,keyasint,omitempty"`
	Cancelled       bool        `cbor:"7,keyasint,omitempty"`
	CancelledBy     uint32      `cbor:"8,keyasint,omitempty"` // uid, with Cancelled
	ExitCode        uint32      `cbor:"9,keyasint,omitempty"`
	ExitSignal      uint32      `cbor:"10,keyasint,omitempty"`
	PeakMemoryBytes uint64      `cbor:"11,keyasint,omitempty"`  // the highest of its nodes
	CPUNS           uint64      `cbor:"12,keyasint,omitempty"`  // of all its nodes
	EndMS           int64       `cbor:"13,keyasint,omitempty"`  // when the last allocation was over
	OverMS          int64       `cbor:"602,keyasint,omitempty"` // when its results were away after that; 0 = they did not go
	SpecialExit     bool        `cbor:"14,keyasint,omitempty"`  // with Requeue: see Job
	Preempted       *Preempted  `cbor:"15,keyasint,omitempty"`  // nil = it was not
	Saved           bool        `cbor:"30,keyasint,omitempty"`  // with Requeue: it saved itself

	// With Requeue. Frozen: its processes are saved, frozen, and need no time
	// to end. StartOver: its images are not used. Unrestored: it was not
	// restored, and has not run.
	Frozen     bool `cbor:"40,keyasint,omitempty"`
	StartOver  bool `cbor:"41,keyasint,omitempty"`
	Unrestored bool `cbor:"42,keyasint,omitempty"`
	// Elsewhere, with Requeue: only the node, or the image's holder, was at
	// fault, so it does not count among the failures of the job or its image.
	Elsewhere bool `cbor:"43,keyasint,omitempty"`
	// FailedOn is the node that did not restore its allocation, with Unrestored.
	FailedOn string `cbor:"460,keyasint,omitempty"`
}

// Reason is why a job ended as it did, in Slurm's words (see String).
type Reason uint8

// Reasons after the end. Numbers are persisted: append only.
const (
	ReasonNone             Reason = 0
	ReasonNonZeroExitCode  Reason = 1
	ReasonTimeLimit        Reason = 2
	ReasonOutOfMemory      Reason = 3
	ReasonNodeDown         Reason = 4
	ReasonJobLaunchFailure Reason = 5
	ReasonSupervisorDied   Reason = 6
	ReasonDeadline         Reason = 20
	// ReasonDependencyNeverSatisfied: cancelled for that (--kill-on-invalid-dep).
	ReasonDependencyNeverSatisfied Reason = 21
	// ReasonBurstBufferOperation: files were not staged in, or out.
	ReasonBurstBufferOperation Reason = 22
)

// State is the base state that users see.
func (j *Job) State() pb.JobState {
	switch {
	case j.stagesOut():
		return pb.JobState_JOB_STATE_STAGE_OUT
	case j.Phase == Waiting, j.stagesIn():
		return pb.JobState_JOB_STATE_PENDING
	case j.Suspended():
		return pb.JobState_JOB_STATE_SUSPENDED
	case j.End == nil || j.End.Requeue:
		return pb.JobState_JOB_STATE_RUNNING
	default:
		return j.End.State
	}
}

// Completing says that the end is decided and some node is still cleaning up.
func (j *Job) Completing() bool { return j.Phase == Ending }

// Configuring says that it has an allocation and some node is not ready yet.
func (j *Job) Configuring() bool {
	return j.Phase == Running && !j.everyReady()
}

// everyReady reports whether the containers of all allocations of the run have been up.
func (j *Job) everyReady() bool {
	for i := range j.Run.Allocs {
		if !j.Run.Allocs[i].Ready {
			return false
		}
	}
	return true
}

// HoldsNodes reports whether some allocation of it is not released.
func (j *Job) HoldsNodes() bool { return j.Phase == Running || j.Phase == Ending }

// Alloc finds the allocation on a node; nil when there is none.
func (j *Job) Alloc(node string) *Alloc {
	if j.Run == nil {
		return nil
	}
	for i := range j.Run.Allocs {
		if j.Run.Allocs[i].Node == node {
			return &j.Run.Allocs[i]
		}
	}
	return nil
}

// Owner is the user it runs as.
func (j *Job) Owner() *Owner { return j.Spec.owner }

// Own is the part of the request that it does not share.
func (j *Job) Own() Own { return j.own.unpack() }

// Name is that of Own, found faster.
func (j *Job) Name() string { return j.own.name() }
