package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// fault is one fault that may be made.
type fault struct {
	name   string
	weight int
	least  time.Duration // how long it lasts
	most   time.Duration
	three  bool // needs several controllers
	make   func(w *weather, c cast) (*strike, error)
}

// cast is what the seed says about one fault: the same seed, the same casts in
// the same order.
type cast struct {
	name   string
	length time.Duration
	pick   uint64 // which of the possible targets
	pick2  uint64
}

// strike is a fault that has begun.
type strike struct {
	target string
	nodes  []string // compute nodes whose jobs it may harm
	harm   history.Harm
	every  bool                        // or all of them
	heal   func(context.Context) error // nil = nothing to heal
}

// lane makes one fault after the other. Several lanes work at once, so that
// faults meet each other.
type lane struct {
	name   string
	pause  time.Duration // mean, between two faults
	faults []fault
}

// weather makes the faults.
type weather struct {
	*cluster
	watch *watcher
}

// lanes are all lanes, with a time for each. There are so many of owners.
func lanes(owners int) []lane {
	all := []lane{
		{"controllers", 6 * time.Second, slices.Concat(controllerFaults, historyFaults)},
		{"nodes", 4 * time.Second, nodeFaults},
		{"network", 4 * time.Second, networkFaults},
		{"processes", 2 * time.Second, processFaults},
		{"disks", 5 * time.Second, diskFaults},
		{"everything", 90 * time.Second, everythingFaults},
		{savesLane, 1500 * time.Millisecond, saveFaults},
	}
	for range owners {
		all = append(all, lane{"owners", 2500 * time.Millisecond, ownersFaults}, lane{"on nodes", 2500 * time.Millisecond, onNodeFaults})
	}
	return all
}

// run makes faults until ctx ends, and heals them all.
func (w *weather) run(ctx context.Context) {
	var all sync.WaitGroup
	for number, l := range lanes(w.options.owners) {
		l.faults = slices.DeleteFunc(slices.Clone(l.faults), func(f fault) bool {
			return f.three && len(w.controllers) < 3 || l.name == savesLane && !w.saves || w.options.only != "" && !slices.Contains(strings.Split(w.options.only, ","), f.name)
		})
		if len(l.faults) == 0 {
			continue
		}
		r := rand.New(rand.NewPCG(w.options.seed, uint64(number)+1))
		all.Go(func() {
			for w.rest(ctx, r, l) {
				w.one(ctx, l, throw(r, l))
			}
		})
	}
	all.Wait()
}

// rest waits for a lane's next fault.
func (w *weather) rest(ctx context.Context, r *rand.Rand, l lane) bool {
	pause := time.Duration((0.3 + 0.7*r.ExpFloat64()) * float64(l.pause))
	select {
	case <-ctx.Done():
		return false
	case <-time.After(min(pause, 4*l.pause)):
		return true
	}
}

// throw takes what is next from the seed.
func throw(r *rand.Rand, l lane) cast {
	total := 0
	for _, f := range l.faults {
		total += f.weight
	}
	at := r.IntN(total)
	for _, f := range l.faults {
		if at -= f.weight; at < 0 {
			return cast{f.name, between(r, f.least, f.most), r.Uint64(), r.Uint64()}
		}
	}
	panic("weights do not add up")
}

// one makes a fault, lets it last, and heals it.
func (w *weather) one(ctx context.Context, l lane, c cast) {
	at := slices.IndexFunc(l.faults, func(f fault) bool { return f.name == c.name })
	from := now()
	s, err := l.faults[at].make(w, c)
	if err != nil {
		w.out.note("fault %s: %v", c.name, err)
		return
	}
	if s == nil {
		return // there is nothing to break
	}
	w.out.say("fault: %s %s%s", c.name, s.target, lasting(c.length))
	record := w.cluster.weather.begin(history.Fault{Kind: c.name, Nodes: s.nodes, Everywhere: s.every, Harm: s.harm, From: from})
	select {
	case <-ctx.Done():
	case <-time.After(c.length):
	}
	if s.heal != nil {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), healLimit)
		if err := s.heal(limited); err != nil {
			w.out.say("fault: %s %s is not healed: %v", c.name, s.target, err)
			w.cluster.weather.fail(fmt.Sprintf("%s %s was not healed: %v", c.name, s.target, err))
		}
		cancel()
	}
	w.cluster.weather.end(record)
}

// healLimit bounds the healing of one fault: the longest wait for a host to be
// up, or a peer to have caught up, in the midst of other faults.
const healLimit = 3 * time.Minute

func lasting(length time.Duration) string {
	if length == 0 {
		return ""
	}
	return fmt.Sprintf(" for %.1f s", length.Seconds())
}

// of picks one of some things.
func of[T any](things []T, pick uint64) T { return things[pick%uint64(len(things))] }

// weatherLog remembers the faults that were made.
type weatherLog struct {
	mu     sync.Mutex
	faults []history.Fault
	failed []string
}

func (l *weatherLog) begin(f history.Fault) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.To = int64(1) << 62 // until it ends
	l.faults = append(l.faults, f)
	return len(l.faults) - 1
}

func (l *weatherLog) end(record int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults[record].To = now()
}

// fail notes that a fault went otherwise than it must.
func (l *weatherLog) fail(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, what)
}

func (l *weatherLog) into(h *history.History) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.Faults = append(h.Faults, l.faults...)
}

func (l *weatherLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.faults)
}

// summary counts faults by kind.
func (l *weatherLog) summary() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[string]int{}
	for _, f := range l.faults {
		counts[f.Kind]++
	}
	var words []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s %d", kind, counts[kind]))
	}
	return fmt.Sprintf("%d (%s)", len(l.faults), strings.Join(words, ", "))
}
