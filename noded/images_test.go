package noded

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/checkpoint/store"
	"github.com/gleaner-hpc/gleaner/noded/images"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// savingMachine is a machine with a store and a CRIU that is never started.
func savingMachine(t *testing.T) func(*machine) {
	directory := filepath.Join(t.TempDir(), "images")
	return func(m *machine) {
		m.config.Checkpoint.Store = directory
		m.engine = &checkpoint.Engine{Path: "/criu", Version: "4.2"}
		m.saving = &pb.Saving{Criu: "4.2"}
	}
}

// putImage puts an image of a job into the node's store.
func (n *node) putImage(job, number uint32, made string, change ...func(*checkpoint.Manifest)) *pb.Image {
	n.t.Helper()
	ctx := context.Background()
	here, err := checkpoint.ThisMachine(ctx, n.agent.machine.engine)
	if err != nil {
		n.t.Fatal(err)
	}
	files := n.t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "pages"), []byte{byte(job), byte(number)}, 0o600); err != nil {
		n.t.Fatal(err)
	}
	m := &checkpoint.Manifest{
		Version: checkpoint.ManifestVersion, Job: job, Epoch: 1, Number: number, Node: made, Machine: here,
		Parts: []checkpoint.Part{{Name: "pages", Size: 2}},
	}
	for _, f := range change {
		f(m)
	}
	s, err := n.agent.imaging.stores.Open(ctx, "")
	if err != nil {
		n.t.Fatal(err)
	}
	receipt, err := s.Put(ctx, m, files)
	if err != nil {
		n.t.Fatal(err)
	}
	return &pb.Image{Part: &pb.PartId{Job: job, Epoch: 1}, Number: number, Digest: receipt.Digest[:], Node: made, Bytes: 2}
}

func (n *node) held() (numbers []uint32) {
	n.t.Helper()
	s, err := n.agent.imaging.stores.Open(context.Background(), "")
	if err != nil {
		n.t.Fatal(err)
	}
	all, err := s.List(context.Background())
	if err != nil {
		n.t.Fatal(err)
	}
	for _, about := range all {
		numbers = append(numbers, about.Job*10+about.Number)
	}
	return numbers
}

// TestImagesHeld: what lies in the stores is told when it changes, and at each
// registration.
func TestImagesHeld(t *testing.T) {
	controller, s, _, n := setUp(t, savingMachine(t))
	image := n.putImage(7, 1, "n1")
	n.agent.lookAtImages()
	for {
		held := expect(s, "ImagesHeld", (*pb.NodeMessage).GetImagesHeld)
		if len(held.Images) == 1 && held.UsedBytes > 0 && string(held.Images[0].Digest) == string(image.Digest) && held.Images[0].Number == 1 {
			break
		}
	}
	n.stop()
	startNode(t, n.socket, newFakeShims(t), func(m *machine) { m.config.Checkpoint = n.agent.machine.config.Checkpoint })
	for s = controller.next(); ; {
		if len(s.register.Images) == 1 || len(expect(s, "ImagesHeld", (*pb.NodeMessage).GetImagesHeld).Images) == 1 {
			return
		}
	}
}

// TestBrokenOffSave: what a writer left that is dead is removed, though nobody
// saves anything again.
func TestBrokenOffSave(t *testing.T) {
	_, _, _, n := setUp(t, savingMachine(t))
	n.held() // makes the store
	left := filepath.Join(n.agent.machine.config.Checkpoint.Store, "making", "0123456789abcdef-1-1-LEFT")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, "X.pack"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(left, long, long); err != nil {
		t.Fatal(err)
	}
	n.agent.lookAtImages()
	eventually(t, "it is gone", func() bool {
		_, err := os.Lstat(left)
		return errors.Is(err, os.ErrNotExist)
	})
}

// TestKeepImages: what no job needs is deleted, but not what another node made,
// and not what nobody may have heard of yet.
func TestKeepImages(t *testing.T) {
	_, s, shims, n := setUp(t, savingMachine(t))
	order := startOrder(8, 2)
	order.Restore = n.putImage(8, 1, "n1")
	s.start(order)
	shims.get(8, 2).ready()
	s.ready()
	n.putImage(7, 1, "n1")
	kept := n.putImage(7, 2, "n1")
	n.putImage(8, 2, "n1") // of a part that is here, and newer than what is named
	n.putImage(9, 1, "n2")
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_KeepImages{KeepImages: &pb.KeepImages{Images: []*pb.Image{kept}}}})
	eventually(t, "what no job needs is gone", func() bool { return slices.Equal(n.held(), []uint32{72, 81, 82, 91}) })
}

// TestKeepImagesLate: an order to keep images that waits for a slow store was given
// by somebody who has not heard of what was saved since. It deletes none of that,
// though the part is gone by then.
func TestKeepImagesLate(t *testing.T) {
	_, s, shims, n := setUp(t, savingMachine(t))
	a := n.agent
	s.start(startOrder(8, 2))
	shims.get(8, 2).ready()
	s.ready()
	named := n.putImage(8, 1, "n1")
	n.putImage(8, 2, "n1")
	n.putImage(7, 1, "n1")
	order := keepOrder{&pb.KeepImages{Images: []*pb.Image{named}}, time.Now()}
	a.mu.Lock()
	delete(a.parts, partKey{8, 2})
	a.partLeft(8)
	a.mu.Unlock()
	a.deleteImages(context.Background(), order)
	if held := n.held(); !slices.Equal(held, []uint32{81, 82}) {
		t.Fatalf("images %v are left", held)
	}
	order.came = time.Now()
	a.deleteImages(context.Background(), order)
	if held := n.held(); !slices.Equal(held, []uint32{81}) {
		t.Fatalf("of an order that came after the part had gone, images %v are left", held)
	}
	n.putImage(7, 1, "n1")
	order.came = order.came.Add(-2 * keepLasts)
	a.deleteImages(context.Background(), order)
	if held := n.held(); !slices.Equal(held, []uint32{71, 81}) {
		t.Fatalf("an order that is too old was carried out: images %v are left", held)
	}
}

// TestAskRestore: whether a node could go on with an image, and by which
// property not.
func TestAskRestore(t *testing.T) {
	_, s, _, n := setUp(t, savingMachine(t))
	sound := n.putImage(7, 1, "n1")
	older := n.putImage(7, 2, "n1", func(m *checkpoint.Manifest) { m.Machine.Kernel = "99.0.0" })
	library := n.putImage(7, 3, "n1", func(m *checkpoint.Manifest) {
		m.Files = []checkpoint.File{{Path: "/nonexistent/lib.so", Size: 1}}
	})
	gone := &pb.Image{Part: sound.Part, Digest: make([]byte, 32), Node: "n1"}
	for _, row := range []struct {
		image    *pb.Image
		models   []string
		property string
	}{
		{sound, nil, ""},
		{sound, []string{"standin", "standin"}, ""},
		{sound, []string{"standin", "standin", "standin"}, "GPU"},
		{sound, []string{"h100"}, "GPU"},
		{older, nil, "kernel"},
		{library, nil, "file /nonexistent/lib.so"},
		{gone, nil, "image"},
		{&pb.Image{}, nil, "image"},
	} {
		answer := s.askRestore(row.image, row.models)
		if answer.Token != "t" || answer.Can != (row.property == "") || answer.Property != row.property || answer.Can != (answer.Reason == "") {
			t.Errorf("%v, %v: %v", row.image, row.models, answer)
		}
	}
}

// askRestore asks whether the node could go on with an image.
func (s *fakeSession) askRestore(image *pb.Image, models []string) *pb.RestoreAnswer {
	s.t.Helper()
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_AskRestore{AskRestore: &pb.AskRestore{
		Token: "t", Image: image, DeviceModels: models}}})
	return expect(s, "RestoreAnswer", (*pb.NodeMessage).GetRestoreAnswer)
}

// TestAskRestoreOfSilentNode: the node that has the image does not answer.
func TestAskRestoreOfSilentNode(t *testing.T) {
	askPatience = time.Second
	t.Cleanup(func() { askPatience = time.Minute })
	_, s, _, n := setUp(t, savingMachine(t))
	elsewhere := n.putImage(7, 1, "n1")
	elsewhere.Node = "n2"
	if answer := s.askRestore(elsewhere, nil); answer.Can || answer.Property != "store" {
		t.Errorf("answered %v", answer)
	}
}

func TestAskRestoreWithoutCRIU(t *testing.T) {
	_, s, _, _ := setUp(t, func(m *machine) { m.saving = &pb.Saving{WhyNot: "install it"} })
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_AskRestore{AskRestore: &pb.AskRestore{Token: "t"}}})
	answer := expect(s, "RestoreAnswer", (*pb.NodeMessage).GetRestoreAnswer)
	if answer.Can || answer.Property != "CRIU" || answer.Reason != "install it" {
		t.Errorf("answered %v", answer)
	}
}

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
	foreign := &pb.Image{Part: &pb.PartId{Job: 8, Epoch: 1}, Digest: image.Digest, Node: "n1"}
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_SendImage{SendImage: &pb.SendImage{Image: foreign, Channel: "c2"}}})
	select {
	case tunnel := <-controller.tunnels:
		t.Errorf("another job's image is served: %v", tunnel.open)
	case <-time.After(200 * time.Millisecond):
	}
	gone := &pb.Image{Part: image.Part, Digest: make([]byte, 32), Node: "n1"}
	if err := fetch(gone); !errors.Is(err, store.ErrNoImage) {
		t.Errorf("an image that is not there: %v", err)
	}
}
