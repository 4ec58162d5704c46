package shim

import (
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/container"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Bare is for measuring what this package adds to libcontainer: it makes the
// container of an order with libcontainer alone, in this process, runs a
// program in it and removes it. It answers how long libcontainer took until it
// let the program go: see container.Bare.
//
// The caller is a process of its own with a mount namespace of its own
// (CLONE_NEWNS), calls from its main goroutine, and has called Isolate of
// package container before the first.
func Bare(s Settings, order *pb.StartPart, argv ...string) (took time.Duration, err error) {
	unix.Umask(0o022)
	d := partDirectory(s.StateDir, order.Part)
	if err := makeDirectory(d, &s, order); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, removeTree(string(d))) }()
	p, err := newPart(d, slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, err
	}
	spec, cleanup, err := p.prepare()
	if err != nil {
		return 0, err
	}
	defer cleanup()
	defer p.closeJobSockets()
	return container.Bare(spec, argv...)
}
