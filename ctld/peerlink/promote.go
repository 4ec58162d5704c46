package peerlink

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/replica"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// promoteEvery is how often the members without a vote are looked at, and
// nearly is how few entries such a member may lack: more arrive all the time.
const (
	promoteEvery = 250 * time.Millisecond
	nearly       = 256
)

// Promote brings members without a vote up to date, and gives them their vote,
// while this controller leads. A new leader continues where the former one
// stopped.
func (p *Peers) Promote(ctx context.Context) {
	p.moveOwn(ctx)
	begun := make(map[string]uint64) // what the member must have before it votes
	ticker := time.NewTicker(promoteEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, member := range p.peer.Members() {
			if member.Voter {
				delete(begun, member.Name)
				continue
			}
			if err := p.promote(ctx, member, begun); err != nil && ctx.Err() == nil {
				p.log.Debug("a controller does not catch up yet", "peer", member.Name, "error", err)
			}
		}
	}
}

// moveOwn tells the others this controller's address if they know another one:
// it was alone before, or its address was changed.
func (p *Peers) moveOwn(ctx context.Context) {
	own, known := p.member(p.peer.Name())
	if !known || !own.Voter || own.Address == p.peer.Address() || p.options.TLS == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, changeLimit)
	defer cancel()
	if err := p.peer.AddVoter(ctx, own.Name, p.peer.Address()); err != nil {
		p.log.Warn("the other controllers could not be told this one's address; it is tried again when it leads again", "address", p.peer.Address(), "error", err)
		return
	}
	p.log.Info("the other controllers reach this one at another address", "address", p.peer.Address(), "formerly", own.Address)
}

func (p *Peers) promote(ctx context.Context, member replica.Member, begun map[string]uint64) error {
	conn, err := p.links.to(member.Name, member.Address, Control)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, helloLimit)
	defer cancel()
	client := pb.NewPeerLinkClient(conn)
	said, err := client.Hello(ctx, &pb.HelloRequest{})
	if err != nil {
		return err
	}
	if _, known := begun[member.Name]; !known {
		if _, err := client.StartCatchUp(ctx, &pb.StartCatchUpRequest{Term: p.peer.Term()}); err != nil {
			return err
		}
		// Everything accepted so far, and the entry that it has no vote.
		begun[member.Name] = p.peer.LastIndex()
		return nil
	}
	if said.GetJoining() && said.GetAppliedIndex() == 0 {
		delete(begun, member.Name) // it was started again
		return nil
	}
	if applied := said.GetAppliedIndex(); applied < begun[member.Name] || applied+nearly < p.peer.CommitIndex() {
		return nil
	}
	if _, err := client.EndCatchUp(ctx, &pb.EndCatchUpRequest{}); err != nil {
		return err
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	if now, found := p.member(member.Name); !found || now != member {
		return nil
	}
	if err := p.peer.AddVoter(ctx, member.Name, member.Address); err != nil {
		return err
	}
	p.log.Info("a controller votes", "peer", member.Name, "index", said.GetAppliedIndex())
	return nil
}
