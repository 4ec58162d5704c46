package ordered

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/noded/owner"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// What owners do on their nodes, with or without controllers, on days with owners.

// ownersFaults are the kinds with which a day with owners is planned, and how many of each.
var ownersFaults = []struct {
	kind        string
	count       int
	least, most time.Duration
}{
	{"owner reclaims on the node", 36, 2 * time.Second, 2 * time.Hour},
	{"owner is seen on the node", 16, 10 * time.Second, time.Hour},
	{"all controllers are away", 4, 5 * time.Second, time.Hour},
	{"node's clock is set", 6, time.Minute, 2 * time.Hour},
}

// planOwners adds what owners do there to the faults of a day, from a source of its
// own.
func planOwners(seed uint64, faults []Fault, until time.Duration) []Fault {
	rng := rand.New(rand.NewPCG(seed, 6))
	for _, k := range ownersFaults {
		for range k.count {
			// Short ones are as likely as long ones.
			length := time.Duration(float64(k.least) * math.Exp(rng.Float64()*math.Log(float64(k.most)/float64(k.least))))
			f := Fault{At: between(rng, 10*time.Minute, until), For: length, Kind: k.kind, A: rng.IntN(1 << 20), B: rng.IntN(1 << 20)}
			for again := range 1 + rng.IntN(2) { // the same node twice, before the first ends or just after it
				f.Number = len(faults)
				faults = append(faults, f)
				f.At, f.B = min(until, f.At+between(rng, 0, f.For+20*time.Second)), f.B+again+1
			}
		}
	}
	return faults
}

// lend sets terms for two nodes: hours for one, and for both what takes them back by
// itself.
func (w *World) lend() {
	seen := []pb.ReclaimTrigger{pb.ReclaimTrigger_RECLAIM_TRIGGER_GPU_PROCESS, pb.ReclaimTrigger_RECLAIM_TRIGGER_LOGIN}
	terms := state.Lending{Hours: "Mon-Sun 17:00-11:00", TimeZone: "Europe/Berlin", Triggers: seen, QuietS: 120, NoticeMS: 20_000}
	set := func(name string, settings ...string) {
		w.administer("set terms for "+name, state.SetLending{Names: []string{name}, Lending: terms, Settings: settings, User: "root", Privileged: true}, nil)
	}
	set("n1", "hours", "time_zone", "triggers", "quiet_s", "notice_ms")
	set("n3", "triggers", "quiet_s")
}

// localReclaim has the owner type greclaim --local, and in the end grelease: on the node,
// or at a controller. Sometimes the daemon dies between.
func (w *World) localReclaim(f Fault) func() {
	m := w.machine(f)
	r := owner.Request{By: "owner", Within: []time.Duration{time.Second, 5 * time.Second, time.Minute, 10 * time.Minute}[f.B%4], Kill: f.B/4%8 == 0}
	if f.B/32%4 == 0 {
		r.For = r.Within + f.For
	}
	over := false
	w.trace("owner", "reclaims %s on it within %v, for %v", m.Name, r.Within, r.For)
	w.typeOn(m, func() bool { return over }, func(done func()) { w.owned.reclaim(m, r, done) })
	if f.B/128%6 == 0 {
		w.after(time.Duration(f.B%40)*time.Millisecond, func() {
			m.daemon.fall()
			w.after(between(w.rng, time.Second, time.Minute), m.daemon.begin)
		})
	}
	return func() {
		over = true
		if f.B/1024%3 == 0 {
			w.release(m.Name)
			return
		}
		w.trace("owner", "releases %s on it", m.Name)
		w.typeOn(m, func() bool { return w.now >= w.faultsEnd }, func(done func()) { w.owned.release(m, done) })
	}
}

// typeOn has the owner type something on a node until it is answered or there is no more
// use in it. do may be called several times.
func (w *World) typeOn(m *machine, over func() bool, do func(done func())) {
	answered := false
	var try func()
	try = func() {
		if answered || over() {
			return
		}
		m.daemon.after(between(w.rng, 0, 5*time.Millisecond), func() {
			if !answered && !over() {
				do(func() { answered = true })
			}
		})
		w.after(between(w.rng, 2*time.Second, 5*time.Second), try)
	}
	try()
}

// seeOwner has a trigger be there for a while.
func (w *World) seeOwner(f Fault) func() {
	m := w.machineNamed([]string{"n1", "n3"}[f.A%2])
	trigger := []pb.ReclaimTrigger{pb.ReclaimTrigger_RECLAIM_TRIGGER_GPU_PROCESS, pb.ReclaimTrigger_RECLAIM_TRIGGER_LOGIN}[f.B%2]
	w.trace("owner", "is seen on %s: %v", m.Name, trigger)
	w.owned.see(m, trigger, 1)
	return func() { w.owned.see(m, trigger, -1) }
}

// allAway has every controller away.
func (w *World) allAway(Fault) func() {
	var back []func()
	for _, c := range w.controllers {
		if end := w.crashController(c); end != nil {
			back = append(back, end)
		}
	}
	return func() {
		for _, end := range back {
			end()
		}
	}
}

// setNodeClock sets a node's clock off by up to six hours either way.
func (w *World) setNodeClock(f Fault) func() {
	m := w.machine(f)
	m.WallOff = time.Duration(f.B%(12*3600)-6*3600) * time.Second
	return func() { m.WallOff = 0 }
}
