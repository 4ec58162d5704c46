package state

import (
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// JobChange is what an update changes in a job (scontrol(1), "JOBS -
// SPECIFICATIONS FOR UPDATE COMMAND"); nil fields stay. Make one with
// ChangeFromMessage.
type JobChange struct {
	TimeLimitS *uint32 `cbor:"1,keyasint,omitempty"`
	// AddTimeS is added to the limit, or taken off; 0 = the limit stays.
	AddTimeS     int64         `cbor:"2,keyasint,omitempty"`
	Partitions   []string      `cbor:"3,keyasint,omitempty"`
	QOS          *string       `cbor:"4,keyasint,omitempty"`
	Account      *string       `cbor:"5,keyasint,omitempty"`
	Priority     *uint32       `cbor:"6,keyasint,omitempty"` // 0 = hold
	Nice         *int32        `cbor:"7,keyasint,omitempty"`
	Dependencies *Dependencies `cbor:"8,keyasint,omitempty"`
	BeginMS      *int64        `cbor:"9,keyasint,omitempty"`
	DeadlineMS   *int64        `cbor:"10,keyasint,omitempty"`

	MinNodes      *uint32      `cbor:"11,keyasint,omitempty"`
	MaxNodes      *uint32      `cbor:"12,keyasint,omitempty"`
	Tasks         *uint32      `cbor:"13,keyasint,omitempty"`
	TasksPerNode  *uint32      `cbor:"14,keyasint,omitempty"`
	CPUsPerTask   *uint32      `cbor:"15,keyasint,omitempty"`
	MemoryPerNode *uint64      `cbor:"16,keyasint,omitempty"` // in the place of that per CPU
	MemoryPerCPU  *uint64      `cbor:"17,keyasint,omitempty"` // in the place of that per node
	GPUs          *GPURequests `cbor:"18,keyasint,omitempty"`

	Constraint   *string `cbor:"20,keyasint,omitempty"`
	NodeList     *string `cbor:"21,keyasint,omitempty"`
	ExcludeNodes *string `cbor:"22,keyasint,omitempty"`
	Name         *string `cbor:"23,keyasint,omitempty"`
	Comment      *string `cbor:"24,keyasint,omitempty"`
	WCKey        *string `cbor:"25,keyasint,omitempty"`
	Requeue      *bool   `cbor:"26,keyasint,omitempty"`
	MaxRunning   *uint32 `cbor:"27,keyasint,omitempty"` // of the whole array; 0 = none

	Licenses                *LicenseRequests `cbor:"28,keyasint,omitempty"`
	Switches                *uint32          `cbor:"29,keyasint,omitempty"`
	SwitchesWaitS           *uint32          `cbor:"30,keyasint,omitempty"`
	Exclusive               *bool            `cbor:"31,keyasint,omitempty"`
	ExclusiveUser           *bool            `cbor:"32,keyasint,omitempty"`
	KillOnInvalidDependency *bool            `cbor:"33,keyasint,omitempty"`
	ResetAge                bool             `cbor:"34,keyasint,omitempty"`
	Network                 *pb.Network      `cbor:"35,keyasint,omitempty"`
	TmpPerNode              *uint64          `cbor:"36,keyasint,omitempty"`
	Reservations            *Reservations    `cbor:"37,keyasint,omitempty"`
	MailTypes               *uint32          `cbor:"38,keyasint,omitempty"` // bits of spec.MailTypes
	MailUser                *string          `cbor:"39,keyasint,omitempty"`
	Checkpoint              *string          `cbor:"40,keyasint,omitempty"` // as in Checkpoint.Mode
	TimeMinS                *uint32          `cbor:"41,keyasint,omitempty"` // 0 = none
}

// GPURequests replace all requests for GPUs of one scope.
type GPURequests struct {
	Requests []GPURequest `cbor:"1,keyasint,omitempty"`
}

// LicenseRequests are all licenses that a job asks for.
type LicenseRequests struct {
	Requests []policy.License `cbor:"1,keyasint,omitempty"` // ascending by name
}

// Reservations are all that a job names.
type Reservations struct {
	Names []string `cbor:"1,keyasint,omitempty"`
}

// onSpec applies the change to a spec, except for what belongs to a record.
func (c *JobChange) onSpec(spec *Spec) {
	if c.Partitions != nil {
		spec.Partitions = c.Partitions
	}
	set(&spec.TimeLimitS, c.TimeLimitS)
	set(&spec.TimeMinS, c.TimeMinS)
	set(&spec.QOS, c.QOS)
	set(&spec.Account, c.Account)
	set(&spec.WCKey, c.WCKey)
	set(&spec.Nice, c.Nice)
	set(&spec.MinNodes, c.MinNodes)
	set(&spec.MaxNodes, c.MaxNodes)
	set(&spec.Tasks, c.Tasks)
	set(&spec.TasksPerNode, c.TasksPerNode)
	set(&spec.CPUsPerTask, c.CPUsPerTask)
	if c.MemoryPerNode != nil || c.MemoryPerCPU != nil {
		spec.MemoryPerNode, spec.MemoryPerCPU, spec.MemoryPerGPU, spec.AllMemory = 0, 0, 0, false
		set(&spec.MemoryPerNode, c.MemoryPerNode)
		set(&spec.MemoryPerCPU, c.MemoryPerCPU)
	}
	set(&spec.TmpPerNode, c.TmpPerNode)
	if c.GPUs != nil {
		spec.GPUs = c.GPUs.Requests
	}
	set(&spec.Constraint, c.Constraint)
	set(&spec.NodeList, c.NodeList)
	set(&spec.ExcludeNodes, c.ExcludeNodes)
	set(&spec.Requeue, c.Requeue)
	set(&spec.MaxRunning, c.MaxRunning)
	if c.Licenses != nil {
		spec.Licenses = c.Licenses.Requests
	}
	set(&spec.Switches, c.Switches)
	set(&spec.SwitchesWaitS, c.SwitchesWaitS)
	set(&spec.Exclusive, c.Exclusive)
	set(&spec.ExclusiveUser, c.ExclusiveUser)
	set(&spec.KillOnInvalidDependency, c.KillOnInvalidDependency)
	set(&spec.Network, c.Network)
	set(&spec.Checkpoint.Mode, c.Checkpoint)
	if c.Reservations != nil {
		spec.Reservations = c.Reservations.Names
	}
	set(&spec.MailTypes, c.MailTypes)
	set(&spec.MailUser, c.MailUser)
}

// relimits reports whether a time limit is given, or something is added to it.
func (c *JobChange) relimits() bool { return c.TimeLimitS != nil || c.AddTimeS != 0 }

// onOwn does the same, and reports whether there was anything.
func (c *JobChange) onOwn(own *Own) bool {
	set(&own.Name, c.Name)
	set(&own.Comment, c.Comment)
	return c.Name != nil || c.Comment != nil
}

func set[V any](field *V, value *V) {
	if value != nil {
		*field = *value
	}
}

// onlyPending names the parts of a change that only a waiting job can have; ""
// when there are none.
func (c *JobChange) onlyPending() string {
	for _, field := range []struct {
		given bool
		name  string
	}{
		{c.Partitions != nil, "Partition"}, {c.QOS != nil, "QOS"}, {c.Account != nil, "Account"},
		{c.Priority != nil, "Priority"}, {c.Nice != nil, "Nice"}, {c.Dependencies != nil, "Dependency"},
		{c.BeginMS != nil, "StartTime"}, {c.DeadlineMS != nil, "Deadline"},
		{c.MinNodes != nil || c.MaxNodes != nil, "NumNodes"}, {c.Tasks != nil, "NumTasks"},
		{c.TasksPerNode != nil, "TasksPerNode"}, {c.CPUsPerTask != nil, "CPUsPerTask"},
		{c.MemoryPerNode != nil, "MinMemoryNode"}, {c.MemoryPerCPU != nil, "MinMemoryCPU"},
		{c.TmpPerNode != nil, "MinTmpDiskNode"}, {c.GPUs != nil, "Gres"}, {c.Constraint != nil, "Features"},
		{c.NodeList != nil, "ReqNodeList"}, {c.ExcludeNodes != nil, "ExcNodeList"}, {c.Licenses != nil, "Licenses"},
		{c.Switches != nil || c.SwitchesWaitS != nil, "Switches"},
		{c.Exclusive != nil || c.ExclusiveUser != nil, "OverSubscribe"}, {c.ResetAge, "ResetAccrueTime"},
		{c.KillOnInvalidDependency != nil, "KillOnInvalidDependent"}, {c.Network != nil, "Network"}, {c.Reservations != nil, "ReservationName"},
		{c.Checkpoint != nil, "Checkpoint"}, {c.TimeMinS != nil, "TimeMin"},
	} {
		if field.given {
			return field.name
		}
	}
	return ""
}

// Places reports whether the change may make the job impossible to run, so that
// it must be checked like a submission.
func (c *JobChange) Places() bool {
	return c.Partitions != nil || c.MinNodes != nil || c.MaxNodes != nil || c.Tasks != nil || c.TasksPerNode != nil || c.CPUsPerTask != nil ||
		c.MemoryPerNode != nil || c.MemoryPerCPU != nil || c.GPUs != nil || c.Constraint != nil || c.NodeList != nil || c.ExcludeNodes != nil ||
		c.Exclusive != nil || c.ExclusiveUser != nil || c.Switches != nil || c.Licenses != nil || c.TmpPerNode != nil
}
