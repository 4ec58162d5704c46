package leader

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// livenessEvery is how often leases are looked at; a node is found silent at
// most this much late.
const livenessEvery = time.Second

// liveness declares nodes silent whose lease ran out, and back when they
// speak. A new leader gives each node a full lease first: it can not know
// when the former leader heard of it.
func (l *Leader) liveness(ctx context.Context) {
	since := time.Now()
	ticker := time.NewTicker(livenessEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			l.CheckLeases(ctx, now, since)
		}
	}
}

// CheckLeases looks at every node's lease once. Both times are of the clock that
// the sessions are timed by; since is when this controller began to lead.
func (l *Leader) CheckLeases(ctx context.Context, now, since time.Time) {
	view := l.cluster.View()
	lease := time.Duration(view.Policy().LeaseS) * time.Second
	var lost, back []string
	for node := range view.Nodes() {
		if node.Inventory == nil {
			continue
		}
		seen := l.sessions.LastSeen(node.Name)
		if seen.Before(since) {
			seen = since
		}
		silent := now.Sub(seen) > lease
		switch {
		case silent && !node.NotResponding:
			lost = append(lost, node.Name)
		case !silent && node.NotResponding && l.sessions.Get(node.Name) != nil:
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
}
