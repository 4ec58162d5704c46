package shim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestSaveSteps: which steps are taken when one of them fails, or when the save
// is taken back in the middle of it.
func TestSaveSteps(t *testing.T) {
	const mended = "settle, clear"
	for _, row := range []struct {
		stand bool
		fails string // the step that does; "" = none
		want  string // the steps that were taken
	}{
		{false, "", "mark, hang up, park, stop, dump, go on, pack, " + mended},
		{true, "", "mark, hang up, park, stop, dump, pack, " + mended},
		{true, "mark", "mark, clear"},
		{true, "hang up", "mark, hang up, " + mended},
		{true, "park", "mark, hang up, park, " + mended},
		{true, "stop", "mark, hang up, park, stop, " + mended},
		{true, "dump", "mark, hang up, park, stop, dump, " + mended},
		{false, "go on", "mark, hang up, park, stop, dump, go on, " + mended},
		{false, "pack", "mark, hang up, park, stop, dump, go on, pack, " + mended},
		{true, "pack", "mark, hang up, park, stop, dump, pack, " + mended},
		{true, "settle", "mark, hang up, park, stop, dump, pack, " + mended},
	} {
		for _, takenBack := range []bool{false, true} {
			broken := errors.New("broken")
			ctx, cancel := context.WithCancelCause(context.Background())
			var taken []string
			failure := walk(ctx, func() bool { return row.stand }, func(ctx context.Context, step saveStep) error {
				taken = append(taken, step.String())
				if step.mends() && ctx.Err() != nil {
					t.Errorf("step %v cannot mend: its context has ended", step)
				}
				switch {
				case step.String() != row.fails:
					return nil
				case takenBack:
					cancel(errTakenBack)
					return ctx.Err()
				}
				return broken
			})
			cancel(nil)
			want := strings.Split(row.want, ", ")
			switch {
			case row.fails == "" && failure != nil, row.fails != "" && failure == nil && !(takenBack && row.fails == "settle"):
				t.Errorf("%+v, taken back %v: failed %v", row, takenBack, failure)
			case takenBack && failure != nil && !errors.Is(failure, errTakenBack):
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
	var taken []saveStep
	failure := walk(ctx, func() bool { return true }, func(_ context.Context, step saveStep) error {
		taken = append(taken, step)
		if step == saveStop {
			cancel(errEnding)
		}
		return nil
	})
	want := []saveStep{saveMark, saveHangUp, savePark, saveStop, saveSettle, saveClear}
	if !errors.Is(failure, errEnding) || !slices.Equal(taken, want) {
		t.Errorf("took %v, failed with %v", taken, failure)
	}
}

// TestOrderChangesMeanwhile: what is asked of the job counts when its files are
// whole.
func TestOrderChangesMeanwhile(t *testing.T) {
	stand := false
	var taken []saveStep
	_ = walk(context.Background(), func() bool { return stand }, func(_ context.Context, step saveStep) error {
		taken = append(taken, step)
		if step == saveDump {
			stand = true
		}
		return nil
	})
	if slices.Contains(taken, saveGoOn) {
		t.Errorf("took %v: the job was let go though it was to stand", taken)
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
		err := walk(ctx, func() bool { return true }, func(ctx context.Context, step saveStep) error {
			if step != savePack {
				return nil
			}
			cancel(errEnding)
			return row.fails(ctx)
		})
		if got := clip(err.Error()); got != row.want {
			t.Errorf("told %q, not %q", got, row.want)
		}
	}
}
