package save

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/supervise"
)

// TestSaveSteps: which steps are taken when one of them fails, or when the save
// is taken back in the middle of it.
func TestSaveSteps(t *testing.T) {
	const mended = "settle, clear"
	for _, row := range []struct {
		freeze bool
		fails  string // the step that does; "" = none
		want   string // the steps that were taken
	}{
		{false, "", "mark, disconnect, park, freeze, dump, resume, pack, " + mended},
		{true, "", "mark, disconnect, park, freeze, dump, pack, " + mended},
		{true, "mark", "mark, clear"},
		{true, "disconnect", "mark, disconnect, " + mended},
		{true, "park", "mark, disconnect, park, " + mended},
		{true, "freeze", "mark, disconnect, park, freeze, " + mended},
		{true, "dump", "mark, disconnect, park, freeze, dump, " + mended},
		{false, "resume", "mark, disconnect, park, freeze, dump, resume, " + mended},
		{false, "pack", "mark, disconnect, park, freeze, dump, resume, pack, " + mended},
		{true, "pack", "mark, disconnect, park, freeze, dump, pack, " + mended},
		{true, "settle", "mark, disconnect, park, freeze, dump, pack, " + mended},
	} {
		for _, takenBack := range []bool{false, true} {
			broken := errors.New("broken")
			ctx, cancel := context.WithCancelCause(context.Background())
			var taken []string
			failure := walk(ctx, func() bool { return row.freeze }, func(ctx context.Context, step supervise.Step) error {
				taken = append(taken, step.String())
				if step.Mends() && ctx.Err() != nil {
					t.Errorf("step %v cannot mend: its context has ended", step)
				}
				switch {
				case step.String() != row.fails:
					return nil
				case takenBack:
					cancel(supervise.ErrAborted)
					return ctx.Err()
				}
				return broken
			})
			cancel(nil)
			want := strings.Split(row.want, ", ")
			switch {
			case row.fails == "" && failure != nil, row.fails != "" && failure == nil && !(takenBack && row.fails == "settle"):
				t.Errorf("%+v, taken back %v: failed %v", row, takenBack, failure)
			case takenBack && failure != nil && !errors.Is(failure, supervise.ErrAborted):
				t.Errorf("%+v: taken back, and failed with %v", row, failure)
			}
			if !slices.Equal(taken, want) {
				t.Errorf("%+v, taken back %v: took %v", row, takenBack, taken)
			}
		}
	}
}

// TestTakenBackBetweenSteps: no step is begun any more but those that mend.
func TestTakenBackBetweenSteps(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var taken []supervise.Step
	failure := walk(ctx, func() bool { return true }, func(_ context.Context, step supervise.Step) error {
		taken = append(taken, step)
		if step == supervise.StepFreeze {
			cancel(supervise.ErrEnding)
		}
		return nil
	})
	want := []supervise.Step{supervise.StepMark, supervise.StepDisconnect, supervise.StepPark, supervise.StepFreeze, supervise.StepSettle, supervise.StepClear}
	if !errors.Is(failure, supervise.ErrEnding) || !slices.Equal(taken, want) {
		t.Errorf("took %v, failed with %v", taken, failure)
	}
}

// TestOrderChangesMeanwhile: what is asked of the job counts when its files are
// whole.
func TestOrderChangesMeanwhile(t *testing.T) {
	freeze := false
	var taken []supervise.Step
	_ = walk(context.Background(), func() bool { return freeze }, func(_ context.Context, step supervise.Step) error {
		taken = append(taken, step)
		if step == supervise.StepDump {
			freeze = true
		}
		return nil
	})
	if slices.Contains(taken, supervise.StepResume) {
		t.Errorf("took %v: the job ran though it should stay frozen", taken)
	}
}

// TestWhyASaveEnded is told once, and in one line, whoever says it.
func TestWhyASaveEnded(t *testing.T) {
	for _, row := range []struct {
		fails func(context.Context) error
		want  string
	}{
		{func(ctx context.Context) error { return fmt.Errorf("put it into /x: %w", context.Cause(ctx)) }, "put it into /x: the job ends"},
		{func(context.Context) error { return errors.New("broken") }, "the job ends; broken"},
	} {
		ctx, cancel := context.WithCancelCause(context.Background())
		err := walk(ctx, func() bool { return true }, func(ctx context.Context, step supervise.Step) error {
			if step != supervise.StepPack {
				return nil
			}
			cancel(supervise.ErrEnding)
			return row.fails(ctx)
		})
		if got := bundle.Clip(err.Error()); got != row.want {
			t.Errorf("told %q, not %q", got, row.want)
		}
	}
}
