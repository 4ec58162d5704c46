package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// moved moves a job from one node to another, each with a store of its own, so
// that its image goes through both daemons and a controller, unless more options of
// "gleaner dev" say otherwise.
func (b *bench) moved(ctx context.Context, mib int, took measure, more ...string) {
	what := fmt.Sprintf("move a job of %d MiB", mib)
	measures := []measure{took, nodedPeak(mib)}
	if err := b.roomFor(mib); err != nil {
		b.failed(ours, what, measures, err)
		return
	}
	on := side{ours, func(ctx context.Context, directory string) (system, error) {
		return ignoreNil(startDevelopment(ctx, b.options.binaries, directory, 1, 2, more...))
	}}
	b.on(ctx, on, what, measures, func(ctx context.Context, on system) error {
		return b.moveOnce(ctx, on.(*development), mib, took)
	})
}

func (b *bench) moveOnce(ctx context.Context, d *development, mib int, took measure) error {
	script, ticks, err := b.writeHolder(fmt.Sprintf("moved-%d", b.started), mib, idle)
	if err != nil {
		return err
	}
	begin := time.Now()
	number, err := run(ctx, d, submitVerb, "--parsable", "--uid="+userName, "-o", "/dev/null", "-D", b.scripts.output,
		fmt.Sprintf("--mem=%dM", 2*mib+512), script)
	if err != nil {
		return err
	}
	if _, err := untilRuns(ctx, ticks, begin); err != nil {
		return err
	}
	begin = time.Now()
	if _, err := run(ctx, d, controlVerb, "migrate", strings.TrimSpace(number)); err != nil {
		return err
	}
	// Before the command says so, what the job leaves behind is removed: that is not the
	// job's time.
	last, err := untilRuns(ctx, ticks, time.Now())
	if err != nil {
		return err
	}
	if last.over.Before(begin) {
		return fmt.Errorf("the job was moved, and was held up longer before that: %v, until %v", last.longest, last.over)
	}
	b.table.add(0, took, ours, milliseconds(last.over.Sub(begin)))
	daemons, err := processes("gnoded", "--config", d.directory)
	if err != nil || len(daemons) == 0 {
		return errors.Join(errors.New("no node daemon is found"), err)
	}
	most := int64(0)
	for _, pid := range daemons {
		peak, err := peakBytes(pid)
		if err != nil {
			return err
		}
		most = max(most, peak)
	}
	b.table.add(0, nodedPeak(mib), ours, float64(most)/(1<<20))
	return nil
}
