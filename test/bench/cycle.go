package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/test/curve/queue"
)

// cycleRows are those of a scheduling pass over a long queue in front of full nodes, for
// Slurm the cycle of its backfill, which sdiag tells of.
func cycleRows(s sizes) []row {
	what := fmt.Sprintf("%s nodes full, %s jobs wait", thousands(float64(s.cycleNodes), 0), thousands(float64(s.cycleJobs), 0))
	return []row{
		{cycleWhole, "cycle: " + what, "ms", 1},
		{cycleExamined, "cycle: jobs that it examined", "", 0},
		{cycleJob, "cycle: each job that it examined", "µs", 2},
	}
}

// cycleAims judge those rows.
func (t *table) cycleAims() []aim {
	var all []aim
	for _, c := range []column{slurmPlain, slurmTuned} {
		x := t.ratio(cycleJob, c)
		name := strings.TrimPrefix(strings.ToLower(string(c)), "slurm")
		if name == "" {
			name = " default"
		}
		all = append(all, aim{fmt.Sprintf("each job of a scheduling pass examined in at most 1/100 of%s Slurm's time", name), fmt.Sprintf("%.3g x", x), x > 0 && x <= 0.01, x > 0})
	}
	return all
}

// cycles measures scheduling passes, on the same nodes and the same queue.
func (b *bench) cycles(ctx context.Context) {
	measures := []measure{cycleWhole, cycleExamined, cycleJob}
	for round := range b.sizes.cycleRounds {
		b.say("a scheduling pass, round %d of %d: %s", round+1, b.sizes.cycleRounds, ours)
		if err := b.ownCycle(round); err != nil {
			b.failed(ours, "a scheduling pass", measures, err)
		}
		for _, c := range []column{slurmPlain, slurmTuned} {
			if b.slurm == nil {
				break
			}
			on := side{c, func(ctx context.Context, directory string) (system, error) {
				return ignoreNil(b.startSlurmNodes(ctx, directory, c))
			}}
			b.on(ctx, on, fmt.Sprintf("a scheduling cycle, round %d of %d", round+1, b.sizes.cycleRounds), measures, func(ctx context.Context, on system) error {
				return b.slurmCycle(ctx, on.(*slurm), c, round)
			})
		}
	}
}

// ownCycle is snapshot and plan as the leading controller makes them, with nothing known
// from a pass before, in the time that passed, as sdiag counts. It examines all jobs.
func (b *bench) ownCycle(round int) error {
	c, err := queue.New("backfill", b.sizes.cycleNodes)
	if err != nil {
		return err
	}
	if err := c.Submit(b.sizes.cycleNodes, queue.Whole); err != nil {
		return err
	}
	if started, err := c.Start(); err != nil || started != b.sizes.cycleNodes {
		return errors.Join(err, fmt.Errorf("%d of %d jobs started", started, b.sizes.cycleNodes))
	}
	if err := c.Submit(b.sizes.cycleNodes+b.sizes.cycleJobs, queue.Simple); err != nil {
		return err
	}
	f, err := c.Measure(0)
	if err != nil {
		return err
	}
	if f.Starts > 0 {
		return fmt.Errorf("%d jobs start, and the nodes should be full", f.Starts)
	}
	b.addCycle(round, ours, f.FullWallMS, float64(b.sizes.cycleJobs))
	return nil
}

func (b *bench) addCycle(round int, c column, ms, examined float64) {
	b.table.add(round, cycleWhole, c, ms)
	b.table.add(round, cycleExamined, c, examined)
	b.table.add(round, cycleJob, c, ms*1000/examined)
}

// slurmNodes are nodes without a daemon, which are taken to be switched off and are
// switched on by a command that does nothing: jobs that start there hold their GPUs, and
// wait for ever.
const slurmNodes = `GresTypes=gpu
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=86400
ResumeTimeout=60000
SlurmdTimeout=0
NodeName=n[1-%d] NodeAddr=127.0.0.1 CPUs=64 RealMemory=500000 Gres=gpu:8 State=CLOUD
`

// startSlurmNodes starts a controller of such nodes.
func (b *bench) startSlurmNodes(ctx context.Context, directory string, c column) (_ *slurm, err error) {
	config := slurmConfig + fmt.Sprintf(slurmNodes, b.sizes.cycleNodes)
	if c == slurmTuned {
		config += "SchedulerParameters=" + highThroughput + "\n"
	}
	gres := fmt.Sprintf("NodeName=n[1-%d] Name=gpu Count=8\n", b.sizes.cycleNodes)
	if err := writeSlurmFiles(b.user, directory, config, gres); err != nil {
		return nil, err
	}
	host, err := newSlurmHost(b.slurm.packages, directory, b.shared)
	if err != nil {
		return nil, err
	}
	s := &slurm{host: host, kit: b.slurm}
	defer func() {
		if err != nil {
			err = s.gaveUp(err)
		}
	}()
	if err := s.startDaemon("/usr/sbin/slurmctld-wlm"); err != nil {
		return nil, err
	}
	return s, until(ctx, "slurmctld to answer", startPatience, 100*time.Millisecond, func() (bool, error) {
		select {
		case <-s.daemons[0].ended:
			return false, errors.New("slurmctld ended")
		default:
		}
		_, err := run(ctx, s, infoVerb, "-h")
		return err == nil, ctx.Err()
	})
}

// cyclePatience bounds the wait for cycles: in its default configuration Slurm lets half a
// minute pass between two.
const cyclePatience = 4 * time.Minute

// slurmCycle fills the nodes, lets jobs wait, and reads what a whole cycle took that began
// after that.
func (b *bench) slurmCycle(ctx context.Context, s *slurm, c column, round int) error {
	if _, err := s.submitMany(ctx, load{jobs: b.sizes.cycleNodes, clients: 8, names: alike, gpus: "whole"}); err != nil {
		return err
	}
	err := until(ctx, "all nodes to be full", cyclePatience, time.Second, func() (bool, error) {
		pending, err := run(ctx, s, queueVerb, "-h", "-t", "PD", "-o", "%i")
		return strings.TrimSpace(pending) == "", err
	})
	if err != nil {
		return err
	}
	if _, err := s.submitMany(ctx, load{jobs: b.sizes.cycleJobs, clients: 8, names: alike, gpus: "simple"}); err != nil {
		return err
	}
	first, err := s.backfill(ctx)
	if err != nil {
		return err
	}
	var now backfillCycle
	// One may be under way.
	err = until(ctx, "two cycles of its backfill", cyclePatience, time.Second, func() (bool, error) {
		now, err = s.backfill(ctx)
		return now.cycles >= first.cycles+2, err
	})
	if err != nil {
		return err
	}
	if now.examined == 0 {
		return errors.New("sdiag says that the cycle examined no job")
	}
	b.addCycle(round, c, now.us/1000, now.examined)
	return nil
}

// backfillCycle is what sdiag says of the last one.
type backfillCycle struct{ cycles, us, examined float64 }

func (s *slurm) backfill(ctx context.Context) (backfillCycle, error) {
	text, err := run(ctx, s, diagnoseVerb)
	if err != nil {
		return backfillCycle{}, err
	}
	return parseBackfill(text)
}

// parseBackfill reads the part of sdiag's output that is about backfill.
func parseBackfill(text string) (c backfillCycle, err error) {
	_, part, found := strings.Cut(text, "Backfilling stats")
	if !found {
		return c, fmt.Errorf("sdiag says nothing of backfill: %.200q", text)
	}
	for line := range strings.Lines(part) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		into := map[string]*float64{"Total cycles": &c.cycles, "Last cycle": &c.us, "Last depth cycle": &c.examined}[name]
		if into == nil {
			continue
		}
		if *into, err = strconv.ParseFloat(strings.Fields(value + " ?")[0], 64); err != nil {
			return c, fmt.Errorf("sdiag: %q: %w", strings.TrimSpace(line), err)
		}
	}
	return c, nil
}
