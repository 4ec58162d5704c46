package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// changeLimit bounds the wait until raft accepts a change of the members.
const changeLimit = 5 * time.Second

// Member is one peer as the configuration of the cluster has it.
type Member struct {
	Name    string
	Address string // that the other peers dial
	Voter   bool
}

// Members are all peers, this one too. On a peer that does not lead the list
// may be out of date.
func (p *Peer) Members() []Member {
	return membersOf(p.raft.GetConfiguration().Configuration())
}

func membersOf(configuration raft.Configuration) []Member {
	members := make([]Member, 0, len(configuration.Servers))
	for _, server := range configuration.Servers {
		members = append(members, Member{Name: string(server.ID), Address: string(server.Address), Voter: server.Suffrage == raft.Voter})
	}
	return members
}

// Address is where the other peers dial this one.
func (p *Peer) Address() string { return p.address }

// AddNonvoter makes a peer a member that gets the log and has no vote, or
// changes the address of one that is a member.
func (p *Peer) AddNonvoter(ctx context.Context, name, address string) error {
	return waitFor(ctx, p.raft.AddNonvoter(raft.ServerID(name), raft.ServerAddress(address), 0, changeLimit))
}

// AddVoter gives a member its vote, or changes its address.
func (p *Peer) AddVoter(ctx context.Context, name, address string) error {
	return waitFor(ctx, p.raft.AddVoter(raft.ServerID(name), raft.ServerAddress(address), 0, changeLimit))
}

// Remove removes a member.
func (p *Peer) Remove(ctx context.Context, name string) error {
	return waitFor(ctx, p.raft.RemoveServer(raft.ServerID(name), 0, changeLimit))
}

// Transfer hands the lead over to a member that votes, "" = the one that is
// furthest. It returns when that one has been told to stand for election.
func (p *Peer) Transfer(ctx context.Context, name, address string) error {
	if name == "" {
		return waitFor(ctx, p.raft.LeadershipTransfer())
	}
	return waitFor(ctx, p.raft.LeadershipTransferToServer(raft.ServerID(name), raft.ServerAddress(address)))
}

// waitFor waits for raft, as long as ctx allows. raft finishes what it has
// begun.
func waitFor(ctx context.Context, future raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- future.Error() }()
	select {
	case err := <-done:
		return translate(err)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUncertain, ctx.Err())
	}
}

// FollowLeader calls changed, until ctx ends, whenever the leader changes; ""
// and "" mean that no leader is known.
func (p *Peer) FollowLeader(ctx context.Context, changed func(name, address string)) {
	observations := make(chan raft.Observation, 16)
	observer := raft.NewObserver(observations, false, func(o *raft.Observation) bool {
		_, about := o.Data.(raft.LeaderObservation)
		return about
	})
	p.raft.RegisterObserver(observer)
	defer p.raft.DeregisterObserver(observer)
	changed(p.LeaderAddress())
	for {
		select {
		case <-observations:
			changed(p.LeaderAddress())
		case <-ctx.Done():
			return
		}
	}
}
