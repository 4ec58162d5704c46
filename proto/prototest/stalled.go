package prototest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
)

// This file is the client that no library of gRPC's will be: it says that a message comes,
// and sends only a part of it; or it asks, and does not read the answer.

// Stalled makes calls that stall. Several go over one connection.
type Stalled struct {
	transport *http.Transport
	cancel    context.CancelFunc
	ctx       context.Context
	calls     sync.WaitGroup
}

// NewStalled connects by dial, at the first call.
func NewStalled(t testing.TB, dial func(context.Context) (net.Conn, error)) *Stalled {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	s := &Stalled{transport: &http.Transport{
		Protocols:   protocols,
		HTTP2:       &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 64 << 20, MaxConcurrentStreams: 1 << 16},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	t.Cleanup(s.Leave)
	return s
}

// Leave hangs up.
func (s *Stalled) Leave() {
	s.cancel()
	s.calls.Wait()
	s.transport.CloseIdleConnections()
}

// Promise begins a call with some messages, and one more of so many bytes, of which it sends
// those that are taken, except for the last. status is sent what the call ends with, if it does ("" = the
// connection broke).
func (s *Stalled) Promise(method string, bytes int, before ...proto.Message) (status <-chan string) {
	var sent []byte
	for _, message := range before {
		sent = append(sent, framed(message)...)
	}
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(bytes))
	body := io.MultiReader(&once{data: append(sent, prefix...)}, io.LimitReader(zeros{}, int64(bytes-1)), waiting{s.ctx})
	return s.call(method, body, true)
}

// Ask makes a call and does not read its answer.
func (s *Stalled) Ask(method string, request proto.Message) (status <-chan string) {
	return s.call(method, &once{data: framed(request)}, false)
}

// framed is a message as gRPC sends it.
func framed(message proto.Message) []byte {
	data := Marshal(message)
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(data))), data...)
}

func (s *Stalled) call(method string, body io.Reader, read bool) <-chan string {
	status := make(chan string, 1)
	s.calls.Go(func() {
		request, err := http.NewRequestWithContext(s.ctx, http.MethodPost, "http://gleaner"+method, body)
		if err != nil {
			status <- err.Error()
			return
		}
		request.Header.Set("Content-Type", "application/grpc")
		request.Header.Set("TE", "trailers")
		answer, err := s.transport.RoundTrip(request)
		if err != nil {
			status <- ""
			return
		}
		defer answer.Body.Close()
		if read {
			_, _ = io.Copy(io.Discard, answer.Body)
		} else if answer.Header.Get("Grpc-Status") == "" {
			<-s.ctx.Done()
		}
		said := answer.Trailer.Get("Grpc-Status")
		if said == "" {
			said = answer.Header.Get("Grpc-Status")
		}
		status <- said
	})
	return status
}

// once is a reader of its data.
type once struct{ data []byte }

func (o *once) Read(into []byte) (int, error) {
	if len(o.data) == 0 {
		return 0, io.EOF
	}
	n := copy(into, o.data)
	o.data = o.data[n:]
	return n, nil
}

type zeros struct{}

func (zeros) Read(into []byte) (int, error) {
	clear(into)
	return len(into), nil
}

// waiting has nothing to read until its context ends.
type waiting struct{ ctx context.Context }

func (w waiting) Read([]byte) (int, error) {
	<-w.ctx.Done()
	return 0, io.EOF
}

// Heap is how many bytes of this process are in use.
func Heap() int64 {
	runtime.GC()
	var is runtime.MemStats
	runtime.ReadMemStats(&is)
	return int64(is.HeapAlloc)
}
