package noded

import (
	"errors"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// leftOversLocked lists what could not be cleaned up.
func (a *agent) leftOversLocked() []*pb.LeftOver {
	all := slices.Clone(a.strays)
	for _, decided := range a.registry.All() {
		p := a.allocs[decided.Key]
		if p.leftOver != nil {
			all = append(all, p.leftOver)
		}
	}
	return all
}

func (a *agent) tellLeftOversLocked() {
	a.sendLocked(&pb.NodeMessage{What: &pb.NodeMessage_LeftOvers{
		LeftOvers: &pb.LeftOvers{LeftOvers: a.leftOversLocked()},
	}})
}

// setLeftOver notes what is left of an allocation, or with nil that nothing is.
func (a *agent) setLeftOver(p *alloc, err error) {
	var now *pb.LeftOver
	if err != nil {
		now = &pb.LeftOver{What: filepath.Join(a.machine.config.StateDir, "jobs", p.Key.String()), Error: registry.Words(err.Error())}
		var left *remove.LeftOver
		if errors.As(err, &left) {
			now = &pb.LeftOver{What: registry.Words(left.Path), Error: registry.Words(left.Err.Error())}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.noteLeftOverLocked(p, now)
}

// setStuck notes what a supervisor says does not end. Without an error that is
// over.
func (a *agent) setStuck(p *alloc, stuck *pb.LeftOver) {
	if stuck.GetError() == "" {
		stuck = nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.noteLeftOverLocked(p, proto.CloneOf(stuck))
}

// noteLeftOverLocked tells the controller when something has changed.
func (a *agent) noteLeftOverLocked(p *alloc, now *pb.LeftOver) {
	before := p.leftOver
	switch {
	case now == nil && before == nil:
		return
	case now == nil:
		p.log.Info("what was left over of an allocation is gone", "what", before.What)
	case before != nil && before.What == now.What && before.Error == now.Error:
		return
	default:
		now.SinceMs = time.Now().UnixMilli()
		if before != nil {
			now.SinceMs = before.SinceMs
		}
		p.log.Error("cannot clean up, trying again", "what", now.What, "error", now.Error)
	}
	p.leftOver = now
	a.tellLeftOversLocked()
}

// sweep removes what belongs to no allocation, and tells the controller when what
// stays has changed.
func (a *agent) sweep() {
	found := a.supervisors.Sweep(func(name string) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		for key := range a.allocs {
			if key.String() == name {
				return true
			}
		}
		return false
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	before := map[string]*pb.LeftOver{}
	for _, left := range a.strays {
		before[left.What] = left
	}
	changed := len(found) != len(a.strays)
	a.strays = nil
	for _, left := range found {
		now := &pb.LeftOver{What: registry.Words(left.Path), Error: registry.Words(left.Err.Error()), SinceMs: time.Now().UnixMilli()}
		known, ok := before[registry.Words(left.Path)]
		if ok {
			now.SinceMs = known.SinceMs
		}
		if !proto.Equal(known, now) {
			changed = true
			a.log.Error("something lies beside the allocations of jobs: remove it by hand, after a look at what it is", "what", now.What, "error", now.Error)
		}
		a.strays = append(a.strays, now)
	}
	if changed {
		a.tellLeftOversLocked()
	}
}
