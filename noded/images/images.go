// Package images knows where the images of saved jobs are, as seen from one
// node: in its own store, in those that it shares with others, and on other nodes,
// from which they come through a tunnel that a controller joins.
//
// It does not trust those who made an image or have it: the controllers name
// the image by the SHA-256 of its manifest, and Same compares job, run and
// node in the manifest with what the controllers say.
//
// What it promises: it opens nothing before it is needed, and a shared store
// that does not answer holds up only those who need it. What goes through a tunnel
// arrives unchanged and whole, and no faster than the node's rate.
package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/checkpoint/store"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// ErrNoStore is returned, wrapped, for the name of a store that this node does
// not reach.
var ErrNoStore = errors.New("this node has no such store")

// ErrClosed is returned, wrapped, for a store that cannot be opened. That says nothing
// about the images in it.
var ErrClosed = errors.New("a store of images cannot be opened")

// Config says where a node keeps images. It travels from the daemon to
// supervisors as JSON.
type Config struct {
	Own      string   `json:"own"`       // directory, or address of a bucket
	OwnAt    Access   `json:"own_at"`    // to that one
	Bytes    int64    `json:"bytes"`     // that it may use; 0 = as many as there are
	KeepFree int64    `json:"keep_free"` // of its file system
	Shared   []Shared `json:"shared"`
}

// Shared is a store that several nodes have under one name.
type Shared struct {
	Name   string `json:"name"`
	Path   string `json:"path"` // directory, or address of a bucket
	Access `json:"access"`
}

// Access says how one gets at a bucket, and at what a store has encrypted. Keys and
// credentials themselves stay in files that are only named.
type Access struct {
	Endpoint    string `json:"endpoint,omitempty"`
	Region      string `json:"region,omitempty"`
	Credentials string `json:"credentials,omitempty"`
	Keys        string `json:"keys,omitempty"` // file; "" = it is not encrypted
}

// Place answers where a store is.
func (a Access) Place(path string) store.Place {
	return store.Place{Address: path, Endpoint: a.Endpoint, Region: a.Region, Credentials: a.Credentials}
}

func (a Access) keys() *store.Keys {
	if a.Keys == "" {
		return nil
	}
	return store.NewKeys(a.Keys)
}

// Stores are the stores that a node reaches by itself. Its methods may be
// called from several goroutines at once.
type Stores struct {
	config Config

	mu   sync.Mutex
	open map[string]*store.Directory
}

// New prepares the stores; it opens none yet.
func New(config Config) *Stores {
	return &Stores{config: config, open: map[string]*store.Directory{}}
}

// Names answers the stores, the node's own, which has none, first.
func (s *Stores) Names() []string {
	names := []string{""}
	for _, shared := range s.config.Shared {
		names = append(names, shared.Name)
	}
	return names
}

// Has says whether there is a store of that name.
func (s *Stores) Has(name string) bool {
	_, ok := s.find(name)
	return ok
}

// wanted is a store as the configuration has it.
type wanted struct {
	path   string
	at     Access
	limits store.Limits
}

func (s *Stores) find(name string) (w wanted, ok bool) {
	w.limits.KeepFree = s.config.KeepFree
	if name == "" {
		w.path, w.at, w.limits.Bytes = s.config.Own, s.config.OwnAt, s.config.Bytes
		return w, w.path != ""
	}
	for _, shared := range s.config.Shared {
		if shared.Name == name {
			w.path, w.at = shared.Path, shared.Access
			return w, true
		}
	}
	return w, false
}

// Open answers the store of a name; "" is the node's own. If a store was removed, or
// mounted again, since it was opened, Open opens it again. Work under way in the
// former one still has that.
func (s *Stores) Open(ctx context.Context, name string) (store.Store, error) {
	s.mu.Lock()
	known := s.open[name]
	s.mu.Unlock()
	if known != nil {
		switch replaced, err := known.Replaced(ctx); {
		case err != nil:
			return nil, err
		case !replaced:
			return known, nil
		}
	}
	want, ok := s.find(name)
	if !ok {
		return nil, fmt.Errorf("%w as %q: name it under [[checkpoint.shared]] in the configuration of gnoded", ErrNoStore, name)
	}
	// The lock is not held: a store that hangs must not block the others.
	opened, err := store.OpenPlace(ctx, want.at.Place(want.path), want.limits, want.at.keys())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[name] == known { // nobody was faster
		s.open[name] = opened
	}
	return s.open[name], nil
}

// Digest answers the name of an image by its content.
func Digest(image *pb.Image) (checkpoint.Digest, error) {
	var digest checkpoint.Digest
	if len(image.GetDigest()) != len(digest) {
		return digest, fmt.Errorf("an image is named by a SHA-256, and this one by %d bytes", len(image.GetDigest()))
	}
	copy(digest[:], image.GetDigest())
	return digest, nil
}

// Message answers what others are told about an image in a store.
func Message(about store.About, name string) *pb.Image {
	return &pb.Image{
		Alloc: &pb.AllocId{Job: about.Job, Epoch: about.Epoch}, Number: about.Number,
		Digest: about.Digest[:], Store: name, Node: about.Node, Bytes: uint64(about.Bytes),
	}
}

// Reader answers the source from which this node, named node, gets an image: a store
// that it reaches, or another node that has it, to which dial opens streams.
func (s *Stores) Reader(ctx context.Context, image *pb.Image, node string, dial store.Dial) (store.Reader, error) {
	if s.reaches(image, node) {
		return s.Open(ctx, image.GetStore())
	}
	return store.NewRemote(dial), nil
}

// Facts answers what this node, named node, needs to know of an image to say
// whether a job could resume from it here: from a store that it reaches, or from
// the node that made it, which sends nothing else.
func (s *Stores) Facts(ctx context.Context, image *pb.Image, digest checkpoint.Digest, node string, dial store.Dial) (*checkpoint.Manifest, error) {
	if !s.reaches(image, node) {
		return store.NewRemote(dial).Facts(ctx, digest)
	}
	own, err := s.Open(ctx, image.GetStore())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrClosed, err)
	}
	manifest, err := own.Manifest(ctx, digest)
	if err != nil {
		return nil, err
	}
	return manifest.Facts(), nil
}

// reaches says whether node, which is this one, reads the image from a store.
func (s *Stores) reaches(image *pb.Image, node string) bool {
	if image.GetStore() != "" {
		return s.Has(image.Store)
	}
	return image.GetNode() == node && !image.GetLost() || slices.Contains(image.GetCopies(), node)
}

// ErrOther is returned, wrapped, for an image that is not what the controllers
// say it is, whatever its bytes are.
var ErrOther = errors.New("it is another image than the controllers say")

// Same refuses a manifest that names another job, run, number or node than the
// controllers do: then a node has reported the digest of somebody else's image.
func Same(m *checkpoint.Manifest, image *pb.Image) error {
	if m.Job == image.GetAlloc().GetJob() && m.Epoch == image.GetAlloc().GetEpoch() && m.Number == image.GetNumber() && m.Node == image.GetNode() {
		return nil
	}
	return fmt.Errorf("%w: it says that node %s made it as image %d of run %d of job %d, and they say node %s, image %d of run %d of job %d",
		ErrOther, m.Node, m.Number, m.Epoch, m.Job, image.GetNode(), image.GetNumber(), image.GetAlloc().GetEpoch(), image.GetAlloc().GetJob())
}
