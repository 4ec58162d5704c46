package leader

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// livenessEvery is how often leases are looked at; a node is found silent at
// most this much late.
const livenessEvery = time.Second

// stoppedAfter is the time between two looks at the leases after which this
// controller assumes that it was stopped.
const stoppedAfter = 5 * livenessEvery

// liveness declares nodes silent whose lease ran out, and back when they
// report. A new leader gives each node a full lease first: it cannot know when
// the former leader last heard from it.
func (l *Leader) liveness(ctx context.Context) {
	since := time.Now()
	last := since
	ticker := time.NewTicker(livenessEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if now.Sub(last) > stoppedAfter {
				// This process was stopped, and heard from nobody meanwhile.
				since = now
			}
			last = now
			l.CheckLeases(ctx, now, since)
		}
	}
}

// CheckLeases looks at every node's lease once. Both times are of the sessions'
// clock; since is when this controller began to lead.
func (l *Leader) CheckLeases(ctx context.Context, now, since time.Time) {
	view := l.cluster.View()
	lease := time.Duration(view.Policy().LeaseS) * time.Second
	var lost, back []string
	for node := range view.Nodes() {
		if node.Inventory == nil {
			continue
		}
		heard := l.sessions.LastSeen(node.Name)
		seen := heard
		if seen.Before(since) {
			seen = since
		}
		// A lease granted under a longer policy lasts as long as it was
		// granted.
		silent := now.Sub(seen) > lease && now.After(l.sessions.LeaseUntil(node.Name))
		switch {
		case silent && !node.NotResponding:
			lost = append(lost, node.Name)
		case now.Sub(heard) <= lease && node.NotResponding && l.sessions.Get(node.Name) != nil:
			// The leader forgot its silence, because this controller itself was
			// stopped. That is no sign of life from the node.
			back = append(back, node.Name)
		}
	}
	if len(lost) > 0 {
		if _, ok := l.propose(ctx, state.NodesLost{Names: lost}); ok {
			l.log.Warn("nodes do not answer; look at their gnoded and at the network", "nodes", lost, "lease", lease)
		}
	}
	if len(back) > 0 {
		if _, ok := l.propose(ctx, state.NodesBack{Names: back}); ok {
			l.log.Info("nodes answer again", "nodes", back)
		}
	}
	if err := l.OpenTerm(ctx); err != nil && ctx.Err() == nil && l.currentLeadership().term != 0 {
		l.log.Warn("no lease can be ended yet; it is tried again", "error", err)
	}
	l.endLeases(ctx, now, since)
}
