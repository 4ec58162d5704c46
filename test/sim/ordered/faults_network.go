package ordered

import "time"

// places are what a partition may part: controllers, nodes and users.
func (w *World) places() int { return 1 + len(w.controllers) + len(w.machines) }

// part closes the way between a controller and somebody else, or one way of
// it.
func (w *World) part(f Fault, both bool) func() {
	a := w.controllers[f.A%len(w.controllers)].place
	b := place(f.B % w.places())
	if a == b {
		b = place((f.B + 1) % w.places())
	}
	if f.A&1024 != 0 {
		a, b = b, a
	}
	return w.cut(both, [2]place{a, b})
}

func (w *World) isolate(f Fault) func() {
	a := place(1 + f.A%(w.places()-1))
	var ways [][2]place
	for b := range place(w.places()) {
		if a != b {
			ways = append(ways, [2]place{a, b})
		}
	}
	return w.cut(f.B%3 > 0, ways...)
}

// cut closes ways, and answers what opens them.
func (w *World) cut(both bool, ways ...[2]place) func() {
	for _, way := range ways {
		w.trace("net", "%s to %s is closed, both ways: %t", w.nameOf(way[0]), w.nameOf(way[1]), both)
		w.net.cut(way[0], way[1])
		if both {
			w.net.cut(way[1], way[0])
		}
	}
	w.after(keepalive, w.dropDead)
	return func() {
		for _, way := range ways {
			w.net.mend(way[0], way[1])
			if both {
				w.net.mend(way[1], way[0])
			}
		}
		w.log.spreadSoon()
	}
}

func (w *World) nameOf(p place) string {
	if c := w.controllerAt(p); c != nil {
		return c.name
	}
	if p == users {
		return "users"
	}
	return w.machines[int(p)-1-len(w.controllers)].Name
}

// keepalive is after how long a controller gives up a connection that does not
// answer.
const keepalive = 30 * time.Second

func (w *World) dropDead() {
	for _, c := range w.controllers {
		for _, l := range linksInOrder(c.links) {
			if !l.conn.passes(false) || !l.conn.passes(true) {
				c.after(0, func() { l.close("no answer") })
			}
		}
	}
}

func (w *World) slowNetwork(f Fault) func() {
	w.net.slow = 3 * time.Second
	return func() { w.net.slow = 0 }
}
