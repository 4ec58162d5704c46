package shim

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/images"
)

// Checkpoint is what a supervisor needs to save and restore its part.
type Checkpoint struct {
	// Engine is the CRIU that the daemon found; nil = none works here, and
	// WhyNot says what would help.
	Engine   *checkpoint.Engine `json:"engine,omitempty"`
	WhyNot   string             `json:"why_not,omitempty"`
	Stores   images.Config      `json:"stores"`
	TimeoutS uint32             `json:"timeout_s"` // of a save for which nobody says how long it may take
}

// defaultSaveTimeout bounds a save where nobody says how long it may take.
const defaultSaveTimeout = 30 * time.Minute

func (c *Checkpoint) timeout() time.Duration {
	if c.TimeoutS == 0 {
		return defaultSaveTimeout
	}
	return time.Duration(c.TimeoutS) * time.Second
}

// saver makes the files of an image in a directory, of processes that stand,
// and their manifest.
type saver interface {
	// Prepare does what can be done while the processes still run.
	Prepare(ctx context.Context)
	Save(ctx context.Context, dir string) (*checkpoint.Manifest, error)
}

// imageStore makes images durable, in the store of a name. Whether it succeeds
// or not, the files in the directory are of no use afterwards.
type imageStore interface {
	Put(ctx context.Context, store string, m *checkpoint.Manifest, dir string) (*packed, error)
}

// packed is an image that is durable.
type packed struct {
	digest  checkpoint.Digest
	bytes   uint64
	written uint64
}

// containerSaver saves the part's container with CRIU.
type containerSaver struct {
	engine    *checkpoint.Engine
	container *container.Container
	dir       directory
}

// Prepare implements saver.
func (s *containerSaver) Prepare(ctx context.Context) { s.container.Prepare(ctx) }

// Save implements saver.
func (s *containerSaver) Save(ctx context.Context, dir string) (*checkpoint.Manifest, error) {
	log, err := s.dir.makeLogDir()
	if err != nil {
		return nil, err
	}
	return s.container.Save(ctx, s.engine, container.SaveOptions{Dir: dir, Log: log, Timeout: criuPatience})
}

// criuPatience is how long CRIU may wait for a process to come to where it can
// be looked into. Then it leaves the job as it was.
const criuPatience = 30 * time.Second

// criuDir is where CRIU's logs are, until the part has ended.
const criuDir = "criu"

func (d directory) makeLogDir() (string, error) {
	path := d.path(criuDir)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("make a directory for CRIU's log: %w", err)
	}
	return path, nil
}

// storedImages are the node's stores.
type storedImages struct{ *images.Stores }

// Put implements imageStore.
func (s storedImages) Put(ctx context.Context, name string, m *checkpoint.Manifest, dir string) (*packed, error) {
	store, err := s.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	receipt, err := store.Take(ctx, m, dir)
	if err != nil {
		return nil, err
	}
	return &packed{receipt.Digest, uint64(receipt.Bytes), uint64(receipt.WrittenBytes)}, nil
}
