package policy

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched"
)

// Preempt says which jobs may preempt which, and how.
type Preempt struct {
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

// PreemptModeFrom is the mode of a word; one that is refused for any other.
func PreemptModeFrom(word string) PreemptMode { return PreemptMode(numberOf(preemptModeWords, word)) }

// preemptModeWord is the word for a mode; "" for no mode of its own.
func preemptModeWord(mode PreemptMode) string { return wordOf(preemptModeWords, uint8(mode)) }

func preemptTypeWord(kind sched.PreemptType) string { return wordOf(preemptTypeWords, uint8(kind)) }

// Suspends reports whether some jobs are suspended to make room.
func (p *Policy) Suspends() bool {
	return p.Preempt.Mode == sched.PreemptSuspend || slices.ContainsFunc(p.Partitions, func(q Partition) bool { return q.PreemptMode == sched.PreemptSuspend })
}

func (p *Preempt) normalize() error {
	if p.Mode == sched.PreemptOff {
		p.Mode = sched.PreemptUnset // of the cluster they are the same
	}
	if err := CheckPreemptMode(p.Mode); err != nil {
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

// CheckPreemptMode says what to use in place of an unknown mode.
func CheckPreemptMode(mode PreemptMode) error {
	if mode > lastPreemptMode {
		return errors.New("use off, cancel, requeue, suspend or checkpoint")
	}
	return nil
}

// lastPreemptMode is the highest mode.
const lastPreemptMode = sched.PreemptCheckpoint
