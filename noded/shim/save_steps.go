package shim

import (
	"context"
	"errors"
)

// The save of a part's image goes through these steps. Each succeeds or fails;
// what follows is in the table below, and nowhere else.
//
//	mark ─► hang up ─► park ─► stop ─► dump ─┬─ to stand ───► pack ─► settle ─► clear
//	 │         │         │       │       │   └─► go on ──────►─┘ │      ▲         ▲
//	 │         └─────────┴───────┴───────┴──── failed ───────────┴──────┘         │
//	 └──── failed: nothing was done to the job ───────────────────────────────────┘
type saveStep int

const (
	saveMark   saveStep = iota // a mark is left on disk, for whoever finds the part after a death in mid-save
	saveHangUp                 // what connects the job with its supervisor is closed
	savePark                   // the memory of GPUs comes into the host's
	saveStop                   // every process stands still
	saveDump                   // processes and files are written to the directory
	saveGoOn                   // the job runs on: nothing more is read of it
	savePack                   // the image is whole and durable in its store
	saveSettle                 // the job runs on, or stands, as was asked; after a failure it runs on
	saveClear                  // directory and mark are gone
	saveOver
)

var saveStepNames = [...]string{"mark", "hang up", "park", "stop", "dump", "go on", "pack", "settle", "clear", "over"}

// String names a step.
func (s saveStep) String() string { return saveStepNames[s] }

// next is the step after s. failed: something has failed, here or before.
// stand: the job is to stand once its image is made.
func (s saveStep) next(failed, stand bool) saveStep {
	switch {
	case s >= saveSettle:
		return min(s+1, saveOver)
	case failed && s == saveMark:
		return saveClear
	case failed:
		return saveSettle
	case s == saveDump && stand:
		return savePack
	}
	return s + 1
}

// mends says whether the step puts right what others have done. It is done to
// its end, whatever is asked meanwhile.
func (s saveStep) mends() bool { return s >= saveSettle }

// Reasons for which a save ends early.
var (
	errTakenBack = errors.New("the save was taken back")
	errEnding    = errors.New("the job ends")
	errSaveLease = errors.New("the lease of the job ended meanwhile")
	errSaveLate  = errors.New("it was not done in time")
)

// walk takes a save through its steps, and answers the first failure. stand
// says what is asked of the job at the moment it is called; do takes a step.
// When ctx ends no further step is begun but those that mend.
func walk(ctx context.Context, stand func() bool, do func(context.Context, saveStep) error) (failure error) {
	for step := saveMark; step != saveOver; step = step.next(failure != nil, stand()) {
		var err error
		if step.mends() {
			err = do(context.WithoutCancel(ctx), step)
		} else if err = context.Cause(ctx); err == nil {
			err = do(ctx, step)
			if cause := context.Cause(ctx); err != nil && !errors.Is(err, cause) {
				err = errors.Join(cause, err)
			}
		}
		if failure == nil {
			failure = err
		}
	}
	return failure
}
