package state

import "github.com/gleaner-hpc/gleaner/sched"

// This file has what the policy says of who goes first. Zero is the default
// everywhere.

// PriorityPolicy has the weights of the multifactor priority (slurm.conf(5)).
type PriorityPolicy struct {
	WeightAge           uint32       `cbor:"1,keyasint,omitempty"`
	WeightAssociation   uint32       `cbor:"2,keyasint,omitempty"`
	WeightFairShare     uint32       `cbor:"3,keyasint,omitempty"`
	WeightJobSize       uint32       `cbor:"4,keyasint,omitempty"`
	WeightPartition     uint32       `cbor:"5,keyasint,omitempty"`
	WeightQOS           uint32       `cbor:"6,keyasint,omitempty"`
	WeightTRES          []TRESWeight `cbor:"7,keyasint,omitempty"` // ascending by name
	MaxAgeS             uint32       `cbor:"8,keyasint,omitempty"` // 0 = DefaultMaxAgeS
	DecayHalfLifeS      uint32       `cbor:"9,keyasint,omitempty"` // 0 = DefaultDecayHalfLifeS; sched.Unlimited = no decay
	FavorSmall          bool         `cbor:"10,keyasint,omitempty"`
	SmallRelativeToTime bool         `cbor:"11,keyasint,omitempty"`
	MaxTRES             bool         `cbor:"12,keyasint,omitempty"` // bill the dearest TRES of a node, not their sum
	UsageReset          ResetPeriod  `cbor:"13,keyasint,omitempty"` // from LevelFrozen on
}

// Defaults, as in slurm.conf(5).
const (
	DefaultMaxAgeS        = 7 * 24 * 3600
	DefaultDecayHalfLifeS = 7 * 24 * 3600
)

// TRESWeight is the weight of one unit of a TRES, in millionths for billing
// and whole for priorities. The unit of mem is a GiB.
type TRESWeight struct {
	Name   string `cbor:"1,keyasint"`
	Weight int64  `cbor:"2,keyasint"`
}

// PreemptPolicy says who may preempt whom, and how.
type PreemptPolicy struct {
	Type        sched.PreemptType `cbor:"1,keyasint,omitempty"`
	Mode        PreemptMode       `cbor:"2,keyasint,omitempty"`
	ExemptTimeS uint32            `cbor:"3,keyasint,omitempty"`
}

// PreemptMode is the scheduler's. Its numbers are persisted.
type PreemptMode = sched.PreemptMode

// AccountingPolicy says what is enforced (slurm.conf(5),
// AccountingStorageEnforce).
type AccountingPolicy struct {
	EnforceAssociations bool `cbor:"1,keyasint,omitempty"`
	EnforceLimits       bool `cbor:"2,keyasint,omitempty"`
	EnforceQOS          bool `cbor:"3,keyasint,omitempty"`
	Safe                bool `cbor:"4,keyasint,omitempty"`
}

// Switch is one switch of the network (topology.conf(5)): it has nodes, or
// switches below it.
type Switch struct {
	Name     string   `cbor:"1,keyasint"`
	Nodes    string   `cbor:"2,keyasint,omitempty"` // host list
	Switches []string `cbor:"3,keyasint,omitempty"` // ascending
}

// ExclusiveKind says whom a partition's nodes are shared with.
type ExclusiveKind uint8

// Exclusive kinds. Numbers are persisted: append only.
const (
	Shared        ExclusiveKind = 0
	ExclusiveNode ExclusiveKind = 1 // jobs get whole nodes
	ExclusiveUser ExclusiveKind = 2 // a node is one user's at a time
)
