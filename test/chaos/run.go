package main

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
	"github.com/gleaner-hpc/gleaner/test/chaos/host"
)

// Limits of what comes after the weather.
const (
	calmLimit  = 3 * time.Minute // until all is healthy, and no client asks any more
	drainLimit = 4 * time.Minute // until all jobs are over
	stopLimit  = 2 * time.Minute
)

// test is one run of the test.
type test struct {
	*cluster
	load    *load
	watch   *watcher
	started time.Time
	failed  []string // that is not about jobs
}

// run runs the whole test, inside the lab.
func run(ctx context.Context, o options) (int, error) {
	out, err := newOutput(o.directory)
	if err != nil {
		return 1, err
	}
	out.say("%d controllers and %d nodes in %s, seed %d; the same seed gives the same faults, not the same timing", o.controllers, o.nodes, o.directory, o.seed)
	c, err := newCluster(o, out)
	if err != nil {
		return 1, err
	}
	t := &test{cluster: c, started: time.Now()}
	t.load = &load{cluster: c, random: rand.New(rand.NewPCG(o.seed, 0))}
	t.watch = newWatcher(c, t.load)
	if err := c.start(ctx); err != nil {
		return 1, err
	}
	out.say("all are up")
	c.seeWhetherSaves(ctx)
	if o.story != "" {
		return t.tell(ctx, o.story)
	}
	measuring, stop := context.WithCancel(ctx)
	defer stop()
	meter := startMeter(measuring)
	t.storm(ctx)
	stop()
	if ctx.Err() != nil {
		return 1, nil // who interrupted it knows
	}
	h := t.settle(ctx)
	meter.into(h)
	return t.report(h, history.Check(h)), nil
}

// storm is the bad weather under load.
func (t *test) storm(ctx context.Context) {
	stormy, stop := context.WithTimeout(ctx, t.options.length)
	defer stop()
	watching, stopWatching := context.WithCancel(ctx)
	var all, watch sync.WaitGroup
	watch.Go(func() { t.watch.run(watching) })
	all.Go(func() { t.load.run(stormy) })
	all.Go(func() { (&weather{t.cluster, t.watch}).run(stormy) })
	<-stormy.Done()
	t.out.say("the weather clears up")
	t.limited(ctx, calmLimit, "clients to end and faults to be healed", func(ctx context.Context) error {
		ended := make(chan struct{})
		go func() { all.Wait(); close(ended) }()
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	t.healAll()
	t.limited(ctx, calmLimit, "all nodes to be lent again", t.lendAgain)
	t.limited(ctx, calmLimit, "a healthy cluster", t.healthy)
	t.limited(ctx, drainLimit, "all jobs to end", t.drain)
	t.limited(ctx, calmLimit, "all nodes to be idle", t.idle)
	t.limited(ctx, calmLimit, "the images of all jobs to be deleted", t.imagesGone)
	stopWatching()
	watch.Wait()
}

// limited does something that may take only so long.
func (t *test) limited(ctx context.Context, limit time.Duration, what string, do func(context.Context) error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	if err := do(limited); err != nil && ctx.Err() == nil {
		t.failed = append(t.failed, "waited for "+what+": "+err.Error())
		t.out.say("waited %v for %s: %v", limit, what, err)
		t.keepSupervisors()
		return
	}
	t.out.note("%s: %.1f s", what, time.Since(began).Seconds())
}

// shimLog is the name of a log of a supervisor.
const shimLog = "shim.log"

// keepSupervisors has each supervisor that there still is say what it does, with the stacks
// of its goroutines, and keeps its log. It ends by that, so the daemons, which clean up
// after it, are stopped meanwhile.
func (t *test) keepSupervisors() {
	signal := func(s syscall.Signal, wanted func([]string) bool) {
		for _, process := range host.Processes() {
			if wanted(process.Words) {
				_ = syscall.Kill(process.PID, s) // it may have ended meanwhile
			}
		}
	}
	daemons := func(words []string) bool { return isNamed("gnoded")(words) && !isShim(words) }
	signal(syscall.SIGSTOP, daemons)
	defer signal(syscall.SIGCONT, daemons)
	signal(syscall.SIGQUIT, isShim)
	time.Sleep(time.Second) // for the stacks; the test has failed already
	for _, h := range t.lab.Hosts() {
		logs, _ := filepath.Glob(filepath.Join(h.Disk.Path, "*", "*", "*", shimLog)) // the pattern is valid
		for _, path := range logs {
			to := h.Name + "-" + filepath.Base(filepath.Dir(path)) + "." + shimLog
			if err := copyFile(path, t.path(logFolder, to)); err != nil {
				t.out.note("keep the log of a supervisor: %v", err)
			}
		}
	}
}

// healAll mends whatever a fault that could not be healed left.
func (t *test) healAll() {
	for _, h := range t.lab.Hosts() {
		for _, err := range []error{h.Mend(), h.Plug(true), h.Disk.Thaw(), h.Disk.Empty()} {
			if err != nil {
				t.out.note("heal %s: %v", h.Name, err)
			}
		}
		if !h.On() {
			if err := h.PowerOn(time.Minute); err != nil {
				t.failed = append(t.failed, err.Error())
			}
		}
	}
	for _, k := range t.all() {
		k.want(true)
	}
}

// healthy waits until there is a leader, all controllers vote, and all nodes
// respond and take jobs.
func (t *test) healthy(ctx context.Context) error {
	return until(ctx, "leader, controllers and nodes", func() bool {
		time.Sleep(200 * time.Millisecond)
		if len(t.controllers) > 1 {
			peers, err := t.listPeers(ctx)
			if err != nil || len(peers) != len(t.controllers) {
				return false
			}
			for _, peer := range peers {
				if !peer.Voter || !peer.Reachable && !peer.Leader {
					return false
				}
			}
		}
		nodes, err := t.listNodes(ctx)
		if err != nil || len(nodes) != len(t.nodes) {
			return false
		}
		for _, n := range nodes {
			if n.NotResponding || n.Drain || n.Inventory.GetTrouble() != "" {
				return false
			}
		}
		return true
	})
}
