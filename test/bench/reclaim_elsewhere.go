package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// What others notice of a reclaim: how long a submission takes, and a start on a node
// that is not reclaimed.
const (
	calmSubmit    measure = "elsewhere.submit.calm"
	reclaimSubmit measure = "elsewhere.submit.reclaim"
	calmStart     measure = "elsewhere.start.calm"
	reclaimStart  measure = "elsewhere.start.reclaim"
)

const (
	takenNodes     = 4
	elsewhereNodes = 6
	elsewhereMiB   = 100 // of the guest of each node that is taken
)

// elsewhere reclaims four nodes of six, and measures what others notice: as long before
// it as from its begin on. The parks are in that time, and what is packed.
func (b *bench) elsewhere(ctx context.Context) {
	on := side{ours, func(ctx context.Context, directory string) (system, error) {
		return ignoreNil(startDevelopment(ctx, b.options.binaries, directory, 1, elsewhereNodes))
	}}
	for round := range b.sizes.reclaimRounds {
		what := fmt.Sprintf("%d of %d nodes are reclaimed, round %d of %d", takenNodes, elsewhereNodes, round+1, b.sizes.reclaimRounds)
		b.on(ctx, on, what, []measure{calmSubmit, calmStart, reclaimSubmit, reclaimStart}, func(ctx context.Context, on system) error {
			return b.reclaimFour(ctx, on.(*development), round)
		})
	}
}

func (b *bench) reclaimFour(ctx context.Context, d *development, round int) error {
	for node := range takenNodes {
		script, ticks, err := b.writeHolder(fmt.Sprintf("taken-%d-%d", b.started, node), elsewhereMiB, idle)
		if err != nil {
			return err
		}
		begin := time.Now()
		_, err = run(ctx, d, submitVerb, "-Q", "--uid="+userName, "-o", "/dev/null", "-D", b.scripts.output, "-n", "4",
			fmt.Sprintf("--mem=%dM", elsewhereMiB+256), "-w", fmt.Sprintf("n%d", node+1), script)
		if err != nil {
			return err
		}
		if _, err := untilRuns(ctx, ticks, begin); err != nil {
			return err
		}
	}
	if err := b.watchOthers(ctx, d, round, calmSubmit, calmStart); err != nil {
		return err
	}
	taken := background(ctx, func(ctx context.Context) error {
		_, err := run(ctx, d, reclaimVerb, fmt.Sprintf("n[1-%d]", takenNodes), "--within=60s", "--wait")
		return err
	})
	err := b.watchOthers(ctx, d, round, reclaimSubmit, reclaimStart)
	if failed := taken(); err == nil {
		err = failed
	}
	return err
}

// watchOthers submits all the time, and starts one job after the other.
func (b *bench) watchOthers(ctx context.Context, d *development, round int, submits, starts measure) error {
	var mu sync.Mutex
	end := background(ctx, func(ctx context.Context) error {
		connection, err := dial.Dial(d.targets, "")
		if err != nil {
			return err
		}
		defer connection.Close()
		client := pb.NewControllerClient(connection)
		for ctx.Err() == nil {
			request := smallJob(load{}, 0)
			request.Spec.Hold = true
			begin := time.Now()
			if _, err := client.Submit(ctx, request); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return fmt.Errorf("submit: %w", err)
			}
			mu.Lock()
			b.table.add(round, submits, ours, milliseconds(time.Since(begin)))
			mu.Unlock()
			time.Sleep(loadEvery)
		}
		return nil
	})
	until := time.Now().Add(time.Duration(b.sizes.elsewhereS) * time.Second)
	var failed error
	for failed == nil && time.Now().Before(until) {
		var took float64
		took, failed = b.timeToStamp(ctx, func() error {
			_, err := run(ctx, d, submitVerb, "-Q", "--uid="+userName, "-o", "/dev/null", "-D", b.scripts.output, "--mem=16M",
				"-x", fmt.Sprintf("n[1-%d]", takenNodes), b.scripts.stamp)
			return err
		})
		if failed == nil {
			mu.Lock()
			b.table.add(round, starts, ours, took)
			mu.Unlock()
			time.Sleep(loadEvery)
		}
	}
	if err := end(); failed == nil {
		failed = err
	}
	return failed
}
