package save

import (
	"context"
	"errors"

	"github.com/gleaner-hpc/gleaner/noded/supervise"
)

// ErrLate is why a save ends that takes too long.
var ErrLate = errors.New("it was not done in time")

// walk takes a save through its steps, and answers the first failure. freeze
// says whether the job is to be frozen, at the moment of the call; do takes a step.
// When ctx ends, walk begins only the steps that mend.
func walk(ctx context.Context, freeze func() bool, do func(context.Context, supervise.Step) error) (failure error) {
	for step := supervise.StepMark; step != supervise.StepOver; step = step.Next(failure != nil, freeze()) {
		var err error
		if step.Mends() {
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
