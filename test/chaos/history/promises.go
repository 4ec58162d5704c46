package history

import (
	"cmp"
	"slices"
	"strings"
)

// This file checks what owners were promised who took their nodes back.

// Reclaim is one command with which an owner took a node back.
type Reclaim struct {
	Node     string
	OnNode   bool  // typed there, and no controller was asked
	Some     bool  // some GPUs of it only
	Asked    int64 // when
	At       int64 // when the promise was made; 0 = not known, like the next
	Deadline int64 // by when all hardware was to be the owner's
	Free     int64 // after how long it was, by what they were told; 0 = not known
	Late     bool  // they were told that it came too late, by more than PromiseSlack
	Parked   int   // guests that were frozen and kept their memory, by what they were told
	Ended    int   // guests that were killed, or had come to their end
}

// Release is when somebody began to lend a node again.
type Release struct {
	Node  string
	Asked int64
}

// ReclaimKind begins the names of the faults that are reclaims.
const ReclaimKind = "reclaim"

// PromiseSlack is by how much later than the deadline the last sign of life of a guest may
// be, and what its owner is told: it is killed at the deadline, and the machine is busy.
const PromiseSlack = second

// Promise is what came of a promise.
type Promise struct {
	Reclaim *Reclaim
	Kept    bool
	Why     string // it was not kept: the fault that explains it; "" = nothing does
	Text    string // what was seen after the deadline
}

// Promises are all that can be judged, in the order in which they were asked for. Those of
// some GPUs are judged by what the owner was told, the others by what guests wrote down too.
func (h *History) Promises() []Promise {
	var all []Promise
	for i := range h.Reclaims {
		r := &h.Reclaims[i]
		if r.Deadline == 0 {
			continue
		}
		p := Promise{Reclaim: r, Kept: true}
		if r.Late {
			p.Kept, p.Text = false, "its owner was told that it came too late"
		}
		if run, at := h.signAfter(r); run != nil {
			p.Kept, p.Text = false, run.What()+" gave a sign of life "+seconds(at-r.Deadline)+" after the deadline"
		}
		if !p.Kept {
			p.Why = h.excuse(r)
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b Promise) int { return cmp.Compare(a.Reclaim.Asked, b.Reclaim.Asked) })
	return all
}

// signAfter finds a guest that ran on a reclaimed node after the deadline, and before
// anybody began to lend it again.
func (h *History) signAfter(r *Reclaim) (*Run, int64) {
	if r.Some {
		return nil, 0
	}
	until := int64(1) << 62
	for _, release := range h.Releases {
		if release.Node == r.Node && release.Asked > r.At {
			until = min(until, release.Asked)
		}
	}
	for i := range h.Runs {
		run := &h.Runs[i]
		if run.where() != r.Node || h.wentOnUnseen(run) {
			continue
		}
		from, _ := slices.BinarySearch(run.Signs, r.Deadline+PromiseSlack)
		if from < len(run.Signs) && run.Signs[from] < until {
			return run, run.Signs[from]
		}
	}
	return nil, 0
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

// excuse is a fault that explains a promise that was not kept: on the node itself, or, if
// controllers have to be reached, anywhere.
func (h *History) excuse(r *Reclaim) string {
	for i := range h.Faults {
		f := &h.Faults[i]
		if strings.HasPrefix(f.Kind, ReclaimKind) || f.To < r.At-second || f.From > r.Deadline+2*second {
			continue
		}
		if slices.Contains(f.Nodes, r.Node) || f.Everywhere && strings.HasPrefix(f.Kind, "all-") || !r.OnNode && (f.Everywhere || len(f.Nodes) == 0) {
			return f.Kind
		}
	}
	return ""
}

// checkPromises: what an owner was promised is kept, or a fault explains why not.
func (c *checker) checkPromises() {
	for _, p := range c.h.Promises() {
		if !p.Kept && p.Why == "" {
			c.wrong(PromiseBroken, 0, "node %s was to be its owner's within %s, and no fault explains why it was not: %s", p.Reclaim.Node, seconds(p.Reclaim.Deadline-p.Reclaim.At), p.Text)
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
