package node

import (
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Image is what a node saved of an allocation: how much of its job's work was done by
// then.
type Image struct {
	Digest  string
	Key     registry.Key // of the run
	Number  uint32
	Index   int                 // of the allocation, among those of the run
	Node    *Node               // that made it
	Store   string              // in which it lies; "" = its node's own
	Devices []checkpoint.Device // as its allocation sees them
	Done    time.Duration
	Frozen  time.Duration // since when its allocation was frozen for it
	RanOn   time.Duration // when that ran again; 0 = it did not
	Damaged bool          // some byte is not what it was
	Spoiled bool          // and so is what says what is in it
	Lost    bool          // by a fault
	// Hopeless: CRIU cannot restore it anywhere, which no node knows before it has tried.
	Hopeless bool
}

// SharedStore is the name of the store that several nodes reach.
const SharedStore = "scratch"

// Of 256 images, as many are hopeless.
const hopelessOf256 = 56

// newImage makes an image; it is nowhere yet.
func (s *Shim) newImage(x *save) *Image {
	n, number := s.Node, x.Order.GetNumber()
	n.made++
	digest := sha256.Sum256(fmt.Appendf(nil, "%d %s %d %v %d", n.Seed, n.Name, n.made, s.Key, number))
	i := &Image{
		Digest: string(digest[:]), Key: s.Key, Number: number, Index: s.Index(), Node: n, Store: s.storeFor(x.Order),
		Done: x.done, Frozen: x.frozen, Devices: s.imageDevices(), Hopeless: digest[0] < hopelessOf256,
	}
	if s.ranAt > x.frozen {
		i.RanOn = s.ranAt
	}
	s.mine = append(s.mine, i)
	n.World.ImageMade(i)
	return i
}

// Message is what others are told of an image.
func (i *Image) Message() *pb.Image {
	return &pb.Image{Alloc: i.Key.Message(), Number: i.Number, Digest: []byte(i.Digest), Store: i.Store, Node: i.Node.Name, Bytes: 1 << 30}
}

// String names an image.
func (i *Image) String() string { return fmt.Sprintf("image %d of allocation %s", i.Number, i.Key) }

// There says whether it is where it should be: with the node that made it.
func (i *Image) There() bool { return i.Node.store(i.Store)[i.Digest] == i }

// Somewhere says whether it is there, or some node has a copy.
func (i *Image) Somewhere() bool {
	return i.There() || slices.ContainsFunc(i.Node.World.Nodes(), func(n *Node) bool { return n.Images[i.Digest] == i })
}

// Remove deletes an image, or loses it.
func (i *Image) Remove() { delete(i.Node.store(i.Store), i.Digest) }

// Differs says whether files that the image needs are others on a node than they were
// where it was made. The node knows it when it is asked.
func (i *Image) Differs(n *Node) bool {
	if i.Node == n {
		return false
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(i.Digest + n.Name))
	return sum.Sum32()%6 == 0
}

// store is a store that the node reaches by itself; nil = it does not.
func (n *Node) store(name string) map[string]*Image {
	if name == "" {
		return n.Images
	}
	return n.Shared
}

// Properties by which an image cannot be had: it is not where it should be, or that place
// does not answer.
const (
	imageProperty = "image"
	storeProperty = "store"
)

// reach finds an image as this node would: in a store, or through a tunnel to
// a node that has it. Else it says what was in the way.
func (n *Node) reach(want *pb.Image) (i *Image, property string) {
	if own := n.store(want.GetStore()); own != nil && (want.GetStore() != "" || want.GetNode() == n.Name && !want.GetLost() || slices.Contains(want.GetCopies(), n.Name)) {
		if i = own[string(want.GetDigest())]; i == nil {
			return nil, imageProperty
		}
		return i, ""
	}
	property = imageProperty
	for _, other := range n.World.Nodes() {
		if other.Name != want.GetNode() && !slices.Contains(want.GetCopies(), other.Name) {
			continue
		}
		if !other.Daemon.Host.Connected() || !n.Daemon.Host.Connected() {
			property = storeProperty
			continue
		}
		if i = other.store(want.GetStore())[string(want.GetDigest())]; i != nil {
			return i, ""
		}
	}
	return nil, property
}

// inStores are the images that the node reaches by itself.
func (n *Node) inStores() (all []*Image) {
	for _, store := range []map[string]*Image{n.Images, n.Shared} {
		for _, digest := range slices.Sorted(maps.Keys(store)) {
			all = append(all, store[digest])
		}
	}
	return all
}

// held are those, for a message.
func (n *Node) held() (all []*pb.Image) {
	for _, i := range n.inStores() {
		all = append(all, i.Message())
	}
	return all
}

// Copies are the images that other nodes made and that lie in the node's own store.
func (n *Node) Copies() (all []*Image) {
	for _, digest := range slices.Sorted(maps.Keys(n.Images)) {
		if i := n.Images[digest]; i.Node != n {
			all = append(all, i)
		}
	}
	return all
}

// DropCopy deletes a copy, or loses it.
func (n *Node) DropCopy(i *Image) { delete(n.Images, i.Digest) }

// Made are the images of the node's own making, wherever they lie.
func (n *Node) Made() (all []*Image) {
	for _, i := range n.inStores() {
		if i.Node == n {
			all = append(all, i)
		}
	}
	return all
}
