package noded

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/noded/owner"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file serves the owner on the node itself.

const (
	// greetingDeadline bounds what a caller may take to begin.
	greetingDeadline = 5 * time.Second
	// nameDeadline bounds the question who a user is: name services may hang. Root is
	// never asked for.
	nameDeadline = 3 * time.Second
	// maxOwnerCalls bounds the calls of one connection at once.
	maxOwnerCalls = 4
	// What a call may send: anybody on this machine may connect, and all of a message is
	// there before it is known whether the caller may command anything.
	maxOwnerMessage = 64 << 10
	maxOwnerHeaders = 16 << 10
	ownerWindow     = 64 << 10
	ownerBuffer     = 4 << 10
)

// ownerService is pb.NodeOwner.
type ownerService struct {
	pb.UnimplementedNodeOwnerServer
	agent *agent
}

// serveOwner serves the owner until ctx ends. A node without it works otherwise, so what
// is in the way is only told.
func (a *agent) serveOwner(ctx context.Context, path string) {
	if path == NoSocket {
		return
	}
	listener, err := dial.ListenUnix(path, "socket in the configuration of gnoded")
	if err != nil {
		a.log.Error("greclaim --local does not work on this node: set socket in its configuration to a path that no other node has", "error", err)
		return
	}
	server := grpc.NewServer(grpc.Creds(newPeerCredentials()), grpc.ConnectionTimeout(greetingDeadline), grpc.MaxConcurrentStreams(maxOwnerCalls),
		grpc.MaxRecvMsgSize(maxOwnerMessage), grpc.MaxHeaderListSize(maxOwnerHeaders), grpc.InitialWindowSize(ownerWindow), grpc.InitialConnWindowSize(ownerWindow),
		grpc.ReadBufferSize(ownerBuffer), grpc.SharedWriteBuffer(true))
	pb.RegisterNodeOwnerServer(server, &ownerService{agent: a})
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(listener); err != nil {
		a.log.Error("greclaim --local no longer works on this node: restart gnoded, its jobs go on", "error", err)
	}
}

// caller is who calls, once that may command the node.
func (s *ownerService) caller(ctx context.Context) (name string, err error) {
	from, known := peer.FromContext(ctx)
	if !known {
		return "", status.Error(codes.Internal, "it is not known who calls")
	}
	info, known := from.AuthInfo.(peerInfo)
	if !known {
		return "", status.Error(codes.Internal, "it is not known who calls")
	}
	if err := fromOutside(info.pid); err != nil {
		return "", err
	}
	name = "root"
	if info.uid != 0 {
		name = accountName(ctx, info.uid)
	}
	s.agent.mu.Lock()
	defer s.agent.mu.Unlock()
	if err := s.agent.owned.owner.May(info.uid, name); err != nil {
		return "", status.Error(codes.PermissionDenied, err.Error())
	}
	if name == "" {
		name = strconv.FormatUint(uint64(info.uid), 10)
	}
	return name, nil
}

// fromOutside refuses processes of containers: they should not see the socket, and their
// user may be somebody else outside.
func fromOutside(pid int32) error {
	own, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return status.Errorf(codes.Internal, "see who calls: %v", err)
	}
	theirs, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(int(pid)), "ns/user"))
	switch {
	case err != nil:
		return status.Error(codes.PermissionDenied, "access/permission denied: the process that calls has ended")
	case own != theirs:
		return status.Error(codes.PermissionDenied, "access/permission denied: nodes cannot be reclaimed or released from inside a job or another container")
	}
	return nil
}

// named refuses a request that names another node.
func (s *ownerService) named(names string) error {
	if own := s.agent.machine.config.Name; names != "" && names != own {
		return status.Errorf(codes.InvalidArgument, "this is node %s: with --local name it, or no node", own)
	}
	return nil
}

// requestOf is what somebody types.
func requestOf(by string, request *pb.ReclaimNodesRequest) (owner.Request, error) {
	r := owner.Request{By: by, Within: time.Duration(request.GetWithinS()) * time.Second, For: time.Duration(request.GetForS()) * time.Second, Kill: request.GetKill()}
	if request.GetUntilMs() != 0 {
		if r.For != 0 {
			return r, status.Error(codes.InvalidArgument, "the end of the reclaim is given twice: use --for or --until")
		}
		if r.For = time.Until(time.UnixMilli(request.GetUntilMs())); r.For <= 0 {
			return r, status.Error(codes.InvalidArgument, "the end of the reclaim is past: give a --until that is to come")
		}
	}
	return r, nil
}

// Reclaim implements pb.NodeOwnerServer. It may be called again.
func (s *ownerService) Reclaim(ctx context.Context, request *pb.ReclaimNodesRequest) (*pb.ReclaimNodesResponse, error) {
	by, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.named(request.GetNames()); err != nil {
		return nil, err
	}
	asked, err := requestOf(by, request)
	if err != nil {
		return nil, err
	}
	a := s.agent
	if request.GetDryRun() {
		return a.wouldReclaim(asked)
	}
	a.changeOwned(func(o *owner.Owner, now owner.Time) bool {
		err = o.Reclaim(asked, now)
		return err == nil
	})
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &pb.ReclaimNodesResponse{Nodes: []*pb.Node{a.shownNode()}}, nil
}

func (a *agent) wouldReclaim(asked owner.Request) (*pb.ReclaimNodesResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	reclaim, err := a.owned.owner.Would(asked, ownerTime())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	node := a.ownNode(nil)
	node.Reclaim = reclaim
	for _, decided := range a.registry.All() {
		if !decided.Life.Over() && a.owned.owner.Guest(decided.Order) {
			guest := guestMessage(a.allocs[decided.Key], reclaim.Kill)
			if decided.Free() {
				guest.FreedMs = reclaim.AtMs
			}
			reclaim.Guests = append(reclaim.Guests, guest)
		}
	}
	return &pb.ReclaimNodesResponse{Nodes: []*pb.Node{node}}, nil
}

func (a *agent) shownNode() *pb.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ownNode(a.owned.owner.Message())
}

// Release implements pb.NodeOwnerServer. It may be called again.
func (s *ownerService) Release(ctx context.Context, request *pb.ReleaseNodesRequest) (*pb.ReleaseNodesResponse, error) {
	by, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.named(request.GetNames()); err != nil {
		return nil, err
	}
	a := s.agent
	before := a.shownNode()
	a.log.Info("the node is released here", "by", by)
	a.changeOwned(func(o *owner.Owner, now owner.Time) bool {
		o.Release(now)
		return true
	})
	a.markSuspended(before.GetReclaim())
	return &pb.ReleaseNodesResponse{Nodes: []*pb.Node{before}}, nil
}

// markSuspended says of guests that the controllers have stopped too that they wait for
// their word: what they had may be another job's by now.
func (a *agent) markSuspended(reclaim *pb.Reclaim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range reclaim.GetGuests() {
		for key, p := range a.allocs {
			if key.Job == g.Job && key.Epoch == g.Epoch && !p.Life.Over() && p.Suspended {
				g.Detail = "the controllers have stopped it too, and it continues when they say so"
			}
		}
	}
}

// Show implements pb.NodeOwnerServer.
func (s *ownerService) Show(ctx context.Context, _ *pb.ShowOwnedRequest) (*pb.Node, error) {
	if _, err := s.caller(ctx); err != nil {
		return nil, err
	}
	return s.agent.shownNode(), nil
}
