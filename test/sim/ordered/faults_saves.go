package ordered

import (
	"slices"
	"time"
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
func (w *World) ambush(s *shim, in int) {
	if w.now >= w.faultsEnd {
		return
	}
	w.ambushes = slices.DeleteFunc(w.ambushes, func(a ambush) bool {
		if a.in != in {
			return false
		}
		within := []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}[a.fault.B%3]
		s.after(time.Duration(a.fault.A%1000)*within/1000, func() {
			w.trace("fault", "%d: it is the moment: part %s, save %t", a.fault.Number, s.key, in == inSave)
			if !a.power {
				s.die()
				return
			}
			s.m.switchOff()
			w.after(min(a.fault.For, w.faultsEnd-w.now), s.m.switchOn)
		})
		return true
	})
}

// loseImages has a store lost: its disk was replaced.
func (w *World) loseImages(f Fault) func() {
	m := w.machine(f)
	for _, i := range m.made() {
		if i.store == "" || f.B%4 == 0 {
			w.trace("fault", "%d: %s is lost on %s", f.Number, i, m.name)
			w.truth.lost(i)
			i.remove()
		}
	}
	return nil
}

// damageImage has a byte of an image changed, which is found when it is used.
func (w *World) damageImage(f Fault) func() {
	for n := range w.machines {
		if made := w.machines[(f.A+n)%len(w.machines)].made(); len(made) > 0 {
			i := made[f.B%len(made)]
			w.trace("fault", "%d: %s is damaged", f.Number, i)
			w.truth.lost(i)
			i.damaged, i.spoiled = true, f.B%2 == 0
			return nil
		}
	}
	return nil
}
