package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Measures of reclaims.
func reclaimFree(mib int) measure { return measure(fmt.Sprintf("reclaim.free.%d", mib)) }
func reclaimRuns(mib int) measure { return measure(fmt.Sprintf("reclaim.runs.%d", mib)) }

// An owner who waits for hardware: with Gleaner an account has the node; with Slurm, jobs
// of a partition go before those of the other one, which are requeued.
var owned = site{
	accounts: []string{"add account lab,guests", "add user " + userName + " account=lab,guests"},
	policy:   "[[owner]]\naccount = \"lab\"\nnodes = \"" + hostName + "\"\n",
	memory:   "4G",
}

const slurmPreempts = `PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=lab Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10
`

// reclaims measures how long an owner waits for a node that a guest fills.
func (b *bench) reclaims(ctx context.Context) {
	for round := range b.sizes.reclaimRounds {
		for _, side := range b.ownersSides() {
			for _, mib := range b.sizes.reclaimedMiB {
				measures := []measure{reclaimFree(mib), reclaimRuns(mib)}
				what := fmt.Sprintf("an owner takes a node from a guest of %d MiB, round %d of %d", mib, round+1, b.sizes.reclaimRounds)
				b.on(ctx, side, what, measures, func(ctx context.Context, on system) error {
					return b.reclaimOnce(ctx, on, side.column, mib, round)
				})
			}
		}
	}
	b.elsewhere(ctx)
}

// ownersSides are the systems with an owner in their configuration.
func (b *bench) ownersSides() []side {
	lab := owned
	lab.policy = gleanerPolicy + lab.policy
	sides := []side{{ours, func(ctx context.Context, directory string) (system, error) {
		return ignoreNil(startGleaner(ctx, b.options.binaries, directory, b.parent, lab))
	}}}
	if b.slurm != nil {
		sides = append(sides, side{slurmPlain, func(ctx context.Context, directory string) (system, error) {
			return ignoreNil(startSlurm(ctx, b.slurm, b.user, directory, b.shared, slurmPreempts))
		}})
	}
	return sides
}

// reclaimOnce starts a guest on all CPUs, and has the owner take them and run a job of
// their own there: from the first command to that job's first instruction.
func (b *bench) reclaimOnce(ctx context.Context, on system, c column, mib, round int) error {
	common := []string{"-Q", "--uid=" + userName, "-o", "/dev/null", "-D", b.scripts.output, "-n", "16"}
	guest, owner := []string{}, []string{"-p", "lab"}
	if c == ours {
		guest, owner = []string{"-A", "guests", fmt.Sprintf("--mem=%dM", mib+256)}, []string{"-A", "lab", "--mem=64M"}
	}
	begin := time.Now()
	script, untilUp, err := b.guestOf(c, mib)
	if err != nil {
		return err
	}
	if _, err := run(ctx, on, submitVerb, append(append(guest, common...), script)...); err != nil {
		return err
	}
	if err := untilUp(ctx, begin); err != nil {
		return err
	}
	pause(ctx)
	took, err := b.timeToStamp(ctx, func() error {
		if c == ours {
			begin := time.Now()
			if _, err := run(ctx, on, reclaimVerb, hostName, "--within=60s", "--wait"); err != nil {
				return err
			}
			b.table.add(round, reclaimFree(mib), c, milliseconds(time.Since(begin)))
		}
		_, err := run(ctx, on, submitVerb, append(append(owner, common...), b.scripts.stamp)...)
		return err
	})
	if err != nil {
		return err
	}
	b.table.add(round, reclaimRuns(mib), c, took)
	if c != ours {
		return nil // the guest starts over
	}
	begin = time.Now()
	if _, err := run(ctx, on, releaseVerb, hostName); err != nil {
		return err
	}
	if err := untilUp(ctx, begin); err != nil {
		return fmt.Errorf("the guest does not continue: %w", err)
	}
	return nil
}

// guestOf is a program that fills its memory, and who waits until it runs. Slurm ends its
// guest, whatever that has in memory: there it is a script that has none.
func (b *bench) guestOf(c column, mib int) (script string, untilUp func(context.Context, time.Time) error, err error) {
	name := fmt.Sprintf("guest-%d", b.started)
	if c == ours {
		script, ticks, err := b.writeHolder(name, mib, idle)
		return script, func(ctx context.Context, begin time.Time) error {
			_, err := untilRuns(ctx, ticks, begin)
			return err
		}, err
	}
	up := filepath.Join(b.scripts.output, name)
	script = filepath.Join(b.shared, name+".sh")
	err = errors.Join(os.WriteFile(script, []byte("#!/bin/bash\necho >"+up+"\nwhile :; do sleep 1; done\n"), 0o755), os.Chmod(script, 0o755))
	return script, func(ctx context.Context, _ time.Time) error {
		return until(ctx, "the guest to run", stampPatience, time.Millisecond, func() (bool, error) {
			_, err := os.Stat(up)
			return err == nil, nil
		})
	}, err
}
