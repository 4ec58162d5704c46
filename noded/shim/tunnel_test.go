package shim

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// slowTunnel is a stream that sends slowly and ends when it has both got data
// for the local end and heard that this has closed.
type slowTunnel struct {
	tunnelStream
	sent   chan *pb.TunnelMessage
	closed chan struct{}
	first  bool
}

func (s *slowTunnel) Send(m *pb.TunnelMessage) error {
	time.Sleep(30 * time.Millisecond)
	s.sent <- m
	return nil
}

func (s *slowTunnel) CloseSend() error {
	close(s.closed)
	return nil
}

func (s *slowTunnel) Recv() (*pb.TunnelMessage, error) {
	if !s.first {
		s.first = true
		return &pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: []byte("late input")}}, nil
	}
	select {
	case <-s.closed:
	case <-time.After(5 * time.Second):
	}
	return nil, io.EOF
}

// Input for a step that has just ended does not cost its last words.
func TestPumpToADeafEnd(t *testing.T) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	must(t, err)
	defer listener.Close()
	ours, err := net.Dial("unix", listener.Addr().String())
	must(t, err)
	defer ours.Close()
	theirs, err := listener.Accept()
	must(t, err)
	_, err = theirs.Write([]byte("done"))
	must(t, err)
	must(t, theirs.Close())
	stream := &slowTunnel{sent: make(chan *pb.TunnelMessage, 4), closed: make(chan struct{})}
	pump(ours, stream)
	close(stream.sent)
	var got []string
	for m := range stream.sent {
		if m.GetHalfClose() {
			got = append(got, "closed")
		} else {
			got = append(got, string(m.GetData()))
		}
	}
	if len(got) != 2 || got[0] != "done" || got[1] != "closed" {
		t.Errorf("sent %q", got)
	}
}
