// Package ordered simulates a whole cluster in virtual time, from one seed, over
// an ordered log in the place of raft.
//
// Contract: Run is a function of its Options: one goroutine, no clock, no
// randomness but the seed's, and real code only as far as that is so too. The
// same seed leads to the same events, byte for byte. Invariants are looked at
// after each event that can break them; the first that does not hold ends the
// run. What is real and what is a model stands in test/sim/README.md.
package ordered

import (
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/test/sim/agenda"
	"github.com/gleaner-hpc/gleaner/test/sim/departures"
	"github.com/gleaner-hpc/gleaner/test/sim/history"
	"github.com/gleaner-hpc/gleaner/test/sim/node"
)

// Options say what is simulated.
type Options struct {
	Seed  uint64
	Hours float64 // with faults and submissions; 0 = 24
	// Only, when not nil, are the numbers of the faults that happen.
	Only    []int
	Faults  int           // how many are planned; 0 = 120 a day
	Between time.Duration // between two submissions, on average; 0 = 4 min
	Trace   io.Writer     // one line an event; nil = none
	Broken  Broken        // what is broken on purpose
	Holes   bool          // jobs that can be saved start in holes of the plan
	// Departures say when nodes join and leave: one for a day, if there are any. All these
	// days have owners, and more nodes than others.
	Departures []*departures.Trace
	// Stop, when not nil, is asked now and then. Once it says so the run ends, with
	// Stopped as its failure.
	Stop func() bool
}

// Stopped says that a run was ended because nobody waits for it: it shows nothing.
var Stopped = &Failure{What: "stopped: nobody waits for it"}

// Counts are what happened in a run.
type Counts struct {
	Steps, Requests                                  uint64
	Accepted, Started, Finished, Requeued, Preempted int
	Elections, Frozen, Unanswered                    int
	SaveCounts
	Filled                    int // jobs that started in holes
	Reclaimed, Parked, Killed int // nodes; allocations that were parked; those that were not in time
	OnNode                    int // reclaims on nodes themselves
	Entries                   int
	Simulated                 time.Duration
	Faults                    map[string]int
	// Waited is for what jobs waited when somebody asked, in Slurm's words.
	Waited map[string]int
}

// Result is what a run led to.
type Result struct {
	Counts
	Digest  string
	Failure *Failure
	Last    []string // lines of the trace
	Planned []Fault
}

// World is a cluster in virtual time.
type World struct {
	Counts
	Options Options
	seed    uint64
	rng     *rand.Rand
	now     time.Duration
	agenda  agenda.Agenda
	tasks   uint64
	conns   uint64
	current *task
	idle    []*stack
	broken  *Broken
	lent    bool // nodes have owners, who take them back

	net          network
	log          orderedLog
	controllers  []*controller
	controllerOf map[*process]*controller
	machines     []*machine
	truth        *truth
	owned        *owned
	lease        time.Duration
	margin       time.Duration
	shared       map[string]*node.Image // the store that some nodes share
	ambushes     []ambush
	phases       map[uint32]state.Phase
	appDone      map[string]time.Duration // what jobs that save themselves have saved
	quiet        bool
	awaited, met []waiting
	requeuedNow  bool
	faultsEnd    time.Duration

	intents    map[string]*intent
	intentList []*intent
	asked      []*request
	restarts   map[uint32]uint32
	madeRoom   map[[2]uint32]int // by victim and who came in its place
	over       map[uint32]bool
	purged     map[uint32]time.Duration
	rules      rules
	lives      map[taskOf]life
	numbers    map[uint32]uint32 // of a record: that of its job or array
	forgotten  map[uint32]bool   // jobs, and arrays of which some record is purged
	dependents map[uint32][]*intent
	changes    map[state.RequestID]func(*state.Result) // what a request changes once it is applied
	sums       []uint64                                // of the results, by index
	text       []byte                                  // in which a result is written down
	digests    map[int]string                          // of states, by index

	lines   hash.Hash64
	last    []string
	failure *Failure
}

// users is the place of all who ask; controllers and nodes follow.
const users place = 0

// begun is the wall clock's time when a run begins.
var begun = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (w *World) wall() time.Time { return begun.Add(w.now) }

// Run simulates one seed.
func Run(o Options) Result {
	if o.Hours == 0 {
		o.Hours = 24
	}
	if o.Faults == 0 {
		o.Faults = int(o.Hours * 5)
	}
	if o.Between == 0 {
		o.Between = 4 * time.Minute
	}
	w := newWorld(o)
	defer w.endTasks()
	day := time.Duration(o.Hours * float64(time.Hour))
	faults := planFaults(rand.New(rand.NewPCG(o.Seed, 2)), o.Faults, 10*time.Minute, day)
	faults = planHunts(o.Seed, faults, day)
	if w.lent {
		faults = planOwners(o.Seed, planReclaims(o.Seed, faults, day), day)
	}
	faults = w.chosen(w.planDepartures(faults, day))
	for _, c := range w.controllers {
		c.boot()
	}
	for i, m := range w.machines {
		w.after(time.Duration(i)*time.Second, m.switchOn)
	}
	w.after(2*time.Second, w.setUp)
	w.after(time.Minute, func() { w.work(day * 9 / 10) })
	if w.lent {
		w.after(time.Minute, w.checkPromises)
	}
	w.faultsEnd = day
	w.inject(faults, day)
	for w.failure == nil && w.step(day) {
	}
	w.settle(day)
	w.Simulated, w.Entries = w.now, len(w.log.entries)
	return Result{Counts: w.Counts, Digest: fmt.Sprintf("%016x", w.lines.Sum64()), Failure: w.failure, Last: w.last, Planned: faults}
}

// settle lets everything end once the faults are over, and looks whether it
// did.
func (w *World) settle(day time.Duration) {
	w.trace("check", "the faults are over")
	if w.lent {
		w.agree(day)
	}
	w.tidy()
	finished, since := w.Finished, w.now
	for w.failure == nil {
		if w.checkQuiet() == "" {
			break
		}
		if w.Finished > finished {
			finished, since = w.Finished, w.now
		}
		if w.now >= day+settleLimit && w.now >= since+settlePatience || w.now >= day+4*settleLimit {
			w.fail("stuck: %v after the last fault: %s", w.now-day, w.checkQuiet())
			break
		}
		for until := w.now + time.Minute; w.failure == nil && w.step(until); {
		}
	}
	w.quiet = true
	if w.failure == nil {
		w.checkEnd()
	}
	if w.failure == nil {
		operations := w.record()
		for i := range operations {
			if operations[i].Unknown {
				w.Unanswered++
			}
		}
		if err := history.Check(operations); err != nil {
			w.fail("%v", err)
		}
	}
}

// settleLimit is how long the last jobs may take once nothing fails any more:
// their work, several times over. Where limits let few run at once it may take
// longer, as long as one comes to its end within settlePatience.
const (
	settleLimit    = 18 * time.Hour
	settlePatience = 9 * time.Hour
)

func (w *World) chosen(faults []Fault) []Fault {
	if w.Options.Only == nil {
		return faults
	}
	only := map[int]bool{}
	for _, n := range w.Options.Only {
		only[n] = true
	}
	var kept []Fault
	for _, f := range faults {
		if only[f.Number] {
			kept = append(kept, f)
		}
	}
	return kept
}

func newWorld(o Options) *World {
	w := &World{
		Options: o, seed: o.Seed, rng: rand.New(rand.NewPCG(o.Seed, 1)), broken: &o.Broken,
		controllerOf: map[*process]*controller{}, intents: map[string]*intent{}, restarts: map[uint32]uint32{}, madeRoom: map[[2]uint32]int{},
		over: map[uint32]bool{}, purged: map[uint32]time.Duration{}, digests: map[int]string{}, lines: fnv.New64a(),
		lives: map[taskOf]life{}, numbers: map[uint32]uint32{}, forgotten: map[uint32]bool{},
		dependents: map[uint32][]*intent{}, changes: map[state.RequestID]func(*state.Result){},
		lease: 60 * time.Second, margin: 10 * time.Second,
		shared: map[string]*node.Image{}, phases: map[uint32]state.Phase{}, appDone: map[string]time.Duration{},
	}
	w.Faults, w.Waited = map[string]int{}, map[string]int{}
	w.lent = hasOwners(w.seed) || len(o.Departures) > 0
	w.rules = w.drawRules()
	w.net = network{w: w, closed: map[[2]place]int{}}
	w.log.w = w
	w.truth, w.owned = newTruth(w), newOwned(w)
	rate := func() float64 { return 1 + (w.rng.Float64()-0.5)/50 } // within 1 %
	for i := range pick(w.rng, []int{1, 3, 3, 3, 3, 5}) {
		c := &controller{name: fmt.Sprintf("c%d", i+1), place: place(1 + i), rate: rate(), links: map[*link]struct{}{}}
		c.process.w = w
		w.controllers = append(w.controllers, c)
		w.controllerOf[&c.process] = c
	}
	nodes := 4 + w.rng.IntN(4)
	if len(o.Departures) > 0 {
		nodes *= 2
	}
	for i := range nodes {
		n := &node.Node{
			World: w, Broken: &w.broken.Broken, Name: fmt.Sprintf("n%d", i+1), Number: i, Seed: w.seed, Rate: rate(),
			Shims: map[registry.Key]*node.Shim{}, CPUs: 8, GPUs: 4, Features: featuresOf(i), Images: map[string]*node.Image{},
		}
		w.drawSaving(n)
		if i >= 3 {
			n.GPUs = uint32(w.rng.IntN(3) * 2)
		}
		w.addMachine(n)
	}
	return w
}

func (w *World) controllerAt(p place) *controller {
	if i := int(p) - 1; i >= 0 && i < len(w.controllers) {
		return w.controllers[i]
	}
	return nil
}

// keptLines is how many lines of the trace a failure shows.
const keptLines = 60

// trace tells what happens, one line an event. The lines are the seed's
// digest.
func (w *World) trace(who, format string, arguments ...any) {
	line := fmt.Sprintf("%12.6f %-5s %s\n", w.now.Seconds(), who, fmt.Sprintf(format, arguments...))
	_, _ = w.lines.Write([]byte(line))
	if w.Options.Trace != nil {
		_, _ = io.WriteString(w.Options.Trace, line)
	}
	if len(w.last) == 2*keptLines {
		w.last = append(w.last[:0], w.last[keptLines:]...)
	}
	w.last = append(w.last, line)
}
