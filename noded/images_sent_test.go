package noded

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/checkpoint/store"
	"github.com/gleaner-hpc/gleaner/noded/images"
	"github.com/gleaner-hpc/gleaner/noded/images/direct"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/tunneldata"
)

// Tunnel is the controller's end, at which the test plays the other node.
func (c *fakeController) Tunnel(stream pb.NodeLink_TunnelServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	over := make(chan struct{})
	c.tunnels <- &fakeTunnel{open: first.GetOpen(), stream: stream, over: over}
	<-over
	return nil
}

type fakeTunnel struct {
	open   *pb.TunnelOpen
	stream pb.NodeLink_TunnelServer
	over   chan struct{}
}

// serverEnd is a server's stream, which has no CloseSend: a controller says so
// instead.
type serverEnd struct{ pb.NodeLink_TunnelServer }

func (e serverEnd) CloseSend() error {
	return e.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}})
}

// TestSendImage: an image comes through a tunnel byte by byte, no faster than
// the node's rate; one that is not there is told so.
func TestSendImage(t *testing.T) {
	controller, s, _, n := setUp(t, savingMachine(t), func(m *machine) { m.config.Checkpoint.Rate = 64 << 10 })
	image := n.putImage(7, 1, "n1")
	fetch := func(image *pb.Image) error {
		dial := func(context.Context) (io.ReadWriteCloser, error) {
			s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_SendImage{SendImage: &pb.SendImage{Image: image, Channel: "c1"}}})
			select {
			case tunnel := <-controller.tunnels:
				if tunnel.open.Channel != "c1" || tunnel.open.FromNode != "n1" || string(tunnel.open.Image.GetDigest()) != string(image.Digest) {
					t.Errorf("opened %v", tunnel.open)
				}
				return images.Stream(context.Background(), serverEnd{tunnel.stream}, nil, func() { close(tunnel.over) }), nil
			case <-time.After(patience):
				return nil, errors.New("the node does not come")
			}
		}
		digest, err := images.Digest(image)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		into := filepath.Join(t.TempDir(), "got")
		if err := store.NewRemote(dial).Get(ctx, digest, into); err != nil {
			return err
		}
		if data, err := os.ReadFile(filepath.Join(into, "pages")); err != nil || string(data) != "\x07\x01" {
			t.Errorf("got %q, %v", data, err)
		}
		return nil
	}
	if err := fetch(image); err != nil {
		t.Error(err)
	}
	foreign := &pb.Image{Alloc: &pb.AllocId{Job: 8, Epoch: 1}, Digest: image.Digest, Node: "n1"}
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_SendImage{SendImage: &pb.SendImage{Image: foreign, Channel: "c2"}}})
	select {
	case tunnel := <-controller.tunnels:
		t.Errorf("another job's image is served: %v", tunnel.open)
	case <-time.After(200 * time.Millisecond):
	}
	gone := &pb.Image{Alloc: image.Alloc, Digest: make([]byte, 32), Node: "n1"}
	if err := fetch(gone); !errors.Is(err, store.ErrNoImage) {
		t.Errorf("an image that is not there: %v", err)
	}
}

// TestSendImageStraight: where the configuration says so, an image goes over a port that
// is opened for it, to whoever has the key that the controllers told of; otherwise through
// the tunnel.
func TestSendImageStraight(t *testing.T) {
	for _, port := range []string{"127.0.0.1:0", ""} {
		controller, s, _, n := setUp(t, savingMachine(t), func(m *machine) {
			if port != "" {
				ports, err := direct.ParsePorts(port)
				if err != nil {
					t.Fatal(err)
				}
				m.config.Checkpoint.Direct = &ports
			}
		})
		image := n.putImage(7, 1, "n1")
		digest, err := images.Digest(image)
		if err != nil {
			t.Fatal(err)
		}
		var through atomic.Int64
		dialer := images.Dialer{Direct: true, Log: n.agent.log, Tunnel: func(_ context.Context, sum []byte) (images.Tunnel, func(), error) {
			s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_SendImage{SendImage: &pb.SendImage{Image: image, Channel: "c1", Direct: sum}}})
			tunnel := prototest.Receive(t, "a tunnel", controller.tunnels)
			return counted{serverEnd{tunnel.stream}, &through}, sync.OnceFunc(func() { close(tunnel.over) }), nil
		}}
		into := filepath.Join(t.TempDir(), "got")
		if err := store.NewRemote(dialer.Dial).Get(t.Context(), digest, into); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(filepath.Join(into, "pages")); err != nil || string(data) != "\x07\x01" {
			t.Errorf("got %q, %v", data, err)
		}
		if bytes := through.Load(); (bytes == 0) != (port != "") {
			t.Errorf("with port %q, %d bytes came through the tunnel", port, bytes)
		}
	}
}

// counted counts the bytes that come through a tunnel.
type counted struct {
	images.Tunnel
	bytes *atomic.Int64
}

func (c counted) RecvMsg(message any) error {
	err := c.Tunnel.RecvMsg(message)
	if n, is := tunneldata.Of(message.(*passon.Message)); err == nil && is {
		c.bytes.Add(int64(n))
	}
	return err
}

// end is the controller's end of the next tunnel, as a stream.
func (c *fakeController) end(t *testing.T) (*pb.TunnelOpen, io.ReadWriteCloser) {
	t.Helper()
	tunnel := prototest.Receive(t, "a tunnel", c.tunnels)
	return tunnel.open, images.Stream(context.Background(), serverEnd{tunnel.stream}, nil, func() { close(tunnel.over) })
}

// TestSendFacts: to a node that was only asked nothing but facts is sent, whatever
// it asks for.
func TestSendFacts(t *testing.T) {
	controller, s, _, n := setUp(t, savingMachine(t))
	image := n.putImage(7, 1, "n1")
	digest, err := images.Digest(image)
	if err != nil {
		t.Fatal(err)
	}
	remote := store.NewRemote(func(context.Context) (io.ReadWriteCloser, error) {
		s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_SendImage{SendImage: &pb.SendImage{Image: image, Channel: "c1", Facts: true}}})
		open, stream := controller.end(t)
		if !open.Facts {
			t.Errorf("opened %v", open)
		}
		return stream, nil
	})
	if facts, err := remote.Facts(t.Context(), digest); err != nil || facts.Job != 7 {
		t.Errorf("facts: %v, %v", facts, err)
	}
	if _, err := remote.Open(t.Context(), digest); !errors.Is(err, store.ErrNoImage) {
		t.Errorf("the image itself: %v", err)
	}
}

// TestLyingHolder: the node that is said to have an image tells the facts of another
// one: of another job, run, number or node.
func TestLyingHolder(t *testing.T) {
	controller, s, _, n := setUp(t, savingMachine(t))
	for name, change := range map[string]func(*checkpoint.Manifest){
		"the truth":      func(*checkpoint.Manifest) {},
		"another job":    func(m *checkpoint.Manifest) { m.Job = 8 },
		"another run":    func(m *checkpoint.Manifest) { m.Epoch = 2 },
		"another number": func(m *checkpoint.Manifest) { m.Number = 2 },
		"another node":   func(m *checkpoint.Manifest) { m.Node = "n3" },
	} {
		told := n.putImage(7, 1, "n2", change)
		digest, err := images.Digest(told)
		if err != nil {
			t.Fatal(err)
		}
		lies, err := n.agent.imaging.stores.Open(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			open, stream := controller.end(t)
			if !open.Facts || open.TargetNode != "n2" {
				t.Errorf("%s: an asked node opened %v", name, open)
			}
			_ = store.ServeFacts(context.Background(), stream, lies, digest) // how it ends is seen in the answer
		}()
		answer := s.askRestore(&pb.Image{Alloc: &pb.AllocId{Job: 7, Epoch: 1}, Number: 1, Digest: told.Digest, Node: "n2"}, nil)
		if honest := name == "the truth"; answer.Can != honest || !honest && (answer.Property != "image" || !strings.Contains(answer.Reason, "another image")) {
			t.Errorf("%s: answered %v", name, answer)
		}
	}
}
