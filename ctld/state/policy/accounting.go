package policy

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/sched"
)

// EnforcesAssociations: each of the other settings needs it, as in Slurm.
func (p *Accounting) EnforcesAssociations() bool {
	return p.EnforceAssociations || p.EnforceLimits || p.EnforceQOS || p.Safe
}

// EnforcesLimits reports whether limits are enforced.
func (p *Accounting) EnforcesLimits() bool { return p.EnforceLimits || p.Safe }

// Accounting says what is enforced (slurm.conf(5),
// AccountingStorageEnforce).
type Accounting struct {
	EnforceAssociations bool `cbor:"1,keyasint,omitempty"`
	EnforceLimits       bool `cbor:"2,keyasint,omitempty"`
	EnforceQOS          bool `cbor:"3,keyasint,omitempty"`
	Safe                bool `cbor:"4,keyasint,omitempty"`
}

// words are those of accounting.enforce.
func (a Accounting) words() string {
	var words []string
	for _, word := range []struct {
		is   bool
		word string
	}{{a.EnforceAssociations, "associations"}, {a.EnforceLimits, "limits"}, {a.EnforceQOS, "qos"}, {a.Safe, "safe"}} {
		if word.is {
			words = append(words, word.word)
		}
	}
	return strings.Join(words, ",")
}

// normalize adds the settings that others need (slurm.conf(5)).
func (a *Accounting) normalize() {
	a.EnforceLimits = a.EnforceLimits || a.Safe
	a.EnforceAssociations = a.EnforceAssociations || a.EnforceLimits || a.EnforceQOS
}

func (p *Policy) enforcement() []setting {
	return []setting{
		{"preempt.type", preemptTypeWord(p.Preempt.Type)},
		{"preempt.mode", preemptModeWord(cmp.Or(p.Preempt.Mode, sched.PreemptOff))},
		{"preempt.exempt_time_s", fmt.Sprint(p.Preempt.ExemptTimeS)},
		{"preempt.guest_exempt_time_s", fmt.Sprint(p.Preempt.GuestExemptTimeS)},
		{"accounting.enforce", p.Accounting.words()},
	}
}
