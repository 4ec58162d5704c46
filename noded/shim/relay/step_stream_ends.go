package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
)

// reconnectLimit is how long a step stream without a tunnel is kept: longer than
// another controller takes to lead and both nodes to find it. openLimit is how long the
// first tunnel is tried for, and joinLimit how long the other end has to come
// to one: longer than the controllers give it. They are variables because tests cannot
// wait that long.
var (
	reconnectLimit = 2 * time.Minute
	openLimit      = 30 * time.Second
	joinLimit      = 15 * time.Second
)

// openStream is the end that a step opened, in a call to the job's socket: it
// makes tunnels to the target until the step stream is over.
func (r *Relay) openStream(incoming grpc.ServerStream, target string) error {
	over, err := r.beginStream(&r.opened)
	if err != nil {
		return err
	}
	defer over()
	s := newStepStream(&callEnd{stream: incoming}, keptOf(cap(r.tunnels)))
	go s.fill(true) // a caller that is gone ends the step stream
	stop := context.AfterFunc(r.context, func() { s.end(errClosing) })
	defer stop()
	name, again, broken, limit := uuid.NewString(), false, time.Now(), openLimit
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 100*time.Millisecond, 2*time.Second
	for {
		had, err := r.oneTunnel(incoming.Context(), s, &pb.TunnelOpen{TargetNode: target, Line: name, Again: again})
		again = again || had
		// A step that was ended also ends on the other node, which is told over another
		// tunnel if necessary.
		done, why, known := s.over()
		if done && (known || !again || !mayReopen(err)) {
			return streamStatus(why)
		}
		if had && !done {
			broken, limit = time.Now(), reconnectLimit
			pause.Reset()
			r.Log.Info("a step's connection to another node broke: it resumes over the next", "nodes", []string{r.Order.Node, target}, "error", err)
		}
		if !mayReopen(err) || time.Since(broken) > limit {
			return streamStatus(err)
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-r.context.Done():
			return status.Error(codes.Unavailable, "the job ends")
		}
	}
}

// oneTunnel runs a step stream over one tunnel. had says that the two ends were
// joined.
func (r *Relay) oneTunnel(caller context.Context, s *stepStream, open *pb.TunnelOpen) (had bool, err error) {
	// It lives as long as the step stream, not as the call: the last word of a step
	// that was ended says that it has gone.
	ctx, cancel := context.WithCancel(r.context)
	defer cancel()
	stream, err := r.OpenTunnel(ctx, open)
	if err != nil && !errors.Is(err, io.EOF) { // EOF: Recv says why
		return false, err
	}
	joined := &joinedStream{carrier: stream}
	tooLate := time.AfterFunc(joinLimit, func() {
		if !joined.heard.Load() {
			cancel()
		}
	})
	defer tooLate.Stop()
	defer context.AfterFunc(caller, func() {
		if !open.Again && !joined.heard.Load() {
			cancel() // nobody is there yet to be told
		}
	})()
	err = s.run(ctx, joined)
	return joined.heard.Load(), err
}

// joinedStream notes that the other end has spoken.
type joinedStream struct {
	carrier
	heard atomic.Bool
}

func (j *joinedStream) Recv() (*pb.TunnelMessage, error) {
	message, err := j.carrier.Recv()
	if err == nil {
		j.heard.Store(true)
	}
	return message, err
}

// mayReopen says whether another tunnel may succeed where this one failed: what one
// controller refuses, the next one will refuse too.
func mayReopen(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.FailedPrecondition, codes.ResourceExhausted, codes.Unimplemented:
		return false
	}
	return true
}

func streamStatus(err error) error {
	if err == nil || status.Code(err) != codes.Unknown {
		return err
	}
	return status.Error(codes.Unavailable, err.Error())
}

// callEnd is a step's call to the job's socket, as a connection.
type callEnd struct {
	stream  grpc.ServerStream
	unread  []byte
	sending sync.Mutex
}

func (c *callEnd) Read(p []byte) (int, error) {
	for len(c.unread) == 0 {
		raw, message := new(passon.Message), new(pb.TunnelMessage)
		if err := c.stream.RecvMsg(raw); err != nil {
			return 0, err
		}
		if err := proto.Unmarshal(raw.Bytes(), message); err != nil {
			return 0, status.Errorf(codes.InvalidArgument, "malformed tunnel: %v", err)
		}
		if message.GetHalfClose() {
			return 0, io.EOF
		}
		c.unread = message.GetData()
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

func (c *callEnd) Write(p []byte) (int, error) {
	return len(p), c.send(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: p}})
}

func (c *callEnd) CloseWrite() error {
	return c.send(&pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}})
}

func (c *callEnd) send(message *pb.TunnelMessage) error {
	data, err := proto.Marshal(message)
	if err != nil {
		return err
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.stream.SendMsg(passon.Of(data))
}

// Close has nothing to do: the call ends with its handler.
func (c *callEnd) Close() error { return nil }

// streamTable holds the step streams that other nodes opened to this allocation,
// by name.
type streamTable struct {
	mu   sync.Mutex
	open map[string]*joinedStepStream
}

// joinedStepStream is the end at process 1.
type joinedStepStream struct {
	*stepStream
	release func()
	expiry  *time.Timer // runs while it has no tunnel
}

// streamFor answers the step stream of this name, a new one if this is its first
// tunnel. nil: it is over already.
func (r *Relay) streamFor(ctx context.Context, name string, again bool) (*joinedStepStream, error) {
	r.streams.mu.Lock()
	defer r.streams.mu.Unlock()
	if known := r.streams.open[name]; known != nil || again {
		return known, nil
	}
	give, err := take(r.tunnels)
	if err != nil {
		return nil, err
	}
	uncount, err := r.beginStream(&r.joined)
	if err != nil {
		give()
		return nil, err
	}
	release := func() {
		uncount()
		give()
	}
	conn, err := r.dialInit(ctx)
	if err != nil {
		release()
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	end, ok := conn.(localEnd)
	if !ok {
		release()
		return nil, errors.Join(status.Errorf(codes.Internal, "process 1 is reached by %T", conn), conn.Close())
	}
	s := &joinedStepStream{stepStream: newStepStream(end, keptOf(cap(r.tunnels))), release: release}
	s.expiry = time.AfterFunc(reconnectLimit, func() { r.dropStream(name, s, errClosing) })
	if r.streams.open == nil {
		r.streams.open = make(map[string]*joinedStepStream)
	}
	r.streams.open[name] = s
	go s.fill(false)
	return s, nil
}

// dropStream closes a step stream that is over: process 1 ends what it ran.
func (r *Relay) dropStream(name string, s *joinedStepStream, why error) {
	r.streams.mu.Lock()
	known := r.streams.open[name] == s
	if known {
		delete(r.streams.open, name)
	}
	r.streams.mu.Unlock()
	if !known {
		return
	}
	s.expiry.Stop()
	s.end(why)
	_ = s.local.Close()
	s.release()
}

// carryStream runs a step stream over a tunnel that was joined, and keeps it when
// the tunnel breaks.
func (r *Relay) carryStream(ctx context.Context, name string, s *joinedStepStream, stream carrier) {
	s.expiry.Stop()
	err := s.run(ctx, stream)
	if over, why, _ := s.over(); over || r.context.Err() != nil {
		r.dropStream(name, s, errors.Join(why, errClosing))
		return
	}
	r.Log.Info("a step's connection from another node broke: it is kept until that node makes another", "kept_for", reconnectLimit, "error", err)
	s.expiry.Reset(reconnectLimit)
}

var errClosing = errors.New("the connection between the nodes was not made again in time")

var _ localEnd = (*net.UnixConn)(nil)
