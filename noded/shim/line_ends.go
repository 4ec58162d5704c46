package shim

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
)

// lineLimit is how long a line without a tunnel is kept: longer than another
// controller takes to lead and both nodes to find it. openLimit is how long the
// first tunnel is tried for, and joinLimit how long the other end has to come
// to one: longer than the controllers give it. Variables, since tests cannot
// wait that long.
var (
	lineLimit = 2 * time.Minute
	openLimit = 30 * time.Second
	joinLimit = 15 * time.Second
)

// openLine is the end that a step opened, in a call to the job's socket: it
// makes tunnels to the target until the line is over.
func (r *relay) openLine(incoming grpc.ServerStream, target string) error {
	over, err := r.part.beginLine()
	if err != nil {
		return err
	}
	defer over()
	l := newLine(&callEnd{stream: incoming})
	go l.fill(true) // a caller that is gone ends the line
	stop := context.AfterFunc(r.context, func() { l.end(errClosing) })
	defer stop()
	name, again, broken, limit := uuid.NewString(), false, time.Now(), openLimit
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 100*time.Millisecond, 2*time.Second
	for {
		had, err := r.oneTunnel(incoming.Context(), l, &pb.TunnelOpen{
			Part: r.part.order.Part, FromNode: r.part.order.Node, TargetNode: target, Line: name, Again: again,
		})
		again = again || had
		// A step that was ended is ended on the other node too, and it is told so
		// by another tunnel if need be.
		done, why, known := l.over()
		if done && (known || !again || !mayReopen(err)) {
			return lineStatus(why)
		}
		if had && !done {
			broken, limit = time.Now(), lineLimit
			pause.Reset()
			r.part.log.Info("a step's connection to another node broke: it goes on over the next", "nodes", []string{r.part.order.Node, target}, "error", err)
		}
		if !mayReopen(err) || time.Since(broken) > limit {
			return lineStatus(err)
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-r.context.Done():
			return status.Error(codes.Unavailable, "the job ends")
		}
	}
}

// oneTunnel runs a line over one tunnel. had says that the two ends were
// joined.
func (r *relay) oneTunnel(caller context.Context, l *line, open *pb.TunnelOpen) (had bool, err error) {
	conn, err := r.controller()
	if err != nil {
		return false, status.Error(codes.Unavailable, err.Error())
	}
	// It lives as long as the line, not as the call: the last word of a step
	// that was ended is that it is gone.
	ctx, cancel := context.WithCancel(r.vouch(r.context))
	defer cancel()
	stream, err := pb.NewNodeLinkClient(conn).Tunnel(ctx)
	if err == nil {
		err = stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: open}})
	}
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
			cancel() // nobody is there yet who would have to be told
		}
	})()
	err = l.run(ctx, joined)
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

// mayReopen says whether another tunnel may go where this one did not: what a
// controller refuses the next one will refuse too.
func mayReopen(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.FailedPrecondition, codes.ResourceExhausted, codes.Unimplemented:
		return false
	}
	return true
}

func lineStatus(err error) error {
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
		raw, message := new(rawMessage), new(pb.TunnelMessage)
		if err := c.stream.RecvMsg(raw); err != nil {
			return 0, err
		}
		if err := proto.Unmarshal(raw.data, message); err != nil {
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
	return c.stream.SendMsg(&rawMessage{data})
}

// Close has nothing to do: the call ends with its handler.
func (c *callEnd) Close() error { return nil }

// lineTable holds the lines that other nodes opened to this part, by name.
type lineTable struct {
	mu   sync.Mutex
	open map[string]*joinedLine
	// How many are open: those that other nodes opened, and those that steps opened
	// here.
	joined, opened atomic.Int32
}

// joinedLine is the end at process 1.
type joinedLine struct {
	*line
	release func()
	expiry  *time.Timer // runs while it has no tunnel
}

// lineFor answers the line of this name, made anew if it is its first tunnel.
// nil: it is over already.
func (p *part) lineFor(ctx context.Context, name string, again bool) (*joinedLine, error) {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	if known := p.lines.open[name]; known != nil || again {
		return known, nil
	}
	release, err := take(p.relay.tunnels)
	if err != nil {
		return nil, err
	}
	conn, err := p.dialStep(ctx)
	if err != nil {
		release()
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	end, ok := conn.(localEnd)
	if !ok {
		release()
		return nil, errors.Join(status.Errorf(codes.Internal, "process 1 is reached by %T", conn), conn.Close())
	}
	l := &joinedLine{line: newLine(end), release: release}
	l.expiry = time.AfterFunc(lineLimit, func() { p.dropLine(name, l, errClosing) })
	if p.lines.open == nil {
		p.lines.open = make(map[string]*joinedLine)
	}
	p.lines.open[name] = l
	p.linesChanged(&p.lines.joined, 1)
	go l.fill(false)
	return l, nil
}

// dropLine closes a line that does not go on: process 1 ends what it ran.
func (p *part) dropLine(name string, l *joinedLine, why error) {
	p.lines.mu.Lock()
	known := p.lines.open[name] == l
	if known {
		delete(p.lines.open, name)
	}
	p.lines.mu.Unlock()
	if !known {
		return
	}
	l.expiry.Stop()
	l.end(why)
	_ = l.local.Close()
	l.release()
	p.linesChanged(&p.lines.joined, -1)
}

// carryLine runs a line over a tunnel that was joined, and keeps it when the
// tunnel breaks.
func (p *part) carryLine(ctx context.Context, name string, l *joinedLine, stream carrier) {
	l.expiry.Stop()
	err := l.run(ctx, stream)
	if over, why, _ := l.over(); over || p.relay.context.Err() != nil {
		p.dropLine(name, l, errors.Join(why, errClosing))
		return
	}
	p.log.Info("a step's connection from another node broke: it is kept until that node makes another", "kept_for", lineLimit, "error", err)
	l.expiry.Reset(lineLimit)
}

var errClosing = errors.New("the connection between the nodes was not made again in time")

var _ localEnd = (*net.UnixConn)(nil)
