// Command nodes measures real controllers with thousands of connected nodes: processor
// and memory of the leading one at rest and under load, and how long after its death
// submissions are accepted and all nodes are registered again.
//
// It promises that controllers and connections are real: three gctld with their logs on
// the disk, a gRPC session for each node, and the nodes decide by noded/registry as gnoded
// does. What is made up is what a node has and runs: its jobs end at once. It needs root and
// the programs that make build puts into bin/, and leaves nothing behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

type options struct {
	binaries string
	nodes    int
	rate     int
	load     time.Duration
	kills    int
}

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "nodes:", err)
		os.Exit(1)
	}
}

func command(words []string) error {
	var o options
	flags := flag.NewFlagSet("nodes", flag.ExitOnError)
	flags.StringVar(&o.binaries, "bin", "bin", "`folder` of Gleaner's programs")
	flags.IntVar(&o.nodes, "nodes", 10_000, "how many nodes")
	flags.IntVar(&o.rate, "rate", 500, "jobs submitted each second")
	flags.DurationVar(&o.load, "load", 20*time.Second, "for how long")
	flags.IntVar(&o.kills, "kills", 3, "how often the leading controller is killed")
	if err := flags.Parse(words); err != nil {
		return err
	}
	if flags.NArg() > 0 || o.nodes < 1 || o.nodes > 50_000 || o.rate < 1 || o.kills < 0 {
		return errors.New("use from 1 to 50000 nodes, and numbers that are not negative: see nodes --help")
	}
	if os.Geteuid() != 0 {
		return errors.New("only root may speak as a node: run it with sudo")
	}
	var err error
	if o.binaries, err = filepath.Abs(o.binaries); err != nil {
		return err
	}
	if err := openFiles(uint64(o.nodes) + spareFiles); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return measure(ctx, o)
}

// spareFiles are those that are open besides a connection for each node.
const spareFiles = 2048

// openFiles has this process, and the controllers that it starts, be allowed as many open
// files as may be, and at least so many. A controller keeps two thirds for other things than
// connections, and after a fail-over one of them may have half of the nodes or more.
func openFiles(count uint64) error {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	files.Cur, files.Max = max(files.Max, count), max(files.Max, count)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("%d open files, for as many connections: %w", count, err)
	}
	return nil
}

// measure runs all parts one after the other, and prints each figure when it is there.
func measure(ctx context.Context, o options) (err error) {
	c, err := startControllers(ctx, o.binaries)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	fleet := newFleet(o.nodes, c.targets)
	ctx, cancel := context.WithCancel(ctx)
	defer fleet.group.Wait()
	defer cancel()
	begin := time.Now()
	fleet.connect(ctx)
	if err := fleet.all(ctx); err != nil {
		return err
	}
	row("all registered, first time", time.Since(begin).Seconds(), "s")
	if err := c.measureFor(ctx, "at rest", 15*time.Second, func(context.Context) error { return nil }); err != nil {
		return err
	}
	before, processor, own := fleet.started.Load(), c.spent(), ownProcessor()
	begin = time.Now()
	if err := c.measureFor(ctx, fmt.Sprintf("at %d submissions a second", o.rate), o.load, func(ctx context.Context) error { return c.submitAt(ctx, o.rate) }); err != nil {
		return err
	}
	row("submissions accepted a second then", float64(c.accepted.Load())/time.Since(begin).Seconds(), "/s")
	starts := float64(fleet.started.Load()-before) / time.Since(begin).Seconds()
	row("starts a second then", starts, "/s")
	row("  processor for each: controllers", each(c.spent().since(processor), fleet.started.Load()-before), "ms")
	row("  processor for each: nodes and clients", each(ownProcessor()-own, fleet.started.Load()-before), "ms")
	accepted, registered, err := failovers(ctx, o, c, fleet)
	if err != nil {
		return err
	}
	fmt.Println("\naims")
	aim("jobs start as fast as they are submitted, within a twentieth", starts >= float64(o.rate)*0.95, starts, "/s")
	if o.kills > 0 {
		aim("a submission is accepted 1 s after a kill, at the median", accepted <= 1, accepted, "s")
		aim("all nodes are registered 10 s after it, at the median", registered <= 10, registered, "s")
	}
	return nil
}

// aim says whether a goal was reached. Missing one fails nothing.
func aim(what string, reached bool, figure float64, unit string) {
	verdict := "MISSED"
	if reached {
		verdict = "reached"
	}
	fmt.Printf("  %-8s %10.2f %-3s %s\n", verdict, figure, unit, what)
}

// failovers kills the leading controller again and again. It returns how long it took until
// a submission was accepted, and until all nodes were registered, at the median.
func failovers(ctx context.Context, o options, c *controllers, fleet *fleet) (_, _ float64, _ error) {
	var accepted, registered, controllers, nodes []float64
	for range o.kills {
		pid, err := c.leader(ctx)
		if err != nil {
			return 0, 0, err
		}
		before, own, count := c.spent(), ownProcessor(), fleet.registered.Load()
		begin := time.Now()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return 0, 0, err
		}
		at, err := c.submitOnce(ctx)
		if err != nil {
			return 0, 0, err
		}
		accepted = append(accepted, at.Sub(begin).Seconds())
		if err := fleet.allSince(ctx, begin); err != nil {
			return 0, 0, err
		}
		registered = append(registered, time.Since(begin).Seconds())
		count = fleet.registered.Load() - count
		controllers = append(controllers, each(c.spent().since(before), count))
		nodes = append(nodes, each(ownProcessor()-own, count))
		if err := c.allAnswer(ctx); err != nil {
			return 0, 0, err
		}
	}
	if o.kills == 0 {
		return 0, 0, nil
	}
	for _, figures := range [][]float64{accepted, registered, controllers, nodes} {
		slices.Sort(figures)
	}
	row("after a kill, a submission is accepted (median)", accepted[o.kills/2], "s")
	row("  at the longest", accepted[o.kills-1], "s")
	row("after a kill, all nodes are registered (median)", registered[o.kills/2], "s")
	row("  at the longest", registered[o.kills-1], "s")
	row("  processor for each registration: controllers", controllers[o.kills/2], "ms")
	row("  processor for each registration: nodes", nodes[o.kills/2], "ms")
	return accepted[o.kills/2], registered[o.kills/2], nil
}

// each is what one of so many took, in milliseconds.
func each(total time.Duration, count int64) float64 {
	return total.Seconds() * 1000 / float64(max(count, 1))
}

func row(what string, figure float64, unit string) {
	fmt.Printf("%-50s %10.2f %s\n", what, figure, unit)
}
