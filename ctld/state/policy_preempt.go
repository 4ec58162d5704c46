package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched"
)

// PreemptPolicy says which jobs may preempt which, and how.
type PreemptPolicy struct {
	Type        sched.PreemptType `cbor:"1,keyasint,omitempty"`
	Mode        PreemptMode       `cbor:"2,keyasint,omitempty"`
	ExemptTimeS uint32            `cbor:"3,keyasint,omitempty"`
	// GuestExemptTimeS is how long a guest runs undisturbed by jobs of its node's owner.
	GuestExemptTimeS uint32 `cbor:"4,keyasint,omitempty"`
}

// PreemptMode is the scheduler's. Its numbers are persisted.
type PreemptMode = sched.PreemptMode

// The words of the API and of cluster.toml, by number.
var (
	preemptModeWords = []string{"", "off", "cancel", "requeue", "suspend", "checkpoint"}
	preemptTypeWords = []string{"none", "partition", "qos"}
)

// preemptModeWord is the word for a mode; "" for no mode of its own.
func preemptModeWord(mode PreemptMode) string { return wordOf(preemptModeWords, uint8(mode)) }

func preemptTypeWord(kind sched.PreemptType) string { return wordOf(preemptTypeWords, uint8(kind)) }

// suspends reports whether some jobs are suspended to make room.
func (p *Policy) suspends() bool {
	return p.Preempt.Mode == sched.PreemptSuspend || slices.ContainsFunc(p.Partitions, func(q Partition) bool { return q.PreemptMode == sched.PreemptSuspend })
}

func (p *PreemptPolicy) normalize() error {
	if p.Mode == sched.PreemptOff {
		p.Mode = sched.PreemptUnset // of the cluster they are the same
	}
	if err := checkPreemptMode(p.Mode); err != nil {
		return fmt.Errorf("preempt.mode: %w", err)
	}
	switch {
	case p.Type > sched.PreemptByQOS:
		return fmt.Errorf("preempt.type: use none, partition or qos")
	case p.Type != sched.PreemptNone && p.Mode == sched.PreemptUnset:
		return fmt.Errorf("preempt.type = %q needs a preempt.mode other than off, such as \"requeue\"; or set the type to \"none\"", preemptTypeWord(p.Type))
	case p.Type == sched.PreemptNone && p.Mode != sched.PreemptUnset:
		return fmt.Errorf("preempt.mode = %q needs a preempt.type: \"qos\" or \"partition\"; or set the mode to \"off\"", preemptModeWord(p.Mode))
	}
	return nil
}
