package peerlink

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/replica"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Bounds of a succession.
const (
	lookLimit = 500 * time.Millisecond // for one look at the leader, and one answer of another
	looks     = 10                     // after a connection has ended
	lookEvery = 50 * time.Millisecond
	// turn is how long a controller leaves the election to each that comes before it.
	turn = 400 * time.Millisecond
)

// follows is the leader that a controller follows, in one term.
type follows struct {
	leader, address string
	term            uint64
}

// Succeed has this controller stand for election as soon as the process that leads is gone,
// until ctx ends: raft alone notices that when it has heard nothing for the election timeout,
// which must be longer than a busy machine takes a breath.
//
// The death of a process ends its connections at once. When one has ended, this controller
// looks whether anything leads at the leader's address. That nothing does counts only when so
// many others see the same that they and this one are a majority of the voters: then the
// leader could commit nothing more either. A host that has lost its power refuses nothing, and
// is left to the election timeout.
func (p *Peers) Succeed(ctx context.Context) {
	if p.options.TLS == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.options.Over:
		}
		for range looks {
			now, ok := p.follows()
			if !ok || p.succeed(ctx, now) {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(lookEvery):
			}
		}
	}
}

// follows is whom this controller follows; false where it leads, knows no leader, or does
// not vote.
func (p *Peers) follows() (follows, bool) {
	term := p.peer.Term() // first: a term that ends meanwhile makes what follows useless, not wrong
	leader, address := p.peer.LeaderAddress()
	self, found := p.member(p.peer.Name())
	return follows{leader, address, term}, found && self.Voter && !p.peer.Joining() && leader != "" && leader != p.peer.Name()
}

// succeed reports whether the leader was gone, or is not the leader any longer.
func (p *Peers) succeed(ctx context.Context, of follows) bool {
	if !p.gone(ctx, of) {
		return false
	}
	before, enough := p.agree(ctx, of)
	if !enough {
		return false
	}
	select {
	case <-ctx.Done():
		return true
	case <-time.After(time.Duration(before) * turn):
	}
	if now, ok := p.follows(); ok && now == of {
		p.log.Info("the controller that led is gone: standing for election", "leader", of.leader, "term", of.term)
		p.peer.Stand()
	}
	return true
}

// gone looks whether nothing leads at the leader's address: connections are refused there, or
// what answers has just been started again: it takes no requests yet, or does not lead.
func (p *Peers) gone(ctx context.Context, of follows) bool {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	conn, err := p.options.Network.DialContext(ctx, "tcp", of.address)
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	defer conn.Close()
	config := p.options.TLS.Clone()
	config.NextProtos = []string{replica.ProtocolRequests}
	if err := tls.Client(conn, config).HandshakeContext(ctx); err != nil {
		return replica.NotServing(err)
	}
	said, err := p.helloAnew(ctx, of.leader, of.address)
	return err == nil && said.GetLeader() != of.leader
}

// agree asks the other voters to look. enough says that a majority sees no leader; before is
// how many of those come before this controller in standing for election, since they have
// more of the log.
func (p *Peers) agree(ctx context.Context, of follows) (before int, enough bool) {
	members := slices.DeleteFunc(p.peer.Members(), func(m replica.Member) bool { return !m.Voter })
	own, name := p.peer.LastIndex(), p.peer.Name()
	var mu sync.Mutex
	var asked sync.WaitGroup
	agreed := 1
	for _, member := range members {
		if member.Name == name || member.Name == of.leader {
			continue
		}
		asked.Go(func() {
			said, err := p.askLook(ctx, member, of)
			if err != nil || !said.GetGone() {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			agreed++
			if cmp.Or(-cmp.Compare(said.GetLastIndex(), own), cmp.Compare(member.Name, name)) < 0 {
				before++
			}
		})
	}
	asked.Wait()
	return before, agreed > len(members)/2
}

func (p *Peers) askLook(ctx context.Context, member replica.Member, of follows) (*pb.CheckLeaderResponse, error) {
	conn, err := p.links.to(member.Name, member.Address, Control)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*lookLimit)
	defer cancel()
	return pb.NewPeerLinkClient(conn).CheckLeader(ctx, &pb.CheckLeaderRequest{Leader: of.leader, Term: of.term})
}

// CheckLeader looks for another controller whether its leader is gone. Where this one knows
// of a later term, or of another leader, it is not for the asking one to stand for election.
func (p *Peers) CheckLeader(ctx context.Context, request *pb.CheckLeaderRequest) *pb.CheckLeaderResponse {
	answer := &pb.CheckLeaderResponse{LastIndex: p.peer.LastIndex()}
	of, found := p.member(request.GetLeader())
	leader := p.peer.Leader()
	if found && p.peer.Term() <= request.GetTerm() && (leader == "" || leader == of.Name) && of.Name != p.peer.Name() {
		answer.Gone = p.gone(ctx, follows{of.Name, of.Address, request.GetTerm()})
	}
	return answer
}
