package state

// Dependencies is what a job waits for (sbatch(1), --dependency).
type Dependencies struct {
	// Any: one of List is enough ("?"), and not all of it (",").
	Any  bool         `cbor:"1,keyasint,omitempty"`
	List []Dependency `cbor:"2,keyasint,omitempty"`
}

// IsZero says that there is none.
func (d Dependencies) IsZero() bool { return len(d.List) == 0 }

// DependencyKind is one of sbatch's words. Numbers are persisted: append only.
type DependencyKind uint8

// Kinds of dependency.
const (
	After      DependencyKind = 1 // has started or was cancelled, some minutes ago
	AfterOK    DependencyKind = 2
	AfterNotOK DependencyKind = 3
	AfterAny   DependencyKind = 4
	AfterCorr  DependencyKind = 5 // the task of the same index ended well
	Singleton  DependencyKind = 6 // no earlier job of this name and user is left
)

// DependencyState says how far one is. Numbers are persisted: append only.
type DependencyState uint8

// States of a dependency.
const (
	Unfulfilled DependencyState = 0
	Fulfilled   DependencyState = 1
	Failed      DependencyState = 2 // never to be fulfilled
)

// Dependency is one condition on one job.
type Dependency struct {
	Kind    DependencyKind  `cbor:"1,keyasint"`
	Job     uint32          `cbor:"2,keyasint,omitempty"` // 0 for Singleton
	Task    uint32          `cbor:"3,keyasint,omitempty"` // with HasTask: of the array Job
	HasTask bool            `cbor:"4,keyasint,omitempty"`
	DelayS  uint32          `cbor:"5,keyasint,omitempty"` // for After
	State   DependencyState `cbor:"6,keyasint,omitempty"`
	// MetMS is when Job started, for After with a delay.
	MetMS int64 `cbor:"7,keyasint,omitempty"`
}
