package ordered

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// image is what a node saved of a part: how much of its job's work was done by
// then.
type image struct {
	digest  string
	key     partKey // of the run
	number  uint32
	index   int      // of the part, among those of the run
	node    *machine // that made it
	store   string   // in which it lies; "" = its node's own
	done    time.Duration
	stood   time.Duration // since when its part stood for it
	ranOn   time.Duration // when that ran again; 0 = it did not
	damaged bool          // some byte is not what it was
	spoiled bool          // and so is what says what is in it
	lost    bool          // by a fault
}

// scratch is the store that some nodes share, on some days.
const scratch = "scratch"

// newImage makes an image; it is nowhere yet.
func (w *World) newImage(s *shim, x *save) *image {
	w.truth.imageCount++
	number := x.order.GetNumber()
	digest := sha256.Sum256(fmt.Appendf(nil, "%d %d %v %d", w.seed, w.truth.imageCount, s.key, number))
	i := &image{
		digest: string(digest[:]), key: s.key, number: number, index: s.index(), node: s.m, store: s.storeFor(x.order),
		done: x.done, stood: x.stood,
	}
	if s.ranAt > x.stood {
		i.ranOn = s.ranAt
	}
	s.mine = append(s.mine, i)
	w.truth.images[i.digest] = i
	return i
}

func (i *image) message() *pb.Image {
	return &pb.Image{Part: i.key.id(), Number: i.number, Digest: []byte(i.digest), Store: i.store, Node: i.node.name, Bytes: 1 << 30}
}

func (i *image) String() string { return fmt.Sprintf("image %d of part %s", i.number, i.key) }

// store is a store that the machine reaches by itself; nil = it does not.
func (m *machine) store(name string) map[string]*image {
	switch {
	case name == "":
		return m.images
	case m.reaches:
		return m.w.shared
	}
	return nil
}

// reach finds an image as this machine would: in a store, or through a tunnel to
// the node that made it. Else it says what was in the way.
func (m *machine) reach(want *pb.Image) (i *image, property string) {
	if own := m.store(want.GetStore()); own != nil && (want.GetStore() != "" || want.GetNode() == m.name) {
		if i = own[string(want.GetDigest())]; i == nil {
			return nil, "image"
		}
		return i, ""
	}
	for _, other := range m.w.machines {
		if other.name != want.GetNode() || !other.connected() || !m.connected() {
			continue
		}
		if i = other.store(want.GetStore())[string(want.GetDigest())]; i != nil {
			return i, ""
		}
	}
	return nil, "image"
}

// connected says whether a tunnel leads to this machine now.
func (m *machine) connected() bool {
	d := &m.daemon
	return d.runs() && d.conn != nil && d.joined && d.conn.passes(false) && d.conn.passes(true)
}

// held are the images that the machine reaches by itself.
func (m *machine) held() []*pb.Image {
	var all []*pb.Image
	for _, name := range []string{"", scratch} {
		for _, digest := range slices.Sorted(maps.Keys(m.store(name))) {
			all = append(all, m.store(name)[digest].message())
		}
	}
	return all
}

// there says whether it is where it should be.
func (i *image) there() bool { return i.node.store(i.store)[i.digest] == i }

// remove deletes an image, or loses it.
func (i *image) remove() { delete(i.node.store(i.store), i.digest) }

// images of the machine's own making, wherever they lie.
func (m *machine) made() []*image {
	var all []*image
	for _, name := range []string{"", scratch} {
		for _, digest := range slices.Sorted(maps.Keys(m.store(name))) {
			if i := m.store(name)[digest]; i.node == m {
				all = append(all, i)
			}
		}
	}
	return all
}

// keepImages has what no job needs deleted, when the stores have been looked
// into: they may be slow. Only the latest order counts.
func (d *daemon) keepImages(order *pb.KeepImages) {
	waits := d.keep != nil
	d.keep, d.kept = order, d.w.now
	if waits {
		return
	}
	delay := between(d.w.rng, time.Millisecond, time.Second)
	if d.w.rng.IntN(8) == 0 {
		delay = between(d.w.rng, time.Second, 30*time.Second)
	}
	d.after(delay, func() {
		order := d.keep
		d.keep = nil
		d.deleteImages(order)
	})
}

// deleteImages deletes what this node made and no job needs: all but what is
// named, and what is newer than that of parts which are here, or were since the
// order came.
func (d *daemon) deleteImages(order *pb.KeepImages) {
	named, newest, here := map[string]bool{}, map[uint32]uint32{}, map[uint32]bool{}
	for job, left := range d.left {
		here[job] = left >= d.kept && !d.w.broken.KeepsLate
	}
	for _, i := range order.GetImages() {
		named[string(i.GetDigest())] = true
		newest[i.GetPart().GetJob()] = max(newest[i.GetPart().GetJob()], i.GetNumber())
	}
	for _, p := range d.inOrder() {
		here[p.key.job] = true
		named[string(p.order.GetRestore().GetDigest())] = true
	}
	deleted := false
	for _, i := range d.m.made() {
		if named[i.digest] || here[i.key.job] && i.number > newest[i.key.job] {
			continue
		}
		d.w.trace(d.m.name, "deletes %s", i)
		d.w.truth.deleted(i)
		i.remove()
		deleted = true
	}
	if deleted {
		d.sendHeld()
	}
}

func (d *daemon) sendHeld() {
	d.send(&pb.NodeMessage{What: &pb.NodeMessage_ImagesHeld{ImagesHeld: &pb.ImagesHeld{Images: d.m.held()}}})
}
