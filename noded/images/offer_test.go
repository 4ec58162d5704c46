package images

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/images/direct"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
)

// end is one end of a tunnel in memory.
type end struct {
	ctx     context.Context
	in, out chan *pb.TunnelMessage
	half    sync.Once
	data    *atomic.Int64 // bytes that came through the tunnel
}

func (e *end) Send(m *pb.TunnelMessage) error {
	e.data.Add(int64(len(m.GetData())))
	select {
	case e.out <- m:
		return nil
	case <-e.ctx.Done():
		return io.EOF
	}
}

func (e *end) CloseSend() error {
	e.half.Do(func() { close(e.out) })
	return nil
}

func (e *end) Recv() (*pb.TunnelMessage, error) {
	select {
	case m, open := <-e.in:
		if !open {
			return nil, io.EOF
		}
		return m, nil
	case <-e.ctx.Done():
		return nil, e.ctx.Err()
	}
}

func (e *end) RecvMsg(into any) error {
	m, err := e.Recv()
	if err != nil {
		return err
	}
	data, err := passon.Codec{}.Marshal(m)
	if err != nil {
		return err
	}
	defer data.Free()
	return passon.Codec{}.Unmarshal(data, into)
}

// bed is a node that has an image, and one that wants it.
type bed struct {
	t       *testing.T
	offered Offered
	spoil   func(*pb.TunnelMessage) // what is offered
	dialer  Dialer
	through atomic.Int64
	served  chan error
	opened  int
}

const image = "what the job had in memory"

func newBed(t *testing.T, address string) *bed {
	b := &bed{t: t, served: make(chan error, 8), spoil: func(*pb.TunnelMessage) {}}
	b.offered.Log = slog.New(slog.DiscardHandler)
	if address != "" {
		ports, err := direct.ParsePorts(address)
		if err != nil {
			t.Fatal(err)
		}
		b.offered.Ports = &ports
	}
	b.dialer = Dialer{Direct: true, Log: b.offered.Log, Tunnel: b.tunnel}
	return b
}

func (b *bed) tunnel(ctx context.Context, sum []byte) (Tunnel, func(), error) {
	b.opened++
	ctx, cancel := context.WithCancel(ctx)
	there, here := make(chan *pb.TunnelMessage, 4), make(chan *pb.TunnelMessage, 4)
	ours := &end{ctx: ctx, in: here, out: there, data: &b.through}
	theirs := &end{ctx: ctx, in: there, out: here, data: &b.through}
	offered := b.offered
	offered.Sum = sum
	go func() {
		through := Stream(ctx, theirs, nil, func() {})
		if len(sum) == 0 {
			b.served <- b.serve(through)
			return
		}
		b.served <- Offer(b.t.Context(), offered, spoiling{theirs, b.spoil}, through, b.serve)
	}()
	return ours, cancel, nil
}

type spoiling struct {
	Tunnel
	spoil func(*pb.TunnelMessage)
}

func (s spoiling) Send(m *pb.TunnelMessage) error {
	s.spoil(m)
	return s.Tunnel.Send(m)
}

var errNotAsked = errors.New("nobody asked")

// serve answers one byte with the image.
func (b *bed) serve(stream io.ReadWriteCloser) error {
	defer stream.Close()
	if _, err := io.ReadFull(stream, make([]byte, 1)); err != nil {
		return errNotAsked
	}
	_, err := io.WriteString(stream, image)
	return err
}

// get fetches the image once, and answers how many of its bytes came through the tunnel.
func (b *bed) get() int64 {
	b.t.Helper()
	before := b.through.Load()
	stream, err := b.dialer.Dial(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := stream.Write([]byte("?")); err != nil {
		b.t.Fatal(err)
	}
	got := make([]byte, len(image))
	if _, err := io.ReadFull(stream, got); err != nil || string(got) != image {
		b.t.Fatalf("got %q, %v", got, err)
	}
	go stream.Close()
	select {
	case err := <-b.served:
		if err != nil {
			b.t.Error(err)
		}
	case <-time.After(10 * time.Second):
		b.t.Fatal("the other end does not end")
	}
	return b.through.Load() - before
}

// TestStraight: no byte of an image goes through the tunnel if one node can come to the
// other.
func TestStraight(t *testing.T) {
	if n := newBed(t, "127.0.0.1:0").get(); n != 0 {
		t.Errorf("%d bytes went through the tunnel", n)
	}
}

// TestNotStraight: the image comes through the tunnel where a node opens no port, may not
// connect, is offered a port that nobody answers or somebody else has; and whether it
// works is tried once.
func TestNotStraight(t *testing.T) {
	const all = int64(len(image) + 1)
	foreign := func(b *bed) {
		b.spoil = func(m *pb.TunnelMessage) { m.GetDirect().Certificate = make([]byte, direct.SumBytes) }
	}
	for name, row := range map[string]struct {
		address string
		change  func(*bed)
	}{
		"no port":             {"", func(*bed) {}},
		"may not connect":     {"127.0.0.1:0", func(b *bed) { b.dialer.Direct = false }},
		"not its own address": {"192.0.2.1:0", func(*bed) {}},
		"nobody answers": {"127.0.0.1:0", func(b *bed) {
			b.spoil = func(m *pb.TunnelMessage) { m.GetDirect().Address = "127.0.0.1:1" }
		}},
		"somebody else": {"127.0.0.1:0", foreign},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, row.address)
			row.change(b)
			for range 2 {
				if n := b.get(); n != all {
					t.Errorf("%d of %d bytes went through the tunnel", n, all)
				}
			}
			if b.dialer.Direct && !b.dialer.failed.Load() {
				t.Error("it would be tried again")
			}
		})
	}
}

// TestStraightBreaks: after a connection that broke, the tunnel is taken.
func TestStraightBreaks(t *testing.T) {
	b := newBed(t, "127.0.0.1:0")
	stream, err := b.dialer.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stream.Close()
	if _, err := stream.Read(make([]byte, 1)); err == nil {
		t.Fatal("a closed stream is read")
	}
	if err := <-b.served; !errors.Is(err, errNotAsked) {
		t.Errorf("served: %v", err)
	}
	if n := b.get(); n == 0 {
		t.Error("the other way is tried again")
	}
}
