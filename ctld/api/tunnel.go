package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Bounds of tunnels. Nothing is kept of what passes: gRPC's flow control lets
// one end send only what the other takes.
const (
	joinLimit        = 10 * time.Second
	maxTunnels       = 8192 // each is two streams and two goroutines
	maxTunnelsPerJob = 2048 // a step on every node of a large job
	// What one user's jobs have of them, and what each has even if others have them all.
	maxTunnelsPerUser = 4096
	leastTunnels      = 16
	// imageTunnels are kept for images of processes: a job that moves does not wait for users.
	imageTunnels = 1024
	maxLineBytes = 64 // of a line's name, which is a UUID
)

// tunnelStream is either end.
type tunnelStream interface {
	SendMsg(message any) error
	RecvMsg(message any) error
	Context() context.Context
}

// tunnels are the channels being joined, and how many are open.
type tunnels struct {
	stop    <-chan struct{} // closed when the controller is about to stop
	mu      sync.Mutex
	waiting map[string]*channel
	open    int
	perJob  map[uint32]int
	perUser map[uint32]int
	ownerOf func(job uint32) (uid uint32)
}

// channel is one tunnel that waits for its second end.
type channel struct {
	alloc  session.Alloc
	target string
	// purpose is what the end that was asked must come for: the digest of an image,
	// forOutput, or "", a job that runs.
	purpose string
	user    uint32 // whose job it is
	// second delivers the end that was asked; its handler returns when over
	// is closed.
	second chan tunnelStream
	over   chan struct{}
}

func newTunnels(stop <-chan struct{}, ownerOf func(job uint32) (uid uint32)) *tunnels {
	return &tunnels{stop: stop, waiting: make(map[string]*channel), perJob: make(map[uint32]int), perUser: make(map[uint32]int), ownerOf: ownerOf}
}

// isFull says whether there is no place for a channel.
func (t *tunnels) isFull(c *channel) bool {
	if c.purpose != "" && c.purpose != forOutput { // an image
		return t.open >= maxTunnels+imageTunnels
	}
	mine := t.perUser[c.user]
	return t.perJob[c.alloc.Job] >= maxTunnelsPerJob || mine >= maxTunnelsPerUser || t.open >= maxTunnels && mine >= leastTunnels
}

// begin makes a channel; end frees its place.
func (t *tunnels) begin(name string, c *channel) error {
	c.user = t.ownerOf(c.alloc.Job)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isFull(c) {
		return status.Errorf(codes.ResourceExhausted, "too many tunnels are open (%d of all jobs, %d of this user's, %d of this one): start fewer steps at once", t.open, t.perUser[c.user], t.perJob[c.alloc.Job])
	}
	t.open++
	t.perJob[c.alloc.Job]++
	t.perUser[c.user]++
	t.waiting[name] = c
	return nil
}

func (t *tunnels) end(name string, c *channel) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, name)
	t.open--
	if t.perJob[c.alloc.Job]--; t.perJob[c.alloc.Job] <= 0 {
		delete(t.perJob, c.alloc.Job)
	}
	if t.perUser[c.user]--; t.perUser[c.user] <= 0 {
		delete(t.perUser, c.user)
	}
	close(c.over)
}

// forOutput is the purpose of a channel to a node that sends a job's output.
const forOutput = "output"

// join takes a waiting channel, once, for the node that was asked, and for the
// purpose of the request.
func (t *tunnels) join(name string, alloc session.Alloc, node, purpose string) (*channel, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, found := t.waiting[name]
	if !found || c.alloc != alloc || c.target != node || c.purpose != purpose {
		return nil, false
	}
	delete(t.waiting, name)
	return c, true
}

// Tunnel joins two ends that belong to one run of one job, or a node that resumes
// from an image and the node that has it.
func (s *NodeLink) Tunnel(stream pb.NodeLink_TunnelServer) error {
	message, err := firstMessage(stream.Context(), stream.Recv)
	if err != nil {
		return err
	}
	open := message.GetOpen()
	if open == nil {
		return invalid("the first message of a tunnel must be TunnelOpen")
	}
	if err := s.mustBeNode(stream.Context(), open.GetFromNode()); err != nil {
		return err
	}
	// The leader knows what runs where: a controller that has just started, and
	// does not lead, knows of no job.
	if err := s.confirm(stream.Context()); err != nil {
		return err
	}
	if open.GetTargetNode() != "" {
		return s.openTunnel(stream, open)
	}
	return s.joinTunnel(stream, open)
}

// mayOpen refuses an end that may not open this tunnel, and returns the message
// that asks the target's node to join.
func (s *NodeLink) mayOpen(open *pb.TunnelOpen, channel string) (*pb.ControllerMessage, error) {
	if open.GetImage() != nil {
		image, err := s.mayFetch(open)
		if err != nil {
			return nil, err
		}
		return &pb.ControllerMessage{What: &pb.ControllerMessage_SendImage{SendImage: &pb.SendImage{Image: image, Channel: channel, Facts: open.GetFacts(), Direct: open.GetDirect(), Background: open.GetCopy() && !s.cluster.View().Standing(image)}}}, nil
	}
	alloc := session.AllocOf(open.GetAlloc())
	if err := errors.Join(s.mustHold(alloc, open.GetFromNode()), s.mustHold(alloc, open.GetTargetNode())); err != nil {
		return nil, err
	}
	return &pb.ControllerMessage{What: &pb.ControllerMessage_Connect{Connect: &pb.Connect{
		Alloc: alloc.ID(), Channel: channel, Line: open.GetLine(), Again: open.GetAgain(), NetworkFrom: open.GetNetworkFrom()}}}, nil
}

// mayFetch returns the image that a node may fetch from another one, as the log
// names it, and refuses all others: an image holds all that a job had in
// memory. A node on which a run resumes from an image gets that one, until its
// allocation is up. A node that was told to keep a copy gets that one, until it
// has answered. A node that is asked whether it could resume from an image gets
// the image's facts, until it has answered. What the node says of the image is
// not passed on.
func (s *NodeLink) mayFetch(open *pb.TunnelOpen) (*pb.Image, error) {
	node, asked := open.GetFromNode(), open.GetImage()
	var image *pb.Image
	link := s.loops.Sessions().Get(node)
	switch {
	case open.GetFacts() && link != nil:
		image = link.Asked(asked)
	case open.GetCopy() && link != nil:
		image = link.Fetching(asked)
	case !open.GetFacts() && !open.GetCopy():
		alloc := session.AllocOf(open.GetAlloc())
		image = s.cluster.View().Restoring(state.AllocRef{Job: alloc.Job, Epoch: alloc.Epoch, Node: node})
	}
	if image == nil || !bytes.Equal(image.GetDigest(), asked.GetDigest()) || image.GetNode() != open.GetTargetNode() {
		return nil, status.Errorf(codes.PermissionDenied, "node %q does not restore this image of job %d: a node gets only the image that it was told to resume from or to copy, as made by the node that made it, until that is done", node, asked.GetAlloc().GetJob())
	}
	return image, nil
}

// holder is a connected node that has an image, other than the one that asks for it;
// nil when none is. One with a copy goes before the node that made it: that may be the
// one that its owner has taken back.
func (s *NodeLink) holder(image *pb.Image, asks string) *session.Session {
	var best *session.Session
	for _, name := range append([]string{image.GetNode()}, s.cluster.View().CopiesOf(image)...) {
		link := s.loops.Sessions().Get(name)
		if link != nil && name != asks && (best == nil || link.Holds(image)) {
			best = link
		}
	}
	return best
}

// mustHold refuses a node on which this run of the job holds nothing.
func (s *NodeLink) mustHold(alloc session.Alloc, node string) error {
	view := s.cluster.View()
	if _, held := view.LiveAlloc(state.AllocRef{Job: alloc.Job, Epoch: alloc.Epoch, Node: node}); held != nil {
		return nil
	}
	job, found := view.Job(alloc.Job)
	if !found || job.Epoch != alloc.Epoch || !job.HoldsNodes() {
		return status.Errorf(codes.FailedPrecondition, "job %d does not run any more, or not as its run %d", alloc.Job, alloc.Epoch)
	}
	return status.Errorf(codes.PermissionDenied, "job %d does not run on node %q", alloc.Job, node)
}

// openTunnel is the end that names a target: it asks the target's node to join,
// and carries the bytes.
func (s *NodeLink) openTunnel(stream pb.NodeLink_TunnelServer, open *pb.TunnelOpen) error {
	alloc := session.AllocOf(open.GetAlloc())
	if len(open.GetLine()) > maxLineBytes {
		return invalid("the name of a line has at most %d bytes", maxLineBytes)
	}
	if n := len(open.GetDirect()); n != 0 && n != sha256.Size {
		return invalid("the SHA-256 of a certificate has %d bytes, and not %d", sha256.Size, n)
	}
	name := uuid.NewString()
	order, err := s.mayOpen(open, name)
	if err != nil {
		return err
	}
	image := order.GetSendImage().GetImage()
	if image != nil {
		alloc = session.AllocOf(image.GetAlloc())
	}
	link := s.loops.Sessions().Get(open.GetTargetNode())
	if image != nil {
		link = s.holder(image, open.GetFromNode())
	}
	if link == nil {
		return status.Errorf(codes.Unavailable, "node %s is not connected to this controller: try again", open.GetTargetNode())
	}
	c := &channel{alloc: alloc, target: link.Node(), purpose: string(image.GetDigest()), second: make(chan tunnelStream, 1), over: make(chan struct{})}
	return s.tunnels.joined(stream, name, c, func() { link.Send(order) })
}

// joined asks for the second end of a channel, waits for it, and carries the
// bytes.
func (t *tunnels) joined(stream tunnelStream, name string, c *channel, ask func()) error {
	if err := t.begin(name, c); err != nil {
		return err
	}
	defer t.end(name, c)
	ask()
	timer := time.NewTimer(joinLimit)
	defer timer.Stop()
	select {
	case second := <-c.second:
		return pipe(stream, second, t.stop)
	case <-timer.C:
		return status.Errorf(codes.DeadlineExceeded, "node %s did not open its end of the tunnel within %v", c.target, joinLimit)
	case <-stream.Context().Done():
		return stream.Context().Err()
	case <-t.stop:
		return status.Error(codes.Unavailable, "this controller stops")
	}
}

// joinTunnel is the end that was asked: it lends its stream to the other.
func (s *NodeLink) joinTunnel(stream pb.NodeLink_TunnelServer, open *pb.TunnelOpen) error {
	alloc, purpose := session.AllocOf(open.GetAlloc()), string(open.GetImage().GetDigest())
	switch {
	case open.GetImage() != nil:
		alloc = session.AllocOf(open.GetImage().GetAlloc())
	case open.GetOutput(): // the run may be over: the channel alone says that the node was asked
		purpose = forOutput
	default:
		if err := s.mustHold(alloc, open.GetFromNode()); err != nil {
			return err
		}
	}
	c, found := s.tunnels.join(open.GetChannel(), alloc, open.GetFromNode(), purpose)
	if !found {
		return status.Error(codes.NotFound, "no tunnel of this job to this node waits under that channel")
	}
	c.second <- stream
	select {
	case <-c.over:
		return nil
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

// pipe carries bytes both ways until both ends have sent all, or one of them
// fails.
func pipe(a, b tunnelStream, stop <-chan struct{}) error {
	results := make(chan error, 2)
	go func() { results <- carry(b, a) }()
	go func() { results <- carry(a, b) }()
	for range 2 {
		select {
		case err := <-results:
			if err != nil {
				return err
			}
		case <-stop:
			return status.Error(codes.Unavailable, "this controller stops")
		case <-a.Context().Done():
			return a.Context().Err()
		case <-b.Context().Done():
			return status.Error(codes.Aborted, "the other end of the tunnel is gone")
		}
	}
	return nil
}
