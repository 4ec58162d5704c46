package noded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/registry"
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
	return &pb.Image{Alloc: &pb.AllocId{Job: job, Epoch: 1}, Number: number, Digest: receipt.Digest[:], Node: made, Bytes: 2}
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

// TestKeepImages: what no job needs is deleted, also a copy of what another node made, but
// not what nobody may have heard of yet.
func TestKeepImages(t *testing.T) {
	_, s, shims, n := setUp(t, savingMachine(t))
	order := startOrder(8, 2)
	order.Restore = n.putImage(8, 1, "n1")
	s.start(order)
	shims.get(8, 2).ready()
	s.ready()
	n.putImage(7, 1, "n1")
	kept := n.putImage(7, 2, "n1")
	n.putImage(8, 2, "n1") // of an allocation that is here, and newer than what is named
	n.putImage(9, 1, "n2")
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_KeepImages{KeepImages: &pb.KeepImages{Images: []*pb.Image{kept}}}})
	eventually(t, "what no job needs is gone", func() bool { return slices.Equal(n.held(), []uint32{72, 81, 82}) })
}

// TestKeepImagesLate: an order to keep images that waits for a slow store does not delete
// what was saved since it came. registry's TestKeeps has the other cases.
func TestKeepImagesLate(t *testing.T) {
	_, s, shims, n := setUp(t, savingMachine(t))
	a := n.agent
	s.start(startOrder(8, 2))
	shims.get(8, 2).ready()
	s.ready()
	named := &pb.KeepImages{Images: []*pb.Image{n.putImage(8, 1, "n1")}}
	n.putImage(8, 2, "n1")
	n.putImage(7, 1, "n1")
	order := registry.NewKeep(named, "n1", timeNow())
	a.mu.Lock()
	a.registry.Forget(a.allocs[registry.Key{Job: 8, Epoch: 2}].Alloc, timeNow())
	delete(a.allocs, registry.Key{Job: 8, Epoch: 2})
	a.mu.Unlock()
	a.deleteImages(context.Background(), order)
	if held := n.held(); !slices.Equal(held, []uint32{81, 82}) {
		t.Fatalf("images %v are left", held)
	}
	old := timeNow()
	old.Boot -= time.Hour
	a.deleteImages(context.Background(), registry.NewKeep(&pb.KeepImages{}, "n1", old))
	if held := n.held(); !slices.Equal(held, []uint32{81, 82}) {
		t.Fatalf("an order that is too old was carried out: images %v are left", held)
	}
	a.deleteImages(context.Background(), registry.NewKeep(named, "n1", timeNow()))
	if held := n.held(); !slices.Equal(held, []uint32{81}) {
		t.Fatalf("of an order that came after the allocation had gone, images %v are left", held)
	}
}

// TestAskRestore: whether a node could resume an image, and by which
// property not.
func TestAskRestore(t *testing.T) {
	_, s, _, n := setUp(t, savingMachine(t))
	sound := n.putImage(7, 1, "n1")
	older := n.putImage(7, 2, "n1", func(m *checkpoint.Manifest) { m.Machine.Kernel = "99.0.0" })
	library := n.putImage(7, 3, "n1", func(m *checkpoint.Manifest) {
		m.Files = []checkpoint.File{{Path: "/nonexistent/lib.so", Size: 1}}
	})
	gone := &pb.Image{Alloc: sound.Alloc, Digest: make([]byte, 32), Node: "n1"}
	withDevices := func(number uint32, devices ...checkpoint.Device) *pb.Image {
		return n.putImage(7, number, "n1", func(m *checkpoint.Manifest) {
			for m.Devices = devices; len(devices) > 0; devices = devices[1:] {
				m.Mounts = append(m.Mounts, devices[0].Path)
			}
		})
	}
	one, two := checkpoint.Device{Path: "/dev/elsewhere3"}, checkpoint.Device{Path: "/dev/gpu1"}
	gpus, companion := withDevices(4, one, two), withDevices(5, one, checkpoint.Device{Path: "/dev/nvidia-uvm", Companion: true})
	for _, row := range []struct {
		image    *pb.Image
		models   []string
		property string
	}{
		{sound, nil, ""},
		{gpus, []string{"standin", "standin"}, ""},
		{gpus, []string{"standin"}, "GPU"},
		{sound, []string{"standin"}, "GPU"},
		{companion, []string{"standin"}, "device /dev/nvidia-uvm"},
		{sound, []string{"standin", "standin", "standin"}, "GPU"},
		{sound, []string{"h100"}, "GPU"},
		{older, nil, "kernel"},
		{library, nil, "file /nonexistent/lib.so"},
		{gone, nil, "image"},
		{gone, []string{"h100"}, "image"},
		{&pb.Image{}, nil, "image"},
	} {
		answer := s.askRestore(row.image, row.models)
		if answer.Token != "t" || answer.Can != (row.property == "") || answer.Property != row.property || answer.Can != (answer.Reason == "") {
			t.Errorf("%v, %v: %v", row.image, row.models, answer)
		}
	}
}

// askRestore asks whether the node could resume an image.
func (s *fakeSession) askRestore(image *pb.Image, models []string) *pb.RestoreAnswer {
	s.t.Helper()
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_AskRestore{AskRestore: &pb.AskRestore{
		Token: "t", Image: image, DeviceModels: models, Start: startOrder(7, 2)}}})
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

// TestAskRestoreWithoutCRIU: a node that restores nothing still says whether it has an
// image, because it may have the last copy of one.
func TestAskRestoreWithoutCRIU(t *testing.T) {
	_, s, _, n := setUp(t, func(m *machine) {
		savingMachine(t)(m)
		m.saving = &pb.Saving{WhyNot: "install it"}
	})
	sound := n.putImage(7, 1, "n1")
	if answer := s.askRestore(sound, nil); answer.Can || answer.Property != "CRIU" || answer.Reason != "install it" {
		t.Errorf("answered %v", answer)
	}
	if answer := s.askRestore(&pb.Image{Alloc: sound.Alloc, Digest: make([]byte, 32), Node: "n1"}, nil); answer.Can || answer.Property != "image" {
		t.Errorf("of an image that is not there it answered %v", answer)
	}
}
