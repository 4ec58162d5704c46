package state

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Parts of a time limit, also of a job that was stopped for a while.
func TestLimitOver(t *testing.T) {
	const minute = 60_000
	for _, c := range []struct {
		limitS uint32
		run    *Run
		nowMS  int64
		want   spec.MailTypes
	}{
		{600, nil, 100 * minute, 0},
		{0, &Run{}, 100 * minute, 0},
		{spec.Unlimited, &Run{}, 100 * minute, 0},
		{600, &Run{StartMS: minute}, 5 * minute, 0},
		{600, &Run{StartMS: minute}, 6 * minute, spec.MailTimeLimit50},
		{600, &Run{}, 9 * minute, spec.MailTimeLimit50 | spec.MailTimeLimit80 | spec.MailTimeLimit90},
		{600, &Run{}, 10 * minute, spec.MailTimeLimits},
		{600, &Run{RanMS: 4 * minute, TurnMS: 20 * minute}, 21 * minute, spec.MailTimeLimit50},
		{600, &Run{RanMS: 4 * minute, TurnMS: 20 * minute, Suspension: &Suspension{}}, 90 * minute, 0},
	} {
		job := &Job{Spec: &Spec{TimeLimitS: c.limitS}, Run: c.run}
		if got := job.limitOver(c.nowMS); got != c.want {
			t.Errorf("%+v at %d: %b, want %b", c.run, c.nowMS, got, c.want)
		}
	}
}
