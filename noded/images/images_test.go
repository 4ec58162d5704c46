package images

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestPace: what is sent is spread over time, whoever sends it.
func TestPace(t *testing.T) {
	pace := NewPace(1 << 20)
	begun := time.Now()
	null := Stream(context.Background(), nowhere{}, pace, func() {})
	for range 3 {
		if _, err := null.Write(make([]byte, 128<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begun); took < 250*time.Millisecond {
		t.Errorf("384 KiB at 1 MiB a second took %v", took)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Stream(ctx, nowhere{}, pace, func() {}).Write([]byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
}

// nowhere is a tunnel that takes everything.
type nowhere struct{}

func (nowhere) Send(*pb.TunnelMessage) error     { return nil }
func (nowhere) Recv() (*pb.TunnelMessage, error) { return nil, io.EOF }
func (nowhere) RecvMsg(any) error                { return io.EOF }
func (nowhere) CloseSend() error                 { return nil }

func TestStores(t *testing.T) {
	s := New(Config{Own: t.TempDir() + "/own", Shared: []Shared{{Name: "scratch", Path: t.TempDir() + "/shared"}}})
	for _, name := range s.Names() {
		if _, err := s.Open(context.Background(), name); err != nil {
			t.Errorf("store %q: %v", name, err)
		}
	}
	if _, err := s.Open(context.Background(), "tape"); !errors.Is(err, ErrNoStore) {
		t.Errorf("a store that is not there: %v", err)
	}
	called := errors.New("called")
	dial := func(context.Context) (io.ReadWriteCloser, error) { return nil, called }
	for _, row := range []struct {
		image  *pb.Image
		remote bool
	}{
		{&pb.Image{Node: "n1"}, false},
		{&pb.Image{Node: "n2"}, true},
		{&pb.Image{Node: "n2", Store: "scratch"}, false},
		{&pb.Image{Node: "n2", Store: "tape"}, true},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		reader, err := s.Reader(ctx, row.image, "n1", dial)
		if err != nil {
			t.Fatal(err)
		}
		var digest [32]byte
		if _, err := reader.Manifest(ctx, digest); errors.Is(err, called) != row.remote && errors.Is(err, context.DeadlineExceeded) != row.remote {
			t.Errorf("%v: %v", row.image, err)
		}
		cancel()
	}
}

// TestStoreIsReplaced: a store that somebody has removed is made again, and does
// not stay what it was until the program ends.
func TestStoreIsReplaced(t *testing.T) {
	own := t.TempDir() + "/own"
	s := New(Config{Own: own})
	before, err := s.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Open(t.Context(), ""); err != nil || again != before {
		t.Errorf("opened twice: %v", err)
	}
	if err := os.RemoveAll(own); err != nil {
		t.Fatal(err)
	}
	after, err := s.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if found, err := after.List(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("the new one: %v, %v", found, err)
	}
}
