package sched

import "github.com/gleaner-hpc/gleaner/sched/place"

// Ask is what a job holds, or will hold at least.
type Ask struct {
	Amounts Amounts
	Node    Amounts // the most of each on one node
	// open says that it will hold more of this than Amounts has: what it gets
	// beyond what it named is known only once it is placed.
	openNodes, openMemory bool
}

// AskLeast is what a job of a shape holds wherever it is placed. Licenses are
// the charge's.
func (l *Limiter) AskLeast(c Charge, r *place.Request) Ask {
	a := Ask{Amounts: l.Index.New(), Node: l.Index.New(), openNodes: r.Exclusive}
	a.openMemory = l.Index.addLeast(a.Amounts, a.Node, r)
	return l.askWith(a, &c)
}

// AskPlaced is what a job holds in a placement on the snapshot's nodes.
func (l *Limiter) AskPlaced(c Charge, p place.Placement) Ask {
	a := Ask{Amounts: l.Index.New(), Node: l.Index.New()}
	alloc := l.Index.New()
	for i := range p.Allocs {
		clear(alloc)
		l.Index.addAlloc(alloc, &p.Allocs[i], l.Nodes)
		a.AddAlloc(alloc)
	}
	return l.askWith(a, &c)
}

// AskHeld is what a job holds in allocations made elsewhere, with the TRESIndex
// of this Limiter: see AddAlloc.
func (l *Limiter) AskHeld(c Charge, allocs []Amounts) Ask {
	a := Ask{Amounts: l.Index.New(), Node: l.Index.New()}
	for _, alloc := range allocs {
		a.AddAlloc(alloc)
	}
	return l.askWith(a, &c)
}

// AddAlloc adds what is held on one node.
func (a *Ask) AddAlloc(alloc Amounts) {
	for tres, amount := range alloc {
		a.Amounts.add(tres, uint64(amount))
		a.Node[tres] = max(a.Node[tres], amount)
	}
}

func (l *Limiter) askWith(a Ask, c *Charge) Ask {
	l.complete(a.Amounts, c)
	l.Index.bill(a.Node, l.weights(c.Partition), l.Priority.MaxTRES)
	return a
}

// open reports whether the job may hold more of a TRES than is known yet.
func (a *Ask) open(x *TRESIndex, tres int) bool {
	switch tres {
	case x.node:
		return false
	case x.memory, x.billing:
		return a.openNodes || a.openMemory
	}
	return a.openNodes
}
