package peerlink

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrRemoved is returned when this controller was removed from the cluster.
var ErrRemoved = errors.New("this controller was removed from the cluster")

// strayEvery is how often a controller without a leader asks whether it still
// belongs to the cluster: nobody tells one that was away at the time.
const strayEvery = time.Second

// Stray returns ErrRemoved, with what to do, when the leader says that this
// controller is no member; nil when ctx ends.
func (p *Peers) Stray(ctx context.Context) error {
	ticker := time.NewTicker(strayEvery)
	defer ticker.Stop()
	lost := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if p.peer.Joining() || p.options.TLS == nil {
			continue
		}
		lost++
		switch {
		case !p.IsMember(p.peer.Name()): // it may have heard of it itself
		case p.peer.Leader() != "":
			lost = 0
			continue
		case lost < 2:
			continue // an election
		}
		if by := p.disowned(ctx); by != "" {
			return fmt.Errorf("%w, as %s says, which leads. To join it again: gctld cert --controller %s --out DIR on the host of the controller that began the cluster, move the data directory away, "+
				"start gctld --join --certificates DIR, and type gcontrol peer add %s %s", ErrRemoved, by, p.peer.Name(), p.peer.Name(), p.peer.Address())
		}
	}
}

// disowned is the leader that says that this controller is no member, "" = none
// does. The leader may be one that this controller has never heard of.
func (p *Peers) disowned(ctx context.Context) string {
	for _, member := range p.peer.Members() {
		if member.Name == p.peer.Name() {
			continue
		}
		said, err := p.hello(ctx, member.Name, member.Address)
		if err == nil && !said.GetStranger() && said.GetLeader() != "" && said.GetLeader() != member.Name {
			said, err = p.hello(ctx, said.GetLeader(), said.GetLeaderAddress())
		}
		if err == nil && said.GetStranger() {
			return said.GetName()
		}
	}
	return ""
}
