package supervise

// Step is a step of the save of an allocation's image. Each succeeds or fails;
// what follows is in the table below, and nowhere else.
//
//	mark ─► disconnect ─► park ─► freeze ─► dump ─┬─ to stay frozen ─► pack ─► settle ─► clear
//	 │          │           │       │        │    └─► resume ───────►─┘ │       ▲         ▲
//	 │          └───────────┴───────┴────────┴──── failed ──────────────┴───────┘         │
//	 └──── failed: nothing was done to the job ───────────────────────────────────────────┘
type Step int

// The steps, in their order.
const (
	StepMark       Step = iota // a mark is left on disk, for whoever finds the allocation after a death in mid-save
	StepDisconnect             // what connects the job with its supervisor is closed
	StepPark                   // GPU memory moves to host memory
	StepFreeze                 // every process is frozen
	StepDump                   // processes and files are written to the directory
	StepResume                 // the job runs: the rest works on copies
	StepPack                   // the image is whole and durable in its store
	StepSettle                 // the job runs or stays frozen, as was asked; after a failure it runs
	StepClear                  // directory and mark are gone
	StepOver
)

var stepNames = [...]string{"mark", "disconnect", "park", "freeze", "dump", "resume", "pack", "settle", "clear", "over"}

// String names a step.
func (s Step) String() string { return stepNames[s] }

// Next is the step after s. failed: something has failed, here or before.
// freeze: the job must be frozen once its image is made.
func (s Step) Next(failed, freeze bool) Step {
	switch {
	case s >= StepSettle:
		return min(s+1, StepOver)
	case failed && s == StepMark:
		return StepClear
	case failed:
		return StepSettle
	case s == StepDump && freeze:
		return StepPack
	}
	return s + 1
}

// Mends says whether the step repairs what others have done. It is taken to
// its end, whatever is asked meanwhile.
func (s Step) Mends() bool { return s >= StepSettle }
