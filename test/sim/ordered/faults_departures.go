package ordered

import (
	"math/rand/v2"
	"time"
)

// planDepartures has the day's nodes come and go as those of a trace did.
func (w *World) planDepartures(faults []Fault, until time.Duration) []Fault {
	all := w.Options.Departures
	if len(all) == 0 {
		return faults
	}
	rng := rand.New(rand.NewPCG(w.seed, 8))
	for _, a := range all[w.seed%uint64(len(all))].Absences(w.seed, len(w.machines), 10*time.Minute, until) {
		faults = append(faults, Fault{Number: len(faults), At: a.From, For: a.Till - a.From, Kind: "node departs", A: a.Node, B: rng.IntN(1 << 20)})
	}
	return faults
}

// depart has a node leave, and come back at the end: its owner takes it back, on the node
// or at a controller, somebody empties it and switches it off, or it just goes.
func (w *World) depart(f Fault) func() {
	m := w.machine(f)
	switch f.B % 8 {
	case 0, 1, 2:
		return w.localReclaim(Fault{For: f.For, A: f.A, B: f.B / 8})
	case 3:
		return w.reclaim(Fault{For: f.For, A: f.A, B: f.B / 8})
	case 4:
		resume := w.evacuate(Fault{A: f.A, B: f.B / 8})
		w.after(min(f.For/2, 10*time.Minute), m.switchOff)
		return func() {
			m.switchOn()
			resume()
		}
	}
	m.switchOff()
	return m.switchOn
}
