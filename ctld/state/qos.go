package state

import "github.com/gleaner-hpc/gleaner/ctld/state/policy"

// QOS is a quality of service (sacctmgr(1), "SPECIFICATIONS FOR QOS").
type QOS struct {
	Name           string             `cbor:"1,keyasint"`
	Description    string             `cbor:"2,keyasint,omitempty"`
	Priority       uint32             `cbor:"3,keyasint,omitempty"`
	Preempts       []string           `cbor:"4,keyasint,omitempty"` // ascending
	PreemptMode    policy.PreemptMode `cbor:"5,keyasint,omitempty"`
	GraceTimeS     uint32             `cbor:"6,keyasint,omitempty"`
	ExemptTimeS    *uint32            `cbor:"7,keyasint,omitempty"` // nil = the cluster's
	UsageFactorPPM *uint32            `cbor:"8,keyasint,omitempty"` // nil = 1,000,000
	Limits         Limits             `cbor:"9,keyasint,omitzero"`
	// Flags (sacctmgr(1), "Flags").
	DenyOnLimit       bool  `cbor:"10,keyasint,omitempty"`
	OverridePartition bool  `cbor:"11,keyasint,omitempty"` // OverPartQOS
	NoDecay           bool  `cbor:"12,keyasint,omitempty"`
	Usage             Usage `cbor:"13,keyasint,omitzero"`
}
