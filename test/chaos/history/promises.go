package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// This file checks what owners were promised who took their nodes back.

// Reclaim is one command with which an owner took a node back.
type Reclaim struct {
	Node     string
	OnNode   bool    // typed there, and no controller was asked
	Some     bool    // some GPUs of it only
	Asked    int64   // when
	At       int64   // when the promise was made; 0 = not known, like the next
	Deadline int64   // by when all hardware was to be the owner's
	Free     int64   // after how long it was, by what they were told; 0 = not known
	Guests   []Guest // by what they were told last
	Parked   int     // guests that were frozen and kept their memory, by what they were told
	Ended    int     // guests that were killed, or had come to their end
}

// Guest is what an owner was told of a guest.
type Guest struct {
	Job    uint32
	Freed  int64  // when its hardware was free, by the clock of who promised; 0 = it is not known
	Took   int64  // as its node has measured; 0 = the node has not said
	Late   int64  // by how much later than the deadline that was, as its node has measured
	Detail string // what the node said of that
}

// Stall is a time for which the machine of the test let nobody run who only wanted to look at
// the clock.
type Stall struct{ From, To int64 }

// Release is when somebody began to lend a node again, and had an answer or gave up: it takes
// effect in between.
type Release struct {
	Node        string
	Asked, Over int64
}

// PowerOff is the fault that switches a machine off.
const PowerOff = "power-off"

// ReclaimKind begins the names of the faults that are reclaims.
const ReclaimKind = "reclaim"

// Promise is what came of a promise.
type Promise struct {
	Reclaim *Reclaim
	Kept    bool   // all hardware was the owner's by the deadline
	Heard   int64  // by how much after the deadline its owner was told so; 0 = before that
	Late    int64  // it was not kept: by how much at least
	Text    string // what was seen after the deadline
	Why     string // what the node has measured that explains it, or that the machine stood still; "" = neither does
}

// Promises are all that can be judged, in the order in which they were asked for. One is kept
// if no guest gave a sign of life after the deadline, and no node says that it was late. No
// fault excuses a miss by itself: its node has to have measured what it went to, or the
// machine of the test has to have stood still for as long.
func (h *History) Promises() []Promise {
	var all []Promise
	for i := range h.Reclaims {
		if r := &h.Reclaims[i]; r.Deadline > r.At { // a node that was restarted promises nothing
			all = append(all, h.promise(r))
		}
	}
	slices.SortStableFunc(all, func(a, b Promise) int { return cmp.Compare(a.Reclaim.Asked, b.Reclaim.Asked) })
	return all
}

func (h *History) promise(r *Reclaim) Promise {
	p := Promise{Reclaim: r, Kept: true}
	for _, g := range r.Guests {
		if p.Heard = max(p.Heard, g.Freed-r.Deadline); g.Late > p.Late {
			p.Kept, p.Late, p.Text, p.Why = false, g.Late, "its node was late with a guest", fmt.Sprintf("job %d: %s", g.Job, g.Detail)
		}
	}
	if run, at := h.signAfter(r); run != nil && at-r.Deadline > p.Late {
		p.Kept, p.Late, p.Why = false, at-r.Deadline, ""
		p.Text = run.What() + " gave a sign of life " + seconds(p.Late) + " after the deadline"
	}
	if stood := h.stood(r.At, r.Deadline+p.Late); !p.Kept && p.Why == "" && stood >= p.Late {
		p.Why = "the machine of the test stood still for " + seconds(stood)
	}
	return p
}

// stood is for how long the machine stood still in some time.
func (h *History) stood(from, to int64) (all int64) {
	for _, s := range h.Stalls {
		all += max(min(s.To, to)-max(s.From, from), 0)
	}
	return all
}

// signAfter finds the last sign of life of a guest on a reclaimed node after the deadline, and
// before anybody began to lend it again.
func (h *History) signAfter(r *Reclaim) (last *Run, at int64) {
	if r.Some {
		return nil, 0
	}
	until := int64(1) << 62
	for _, release := range h.Releases {
		if release.Node == r.Node && release.Over > r.At {
			until = min(until, max(release.Asked, r.At))
		}
	}
	for i := range h.Faults {
		// Its processes are killed then one after another, and what stops the frozen ones too.
		if f := &h.Faults[i]; f.Kind == PowerOff && slices.Contains(f.Nodes, r.Node) && f.To > r.At {
			until = min(until, max(f.From, r.At))
		}
	}
	for i := range h.Runs {
		run := &h.Runs[i]
		if run.where() != r.Node || h.wentOnUnseen(run) {
			continue
		}
		from, _ := slices.BinarySearch(run.Signs, r.Deadline+1)
		to, _ := slices.BinarySearch(run.Signs, until)
		if from < to && run.Signs[to-1] > at {
			last, at = run, run.Signs[to-1]
		}
	}
	return last, at
}

// wentOnUnseen reports whether a run's record may be that of later runs too: a parked job
// went on elsewhere, and only those that count write that down.
func (h *History) wentOnUnseen(run *Run) bool {
	return slices.ContainsFunc(h.Jobs, func(job Job) bool { return job.ID == run.Job && job.Epoch > run.Epoch }) &&
		!slices.ContainsFunc(h.Runs, func(other Run) bool { return other.Job == run.Job && other.Epoch > run.Epoch })
}

// where is the node on which a run ran; "" = its record does not say.
func (r *Run) where() string {
	switch {
	case !r.Moved:
		return r.Node
	case len(r.Nodes) == 1:
		return r.Nodes[0]
	}
	return ""
}

// checkPromises: what an owner was promised is kept, or it is known what the time went to.
func (c *checker) checkPromises() {
	for _, p := range c.h.Promises() {
		if !p.Kept && p.Why == "" {
			c.wrong(PromiseBroken, 0, "node %s was to be its owner's within %s, and nothing that was measured explains why it was not: %s", p.Reclaim.Node, seconds(p.Reclaim.Deadline-p.Reclaim.At), p.Text)
		}
	}
}

// reclaimed reports whether a reclaim may have ended a run.
func (c *checker) reclaimed(run *Run) bool {
	return slices.ContainsFunc(c.h.Faults, func(f Fault) bool {
		return strings.HasPrefix(f.Kind, ReclaimKind) && f.To >= run.Start && f.From <= run.Last+aftermath &&
			(run.where() == "" || slices.ContainsFunc(run.Nodes, func(node string) bool { return slices.Contains(f.Nodes, node) }))
	})
}
