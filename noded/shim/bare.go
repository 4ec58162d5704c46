package shim

import (
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Bare helps to measure what this package adds to libcontainer: it makes the
// container of an order with libcontainer alone, in this process, runs a
// program in it and removes it. It answers how long libcontainer took until the
// program started: see container.Bare.
//
// The caller is a separate process with its own mount namespace
// (CLONE_NEWNS). It calls from its main goroutine, and calls container.Isolate
// before the first time.
func Bare(s bundle.Settings, order *pb.StartAlloc, argv ...string) (took time.Duration, err error) {
	unix.Umask(0o022)
	d := bundle.At(s.StateDir, order.Alloc)
	if err := bundle.Create(d, &s, order); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, remove.Tree(string(d))) }()
	p, err := newAlloc(d, slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, err
	}
	defer p.job.DropDisk()
	spec, cleanup, err := p.prepare()
	if err != nil {
		return 0, err
	}
	defer cleanup()
	defer p.relay.Close()
	return container.Bare(spec, argv...)
}
