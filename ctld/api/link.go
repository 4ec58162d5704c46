package api

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// NodeLink answers nodes: their sessions with their leases, and their tunnels.
// It answers only while this controller leads, and believes a node only if it
// is root on this host or shows the certificate of that node.
type NodeLink struct {
	pb.UnimplementedNodeLinkServer
	*core
	turns *semaphore.Weighted // of registrations
}

// firstMessageLimit bounds the wait for the first message of a stream.
const firstMessageLimit = 10 * time.Second

// mustBeNode refuses callers that may not speak for this node.
func (s *NodeLink) mustBeNode(ctx context.Context, name string) error {
	from, err := s.connection(ctx)
	if err != nil {
		return err
	}
	if !from.trusted {
		return status.Error(codes.PermissionDenied, "only root on this host, or a node with its certificate, may speak as a node")
	}
	if from.node != "" && from.node != name {
		return status.Errorf(codes.PermissionDenied, "the certificate is that of node %s, not of %s", from.node, name)
	}
	if !spec.ValidHostName(name) {
		return invalid("%.64q is not a node name", name)
	}
	return nil
}

// Session is a node's control connection.
func (s *NodeLink) Session(stream pb.NodeLink_SessionServer) error {
	if err := s.mustLead(); err != nil {
		return err
	}
	message, err := firstMessage(stream.Context(), stream.Recv)
	if err != nil {
		return err
	}
	register := message.GetRegister()
	if register == nil {
		return invalid("the first message of a session must be Register")
	}
	if err := s.mustBeNode(stream.Context(), register.GetNode()); err != nil {
		return err
	}
	if err := checkWords(register.GetInventory()); err != nil {
		return err
	}
	noteNode(stream.Context(), register.GetNode())
	link, err := s.register(stream.Context(), register)
	if err == nil {
		err = s.auditNow(stream.Context(), pb.NodeLink_Session_FullMethodName)
	}
	if err != nil {
		return err
	}
	defer s.loops.Sessions().Disconnect(link)
	if !s.loops.Leading() {
		return status.Error(codes.Unavailable, "this controller has just ceased to lead: connect again")
	}
	s.log.Info("node connected", "node", link.Node(), "allocs", len(register.GetRunning()), "version", register.GetInventory().GetVersion())
	received := make(chan error, 1)
	go func() { received <- s.receive(stream, link) }()
	err = s.transmit(stream, link, received)
	s.log.Info("node disconnected", "node", link.Node(), "cause", err)
	return err
}

// checkWords refuses names that a node's own configuration would not take.
func checkWords(inventory *pb.Inventory) error {
	for _, device := range inventory.GetDevices() {
		if model := device.GetModel(); model != "" && !spec.ValidWord(model) {
			return invalid("model %.64q of GPU %.64q: give one word, such as a100", model, device.GetId())
		}
	}
	for _, feature := range inventory.GetFeatures() {
		if !spec.ValidWord(feature) {
			return invalid("feature %.64q: a feature is made of letters, digits, '_', '.' and '-'", feature)
		}
	}
	return nil
}

// register commits what the node says of itself, and begins its session. It is
// always committed, even if nothing seems new: it also settles lost
// allocations. For the same reason nobody else may register as this node while
// it is connected: its jobs would be taken for lost, and started again.
func (s *NodeLink) register(ctx context.Context, register *pb.Register) (*session.Session, error) {
	arrived, policy := time.Now(), s.cluster.View().Policy()
	done, err := s.loops.Sessions().Admit(register, time.Duration(policy.LeaseS)*time.Second)
	if err != nil {
		if errors.Is(err, session.ErrEnding) {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
		return nil, status.Error(codes.AlreadyExists, err.Error())
	}
	defer done()
	if err := s.turns.Acquire(ctx, 1); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	_, err = s.propose(ctx, state.RegisterFromMessage(register), state.RequestID{})
	s.turns.Release(1)
	if err != nil {
		return nil, err
	}
	if err := s.holds(ctx, register.GetNode(), register.GetHolds()); err != nil {
		return nil, err
	}
	if err := s.leaves(ctx, register.GetNode(), register.GetLeaves()); err != nil {
		return nil, err
	}
	granted, err := s.grant(ctx, register.GetNode(), arrived)
	if err != nil {
		return nil, err
	}
	link := s.loops.Sessions().Connect(ctx, register, &pb.Registered{
		ClusterName: policy.ClusterName, RenewEveryMs: max(granted.LeaseMs/3, 100), SentBoottimeNs: register.GetSentBoottimeNs(),
		LeaseMs: granted.LeaseMs, LeaseMarginMs: granted.LeaseMarginMs, Allocs: granted.Allocs,
		ReconnectWithinMs: reconnectWithin(s.cluster.View().NodeCount())})
	link.NoteClock(time.Duration(register.GetSentBoottimeNs()), arrived)
	return link, nil
}

// registering bounds the registrations that are being committed. They come by the thousand
// when a leader is lost, and what a user asks for queues with them: it is never behind more
// than these, which are written to disk together in two pieces.
const registering = 512

// registrations is how many nodes are asked to come back in a second when their sessions
// break: few enough that others are answered meanwhile.
const registrations = 2000

// maxReconnect is the longest that they are asked to wait for it.
const maxReconnect = 5 * time.Second

// reconnectWithin is the time over which so many nodes come back, in milliseconds.
func reconnectWithin(nodes int) uint32 {
	return uint32(min(time.Duration(nodes)*time.Second/registrations, maxReconnect).Milliseconds())
}

// holds takes over what the owner of a node says on it. What is known is not committed
// again.
func (s *NodeLink) holds(ctx context.Context, node string, said *pb.NodeHolds) error {
	command := state.HoldsFromMessage(node, said)
	if said == nil || !s.cluster.View().TellsHolds(&command) {
		return nil
	}
	_, err := s.propose(ctx, command, state.RequestID{})
	return err
}

// leaves notes that a node is about to be switched off, or to sleep; nil = it stays.
func (s *NodeLink) leaves(ctx context.Context, node string, said *pb.NodeLeaves) error {
	command := state.LeavesFromMessage(node, said)
	if !s.cluster.View().TellsLeaves(&command) {
		return nil
	}
	if _, err := s.propose(ctx, command, state.RequestID{}); err != nil {
		return err
	}
	s.log.Info("node leaves, or stays after all", "node", node, "reason", command.Why, "within_ms", command.WithinMS)
	s.loops.Hurry()
	return nil
}

// transmit writes what is queued for the node until the session ends.
func (s *NodeLink) transmit(stream pb.NodeLink_SessionServer, link *session.Session, received <-chan error) error {
	for {
		select {
		case message := <-link.Out():
			err := stream.Send(message)
			link.Sent(message)
			if err != nil {
				return err
			}
		case err := <-received:
			return err
		case <-link.Done():
			return status.Error(codes.Aborted, causeOf(link.Cause()))
		case <-s.stop:
			return status.Error(codes.Unavailable, "this controller stops")
		}
	}
}

func causeOf(err error) string {
	if err == nil || errors.Is(err, context.Canceled) {
		return "the connection ended"
	}
	return err.Error()
}

// receive handles what the node says.
func (s *NodeLink) receive(stream pb.NodeLink_SessionServer, link *session.Session) error {
	var waiting renewals
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		now := time.Now()
		link.Touch(now)
		if renew := message.GetRenewLease(); renew != nil {
			link.SetFrozen(allocsOf(renew.GetFrozen()))
			link.SetLoad(renew.GetLoad())
			link.NoteClock(time.Duration(renew.GetSentBoottimeNs()), now)
			if waiting.put(asked{renew, now}) {
				go s.renew(stream.Context(), link, &waiting)
			}
			continue
		}
		if err := s.heard(stream.Context(), link, message); err != nil {
			return err
		}
	}
}

func (s *NodeLink) heard(ctx context.Context, link *session.Session, message *pb.NodeMessage) error {
	switch what := message.GetWhat().(type) {
	case *pb.NodeMessage_AllocReady:
		return s.loops.Ready(ctx, link, what.AllocReady)
	case *pb.NodeMessage_AllocEnded:
		return s.loops.Ended(ctx, link, what.AllocEnded)
	case *pb.NodeMessage_AllocSuspended:
		return s.loops.Suspended(ctx, link, what.AllocSuspended)
	case *pb.NodeMessage_AllocSaved:
		return s.loops.Saved(ctx, link, what.AllocSaved)
	case *pb.NodeMessage_AllocCheckpointable:
		s.loops.Checkpointable(link, what.AllocCheckpointable)
	case *pb.NodeMessage_RestoreAnswer:
		link.Answered(what.RestoreAnswer.GetToken())
		s.loops.Restores(link, what.RestoreAnswer)
	case *pb.NodeMessage_ImageFetched:
		return s.loops.Fetched(ctx, link, what.ImageFetched)
	case *pb.NodeMessage_ImagesHeld:
		link.SetHeld(what.ImagesHeld.GetImages())
	case *pb.NodeMessage_SignalResult:
		s.loops.Sessions().Answer(what.SignalResult)
	case *pb.NodeMessage_ImagesWord:
		s.loops.Sessions().Said(what.ImagesWord)
	case *pb.NodeMessage_NodeHolds:
		return s.holds(ctx, link.Node(), what.NodeHolds)
	case *pb.NodeMessage_NodeLeaves:
		return s.leaves(ctx, link.Node(), what.NodeLeaves)
	case *pb.NodeMessage_LeftOvers:
		_, err := s.propose(ctx, state.LeftOversFromMessage(link.Node(), what.LeftOvers), state.RequestID{})
		return err
	case *pb.NodeMessage_Register:
		return invalid("a session registers once: connect again to register again")
	default:
		return invalid("a node message of a kind this controller does not know: upgrade the controllers before the nodes")
	}
	return nil
}

// firstMessage waits for a stream's first message, but not forever.
func firstMessage[M any](ctx context.Context, receive func() (M, error)) (M, error) {
	type got struct {
		message M
		err     error
	}
	channel := make(chan got, 1)
	go func() {
		message, err := receive()
		channel <- got{message, err}
	}()
	timer := time.NewTimer(firstMessageLimit)
	defer timer.Stop()
	select {
	case first := <-channel:
		return first.message, first.err
	case <-timer.C:
	case <-ctx.Done():
	}
	var none M
	return none, status.Errorf(codes.DeadlineExceeded, "no first message within %v", firstMessageLimit)
}
