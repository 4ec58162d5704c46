package replica

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// pipes is a network of two ends in memory.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func (p pipes) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	here, there := net.Pipe()
	p.accepted <- there
	return here, nil
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { close(p.closed); return nil }
func (pipes) Addr() net.Addr { return peerAddress("c1:1") }

// TestPipelineEndsAtARefusal: raft reads no answer after the first that is a
// refusal, which must not keep who sends waiting for good.
func TestPipelineEndsAtARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: pipes{make(chan net.Conn, 1), make(chan struct{})}, MaxPool: 4, Timeout: rpcLimit, MaxRPCsInFlight: 2,
		})
		defer transport.Close()
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			for {
				select {
				case rpc := <-transport.Consumer():
					rpc.Respond(&raft.AppendEntriesResponse{Term: 2}, nil)
				case <-ended:
					return
				}
			}
		}()
		p, err := limited{around{transport}}.AppendEntriesPipeline("c2", "c2:1")
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		go func() { <-p.Consumer() }() // one answer, as raft does
		over := make(chan int)
		go func() {
			for n := 0; ; n++ {
				if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 1}, new(raft.AppendEntriesResponse)); err != nil {
					over <- n
					return
				}
			}
		}()
		select {
		case <-over:
		case <-time.After(time.Hour):
			t.Error("who sends waits for ever")
			_ = p.Close()
			<-over
		}
	})
}
