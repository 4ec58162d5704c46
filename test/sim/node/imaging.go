package node

import (
	"time"

	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// keepImages has what no job needs deleted, when the stores have been looked
// into: they may be slow. Only the latest order counts.
func (d *Daemon) keepImages(order *pb.KeepImages) {
	n, waits := d.Node, d.keep != nil
	d.keep = registry.NewKeep(order, n.Name, d.time())
	if waits {
		return
	}
	delay := n.between(time.Millisecond, time.Second)
	if n.World.Rand().IntN(8) == 0 {
		delay = n.between(time.Second, 30*time.Second)
	}
	d.Host.After(delay, func() {
		order := d.keep
		d.keep = nil
		d.deleteImages(order)
	})
}

// deleteImages deletes what this node made and no job needs.
func (d *Daemon) deleteImages(order *registry.Keep) {
	if order.Late(d.time()) {
		return
	}
	deleted := false
	for _, i := range d.Node.Made() {
		image := registry.Image{Job: i.Key.Job, Number: i.Number, Digest: i.Digest, Node: i.Node.Name, Own: i.Store == ""}
		if d.registry.Keeps(order, image) {
			continue
		}
		d.Node.trace("deletes %s", i)
		d.Node.World.ImageDeleted(i)
		i.Remove()
		deleted = true
	}
	for _, i := range d.Node.Copies() {
		image := registry.Image{Job: i.Key.Job, Number: i.Number, Digest: i.Digest, Node: i.Node.Name, Own: true}
		if d.registry.Keeps(order, image) {
			continue
		}
		d.Node.trace("deletes its copy of %s", i)
		d.Node.World.CopyDeleted(d.Node, i)
		d.Node.DropCopy(i)
		deleted = true
	}
	if deleted {
		d.sendHeld()
	}
}

// fetchImage copies an image of another node, which takes a while, and fails at times.
func (d *Daemon) fetchImage(order *pb.FetchImage) {
	n, want := d.Node, order.GetImage()
	delay := n.between(100*time.Millisecond, 20*time.Second)
	d.registry.Fetches(string(want.GetDigest()), d.time())
	d.Host.After(delay, func() {
		answer := &pb.ImageFetched{Image: want}
		switch i, _ := n.reach(want); {
		case n.Images[string(want.GetDigest())] != nil:
		case i == nil:
			answer.Error = "the image did not come"
		case i.Damaged || i.Spoiled:
			answer.Error = "a chunk is not what it was"
		case n.World.Rand().IntN(8) == 0:
			answer.Error = "no room"
		default:
			n.trace("has a copy of %s", i)
			n.Images[i.Digest] = i
		}
		d.registry.Fetches(string(want.GetDigest()), d.time())
		d.sendHeld()
		d.Host.Send(&pb.NodeMessage{What: &pb.NodeMessage_ImageFetched{ImageFetched: answer}})
	})
}

func (d *Daemon) sendHeld() {
	d.Host.Send(&pb.NodeMessage{What: &pb.NodeMessage_ImagesHeld{ImagesHeld: &pb.ImagesHeld{Images: d.Node.held()}}})
}

func (d *Daemon) sendHeldSoon() { d.Host.After(d.Node.between(0, time.Second), d.sendHeld) }

// askRestore answers whether this node could resume a job from an image.
func (d *Daemon) askRestore(order *pb.AskRestore) {
	n := d.Node
	delay := n.between(time.Millisecond, 3*time.Second)
	if n.World.Rand().IntN(16) == 0 {
		delay = n.between(time.Second, time.Minute)
	}
	d.Host.After(delay, func() {
		property, reason := n.misfit(order)
		d.Host.Send(&pb.NodeMessage{What: &pb.NodeMessage_RestoreAnswer{RestoreAnswer: &pb.RestoreAnswer{
			Token: order.GetToken(), Can: property == "", Property: property, Reason: reason,
		}}})
	})
}

func (n *Node) misfit(order *pb.AskRestore) (property, reason string) {
	gpus := 0
	for _, model := range order.GetDeviceModels() {
		if model == n.Model {
			gpus++
		}
	}
	i, property := n.reach(order.GetImage())
	switch {
	case property != "":
		return property, "no such image"
	case i.Spoiled:
		return imageProperty, "its manifest is not one"
	case !n.CRIU:
		return "CRIU", "it has none"
	case gpus < len(order.GetDeviceModels()) || gpus > int(n.GPUs):
		return "GPU", "not as many of that model"
	case i.Node.Kernel != n.Kernel:
		return "kernel", "it is another"
	case i.Differs(n):
		return "file", "a file that the job has open is another here"
	}
	return "", ""
}
