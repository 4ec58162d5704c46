package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
	"github.com/gleaner-hpc/gleaner/proto/tunneldata"
)

// messageBytes is how much of an image goes into one message of a tunnel: as much as may
// be, for each passes through three programs.
const messageBytes = 256 << 10

// Tunnel is one end of a tunnel, opened.
type Tunnel interface {
	Send(*pb.TunnelMessage) error
	Recv() (*pb.TunnelMessage, error)
	// RecvMsg takes a *passon.Message: the stream has passon.Codec.
	RecvMsg(message any) error
	CloseSend() error
}

// Stream is a tunnel as a plain stream of bytes. Close calls close once.
// Writes go no faster than the pace allows; nil = as fast
// as possible.
func Stream(ctx context.Context, tunnel Tunnel, pace *Pace, close func()) io.ReadWriteCloser {
	return &stream{ctx: ctx, tunnel: tunnel, pace: pace, close: sync.OnceFunc(close), unread: new(mem.Reader)}
}

type stream struct {
	ctx    context.Context
	tunnel Tunnel
	pace   *Pace
	close  func()

	reading sync.Mutex
	unread  *mem.Reader
	ended   bool
	writing sync.Mutex
}

// Read implements io.Reader.
func (s *stream) Read(into []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	for s.unread.Remaining() == 0 {
		if s.ended {
			return 0, io.EOF
		}
		raw := new(passon.Message)
		if err := s.tunnel.RecvMsg(raw); err != nil {
			return 0, err // io.EOF: the other end has closed
		}
		if data := tunneldata.Reader(raw); data != nil {
			s.unread = data
			continue
		}
		message := new(pb.TunnelMessage)
		if err := proto.Unmarshal(raw.Bytes(), message); err != nil {
			return 0, fmt.Errorf("a message of the tunnel cannot be read: %w", err)
		}
		s.unread, s.ended = passon.Of(message.GetData()).Reader(), message.GetHalfClose()
	}
	return s.unread.Read(into)
}

// Write implements io.Writer.
func (s *stream) Write(data []byte) (written int, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	for len(data) > 0 {
		piece := data[:min(len(data), messageBytes)]
		if err := s.pace.wait(s.ctx, len(piece)); err != nil {
			return written, err
		}
		if err := s.tunnel.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: piece}}); err != nil {
			if errors.Is(err, io.EOF) { // why comes with Recv
				err = io.ErrClosedPipe
			}
			return written, err
		}
		written += len(piece)
		data = data[len(piece):]
	}
	return written, nil
}

// Close implements io.Closer. What was written still arrives, if nobody reads or
// writes any longer; whoever does is stopped.
func (s *stream) Close() error {
	defer s.close()
	if !s.writing.TryLock() {
		return nil
	}
	defer s.writing.Unlock()
	if !s.reading.TryLock() {
		return nil
	}
	defer s.reading.Unlock()
	if err := s.tunnel.CloseSend(); err != nil {
		return err
	}
	tooLate := time.AfterFunc(closePatience, s.close)
	defer tooLate.Stop()
	for {
		if _, err := s.tunnel.Recv(); err != nil {
			return nil // the other end has gone
		}
	}
}

// Slowed is a stream whose writes go no faster than the pace allows, beside what else
// slows them.
func Slowed(ctx context.Context, stream io.ReadWriteCloser, pace *Pace) io.ReadWriteCloser {
	if pace == nil {
		return stream
	}
	return &slowed{ReadWriteCloser: stream, ctx: ctx, pace: pace}
}

type slowed struct {
	io.ReadWriteCloser
	ctx  context.Context
	pace *Pace
}

// Write implements io.Writer.
func (s *slowed) Write(data []byte) (written int, err error) {
	for len(data) > 0 {
		piece := data[:min(len(data), messageBytes)]
		if err := s.pace.wait(s.ctx, len(piece)); err != nil {
			return written, err
		}
		n, err := s.ReadWriteCloser.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
		data = data[n:]
	}
	return written, nil
}

// closePatience is how long the other end of a tunnel may take to read what was
// written last.
const closePatience = 10 * time.Second

// Pace limits what a node sends over all its tunnels to so many bytes a second.
// nil lets everything pass.
type Pace struct {
	rate int64

	mu   sync.Mutex
	next time.Time // when the next byte may go
}

// NewPace answers a pace of so many bytes a second; nil for 0.
func NewPace(rate int64) *Pace {
	if rate <= 0 {
		return nil
	}
	return &Pace{rate: rate}
}

// wait returns when so many bytes may be sent.
func (p *Pace) wait(ctx context.Context, bytes int) error {
	if p == nil {
		return ctx.Err()
	}
	p.mu.Lock()
	now := time.Now()
	begin := p.next
	if begin.Before(now) {
		begin = now
	}
	p.next = begin.Add(time.Duration(int64(bytes) * int64(time.Second) / p.rate))
	p.mu.Unlock()
	timer := time.NewTimer(begin.Sub(now))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
