package save

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/images"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
)

// Dumper writes the files of an image of frozen processes into a directory, and answers
// their manifest.
type Dumper interface {
	// Prepare does what can be done while the processes still run.
	Prepare(ctx context.Context)
	Dump(ctx context.Context, dir string) (*checkpoint.Manifest, error)
}

// Store makes images durable, in the store of a name. Afterwards the files in the
// directory are of no use, whether it succeeded or not.
type Store interface {
	Put(ctx context.Context, store string, m *checkpoint.Manifest, dir string) (Packed, error)
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
func (d *ContainerDumper) Dump(ctx context.Context, dir string) (*checkpoint.Manifest, error) {
	log, err := d.Dir.MakeLogDir()
	if err != nil {
		return nil, err
	}
	return d.Container.Save(ctx, d.Engine, container.SaveOptions{Dir: dir, Log: log, Timeout: criuPatience})
}

// criuPatience is how long CRIU may wait for a process to reach a place where CRIU can
// look into it. After that, CRIU leaves the job as it was.
const criuPatience = 30 * time.Second

// NodeStores are the stores that the node knows.
type NodeStores struct{ *images.Stores }

// Put implements Store.
func (s NodeStores) Put(ctx context.Context, name string, m *checkpoint.Manifest, dir string) (Packed, error) {
	store, err := s.Open(ctx, name)
	if err != nil {
		return Packed{}, err
	}
	receipt, err := store.Take(ctx, m, dir)
	if err != nil {
		return Packed{}, err
	}
	return Packed{Digest: receipt.Digest, Bytes: uint64(receipt.Bytes), WrittenBytes: uint64(receipt.WrittenBytes)}, nil
}
