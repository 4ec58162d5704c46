package peerlink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/replica"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Bounds for dealing with other controllers.
const (
	helloLimit  = 2 * time.Second
	changeLimit = 15 * time.Second
	maxMembers  = 9 // each is one more answer that a commit may wait for
)

// hello asks one controller for its version and progress.
func (p *Peers) hello(ctx context.Context, name, address string) (*pb.HelloResponse, error) {
	conn, err := p.links.to(name, address, Control)
	if err != nil {
		return nil, err
	}
	return greet(ctx, conn)
}

// helloAnew asks over a new connection: that there was nobody a moment ago
// means nothing.
func (p *Peers) helloAnew(ctx context.Context, name, address string) (*pb.HelloResponse, error) {
	if p.options.TLS == nil {
		return nil, errAlone
	}
	conn, err := dialPeer(p.options.Network, name, address, p.options.TLS)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return greet(ctx, conn)
}

func greet(ctx context.Context, conn *grpc.ClientConn) (*pb.HelloResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, helloLimit)
	defer cancel()
	return pb.NewPeerLinkClient(conn).Hello(ctx, &pb.HelloRequest{})
}

// List is every member, by name, each with its own answer.
func (p *Peers) List(ctx context.Context) *pb.ListPeersResponse {
	members := p.peer.Members()
	answer := &pb.ListPeersResponse{Peers: make([]*pb.Peer, len(members)), Term: p.peer.Term(), AppliedIndex: p.peer.AppliedIndex(), Level: p.options.LevelInForce()}
	var asked sync.WaitGroup
	for i, member := range members {
		asked.Go(func() { answer.Peers[i] = p.shown(ctx, member) })
	}
	asked.Wait()
	slices.SortFunc(answer.Peers, func(a, b *pb.Peer) int { return strings.Compare(a.GetName(), b.GetName()) })
	return answer
}

func (p *Peers) shown(ctx context.Context, member replica.Member) *pb.Peer {
	peer := &pb.Peer{Name: member.Name, Address: member.Address, Voter: member.Voter}
	if member.Name == p.peer.Name() {
		peer.Leader, peer.Reachable, peer.Version, peer.Level, peer.AppliedIndex = p.peer.IsLeader(), true, p.options.Version, p.options.Level, p.peer.AppliedIndex()
		peer.Problem, peer.HistoryThrough = p.options.Problem(), p.options.HistoryThrough()
		return peer
	}
	said, err := p.hello(ctx, member.Name, member.Address)
	if err != nil {
		if heard, silent := p.peer.Silent(member.Name); silent && heard.IsZero() {
			peer.LastContactMs = -1
		} else if silent {
			peer.LastContactMs = max(0, time.Since(heard).Milliseconds())
		}
		peer.Problem = fmt.Sprintf("%s: look at gctld there, and at the network", unreachable(err))
		return peer
	}
	peer.Reachable, peer.Version, peer.Level, peer.AppliedIndex = true, said.GetVersion(), said.GetLevel(), said.GetAppliedIndex()
	peer.Problem, peer.Joining, peer.HistoryThrough = said.GetProblem(), said.GetJoining(), said.GetHistoryThrough()
	if said.GetJoining() && member.Voter {
		peer.Problem = fmt.Sprintf("it has lost its data and waits to be added again: gcontrol peer add %s %s", member.Name, member.Address)
	}
	return peer
}

// unreachable is why a controller did not answer, without gRPC's words.
func unreachable(err error) string {
	said := status.Convert(err)
	message := said.Message()
	switch {
	case said.Code() == codes.DeadlineExceeded:
		return fmt.Sprintf("it did not answer within %v", helloLimit)
	case strings.Contains(message, "connect: "):
		message = message[strings.LastIndex(message, "connect: ")+len("connect: "):]
	case strings.Contains(message, "desc = "):
		message = message[strings.LastIndex(message, "desc = ")+len("desc = "):]
	}
	return strings.Trim(message, `"`)
}

// Add makes a controller that was started with join a member. It returns when
// it votes, or when ctx ends; then it still keeps catching up. A member that
// has lost its disk, or that has moved, is added again.
func (p *Peers) Add(ctx context.Context, name, address string) error {
	if err := checkPeer(name, address); err != nil {
		return err
	}
	if err := p.begin(ctx, name, address); err != nil {
		return err
	}
	for {
		member, found := p.member(name)
		switch {
		case !p.peer.IsLeader():
			return status.Error(codes.Unavailable, "this controller has just ceased to lead: ask again with the same request id")
		case !found:
			return status.Errorf(codes.Aborted, "controller %s was removed meanwhile", name)
		case member.Voter:
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return status.Errorf(codes.DeadlineExceeded, "controller %s is a member and still catching up: it votes when it has, see gcontrol peer list", name)
		}
	}
}

func checkPeer(name, address string) error {
	if name == "" || len(name) > 60 {
		return status.Errorf(codes.InvalidArgument, "%.80q is no name of a controller", name)
	}
	host, port, err := net.SplitHostPort(address)
	if number, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || number == 0 || host == "" || len(address) > 300 {
		return status.Errorf(codes.InvalidArgument, "%.300q must be HOST:PORT, the peer_listen or peer_advertise of controller %s", address, name)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return status.Errorf(codes.InvalidArgument, "%s means every address of a host: name one at which the other controllers reach %s", address, name)
	}
	return nil
}

// begin makes it a member that has no vote yet.
func (p *Peers) begin(ctx context.Context, name, address string) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	member, known := p.member(name)
	switch {
	case name == p.peer.Name() && address == p.peer.Address():
		return nil
	case name == p.peer.Name():
		return status.Errorf(codes.AlreadyExists, "%s is this controller itself, at %s: to move it start it with another peer_listen", name, p.peer.Address())
	case p.options.TLS == nil:
		return status.Errorf(codes.FailedPrecondition, "controller %s has no address for others: set its peer_listen = \"HOST:PORT\" and start it again", p.peer.Name())
	}
	for _, other := range p.peer.Members() {
		if other.Address == address && other.Name != name {
			return status.Errorf(codes.AlreadyExists, "%s is the address of controller %s: give %s its own peer_listen, or remove %s first (gcontrol peer remove %s)", address, other.Name, name, other.Name, other.Name)
		}
	}
	said, err := p.helloAnew(ctx, name, address)
	switch {
	case err != nil:
		return status.Errorf(codes.FailedPrecondition, "controller %s cannot be reached at %s: %s. Is it started there with --join and certificates for that name (gctld cert --controller %s), and is that its peer_listen?", name, address, unreachable(err), name)
	case max(said.GetLevel(), 1) < p.options.LevelInForce():
		return status.Errorf(codes.FailedPrecondition, "controller %s is of version %s, which understands feature level %d, and the cluster has %d: upgrade it first", name, said.GetVersion(), max(said.GetLevel(), 1), p.options.LevelInForce())
	case !said.GetJoining() && !known:
		return status.Errorf(codes.FailedPrecondition, "controller %s at %s has a data directory that was used before: start it with --join on an empty one", name, address)
	case !said.GetJoining() && member.Address == address:
		return nil // already one, or about to be
	case !known && len(p.peer.Members()) >= maxMembers:
		return status.Errorf(codes.ResourceExhausted, "the cluster has %d controllers, which is as many as it may: three or five are sensible", maxMembers)
	}
	ctx, cancel := context.WithTimeout(ctx, changeLimit)
	defer cancel()
	if said.GetJoining() && known && member.Voter {
		// It has forgotten its votes: its word must not count.
		if err := p.peer.Remove(ctx, name); err != nil {
			return changeFailed(err)
		}
	}
	if known && member.Voter && !said.GetJoining() {
		return changeFailed(p.peer.AddVoter(ctx, name, address)) // it has moved
	}
	p.log.Info("a controller is added", "peer", name, "address", address)
	return changeFailed(p.peer.AddNonvoter(ctx, name, address))
}

func changeFailed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, replica.ErrNotLeader), errors.Is(err, replica.ErrUncertain), errors.Is(err, replica.ErrStopped):
		return status.Errorf(codes.Unavailable, "the members may or may not have been changed, ask again: %v", err)
	}
	return status.Errorf(codes.FailedPrecondition, "the members were not changed: %v", err)
}

// Remove removes a member. The rest must be able to continue, unless forced.
// self says that it is this controller: it must hand the lead over first.
func (p *Peers) Remove(ctx context.Context, name string, force bool) (self bool, err error) {
	p.changing.Lock()
	defer p.changing.Unlock()
	member, known := p.member(name)
	if !known {
		var names []string
		for _, other := range p.peer.Members() {
			names = append(names, other.Name)
		}
		return false, status.Errorf(codes.NotFound, "%.60q is none of the controllers: these are %s", name, strings.Join(names, ", "))
	}
	if len(p.peer.Members()) == 1 {
		return false, status.Errorf(codes.FailedPrecondition, "%s is the only controller: to end the cluster stop gctld", name)
	}
	if member.Voter {
		if err := p.mayLose(ctx, name, force); err != nil {
			return false, err
		}
	}
	if name == p.peer.Name() {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, changeLimit)
	defer cancel()
	if err := p.peer.Remove(ctx, name); err != nil {
		return false, changeFailed(err)
	}
	p.log.Info("a controller was removed", "peer", name, "forced", force)
	return false, nil
}

// mayLose refuses a removal that leaves no majority of controllers that answer.
func (p *Peers) mayLose(ctx context.Context, name string, force bool) error {
	var silent []string
	voters := 0
	for _, peer := range p.List(ctx).GetPeers() {
		if !peer.GetVoter() || peer.GetName() == name {
			continue
		}
		voters++
		if !peer.GetReachable() || peer.GetJoining() {
			silent = append(silent, peer.GetName())
		}
	}
	if voters == 0 {
		return status.Errorf(codes.FailedPrecondition, "%s is the only controller that votes: wait until the others have caught up (gcontrol peer list)", name)
	}
	if answering := voters - len(silent); answering < voters/2+1 && !force {
		return status.Errorf(codes.FailedPrecondition, "without %s there are %d controllers, of which %s cannot be reached: no majority would be left to continue. Bring them back first, or remove them first; --force removes it all the same", name, voters, strings.Join(silent, ", "))
	}
	return nil
}

// Transfer hands the lead over, "" = to the one that is furthest, and returns
// who leads afterwards.
func (p *Peers) Transfer(ctx context.Context, to string) (string, error) {
	if to == p.peer.Name() {
		return to, nil
	}
	address := ""
	if to != "" {
		member, known := p.member(to)
		switch {
		case !known:
			return "", status.Errorf(codes.NotFound, "%.60q is none of the controllers: see gcontrol peer list", to)
		case !member.Voter:
			return "", status.Errorf(codes.FailedPrecondition, "controller %s is still catching up: see gcontrol peer list", to)
		}
		address = member.Address
		if _, err := p.helloAnew(ctx, to, address); err != nil {
			return "", status.Errorf(codes.FailedPrecondition, "controller %s cannot be reached at %s: %s", to, address, unreachable(err))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, changeLimit)
	defer cancel()
	if err := p.peer.Transfer(ctx, to, address); err != nil {
		return "", status.Errorf(codes.FailedPrecondition, "the lead was not handed over: %v: see gcontrol peer list", err)
	}
	for {
		if leader := p.peer.Leader(); leader != "" && leader != p.peer.Name() {
			return leader, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return "", status.Error(codes.Unavailable, "the lead was handed over, and nobody has taken it yet: see gcontrol peer list")
		}
	}
}
