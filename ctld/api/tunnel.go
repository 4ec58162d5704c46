package api

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Bounds of tunnels. Nothing is kept of what passes: gRPC's flow control lets
// one end send only what the other takes.
const (
	joinLimit        = 10 * time.Second
	maxTunnels       = 8192 // each is two streams and two goroutines
	maxTunnelsPerJob = 2048 // a step on every node of a large job
	maxTunnelBytes   = 256 << 10
	maxLineBytes     = 64 // of a line's name, which is a UUID
)

// tunnelStream is either end.
type tunnelStream interface {
	Send(*pb.TunnelMessage) error
	Recv() (*pb.TunnelMessage, error)
	Context() context.Context
}

// tunnels are the channels being joined, and how many are open.
type tunnels struct {
	mu      sync.Mutex
	waiting map[string]*channel
	open    int
	perJob  map[uint32]int
}

// channel is one tunnel that waits for its second end.
type channel struct {
	part   session.Part
	target string
	image  string // the digest of the image that is to come; "" = it leads to a job
	// second delivers the end that was asked; its handler returns when over
	// is closed.
	second chan tunnelStream
	over   chan struct{}
}

func newTunnels() *tunnels {
	return &tunnels{waiting: make(map[string]*channel), perJob: make(map[uint32]int)}
}

// begin makes a channel; end gives its place free.
func (t *tunnels) begin(name string, c *channel) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open >= maxTunnels || t.perJob[c.part.Job] >= maxTunnelsPerJob {
		return status.Errorf(codes.ResourceExhausted, "too many tunnels are open (%d of all jobs, %d of this one): start fewer steps at once", t.open, t.perJob[c.part.Job])
	}
	t.open++
	t.perJob[c.part.Job]++
	t.waiting[name] = c
	return nil
}

func (t *tunnels) end(name string, c *channel) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, name)
	t.open--
	if t.perJob[c.part.Job]--; t.perJob[c.part.Job] <= 0 {
		delete(t.perJob, c.part.Job)
	}
	close(c.over)
}

// join takes a waiting channel, once, for the node that was asked, and for what
// it was asked.
func (t *tunnels) join(name string, part session.Part, node, image string) (*channel, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, found := t.waiting[name]
	if !found || c.part != part || c.target != node || c.image != image {
		return nil, false
	}
	delete(t.waiting, name)
	return c, true
}

// Tunnel joins two ends that belong to one run of one job, or a node that goes
// on with an image and the node that has it.
func (s *Server) Tunnel(stream pb.NodeLink_TunnelServer) error {
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
	// What runs where is the leader's word: one that has just started, and does
	// not lead, knows of no job.
	if err := s.confirm(stream.Context()); err != nil {
		return err
	}
	if open.GetTargetNode() != "" {
		return s.openTunnel(stream, open)
	}
	return s.joinTunnel(stream, open)
}

// mayOpen refuses an end that may not open this tunnel, and answers what asks
// the target's node to come.
func (s *Server) mayOpen(open *pb.TunnelOpen, channel string) (*pb.ControllerMessage, error) {
	if image := open.GetImage(); image != nil {
		if err := s.mayFetch(open, image); err != nil {
			return nil, err
		}
		return &pb.ControllerMessage{What: &pb.ControllerMessage_SendImage{SendImage: &pb.SendImage{Image: image, Channel: channel}}}, nil
	}
	part := session.PartOf(open.GetPart())
	if err := errors.Join(s.mustHold(part, open.GetFromNode()), s.mustHold(part, open.GetTargetNode())); err != nil {
		return nil, err
	}
	return &pb.ControllerMessage{What: &pb.ControllerMessage_Connect{Connect: &pb.Connect{
		Part: part.ID(), Channel: channel, Line: open.GetLine(), Again: open.GetAgain()}}}, nil
}

// mayFetch refuses a node that was neither told to go on with this image, nor
// asked whether it could: an image holds all that a job had in memory. One on
// which the job is may have its images: it was told by a controller that leads
// no more. That the image is of this job is looked after by the node that has it.
func (s *Server) mayFetch(open *pb.TunnelOpen, image *pb.Image) error {
	node, part := open.GetFromNode(), session.PartOf(open.GetPart())
	if link := s.loops.Sessions().Get(node); link != nil && link.Told(image) {
		return nil
	}
	if part.Job == image.GetPart().GetJob() && s.mustHold(part, node) == nil {
		return nil
	}
	return status.Errorf(codes.PermissionDenied, "node %q was not told to restore this image of job %d", node, image.GetPart().GetJob())
}

// mustHold refuses a node on which this run of the job holds nothing.
func (s *Server) mustHold(part session.Part, node string) error {
	job, found := s.cluster.View().Job(part.Job)
	if !found || job.Epoch != part.Epoch || !job.HoldsNodes() {
		return status.Errorf(codes.FailedPrecondition, "job %d does not run any more, or not as its run %d", part.Job, part.Epoch)
	}
	if held := job.Part(node); held == nil || held.Released {
		return status.Errorf(codes.PermissionDenied, "job %d does not run on node %q", part.Job, node)
	}
	return nil
}

// openTunnel is the end that names a target: it asks the target's node to
// come, and carries the bytes.
func (s *Server) openTunnel(stream pb.NodeLink_TunnelServer, open *pb.TunnelOpen) error {
	part := session.PartOf(open.GetPart())
	if len(open.GetLine()) > maxLineBytes {
		return invalid("the name of a line has at most %d bytes", maxLineBytes)
	}
	if open.GetImage() != nil {
		part = session.PartOf(open.GetImage().GetPart())
	}
	name := uuid.NewString()
	order, err := s.mayOpen(open, name)
	if err != nil {
		return err
	}
	link := s.loops.Sessions().Get(open.GetTargetNode())
	if link == nil {
		return status.Errorf(codes.Unavailable, "node %s is not connected to this controller: try again", open.GetTargetNode())
	}
	c := &channel{part: part, target: open.GetTargetNode(), image: string(open.GetImage().GetDigest()), second: make(chan tunnelStream, 1), over: make(chan struct{})}
	return s.joined(stream, name, c, func() { link.Send(order) })
}

// joined asks for the second end of a channel, waits for it, and carries the
// bytes.
func (s *Server) joined(stream tunnelStream, name string, c *channel, ask func()) error {
	if err := s.tunnels.begin(name, c); err != nil {
		return err
	}
	defer s.tunnels.end(name, c)
	ask()
	timer := time.NewTimer(joinLimit)
	defer timer.Stop()
	select {
	case second := <-c.second:
		return pipe(stream, second, s.stop)
	case <-timer.C:
		return status.Errorf(codes.DeadlineExceeded, "node %s did not open its end of the tunnel within %v", c.target, joinLimit)
	case <-stream.Context().Done():
		return stream.Context().Err()
	case <-s.stop:
		return status.Error(codes.Unavailable, "this controller stops")
	}
}

// joinTunnel is the end that was asked: it lends its stream to the other.
func (s *Server) joinTunnel(stream pb.NodeLink_TunnelServer, open *pb.TunnelOpen) error {
	part := session.PartOf(open.GetPart())
	if open.GetImage() != nil {
		part = session.PartOf(open.GetImage().GetPart())
	} else if err := s.mustHold(part, open.GetFromNode()); err != nil {
		return err
	}
	c, found := s.tunnels.join(open.GetChannel(), part, open.GetFromNode(), string(open.GetImage().GetDigest()))
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

// pipe carries bytes both ways until both ends have said their last, or one
// of them fails.
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

// carry passes what one end sends on to the other, up to and including its
// half close. The end of a stream is one too.
func carry(to, from tunnelStream) error {
	for {
		message, err := from.Recv()
		if errors.Is(err, io.EOF) {
			return to.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}})
		}
		if err != nil {
			return err
		}
		if message.GetOpen() != nil || message.GetAttach() != nil || message.GetAttached() != nil {
			return invalid("a tunnel is opened once")
		}
		if len(message.GetData()) > maxTunnelBytes {
			return invalid("a tunnel's message of %d bytes: at most %d", len(message.GetData()), maxTunnelBytes)
		}
		if err := to.Send(message); err != nil {
			return err
		}
		if message.GetHalfClose() {
			return nil
		}
	}
}
