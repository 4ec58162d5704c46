package grant

import "slices"

// Book is what the steps of one job have and wait for. It is not for several
// goroutines at once.
type Book struct {
	job     Job
	next    uint32
	running []held     // in the order of their numbers
	waiting []*waiting // in the order in which they came
}

// held is what a running step has.
type held struct {
	ticket uint64
	step   uint32
	parent *uint32
	counts bool // others wait for it
	shares []Share
	// borrowed is what of the memory of each share is its parent's.
	borrowed []uint64
}

// waiting is a step that waits.
type waiting struct {
	ticket uint64
	shape  *shape
}

// NewBook is that of a job without steps.
func NewBook(job Job) *Book { return &Book{job: job} }

// Number is a number that no other step has, for one that has nothing of the job's.
func (b *Book) Number() uint32 {
	n := b.next
	b.next++
	return n
}

// Ask asks for a step. The ticket names it from now on, and belongs to no other. The
// answer is its grant; or nil, if it waits; or a *Refusal, if it can never start.
func (b *Book) Ask(ticket uint64, asked *Request) (*Grant, error) {
	own := *asked // its parent may change
	r := &own
	s, err := b.job.settle(r)
	if err != nil {
		return nil, err
	}
	shares, refused := s.place(b.job.all())
	if refused != nil {
		return nil, refused
	}
	if r.Overlap {
		return b.give(ticket, s, shares), nil
	}
	if shares := b.fit(s, b.wanted()); shares != nil {
		return b.give(ticket, s, shares), nil
	}
	if len(b.waiting) >= MaxWaiting {
		return nil, refuse(tooManySteps, "%d steps of this job wait; let some end first", MaxWaiting)
	}
	b.waiting = append(b.waiting, &waiting{ticket, s})
	return nil, nil
}

// Granted is a step that waited.
type Granted struct {
	Ticket uint64
	Grant  *Grant
}

// Leave is the end of a step, or of its wait. It answers which others may start now.
func (b *Book) Leave(ticket uint64) []Granted {
	b.waiting = slices.DeleteFunc(b.waiting, func(w *waiting) bool { return w.ticket == ticket })
	if at := slices.IndexFunc(b.running, func(h held) bool { return h.ticket == ticket }); at >= 0 {
		gone := b.running[at]
		b.running = slices.Delete(b.running, at, at+1)
		b.inherit(&gone)
	}
	var granted []Granted
	wanted := map[int]bool{}
	for i := 0; i < len(b.waiting); {
		w := b.waiting[i]
		shares := b.fit(w.shape, wanted)
		if shares == nil {
			w.shape.addWanted(wanted)
			i++
			continue
		}
		b.waiting = slices.Delete(b.waiting, i, i+1)
		granted = append(granted, Granted{w.ticket, b.give(w.ticket, w.shape, shares)})
	}
	return granted
}

// inherit makes what was started from within a step that has ended, and has not, one of
// that step's own parent.
func (b *Book) inherit(gone *held) {
	for _, w := range b.waiting {
		if parent := w.shape.request.Parent; parent != nil && *parent == gone.step {
			w.shape.request.Parent = gone.parent
		}
	}
	for i := range b.running {
		h := &b.running[i]
		if h.parent == nil || *h.parent != gone.step {
			continue
		}
		h.parent = gone.parent
		for n, share := range h.shares {
			h.borrowed[n] = gone.pass(share.Node, h.borrowed[n])
		}
	}
}

// pass takes what was borrowed of a step, which has ended, off what it had borrowed
// itself.
func (h *held) pass(node int, memory uint64) uint64 {
	for n, share := range h.shares {
		if share.Node == node {
			memory = min(memory, h.borrowed[n])
			h.borrowed[n] -= memory
			return memory
		}
	}
	return 0
}

// wanted are the nodes for which those that wait do so.
func (b *Book) wanted() map[int]bool {
	nodes := map[int]bool{}
	for _, w := range b.waiting {
		w.shape.addWanted(nodes)
	}
	return nodes
}

// addWanted adds the nodes on which a step may be placed.
func (s *shape) addWanted(nodes map[int]bool) {
	want := s.may
	if len(s.must) == s.most {
		want = s.must
	}
	for _, index := range want {
		nodes[index] = true
	}
}

// fit finds a place for a step in what is free, except on some nodes.
func (b *Book) fit(s *shape, except map[int]bool) []Share {
	// A step from within another must not wait for one that waits for that other.
	nested := b.find(s.request.Parent) != nil
	if !nested && len(except) == len(b.job.Nodes) {
		return nil
	}
	r := b.free(s.request.Parent)
	for index := range except {
		if !nested {
			r[index] = nodeRoom{}
		}
	}
	shares, refused := s.place(r)
	if refused != nil {
		return nil
	}
	return shares
}

// give notes what a step has.
func (b *Book) give(ticket uint64, s *shape, shares []Share) *Grant {
	h := held{ticket: ticket, step: b.Number(), parent: s.request.Parent, counts: !s.request.Overlap, shares: shares}
	h.borrowed = make([]uint64, len(shares))
	if parent := b.find(h.parent); parent != nil && parent.counts {
		for i, share := range shares {
			h.borrowed[i] = min(share.MemoryMiB, b.lendable(parent, share.Node))
		}
	}
	b.running = append(b.running, h)
	return &Grant{Step: h.step, Shares: shares, Warnings: s.warnings}
}

// find is a step that runs.
func (b *Book) find(step *uint32) *held {
	if step == nil {
		return nil
	}
	at := slices.IndexFunc(b.running, func(h held) bool { return h.step == *step })
	if at < 0 {
		return nil
	}
	return &b.running[at]
}

// within reports whether a step is another, or one from within which that was started.
// Numbers of parents are smaller, so that it ends.
func (b *Book) within(step uint32, of *uint32) bool {
	for h := b.find(of); h != nil; h = b.find(h.parent) {
		if h.step == step {
			return true
		}
		if h.parent == nil || *h.parent >= h.step {
			return false
		}
	}
	return false
}

// free is what is there for a step that is started from within parent.
func (b *Book) free(parent *uint32) room {
	r := b.job.all()
	for i := range b.running {
		h := &b.running[i]
		if !h.counts {
			continue
		}
		lends := b.within(h.step, parent)
		for n, share := range h.shares {
			node := &r[share.Node]
			if !lends {
				node.cpus, node.gpus = without(node.cpus, share.CPUs), without(node.gpus, share.GPUs)
			}
			node.memoryMiB = less(node.memoryMiB, h.outside(b, n))
		}
	}
	if from := b.find(parent); from != nil && from.counts {
		for _, share := range from.shares {
			r[share.Node].memoryMiB += b.lendable(from, share.Node)
		}
	}
	return r
}

// outside is what of its memory no other step has.
func (h *held) outside(b *Book, share int) uint64 {
	if b.find(h.parent) == nil {
		return h.shares[share].MemoryMiB
	}
	return less(h.shares[share].MemoryMiB, h.borrowed[share])
}

// lendable is what a step has of a node's memory that none from within it has.
func (b *Book) lendable(parent *held, node int) uint64 {
	memory := uint64(0)
	for _, share := range parent.shares {
		if share.Node == node {
			memory = share.MemoryMiB
		}
	}
	for i := range b.running {
		h := &b.running[i]
		if h.parent == nil || *h.parent != parent.step {
			continue
		}
		for n, share := range h.shares {
			if share.Node == node {
				memory = less(memory, h.borrowed[n])
			}
		}
	}
	return memory
}
