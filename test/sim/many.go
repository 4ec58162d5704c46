package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gleaner-hpc/gleaner/test/sim/ordered"
)

// tally adds up the runs of many seeds.
type tally struct {
	ordered.Counts
	seeds   int
	devices int // times one was given twice
	doubled int
	lost    int
	other   int
}

func (t *tally) add(r *ordered.Result) {
	t.seeds++
	t.Steps += r.Steps
	t.Requests += r.Requests
	t.Accepted += r.Accepted
	t.Started += r.Started
	t.Filled += r.Filled
	t.Finished += r.Finished
	t.Requeued += r.Requeued
	t.Preempted += r.Preempted
	t.Elections += r.Elections
	t.Frozen += r.Frozen
	t.SaveCounts.Add(&r.SaveCounts)
	t.Reclaimed, t.Parked, t.Killed = t.Reclaimed+r.Reclaimed, t.Parked+r.Parked, t.Killed+r.Killed
	t.OnNode += r.OnNode
	t.Unanswered += r.Unanswered
	t.Entries += r.Entries
	t.Simulated += r.Simulated
	if t.Faults == nil {
		t.Faults = map[string]int{}
	}
	for kind, n := range r.Faults {
		t.Faults[kind] += n
	}
	if t.Waited == nil {
		t.Waited = map[string]int{}
	}
	for word, n := range r.Waited {
		t.Waited[word] += n
	}
	if r.Failure == nil {
		return
	}
	switch r.Failure.Class() {
	case "doubled", "half a gang", "torn", "runs on":
		t.doubled++
	case "lost", "stuck":
		t.lost++
	case "devices twice":
		t.devices++
	default:
		t.other++
	}
}

func (t *tally) print(out io.Writer) {
	faults := 0
	fmt.Fprintf(out, "faults:\n")
	for _, kind := range ordered.Kinds() {
		fmt.Fprintf(out, "  %6d %s\n", t.Faults[kind], kind)
		faults += t.Faults[kind]
	}
	fmt.Fprintf(out, "what jobs waited for when somebody asked:\n")
	for _, word := range slices.Sorted(maps.Keys(t.Waited)) {
		fmt.Fprintf(out, "  %6d %s\n", t.Waited[word], word)
	}
	fmt.Fprintf(out, "%d seeds, %.1f simulated days, %d events, %d log entries, %d elections, %d faults\n",
		t.seeds, t.Simulated.Hours()/24, t.Steps, t.Entries, t.Elections, faults)
	fmt.Fprintf(out, "%d requests (%d never answered), %d jobs accepted, %d runs started (%d in holes), %d finished, %d requeued, %d preempted, %d allocations frozen\n",
		t.Requests, t.Unanswered, t.Accepted, t.Started, t.Filled, t.Finished, t.Requeued, t.Preempted, t.Frozen)
	s := &t.SaveCounts
	fmt.Fprintf(out, "%d allocations saved (%d saves failed), %d runs left with their image (%d to make room), %d restored (%d restores failed), %d went on exactly there (%d took the place of a run that stood, %d moves were called off), %d runs repeated something, %d starts from an older image (%d newer ones undone by that), %d images deleted, %d jobs lost theirs, %d copied to a second node, %d times suspended\n",
		s.Saves, s.SavesFailed, s.Left, s.Leaving, s.Restores, s.RestoresFailed, s.Moved, s.Took, s.Stayed, s.Repeated, s.Older, s.Undone, s.Deleted, s.Dropped, s.Copied, s.Suspended)
	fmt.Fprintf(out, "of jobs on several nodes: %d images of all allocations, %d runs left with one, %d went on from one, %d of them on other nodes\n",
		s.Gangs, s.GangsLeft, s.GangsOn, s.GangsSent)
	fmt.Fprintf(out, "%d nodes reclaimed by their owners at controllers, %d on the node itself; %d allocations parked, %d killed because they were not parked in time\n", t.Reclaimed, t.OnNode, t.Parked, t.Killed)
	fmt.Fprintf(out, "lost %d, doubled %d, devices twice %d, other invariants %d\n", t.lost, t.doubled, t.devices, t.other)
}

// progressEvery is how often it says how far it is.
const progressEvery = 10 * time.Second

// runMany runs seeds on all CPUs, and stops at the first that fails.
func runMany(o ordered.Options, from uint64, seeds int, limit time.Duration, shrink bool) bool {
	begin := time.Now()
	var mu sync.Mutex
	var total tally
	var failed *ordered.Result
	var failedSeed atomic.Uint64 // the lowest: days after it prove nothing
	failedSeed.Store(math.MaxUint64)
	next := 0
	told := begin
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == seeds || failed != nil || limit > 0 && time.Since(begin) > limit {
			return 0, false
		}
		next++
		return from + uint64(next-1), true
	}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed, more := take(); more; seed, more = take() {
				one := o
				one.Seed, one.Stop = seed, func() bool { return failedSeed.Load() < seed }
				result := ordered.Run(one)
				if result.Failure == ordered.Stopped {
					return
				}
				mu.Lock()
				total.add(&result)
				if result.Failure != nil && seed < failedSeed.Load() {
					failed = &result
					failedSeed.Store(seed)
				}
				if time.Since(told) > progressEvery {
					told = time.Now()
					fmt.Fprintf(os.Stderr, "%d of %d seeds, %.0f simulated days\n", total.seeds, seeds, total.Simulated.Hours()/24)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	total.print(os.Stdout)
	fmt.Printf("took %v\n", time.Since(begin).Round(time.Second))
	if failed == nil {
		return true
	}
	o.Seed = failedSeed.Load()
	explain(o, failed)
	if shrink {
		smaller := shrunk(o, failed)
		explain(smaller.options, &smaller.result)
	}
	return false
}
