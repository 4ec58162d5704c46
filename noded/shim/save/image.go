package save

import (
	"context"
	"os"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/checkpoint/store"
	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/images"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
)

// Dumper writes the files of an image of frozen processes into a directory, and answers
// their manifest.
type Dumper interface {
	// Prepare does what can be done while the processes still run.
	Prepare(ctx context.Context)
	// Dump hands parts on through pipes as they are made, if pages is not nil: they are
	// neither in the directory nor in the manifest.
	Dump(ctx context.Context, dir string, pages func(part string, pipe *os.File) error) (*checkpoint.Manifest, error)
}

// Store makes images durable, in the store of a name. Afterwards the files in the
// directory are of no use, whether it succeeded or not.
type Store interface {
	Put(ctx context.Context, store string, m *checkpoint.Manifest, dir string) (Packed, error)
	// Begin begins an image of about so many bytes, some of whose parts do not exist yet.
	Begin(ctx context.Context, store string, m *checkpoint.Manifest, bytes uint64) (Packing, error)
}

// Packing is an image that is made durable while it is dumped.
type Packing interface {
	// Add takes a part, to its end.
	Add(ctx context.Context, part string, pipe *os.File) error
	// Finish takes the others. Afterwards the files in the directory are of no use.
	Finish(ctx context.Context, m *checkpoint.Manifest, dir string) (Packed, error)
	// Abandon leaves nothing, unless it is finished. It may be called again.
	Abandon()
}

// Packed is a durable image.
type Packed struct {
	Digest       checkpoint.Digest
	Bytes        uint64
	WrittenBytes uint64 // that the store did not have yet
}

// ContainerDumper dumps a container with CRIU.
type ContainerDumper struct {
	Engine    *checkpoint.Engine
	Container *container.Container
	Dir       bundle.Dir
}

// Prepare implements Dumper.
func (d *ContainerDumper) Prepare(ctx context.Context) { d.Container.Prepare(ctx) }

// Dump implements Dumper.
func (d *ContainerDumper) Dump(ctx context.Context, dir string, pages func(string, *os.File) error) (*checkpoint.Manifest, error) {
	log, err := d.Dir.MakeLogDir()
	if err != nil {
		return nil, err
	}
	return d.Container.Save(ctx, d.Engine, container.SaveOptions{Dir: dir, Log: log, Timeout: criuPatience, Pages: pages})
}

// criuPatience is how long CRIU may wait for a process to reach a place where CRIU can
// look into it. After that, CRIU leaves the job as it was.
const criuPatience = 30 * time.Second

// NodeStores are the stores that the node knows.
type NodeStores struct{ *images.Stores }

// Put implements Store.
func (s NodeStores) Put(ctx context.Context, name string, m *checkpoint.Manifest, dir string) (Packed, error) {
	opened, err := s.Open(ctx, name)
	if err != nil {
		return Packed{}, err
	}
	return packed(opened.Take(ctx, m, dir))
}

func packed(receipt store.Receipt, err error) (Packed, error) {
	if err != nil {
		return Packed{}, err
	}
	return Packed{Digest: receipt.Digest, Bytes: uint64(receipt.Bytes), WrittenBytes: uint64(receipt.WrittenBytes)}, nil
}

// Begin implements Store.
func (s NodeStores) Begin(ctx context.Context, name string, m *checkpoint.Manifest, bytes uint64) (Packing, error) {
	opened, err := s.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	writer, err := opened.Begin(ctx, m, int64(bytes))
	if err != nil {
		return nil, err
	}
	return nodePacking{writer}, nil
}

type nodePacking struct{ *store.Writer }

// Finish implements Packing.
func (p nodePacking) Finish(ctx context.Context, m *checkpoint.Manifest, dir string) (Packed, error) {
	return packed(p.Writer.Finish(ctx, m, dir))
}
