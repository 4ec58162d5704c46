package ordered

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/test/sim/node"
)

// What a supervisor is in the middle of.
const (
	inSave = iota
	inRestore
)

// ambush is a fault that waits for a supervisor to be in the middle of something.
type ambush struct {
	fault Fault
	in    int
	power bool // the machine loses its power, in the place of a kill of the supervisor
}

func (w *World) lieInWait(f Fault, in int, power bool) func() {
	w.ambushes = append(w.ambushes, ambush{f, in, power})
	return nil
}

// ambush has what lies in wait happen to a supervisor that begins something, a
// while later: before that ends, at its end, or after it.
func (w *World) ambush(s *node.Shim, in int) {
	if w.now >= w.faultsEnd {
		return
	}
	w.ambushes = slices.DeleteFunc(w.ambushes, func(a ambush) bool {
		if a.in != in {
			return false
		}
		within := []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}[a.fault.B%3]
		s.After(time.Duration(a.fault.A%1000)*within/1000, func() {
			w.trace("fault", "%d: it is the moment: allocation %s, save %t", a.fault.Number, s.Key, in == inSave)
			if !a.power {
				s.Die()
				return
			}
			m := w.machines[s.Node.Number]
			m.switchOff()
			w.after(min(a.fault.For, w.faultsEnd-w.now), m.switchOn)
		})
		return true
	})
}

// loseImages has a store lost: its disk was replaced.
func (w *World) loseImages(f Fault) func() {
	m := w.machine(f)
	for _, i := range m.Made() {
		if i.Store == "" || f.B%4 == 0 {
			w.trace("fault", "%d: %s is lost on %s", f.Number, i, m.Name)
			w.truth.lost(i)
			i.Remove()
		}
	}
	for _, i := range m.Copies() {
		w.trace("fault", "%d: the copy of %s is lost on %s", f.Number, i, m.Name)
		w.truth.lost(i)
		m.DropCopy(i)
	}
	return nil
}

// damageImage has a byte of an image changed, which is found when it is used.
func (w *World) damageImage(f Fault) func() {
	for n := range w.machines {
		if made := w.machines[(f.A+n)%len(w.machines)].Made(); len(made) > 0 {
			i := made[f.B%len(made)]
			w.trace("fault", "%d: %s is damaged", f.Number, i)
			w.truth.lost(i)
			i.Damaged, i.Spoiled = true, i.Spoiled || f.B%2 == 0
			return nil
		}
	}
	return nil
}

// planHunts adds faults to those of every fifth day that wait for a job whose newest
// image lies alone: it is rare that its node is lost just then. They have a source of
// their own, so that the other days are as they were.
func planHunts(seed uint64, faults []Fault, until time.Duration) []Fault {
	if seed%5 != 4 {
		return faults
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	for range 8 {
		faults = append(faults, Fault{
			Number: len(faults), At: between(rng, 10*time.Minute, until), For: between(rng, 2*time.Minute, 15*time.Minute),
			Kind: "node of a newest image is lost", A: rng.IntN(1 << 20),
		})
	}
	return faults
}

// loseNewest waits for a job that has its newest image where it runs, and the one before
// elsewhere. Then its node loses its power, and is declared lost.
func (w *World) loseNewest(f Fault) func() {
	prey := w.prey()
	if len(prey) == 0 {
		w.after(30*time.Second, func() {
			if w.now < w.faultsEnd {
				w.loseNewest(f)
			}
		})
		return nil
	}
	one := prey[f.A%len(prey)]
	w.trace("fault", "%d: it is the moment: %s for %v", f.Number, w.machines[one].Name, f.For.Round(time.Millisecond))
	end := w.powerOffAndFence(Fault{A: one})
	w.after(min(f.For, w.faultsEnd-w.now), func() {
		w.trace("fault", "%d is over", f.Number)
		end()
	})
	if f.A%2 == 0 { // and a new leader comes, when the node has almost been waited for
		w.after(200*time.Second+time.Duration(f.A%40)*time.Second, func() {
			if again := w.crashController(w.log.leader); again != nil {
				w.after(20*time.Second, again)
			}
			w.log.look()
		})
	}
	return nil
}

// prey are the machines that are on and on which such a job runs, by number.
func (w *World) prey() (all []int) {
	lead := w.log.leader
	if lead == nil || !lead.leading {
		return nil
	}
	for job := range lead.View().WithImages {
		images := job.Images()
		if job.Phase != state.Running || len(images) < 2 || len(job.Run.Allocs) > 1 || !job.Spec.Requeue {
			continue
		}
		newest, before := images[0].Allocs[0], images[1].Allocs[0]
		if newest.Store != "" || newest.Node == before.Node || newest.Node != job.Run.Allocs[0].Node {
			continue
		}
		i := slices.IndexFunc(w.machines, func(m *machine) bool { return m.Name == newest.Node })
		if w.machines[i].On {
			all = append(all, i)
		}
	}
	return all
}
