package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Dependencies is what a job waits for (sbatch(1), --dependency).
type Dependencies struct {
	// Any: one of List is enough ("?"), and not all of it (",").
	Any  bool         `cbor:"1,keyasint,omitempty"`
	List []Dependency `cbor:"2,keyasint,omitempty"`
}

// IsZero says that there is none.
func (d Dependencies) IsZero() bool { return len(d.List) == 0 }

// DependencyKind is one of sbatch's words. Its numbers are persisted.
type DependencyKind = spec.DependencyKind

// DependencyState says how far a dependency is. Numbers are persisted: append
// only.
type DependencyState uint8

// States of a dependency.
const (
	Unfulfilled DependencyState = 0
	Fulfilled   DependencyState = 1
	Failed      DependencyState = 2 // never to be fulfilled
)

// String is squeue's word.
func (s DependencyState) String() string {
	return [...]string{Unfulfilled: "unfulfilled", Fulfilled: "fulfilled", Failed: "failed"}[s]
}

// Dependency is one condition on one job. Once it is fulfilled or failed it
// stays so, whatever becomes of that job later (sbatch(1)). Only a singleton
// may be fulfilled and become unfulfilled again, as other jobs of the name come
// and go.
type Dependency struct {
	Kind    DependencyKind  `cbor:"1,keyasint"`
	Job     uint32          `cbor:"2,keyasint,omitempty"` // a plain job, or an array's number; 0 for Singleton
	Task    uint32          `cbor:"3,keyasint,omitempty"` // with HasTask: of the array Job
	HasTask bool            `cbor:"4,keyasint,omitempty"`
	DelayS  uint32          `cbor:"5,keyasint,omitempty"` // for After
	State   DependencyState `cbor:"6,keyasint,omitempty"`
	// MetMS is when Job started, for After with a delay.
	MetMS int64 `cbor:"7,keyasint,omitempty"`
}

// dependenciesOf makes the record of the requested dependencies.
func dependenciesOf(asked spec.Dependencies) Dependencies {
	d := Dependencies{Any: asked.Any}
	for _, one := range asked.List {
		d.List = append(d.List, Dependency{
			Kind: one.Kind, Job: one.Job, HasTask: one.HasTask, Task: one.Task, DelayS: one.DelayMinutes * 60,
		})
	}
	return d
}

// Text is what squeue shows of them at a time: those that are not fulfilled,
// and nothing once the job need not wait for them. isArray may be nil: then the
// number of an array is shown as any other.
func (d Dependencies) Text(nowMS int64, isArray func(uint32) bool) string {
	if state, atMS := d.standing(); state == Fulfilled && atMS <= nowMS {
		return ""
	}
	shown := spec.Dependencies{Any: d.Any}
	var states []DependencyState
	for _, one := range d.List {
		if one.State == Fulfilled && one.metMS() <= nowMS {
			continue
		}
		state := one.State
		if state == Fulfilled {
			state = Unfulfilled // its time is not over, see standing
		}
		states = append(states, state)
		shown.List = append(shown.List, spec.Dependency{
			Kind: one.Kind, Job: one.Job, HasTask: one.HasTask, Task: one.Task, DelayMinutes: one.DelayS / 60,
			Array: isArray != nil && !one.HasTask && isArray(one.Job),
		})
	}
	return spec.FormatDependencies(shown, func(i int) string { return states[i].String() })
}

// standing is the state of all of them together; Fulfilled holds from atMS on.
func (d Dependencies) standing() (state DependencyState, atMS int64) {
	fulfilled, failed := 0, 0
	for _, one := range d.List {
		switch met := one.metMS(); one.State {
		case Failed:
			failed++
		case Fulfilled:
			if fulfilled++; fulfilled == 1 || d.Any == (met < atMS) {
				atMS = met
			}
		}
	}
	switch {
	case d.Any && fulfilled > 0, fulfilled == len(d.List):
		return Fulfilled, atMS
	case d.Any && failed == len(d.List), !d.Any && failed > 0:
		return Failed, 0
	}
	return Unfulfilled, 0
}

// metMS is from when on a fulfilled dependency counts; 0 = already.
func (d *Dependency) metMS() int64 {
	if d.DelayS == 0 {
		return 0
	}
	return d.MetMS + int64(d.DelayS)*1000
}

// has reports whether there is a dependency of a kind.
func (d Dependencies) has(kind DependencyKind) bool {
	return slices.ContainsFunc(d.List, func(one Dependency) bool { return one.Kind == kind })
}

// afterStart are those that count again when the job is requeued: what it
// waited for has happened, but only one job of a name may run at any time.
func (d Dependencies) afterStart() Dependencies {
	if !d.has(spec.Singleton) {
		return Dependencies{}
	}
	return Dependencies{List: []Dependency{{Kind: spec.Singleton}}}
}

// NeverStarts reports whether a waiting job's dependency can never be met.
func (j *Job) NeverStarts() bool {
	standing, _ := j.Dependencies.standing()
	return j.Phase == Waiting && !j.Dependencies.IsZero() && standing == Failed
}
