package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// measure goes through everything, side by side.
func (b *bench) measure(ctx context.Context) {
	s := b.sizes
	switch b.options.only {
	case failoverOnly:
		b.severalControllers(ctx)
		return
	case imagesOnly:
		b.images(ctx)
		return
	case savingOnly:
		b.saving(ctx)
		return
	case reclaimOnly:
		b.reclaims(ctx)
		return
	case cycleOnly:
		b.cycles(ctx)
		return
	case stepsOnly:
		b.steps(ctx)
		return
	case networkOnly:
		b.networks(ctx)
		return
	case startsOnly:
		b.startsAlone(ctx)
		return
	case historyOnly:
		b.history(ctx)
		return
	}
	for round := range s.rounds {
		for _, side := range b.inTurn(round) {
			measures := []measure{startBare, startFork, startPrivate, cliOne, cliEight, apiOne, apiEight, arraySubmit, emptyQueue, emptySubmit}
			if round < s.jobRounds {
				measures = append(measures, trueJobs)
			}
			b.on(ctx, side, fmt.Sprintf("starts and submissions, round %d of %d", round+1, s.rounds), measures,
				func(ctx context.Context, on system) error { return b.oneRound(ctx, on, side.column, round) })
		}
		b.bareStarts(ctx, round)
	}
	for round := range s.memoryRounds {
		for _, side := range b.inTurn(round) {
			if side.column == slurmTuned {
				continue // waiting jobs cost it what they cost the other Slurm
			}
			b.waiting(ctx, side, round, s.few, []measure{memoryAlike, memoryDiffer, listFirst, listWhole})
		}
		b.million(ctx, b.sides[0], round)
	}
	b.networks(ctx)
	b.steps(ctx)
	b.history(ctx)
	b.cycles(ctx)
	b.images(ctx)
	b.saving(ctx)
	b.reclaims(ctx)
	b.severalControllers(ctx)
	for round := range s.manyRounds {
		b.waiting(ctx, b.sides[0], round, s.many, []measure{memoryAlikeMany, memoryDifferMany, listFirstMany, listWholeMany})
	}
}

// What may be measured by itself.
const (
	failoverOnly = "failover"
	imagesOnly   = "images"
	savingOnly   = "saving"
	reclaimOnly  = "reclaim"
	cycleOnly    = "cycle"
	stepsOnly    = "steps"
	startsOnly   = "starts"
	networkOnly  = "network"
	historyOnly  = "history"
)

// severalControllers measures what has no counterpart on the other sides.
func (b *bench) severalControllers(ctx context.Context) {
	b.peers(ctx)
	b.failover(ctx, 0)
	for round := range b.sizes.manyRounds {
		b.lasting(ctx, round)
	}
}

// oneRound measures starts on an idle node, then a batch of jobs, then
// submissions.
func (b *bench) oneRound(ctx context.Context, on system, c column, round int) error {
	if err := b.starts(ctx, on, c, round); err != nil {
		return err
	}
	if round < b.sizes.jobRounds {
		if err := b.trueJobs(ctx, on, c, round); err != nil {
			return err
		}
	}
	return b.submissions(ctx, on, c, round)
}

// submissions measures how fast jobs are accepted while none can start.
func (b *bench) submissions(ctx context.Context, on system, c column, round int) error {
	if err := drain(ctx, on); err != nil {
		return err
	}
	const samples = 10
	for range samples {
		begin := time.Now()
		if _, err := run(ctx, on, queueVerb, "-h"); err != nil {
			return err
		}
		b.table.add(round, emptyQueue, c, milliseconds(time.Since(begin)))
	}
	for range samples {
		begin := time.Now()
		if err := b.submit(ctx, on); err != nil {
			return err
		}
		b.table.add(round, emptySubmit, c, milliseconds(time.Since(begin)))
	}
	for _, row := range []struct {
		measure       measure
		jobs, clients int
	}{{cliOne, b.sizes.commands, 1}, {cliEight, b.sizes.manyCommands, 8}} {
		took, err := b.submitCommands(ctx, on, row.jobs, row.clients)
		if err != nil {
			return err
		}
		b.table.add(round, row.measure, c, float64(row.jobs)/took.Seconds())
	}
	for _, row := range []struct {
		measure       measure
		jobs, clients int
	}{{apiOne, b.sizes.calls, 1}, {apiEight, b.sizes.manyCalls, 8}} {
		took, err := on.submitMany(ctx, load{jobs: row.jobs, clients: row.clients, names: alike})
		if err != nil {
			return err
		}
		b.table.add(round, row.measure, c, float64(row.jobs)/took.Seconds())
	}
	begin := time.Now()
	if err := b.submit(ctx, on, fmt.Sprintf("--array=0-%d", b.sizes.arrayTasks-1)); err != nil {
		return err
	}
	b.table.add(round, arraySubmit, c, milliseconds(time.Since(begin)))
	return nil
}

// submit submits a job that does nothing by the command line.
func (b *bench) submit(ctx context.Context, on system, options ...string) error {
	_, err := run(ctx, on, submitVerb, append(options, "-Q", "-o", "/dev/null", "-D", b.scripts.output, b.scripts.success)...)
	return err
}

// submitCommands submits so many, from so many command lines at once.
func (b *bench) submitCommands(ctx context.Context, on system, jobs, clients int, options ...string) (time.Duration, error) {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	for range clients {
		group.Go(func() error {
			for next.Add(1) <= int64(jobs) {
				if err := b.submit(ctx, on, options...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	return time.Since(begin), err
}

// trueJobs measures how fast jobs that do nothing go through the node, from
// the first submission to the last one's end being known.
func (b *bench) trueJobs(ctx context.Context, on system, c column, round int) error {
	before, err := completed(ctx, on)
	if err != nil {
		return err
	}
	begin := time.Now()
	if _, err := b.submitCommands(ctx, on, b.sizes.jobs, 8, "--uid="+userName); err != nil {
		return err
	}
	if err := untilEmpty(ctx, on, 100*time.Millisecond); err != nil {
		return err
	}
	took := time.Since(begin)
	after, err := completed(ctx, on)
	if err != nil {
		return err
	}
	if after-before != b.sizes.jobs {
		return fmt.Errorf("of %d jobs %d are COMPLETED: see what the controller says of the others", b.sizes.jobs, after-before)
	}
	b.table.add(round, trueJobs, c, float64(b.sizes.jobs)/took.Seconds())
	return nil
}

// completed counts the jobs that ended well.
func completed(ctx context.Context, on system) (int, error) {
	states, err := run(ctx, on, queueVerb, "-h", "-t", "all", "-o", "%T")
	return strings.Count(states, "COMPLETED"), err
}

// untilEmpty waits until no job waits, runs or is being cleaned up.
func untilEmpty(ctx context.Context, on system, every time.Duration) error {
	return until(ctx, "the queue to be empty", blockPatience, every, func() (bool, error) {
		jobs, err := run(ctx, on, queueVerb, "-h", "-o", "%i")
		return strings.TrimSpace(jobs) == "", err
	})
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
